import type { ContentBlock } from '../../contract/result.ts'
import { Mask } from '../../json/mask.ts'
import { messageOf } from '../error-message.ts'
import { RefusedValueError, type RegisteredTool, type ToolOutput } from '../registered-tool.ts'
import type { ToolContext } from '../tool.ts'
import { mayTake } from './parameters.ts'
import { fault, settledNow, type ShapeOptions } from './schema-tool.ts'

/** What a registry tool's `execute` gets beside its input. */
export interface RegistryToolContext extends ToolContext {
  readonly signal: AbortSignal
}

/** The tool of `@jangts/agent-core`'s ToolRegistry. `Value` is what `parseOutput` lets through. */
export interface RegistryTool<Input = any, Value = unknown> {
  id: string
  kind: string
  description?: string
  /** Throws on bad input; what it returns goes to `execute`. */
  parseInput: (value: unknown) => Input
  execute: (input: Input, context?: any) => unknown
  /** Throws on bad output. */
  parseOutput: (value: any) => Value
}

/** Its value becomes `structuredContent`; `content` is the string itself, or the value's JSON. */
export function registerRegistryTool (tool: RegistryTool, options: ShapeOptions): RegisteredTool {
  const { settings } = options
  return {
    descriptor: {
      id: tool.id,
      label: tool.id,
      description: tool.description ?? '',
      kind: settings.kind ?? tool.kind,
      parameters: {},
      executionMode: settings.executionMode ?? 'parallel',
      replay: settings.replay ?? 'never',
      inputMode: 'strict',
      timeoutMs: settings.timeoutMs ?? options.defaultTimeoutMs,
      source: options.source
    },
    ignoredKeywords: [],
    sensitive: settings.sensitive ?? false,
    mask: Mask.of(settings.mask ?? []),
    outputValidation: settings.outputValidation ?? 'enforce',
    maxConcurrent: settings.maxConcurrent,
    takesSignal: mayTake(tool.execute, 1),
    outputSchema: undefined,
    errorSchema: undefined,
    source: tool,
    parseInput: (input) => parse('parseInput', () => tool.parseInput(input)),
    execute: (_toolCallId, input, signal, _onUpdate, context) =>
      tool.execute(input, withSignal(context, signal)),
    toOutput: (value) => ({ content: shapedContent(value), structuredContent: value }),
    parseOutput: (output) => reparse(tool, output)
  }
}

function withSignal ({ invocationId, runId, spanId, principal, log, attempt, invoke }: ToolContext, signal: AbortSignal): RegistryToolContext {
  return { invocationId, runId, spanId, principal, log, attempt, invoke, signal }
}

function reparse (tool: RegistryTool, output: ToolOutput): ToolOutput {
  const value = parse('parseOutput', () => tool.parseOutput(output.structuredContent))
  if (value === output.structuredContent) return output
  const untouched = Array.isArray(output.content) && shaped.has(output.content)
  return { ...output, structuredContent: value, ...(untouched ? { content: shapedContent(value) } : {}) }
}

function parse<T> (keyword: 'parseInput' | 'parseOutput', run: () => T): T {
  try {
    return settledNow(run(), keyword)
  } catch (cause) {
    throw new RefusedValueError([fault(keyword, messageOf(cause))], cause)
  }
}

/** Content that was derived from a value, and so follows it where `parseOutput` gives another; a hook's own does not. */
const shaped = new WeakSet<object>()

function shapedContent (value: unknown): ContentBlock[] {
  const content: ContentBlock[] = []
  const text = typeof value === 'string' ? value : jsonOf(value)
  if (text !== undefined) content.push({ type: 'text', text })
  shaped.add(content)
  return content
}

function jsonOf (value: unknown): string | undefined {
  try {
    return JSON.stringify(value)
  } catch {
    return undefined // not JSON: refused where the output is checked
  }
}
