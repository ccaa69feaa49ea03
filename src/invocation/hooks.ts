import type { InvocationReceipt } from '../contract/invocation.ts'
import type { ContentBlock, Usage } from '../contract/result.ts'
import type { ToolDescriptor } from '../contract/tool.ts'
import type { ToolOutput } from '../tools/registered-tool.ts'
import type { Principal } from '../tools/tool.ts'
import type { Call } from './call.ts'

/** pi's tool call: the caller's id, the tool, and the input as it was sent, whatever was done to `args` since. */
export interface ToolCall { type: 'toolCall', id: string, name: string, arguments: any }

/** What a hook is told about a call. */
export interface BeforeToolCallContext {
  toolCall: ToolCall
  /** The validated input: the very object that `execute` gets. */
  args: unknown
  tool: ToolDescriptor
  invocation: InvocationReceipt
  principal: Principal
}

export interface AfterToolCallContext extends BeforeToolCallContext {
  /** What the call came to so far, earlier hooks' changes merged in. */
  result: MergedResult
  isError: boolean
}

export interface BeforeToolCallResult {
  block?: boolean
  /** Becomes the text of the blocked call's result. */
  reason?: string
  terminate?: boolean
}

/** Each field replaces the result's own in full; `undefined` and `null` replace nothing. */
export interface AfterToolCallResult {
  content?: ContentBlock[] | null
  details?: unknown
  /** Where `content` comes without it, the structured result is dropped: it may no longer match. */
  structuredContent?: unknown
  /** The verdict from here on. What is loosely true counts as true, as a block does. */
  isError?: boolean | null
  usage?: Usage | null
  terminate?: boolean | null
}

type Answer<T> = T | null | undefined | void

export interface Hooks {
  beforeToolCall?: (context: BeforeToolCallContext, signal: AbortSignal) => Answer<BeforeToolCallResult> | Promise<Answer<BeforeToolCallResult>>
  afterToolCall?: (context: AfterToolCallContext, signal: AbortSignal) => Answer<AfterToolCallResult> | Promise<Answer<AfterToolCallResult>>
}

/** A result as hooks see it: these are always there, whatever the tool returned. */
export interface MergedResult extends ToolOutput {
  content: any
  details: any
  /** The verdict so far; writing to it changes nothing. */
  isError: boolean
}

/** The result after what a hook returned is merged in, field by field, without deep merge: pi's rule. */
export function mergeAfterToolCall (
  current: { result: MergedResult, isError: boolean },
  after: Answer<AfterToolCallResult>
): { result: MergedResult, isError: boolean } {
  if (after === undefined || after === null) return current
  const { result } = current
  const isError = after.isError == null ? current.isError : Boolean(after.isError)
  const structuredContent = after.structuredContent ?? (after.content == null ? result.structuredContent : undefined)
  const merged: MergedResult = {
    content: after.content ?? result.content,
    details: after.details ?? result.details,
    isError,
    usage: after.usage ?? result.usage,
    terminate: after.terminate ?? result.terminate
  }
  if (structuredContent !== undefined) merged.structuredContent = structuredContent
  return { result: merged, isError }
}

/** What the hooks of a call are told before it executes. */
export function hookContext (call: Call, args: unknown): BeforeToolCallContext {
  return {
    toolCall: toolCallOf(call),
    args,
    tool: call.tool.descriptor,
    invocation: JSON.parse(call.runningReceipt) as InvocationReceipt,
    principal: call.principal
  }
}

/** Its arguments are read from the text that was sent, and only for who looks at them: `args` may be the call's own input. */
function toolCallOf ({ start, inputText }: Call): ToolCall {
  let sent: { value: unknown } | undefined
  return {
    type: 'toolCall',
    id: start.toolCallId,
    name: start.toolId,
    get arguments () { return (sent ??= { value: JSON.parse(inputText) }).value },
    set arguments (value) { sent = { value } }
  }
}
