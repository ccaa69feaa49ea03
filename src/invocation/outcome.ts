import { compile } from '@earendil-works/pi-schema'
import type { FinalStatus, OutcomeCode } from '../contract/invocation.ts'
import type { Fault } from '../contract/problem.ts'
import { ContentBlock, Usage } from '../contract/result.ts'
import { outcomes } from '../errors.ts'
import { NotJsonError, stringifyJson } from '../json/stringify.ts'
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
  tool: RegisteredTool
  limits: CallLimits
  log: Log
  count: (event: 'outputWarnings' | 'errorSchemaMismatches') => void
}

const blocks = compile({ type: 'array', items: ContentBlock })
const usageRule = compile(Usage)

/** What the gateway itself says about a call that did not succeed: one text that a model can act on. */
export function failure (code: OutcomeCode, text: string, more: { faults?: readonly Fault[], terminate?: boolean } = {}): Outcome {
  const content = `[{"type":"text","text":${JSON.stringify(text)}}]`
  const details = more.faults === undefined ? 'null' : JSON.stringify({ errors: more.faults })
  return {
    status: outcomes[code].status,
    errorCode: code,
    isError: true,
    result: resultText({ content, details, structuredContent: undefined, usage: undefined }, true, more.terminate)
  }
}

/** `invalid_input` or `invalid_output`, with every fault. */
export function refusal (code: 'invalid_input' | 'invalid_output', toolId: string, faults: readonly Fault[]): Outcome {
  const what = code === 'invalid_input' ? 'input for' : 'output of'
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
export function settleOutput (raw: ToolOutput, isError: boolean, context: OutcomeContext): Outcome {
  const { tool, limits } = context
  const toolId = tool.descriptor.id
  try {
    const output = isError ? raw : checkedByAuthor(raw, context)
    const parts = encodeParts(output, isError, context)
    if (isError) noteErrorSchema(parts.structuredContent, context)
    else checkOutputSchema(parts.structuredContent, context)
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

/** The JSON text of a partial result, or undefined where it has none. */
export function partialText (partial: unknown, maxJsonDepth: number): string | undefined {
  if (typeof partial !== 'object' || partial === null) return undefined
  const { content, details, structuredContent } = partial as ToolOutput
  try {
    return resultText({
      content: content == null ? '[]' : part('content', content, maxJsonDepth),
      details: details == null ? 'null' : part('details', details, maxJsonDepth),
      structuredContent: structuredContent === undefined ? undefined : part('structuredContent', structuredContent, maxJsonDepth),
      usage: undefined
    }, false)
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

function isOver (text: string, maxBytes: number): boolean {
  return text.length * 3 > maxBytes && Buffer.byteLength(text) > maxBytes
}

function checkedByAuthor (output: ToolOutput, context: OutcomeContext): ToolOutput {
  if (context.tool.parseOutput === undefined) return output
  try {
    return context.tool.parseOutput(output)
  } catch (cause) {
    if (!(cause instanceof RefusedValueError) || context.tool.outputValidation === 'enforce') throw cause
    warn(cause.faults, context)
    return output
  }
}

/** Each member as text. In a failure, a member that cannot be carried gives way; in a success it is refused. */
function encodeParts (output: ToolOutput, isError: boolean, context: OutcomeContext): Parts {
  const { tool, limits, log } = context
  const keep = <T>(name: string, encode: () => T, otherwise: T): T => {
    if (!isError) return encode()
    try {
      return encode()
    } catch {
      log.warn({ tool: tool.descriptor.id, field: name }, 'a failed call lost a field that is not valid')
      return otherwise
    }
  }
  return {
    content: keep('content', () => contentText(output.content, limits), '[{"type":"text","text":"The tool failed."}]'),
    details: keep('details', () => output.details == null ? 'null' : part('details', output.details, limits.maxJsonDepth), 'null'),
    structuredContent: keep('structuredContent', () => output.structuredContent === undefined
      ? undefined
      : part('structuredContent', output.structuredContent, limits.maxJsonDepth), undefined),
    usage: keep('usage', () => usageText(output.usage, limits), undefined)
  }
}

function contentText (content: unknown, limits: CallLimits): string {
  if (content === undefined || content === null) return '[]'
  const text = part('content', content, limits.maxJsonDepth)
  // What is checked is what goes on the wire; blocks of plain text need no second look at their text.
  const wire: unknown = JSON.parse(text)
  if (!blocks.check(wire)) throw new RefusedValueError(prefixed('content', blocks.errors(wire)))
  return text
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

function checkOutputSchema (text: string | undefined, context: OutcomeContext): void {
  const { outputSchema, outputValidation } = context.tool
  if (outputSchema === undefined) return
  const faults = text === undefined ? [missing] : faultsOf(outputSchema.validator, text)
  if (faults === undefined) return
  if (outputValidation === 'enforce') throw new RefusedValueError(faults)
  warn(faults, context)
}

const missing: Fault = { path: '', keyword: 'required', message: 'structuredContent is missing; the tool declares an outputSchema' }

function noteErrorSchema (text: string | undefined, context: OutcomeContext): void {
  const { errorSchema, descriptor } = context.tool
  if (errorSchema === undefined || text === undefined) return
  const faults = faultsOf(errorSchema.validator, text)
  if (faults === undefined) return
  context.count('errorSchemaMismatches')
  context.log.warn({ tool: descriptor.id, faults: rulesOf(faults) }, 'a failure breaks the errorSchema')
}

function faultsOf (validator: { check: (value: unknown) => boolean, errors: (value: unknown) => Fault[] }, text: string): Fault[] | undefined {
  const wire: unknown = JSON.parse(text)
  return validator.check(wire) ? undefined : validator.errors(wire)
}

function warn (faults: readonly Fault[], context: OutcomeContext): void {
  context.count('outputWarnings')
  context.log.warn({ tool: context.tool.descriptor.id, faults: rulesOf(faults) }, 'an output breaks its declaration')
}

/** Where and which rule, without the message: messages may quote values, which a log must not hold. */
function rulesOf (faults: readonly Fault[]): { path: string, keyword: string }[] {
  return faults.map(({ path, keyword }) => ({ path, keyword }))
}
