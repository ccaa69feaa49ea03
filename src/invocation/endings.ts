import type { Clock } from '../clock.ts'
import { chain, type CallEnd, type Maybe, type Store } from '../store/store.ts'
import type { Log } from '../tools/tool.ts'
import { abortText, Settlement, type AbortReason, type Call } from './call.ts'
import type { InvokerCounters } from './counters.ts'
import type { InvokerLimits } from './limits.ts'
import { failure, redactedResult, type Outcome } from './outcome.ts'
import { Overruns } from './overruns.ts'
import type { RunningCalls } from './running.ts'
import type { Slots } from './slots.ts'
import { Unrecorded } from './unrecorded.ts'

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
  readonly #running: RunningCalls
  readonly #slots: Slots
  readonly #overruns: Overruns
  readonly #unrecorded: Unrecorded
  /** Called when a call is over. */
  readonly #onRemoved: () => void

  constructor (options: EndingOptions, running: RunningCalls, slots: Slots, counters: InvokerCounters, onRemoved: () => void) {
    this.#options = options
    this.#running = running
    this.#slots = slots
    this.#overruns = new Overruns(options, slots, counters)
    this.#unrecorded = new Unrecorded(options, (call) => this.#record(call))
    this.#onRemoved = onRemoved
  }

  /** Ends a call that may be executing, unless it has settled. Its slot stays taken until it really ends. */
  abort (call: Call, reason: AbortReason): void {
    if (call.isSettled) return
    void this.stop(call, reason)
    if (call.executedAt === undefined) this.free(call)
    else this.#overruns.watch(call)
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
    const { clock } = this.#options
    if (call.children.size > 0) this.#abortChildren(call, outcome)
    this.#slots.leave(call)
    const hasRun = call.executedAt !== undefined
    call.end = {
      status: outcome.status,
      errorCode: outcome.errorCode,
      isError: outcome.isError,
      result: outcome.result,
      executed: call.hasExecuted,
      durationMs: hasRun ? roundMicros(call.durationMs ?? clock.monotonic() - call.executedAt!) : 0,
      queuedMs: call.queuedAt === undefined ? undefined : roundMicros((call.executedAt ?? clock.monotonic()) - call.queuedAt)
    }
    return call.children.size > 0 ? this.#afterChildren(call) : this.#tryToRecord(call)
  }

  /** They were aborted, and their ends stand before the call's own in the log, also where these cannot be recorded for a time. */
  async #afterChildren (call: Call): Promise<void> {
    await Promise.allSettled([...call.children].map(({ settled }) => settled))
    return this.#tryToRecord(call)
  }

  #tryToRecord (call: Call): Maybe<void> {
    try {
      const recorded = this.#record(call)
      return recorded instanceof Promise ? recorded.catch((cause: unknown) => this.#keep(call, cause)) : recorded
    } catch (cause) {
      this.#keep(call, cause)
    }
  }

  #keep (call: Call, cause: unknown): void {
    if (this.#isHere(call)) this.#unrecorded.add(call, cause)
  }

  /**
   * Puts the end on record, and answers then: what a caller is told is on record.
   * @throws or rejects where it cannot be recorded
   */
  #record (call: Call): Maybe<void> {
    const end = call.end!
    return chain(
      this.#options.store.settle(call.invocationId, recordedEnd(call, end)),
      () => this.#answer(call, end)
    )
  }

  /**
   * Lets go of the calls whose ends could not be recorded, now and from now on: there will be no better time. Nobody is
   * answered, as after a crash: the next start decides how they end.
   */
  giveUp (): void {
    this.#unrecorded.giveUp((call) => {
      if (!this.#isHere(call)) return
      this.#remove(call)
      call.abandon()
      this.#onRemoved()
    })
  }

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
    call.ownLog(this.#options.log).error({ invocation: call.invocationId, tool: call.toolId, ...(call.tool.sensitive ? {} : { err: cause }) }, 'a call failed inside the gateway')
    void this.settle(call, failure('hook_error', 'The gateway failed to run the call.'))
    this.free(call)
  }

  /** For a call that could not be recorded, or that repeats another: there is none. */
  forget (call: Call): void {
    if (!this.#isHere(call)) return
    call.isSettled = true
    this.#slots.leave(call)
    this.#slots.release(call)
    this.#remove(call)
    // Stopped meanwhile: the call that made it may wait for its end.
    if (call.end !== undefined) call.resolve(new Settlement(call.start, call.end))
    this.#onRemoved()
  }

  #answer (call: Call, end: CallEnd): void {
    // Given up in the very step in which it was recorded after all.
    if (!this.#isHere(call)) return
    this.#remove(call)
    this.#logEnd(call, end)
    call.resolve(new Settlement(call.start, end))
    this.#onRemoved()
  }

  /** Whether it is not over yet, for all that is on record. */
  #isHere (call: Call): boolean {
    return this.#running.get(call.invocationId) === call
  }

  #remove (call: Call): void {
    this.#running.delete(call)
    call.parent?.deleteChild(call)
  }

  #logEnd (call: Call, end: CallEnd): void {
    const fields = { tool: call.toolId, invocation: call.invocationId, principal: call.principal.id, status: end.status, durationMs: end.durationMs }
    this.#options.log.info(end.errorCode === undefined ? fields : { ...fields, errorCode: end.errorCode }, 'invocation')
  }
}

/** The end as everyone may read it who is not the call's own caller. */
function recordedEnd ({ tool, masking }: Call, end: CallEnd): CallEnd {
  if (tool.sensitive) return { ...end, result: redactedResult(end.isError) }
  return masking === undefined ? end : { ...end, result: masking.result(end.result) }
}

function roundMicros (ms: number): number {
  return Math.round(ms * 1000) / 1000
}
