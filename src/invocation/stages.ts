import type { Clock } from '../clock.ts'
import type { Maybe } from '../store/store.ts'
import { messageOf } from '../tools/error-message.ts'
import { isPromiseLike } from '../tools/promise-like.ts'
import { RefusedValueError } from '../tools/registered-tool.ts'
import type { ToolContext, UpdateCallback } from '../tools/tool.ts'
import type { Call, Prepared } from './call.ts'
import { mergeAfterToolCall, type BeforeToolCallContext, type Hooks, type MergedResult } from './hooks.ts'
import { failure, refusal, type Outcome } from './outcome.ts'

/** What a tool made of a call; hooks may change it still. */
interface Merged { result: MergedResult, isError: boolean }

/** A result to go on with, or the outcome at which the way ends. */
export type Executed = Merged | Outcome

/** The input as the tool takes it, or why it is refused. */
export function prepare ({ tool, input }: Call): Prepared {
  try {
    return { args: tool.parseInput(input) }
  } catch (cause) {
    const faults = cause instanceof RefusedValueError ? cause.faults : [{ path: '', keyword: 'input', message: messageOf(cause) }]
    return { refused: refusal('invalid_input', tool.descriptor.id, faults) }
  }
}

/** Runs the before-hooks in order. The first block wins; a hook that throws ends the call. */
export async function runBefore (
  hooks: readonly Required<Hooks>['beforeToolCall'][], call: Call, context: BeforeToolCallContext
): Promise<Outcome | undefined> {
  try {
    for (const beforeToolCall of hooks) {
      // A context of its own: what a hook puts there is not what the others see, but what it does to `args` is.
      const answer = await beforeToolCall({ ...context }, call.signal)
      if (call.isSettled) return undefined
      // Any truthy value blocks, as in pi: a guard that says it loosely must not fail open.
      if (answer?.block) {
        const reason = answer.reason ? messageOf(answer.reason) : 'Tool execution was blocked'
        return failure('blocked', reason, answer.terminate === true ? { terminate: true } : {})
      }
    }
    return undefined
  } catch (cause) {
    return failure('hook_error', messageOf(cause))
  }
}

/** For tools that take no signal: one for all of them, which never aborts. */
const unheard = new AbortController().signal

/** Runs the tool and keeps the time that it took. Never throws; a tool that does not wait is not waited for. */
export function execute (call: Call, args: unknown, clock: Clock, onUpdate: UpdateCallback, context: ToolContext): Maybe<Executed> {
  const { tool } = call
  const startedAt = clock.monotonic()
  call.executedAt = startedAt
  const stopWatch = () => { call.durationMs = clock.monotonic() - startedAt }
  const returned = (raw: unknown): Executed => {
    stopWatch()
    return shape(call, raw)
  }
  const threw = (cause: unknown): Executed => {
    stopWatch()
    return { result: { content: [{ type: 'text', text: messageOf(cause) }], details: null, isError: true }, isError: true }
  }
  let raw: unknown
  try {
    raw = tool.execute(call.start.toolCallId, args, tool.takesSignal ? call.signal : unheard, onUpdate, context)
  } catch (cause) {
    return threw(cause)
  }
  try {
    if (isPromiseLike(raw)) return Promise.resolve(raw).then(returned, threw)
  } catch (cause) {
    stopWatch()
    return unreadable(call, cause) // its `then` cannot be looked at
  }
  return returned(raw)
}

/** The result in the gateway's vocabulary, each field read once: getters and later changes by the tool have no say. */
function shape ({ tool }: Call, raw: unknown): Executed {
  try {
    const { content, details, structuredContent, isError, usage, terminate } = tool.toOutput(raw)
    const result: MergedResult = { content: content ?? [], details: details ?? null, isError: isError === true, usage, terminate }
    if (structuredContent !== undefined) result.structuredContent = structuredContent
    return { result, isError: result.isError }
  } catch (cause) {
    return unreadable({ tool }, cause)
  }
}

function unreadable ({ tool }: Pick<Call, 'tool'>, cause: unknown): Outcome {
  const faults = cause instanceof RefusedValueError
    ? cause.faults
    : [{ path: '', keyword: 'json', message: `the result cannot be read: ${messageOf(cause)}` }]
  return refusal('invalid_output', tool.descriptor.id, faults)
}

/** Runs the after-hooks in order, each on what the ones before it left. A hook that throws replaces the result. */
export async function runAfter (
  hooks: readonly Required<Hooks>['afterToolCall'][], call: Call, context: BeforeToolCallContext, first: Merged
): Promise<Executed> {
  let current = first
  try {
    for (const afterToolCall of hooks) {
      current = mergeAfterToolCall(current, await afterToolCall({ ...context, ...current }, call.signal))
      if (call.isSettled) return current
    }
    return current
  } catch (cause) {
    return failure('hook_error', messageOf(cause))
  }
}
