import { compile } from '@earendil-works/pi-schema'
import type { FinalStatus, OutcomeCode } from '../contract/invocation.ts'
import type { Fault } from '../contract/problem.ts'
import { ContentBlock, Usage } from '../contract/result.ts'
import { outcomes } from '../errors.ts'
import { NotJsonError, stringifyJson } from '../json/stringify.ts'
import { isOver } from '../store/wire.ts'
import { messageOf } from '../tools/error-message.ts'
import { RefusedValueError, type RegisteredTool, type ToolOutput } from '../tools/registered-tool.ts'
import type { Log } from '../tools/tool.ts'
import type { CallLimits } from './limits.ts'

/** How a call ends, its result turned into JSON text once for answer, event and record. */
export interface Outcome {
  status: FinalStatus
  errorCode: OutcomeCode | undefined
  isError: boolean
  /** JSON text of the whole ToolResult. */
  result: string
}

export interface OutcomeContext {
  limits: CallLimits
  log: Log
  count: (event: 'outputWarnings' | 'errorSchemaMismatches') => void
}

const blocks = compile({ type: 'array', items: ContentBlock })
const usageRule = compile(Usage)

/** Faults that one answer lists, and characters of one text in it: enough to act on, and no burden to carry. */
const MAX_FAULTS = 100
const MAX_TEXT = 16_384

function shorten (text: string, length: number): string {
  return text.length <= length ? text : `${text.slice(0, length)}…`
}

/** What the gateway itself says about a call that did not succeed: one text that a model can act on. */
export function failure (code: OutcomeCode, text: string, more: { faults?: readonly Fault[], terminate?: boolean } = {}): Outcome {
  const content = `[{"type":"text","text":${JSON.stringify(shorten(text, MAX_TEXT))}}]`
  const details = more.faults === undefined ? 'null' : JSON.stringify({ errors: more.faults })
  return {
    status: outcomes[code].status,
    errorCode: code,
    isError: true,
    result: resultText({ content, details, structuredContent: undefined, usage: undefined }, true, more.terminate)
  }
}

/** `invalid_input` or `invalid_output`, with every fault, or as many as an answer lists. */
export function refusal (code: 'invalid_input' | 'invalid_output', toolId: string, found: readonly Fault[]): Outcome {
  const what = code === 'invalid_input' ? 'input for' : 'output of'
  const faults = found.slice(0, MAX_FAULTS).map(({ path, keyword, message }) => ({ path: shorten(path, 1000), keyword, message: shorten(message, 1000) }))
  if (found.length > MAX_FAULTS) faults.push({ path: '', keyword: 'more', message: `and ${found.length - MAX_FAULTS} more` })
  const lines = faults.map((fault) => `- ${fault.path === '' ? '' : `${fault.path}: `}${fault.message}`)
  return failure(code, `The ${what} tool "${toolId}" is invalid:\n${lines.join('\n')}`, { faults })
}

/** The result of a sensitive tool as events and records have it. */
export function redactedResult (isError: boolean): string {
  return `{"content":[],"details":null,"isError":${isError},"redacted":true}`
}

/**
 * From what a tool and its hooks made of a call to how it ends: normalised, checked as it goes on the wire.
 *
 * Contract:
 * - A success is held to `parseOutput` or `outputSchema`; `outputValidation: "warn"` logs and lets it pass.
 * - A failure keeps its text, `details` and `structuredContent` whatever schemas say; what is not JSON cannot be kept.
 * - Never throws.
 */
export function settleOutput (tool: RegisteredTool, raw: ToolOutput, isError: boolean, context: OutcomeContext): Outcome {
  const { limits } = context
  const toolId = tool.descriptor.id
  try {
    const output = isError ? raw : checkedByAuthor(tool, raw, context)
    const parts = isError ? encodeFailure(tool, output, context) : encodeParts(output, limits)
    if (isError) noteErrorSchema(tool, parts.structuredContent, context)
    else checkOutputSchema(tool, parts.structuredContent, context)
    const text = resultText(parts, isError, typeof output.terminate === 'boolean' ? output.terminate : undefined)
    if (isOver(text, limits.maxResultBytes)) {
      return failure('result_too_large', `The result of tool "${toolId}" is over the limit of ${limits.maxResultBytes} bytes.`)
    }
    return isError
      ? { status: 'failed', errorCode: 'tool_error', isError, result: text }
      : { status: 'succeeded', errorCode: undefined, isError, result: text }
  } catch (cause) {
    const faults = cause instanceof RefusedValueError ? cause.faults : [{ path: '', keyword: 'json', message: 'the output cannot be read' }]
    return refusal('invalid_output', toolId, faults)
  }
}

/** The JSON text of a partial result, or undefined where it is none. */
export function partialText (partial: unknown, limits: CallLimits): string | undefined {
  if (typeof partial !== 'object' || partial === null) return undefined
  try {
    const { isError, terminate } = partial as ToolOutput
    return resultText(encodeParts(partial as ToolOutput, limits), isError === true, typeof terminate === 'boolean' ? terminate : undefined)
  } catch {
    return undefined
  }
}

/** The texts of a result's members. */
interface Parts {
  content: string
  details: string
  structuredContent: string | undefined
  usage: string | undefined
}

function resultText ({ content, details, structuredContent, usage }: Parts, isError: boolean, terminate?: boolean): string {
  return `{"content":${content},"details":${details}` +
    (structuredContent === undefined ? '' : `,"structuredContent":${structuredContent}`) +
    `,"isError":${isError}` +
    (usage === undefined ? '' : `,"usage":${usage}`) +
    (terminate === undefined ? '}' : `,"terminate":${terminate}}`)
}

/** Whether a result's text asks to stop after this batch. Where there, `terminate` stands last in it. */
export function saysTerminate (result: string): boolean {
  return result.endsWith(',"terminate":true}')
}

function checkedByAuthor (tool: RegisteredTool, output: ToolOutput, context: OutcomeContext): ToolOutput {
  if (tool.parseOutput === undefined) return output
  try {
    return tool.parseOutput(output)
  } catch (cause) {
    if (!(cause instanceof RefusedValueError) || tool.outputValidation === 'enforce') throw cause
    warn(tool, cause.faults, context)
    return output
  }
}

/** Each member as text; what is not JSON, or not of its shape, is refused. */
function encodeParts (output: ToolOutput, limits: CallLimits): Parts {
  return {
    content: contentText(output.content, limits, false),
    details: detailsText(output.details, limits),
    structuredContent: structuredText(output.structuredContent, limits),
    usage: usageText(output.usage, limits)
  }
}

/** The same for a failure, which is not refused for how it is told: a member that cannot be carried gives way. */
function encodeFailure (tool: RegisteredTool, output: ToolOutput, { limits, log }: OutcomeContext): Parts {
  const keep = <T>(name: string, encode: () => T, otherwise: T): T => {
    try {
      return encode()
    } catch {
      log.warn({ tool: tool.descriptor.id, field: name }, 'a failed call lost a field that is not valid')
      return otherwise
    }
  }
  return {
    content: keep('content', () => contentText(output.content, limits, true), silentFailure),
    details: keep('details', () => detailsText(output.details, limits), 'null'),
    structuredContent: keep('structuredContent', () => structuredText(output.structuredContent, limits), undefined),
    usage: keep('usage', () => usageText(output.usage, limits), undefined)
  }
}

/** A failure always says something to the model. */
const silentFailure = `[{"type":"text","text":${JSON.stringify(messageOf(undefined))}}]`

function contentText (content: unknown, { maxJsonDepth }: CallLimits, isError: boolean): string {
  if (content === undefined || content === null || (isError && Array.isArray(content) && content.length === 0)) {
    return isError ? silentFailure : '[]'
  }
  const only = onlyText(content)
  if (only !== undefined) return `[{"type":"text","text":${JSON.stringify(only)}}]`
  const text = part('content', content, maxJsonDepth)
  // What is checked is what goes on the wire.
  const wire: unknown = JSON.parse(text)
  if (!blocks.check(wire)) throw new RefusedValueError(prefixed('content', blocks.errors(wire)))
  return text
}

/** The text of content that is one plain text block, as most is: then there is nothing more to check. */
function onlyText (content: unknown): string | undefined {
  if (!Array.isArray(content) || content.length !== 1) return undefined
  const block: unknown = content[0]
  if (typeof block !== 'object' || block === null || Object.getPrototypeOf(block) !== Object.prototype) return undefined
  const { type, text } = block as { type?: unknown, text?: unknown }
  return type === 'text' && typeof text === 'string' && Object.keys(block).length === 2 ? text : undefined
}

function detailsText (details: unknown, { maxJsonDepth }: CallLimits): string {
  return details == null ? 'null' : part('details', details, maxJsonDepth)
}

function structuredText (structuredContent: unknown, { maxJsonDepth }: CallLimits): string | undefined {
  return structuredContent === undefined ? undefined : part('structuredContent', structuredContent, maxJsonDepth)
}

function usageText (usage: unknown, limits: CallLimits): string | undefined {
  if (usage === undefined || usage === null) return undefined
  const text = part('usage', usage, limits.maxJsonDepth)
  const wire: unknown = JSON.parse(text)
  if (!usageRule.check(wire)) throw new RefusedValueError(prefixed('usage', usageRule.errors(wire)))
  return text
}

function part (name: string, value: unknown, maxDepth: number): string {
  try {
    return stringifyJson(value, maxDepth)
  } catch (cause) {
    const { message, path } = cause as NotJsonError
    // Faults of the structured result are told from its own root, as its schema's are.
    const root = name === 'structuredContent' ? '' : `/${name}`
    throw new RefusedValueError([{ path: root + path, keyword: 'json', message: `${name} is not JSON: ${message}` }], cause)
  }
}

function prefixed (name: string, faults: readonly Fault[]): Fault[] {
  return faults.map((fault) => ({ ...fault, path: `/${name}${fault.path}` }))
}

function checkOutputSchema (tool: RegisteredTool, text: string | undefined, context: OutcomeContext): void {
  const { outputSchema, outputValidation } = tool
  if (outputSchema === undefined) return
  const faults = text === undefined ? [missing] : faultsOf(outputSchema.validator, text)
  if (faults === undefined) return
  if (outputValidation === 'enforce') throw new RefusedValueError(faults)
  warn(tool, faults, context)
}

const missing: Fault = { path: '', keyword: 'required', message: 'structuredContent is missing; the tool declares an outputSchema' }

function noteErrorSchema (tool: RegisteredTool, text: string | undefined, context: OutcomeContext): void {
  const { errorSchema, descriptor } = tool
  if (errorSchema === undefined || text === undefined) return
  const faults = faultsOf(errorSchema.validator, text)
  if (faults === undefined) return
  context.count('errorSchemaMismatches')
  context.log.warn({ tool: descriptor.id, faults: rulesOf(tool, faults) }, 'a failure breaks the errorSchema')
}

function faultsOf (validator: { check: (value: unknown) => boolean, errors: (value: unknown) => Fault[] }, text: string): Fault[] | undefined {
  const wire: unknown = JSON.parse(text)
  return validator.check(wire) ? undefined : validator.errors(wire)
}

function warn (tool: RegisteredTool, faults: readonly Fault[], context: OutcomeContext): void {
  context.count('outputWarnings')
  context.log.warn({ tool: tool.descriptor.id, faults: rulesOf(tool, faults) }, 'an output breaks its declaration')
}

/** Where and which rule, without the message: messages may quote values, which a log must not hold. Paths hold names of them. */
function rulesOf ({ sensitive }: RegisteredTool, faults: readonly Fault[]): { path?: string, keyword: string }[] {
  return faults.slice(0, MAX_FAULTS).map(({ path, keyword }) => sensitive ? { keyword } : { path: shorten(path, 1000), keyword })
}
