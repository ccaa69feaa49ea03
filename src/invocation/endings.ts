import type { Clock } from '../clock.ts'
import type { CallEnd, Maybe, Store } from '../store/store.ts'
import type { Log } from '../tools/tool.ts'
import { abortText, Settlement, type AbortReason, type Call } from './call.ts'
import type { InvokerCounters } from './counters.ts'
import type { Deadlines } from './deadlines.ts'
import type { InvokerLimits } from './limits.ts'
import { failure, redactedResult, type Outcome } from './outcome.ts'
import { Overruns } from './overruns.ts'
import type { Slots } from './slots.ts'

interface EndingOptions {
  store: Store
  clock: Clock
  log: Log
  limits: InvokerLimits
}

/**
 * How calls end: each exactly once, after its child calls, and with its slot given back once it really executes no more.
 */
export class Endings {
  readonly #options: EndingOptions
  readonly #running: Deadlines<Call>
  readonly #slots: Slots
  readonly #overruns: Overruns
  /** Called when a call is over. */
  readonly #onRemoved: () => void

  constructor (options: EndingOptions, running: Deadlines<Call>, slots: Slots, counters: InvokerCounters, onRemoved: () => void) {
    this.#options = options
    this.#running = running
    this.#slots = slots
    this.#overruns = new Overruns(options, slots, counters)
    this.#onRemoved = onRemoved
  }

  /** Ends a call that may be executing, unless it has settled. Its slot stays taken until it really ends. */
  abort (call: Call, reason: AbortReason): void {
    if (call.isSettled) return
    void this.stop(call, reason)
    this.#overruns.watch(call)
  }

  /** The same for one that executes no more. */
  stop (call: Call, reason: AbortReason): Maybe<void> {
    const settled = this.settle(call, failure(reason, abortText(call, reason)))
    call.abort(reason)
    return settled
  }

  /** Decides how the call ends, exactly once, and answers once that is on record. */
  settle (call: Call, outcome: Outcome): Maybe<void> {
    if (call.isSettled) return
    call.isSettled = true
    call.deadline = Infinity
    const { clock, store } = this.#options
    if (call.children.size > 0) this.#abortChildren(call, outcome)
    this.#slots.leave(call)
    const executed = call.executedAt !== undefined
    const end: CallEnd = {
      status: outcome.status,
      errorCode: outcome.errorCode,
      isError: outcome.isError,
      result: outcome.result,
      executed,
      durationMs: executed ? roundMicros(call.durationMs ?? clock.monotonic() - call.executedAt!) : 0,
      queuedMs: call.queuedAt === undefined ? undefined : roundMicros((call.executedAt ?? clock.monotonic()) - call.queuedAt)
    }
    call.end = end
    try {
      const recorded = store.settle(call.invocationId, call.tool.sensitive ? { ...end, result: redactedResult(end.isError) } : end)
      if (recorded instanceof Promise) return recorded.then(() => this.#answer(call, end), (cause: unknown) => this.#answer(call, end, cause))
    } catch (cause) {
      return this.#answer(call, end, cause)
    }
    return this.#answer(call, end)
  }

  /** Their ends stand before its own in the log. */
  #abortChildren (call: Call, { errorCode }: Outcome): void {
    const reason = errorCode === 'shutdown' ? 'shutdown' : 'cancelled'
    for (const child of [...call.children]) this.abort(child, reason)
  }

  /** The call executes no more. */
  free (call: Call): void {
    call.unwatch?.()
    this.#slots.release(call)
  }

  /** What no stage foresaw. The call must not be left without an end. */
  lose (call: Call, cause: unknown): void {
    this.#options.log.error({ invocation: call.invocationId, tool: call.toolId, ...(call.tool.sensitive ? {} : { err: cause }) }, 'a call failed inside the gateway')
    void this.settle(call, failure('hook_error', 'The gateway failed to run the call.'))
    this.free(call)
  }

  /** For a call that could not be recorded: there is none. */
  forget (call: Call): void {
    if (call.isSettled) return
    call.isSettled = true
    this.#slots.leave(call)
    this.#remove(call)
    this.#onRemoved()
  }

  /** @param unrecorded why the end is not on record; the caller is answered all the same */
  #answer (call: Call, end: CallEnd, unrecorded?: unknown): void {
    this.#remove(call)
    if (unrecorded !== undefined) {
      this.#options.log.error({ invocation: call.invocationId, tool: call.toolId, err: unrecorded }, 'the end of a call could not be recorded')
    }
    this.#logEnd(call, end)
    call.resolve(new Settlement(call.start, end))
    this.#onRemoved()
  }

  #remove (call: Call): void {
    this.#running.delete(call)
    call.parent?.deleteChild(call)
  }

  #logEnd (call: Call, end: CallEnd): void {
    const fields = { tool: call.toolId, invocation: call.invocationId, status: end.status, durationMs: end.durationMs }
    this.#options.log.info(end.errorCode === undefined ? fields : { ...fields, errorCode: end.errorCode }, 'invocation')
  }
}

function roundMicros (ms: number): number {
  return Math.round(ms * 1000) / 1000
}
