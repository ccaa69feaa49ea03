import type { Clock } from '../clock.ts'
import type { InvocationReceipt, InvokeResponse, OutcomeCode } from '../contract/invocation.ts'
import { GatewayError } from '../errors.ts'
import type { IdSource } from '../ids.ts'
import { chain, type CallEnd, type Maybe, type Store } from '../store/store.ts'
import { messageOf } from '../tools/error-message.ts'
import { RefusedValueError } from '../tools/registered-tool.ts'
import type { ToolRegistry } from '../tools/registry.ts'
import type { Log } from '../tools/tool.ts'
import { arrive, type CallRequest } from './arrival.ts'
import { CallContext } from './call-context.ts'
import { Call, Settlement, type AbortReason } from './call.ts'
import { Deadlines } from './deadlines.ts'
import type { BeforeToolCallContext, Hooks } from './hooks.ts'
import type { CallLimits } from './limits.ts'
import { failure, redactedResult, refusal, settleOutput, type Outcome, type OutcomeContext } from './outcome.ts'
import { Progress } from './progress.ts'
import { execute, runAfter, runBefore, type Executed } from './stages.ts'

export interface InvokerOptions {
  store: Store
  clock: Clock
  ids: IdSource
  log: Log
  /** In this order; the first block wins. */
  hooks: readonly Hooks[]
  limits: CallLimits
}

/** What the gateway counted since it started. */
export interface InvokerCounters {
  updatesDropped: number
  updatesInvalid: number
  outputWarnings: number
  errorSchemaMismatches: number
}

/**
 * Takes calls from arrival to settlement.
 *
 * Contract:
 * - Everything after `begin` has a start event and exactly one end event, failures before execution too.
 * - A call that is aborted (timeout, cancel, shutdown) settles without waiting for hooks or tool; what they do later
 *   has no effect on the answer.
 * - `settled` never rejects.
 */
export class Invoker {
  readonly counters: InvokerCounters = { updatesDropped: 0, updatesInvalid: 0, outputWarnings: 0, errorSchemaMismatches: 0 }
  readonly #options: InvokerOptions
  readonly #before: readonly Required<Hooks>['beforeToolCall'][]
  readonly #after: readonly Required<Hooks>['afterToolCall'][]
  readonly #running: Deadlines<Call>
  readonly #progress: Progress
  readonly #outcomes: OutcomeContext
  #registry: ToolRegistry<any>
  #accepting = true
  /** Calls whose beginning is being recorded. */
  #beginning = 0
  #isAborting = false
  #drained: Promise<void> | undefined
  #onIdle: (() => void) | undefined

  constructor (registry: ToolRegistry<any>, options: InvokerOptions) {
    this.#registry = registry.seal()
    this.#options = options
    this.#before = options.hooks.flatMap((hooks) => hooks.beforeToolCall?.bind(hooks) ?? [])
    this.#after = options.hooks.flatMap((hooks) => hooks.afterToolCall?.bind(hooks) ?? [])
    this.#progress = new Progress(options, this.counters)
    this.#outcomes = { limits: options.limits, log: options.log, count: (event) => { this.counters[event]++ } }
    this.#running = new Deadlines(options.clock, (call) => this.#abort(call, 'timeout'))
  }

  get registry (): ToolRegistry<any> {
    return this.#registry
  }

  /** Calls that have not settled. */
  get running (): number {
    return this.#running.size
  }

  /** Whether calls are taken. */
  get accepting (): boolean {
    return this.#accepting
  }

  /**
   * Records the call and sets it going. Returns once it is on record; `settled` resolves when it is over.
   * @throws {GatewayError} where the call gets no invocation: `unknown_tool`, `shutting_down`, `store_unavailable`,
   *   `invalid_request` for input that is not JSON
   */
  start (request: CallRequest): Maybe<Call> {
    if (!this.#accepting) throw new GatewayError('shutting_down', 'The gateway is shutting down and takes no more calls.')
    const { store } = this.#options
    const call = arrive(request, this.#registry, this.#options)
    call.startsAfter = store.head
    const begun = store.begin(call.start)
    if (!(begun instanceof Promise)) return this.#begin(call)
    this.#beginning++
    return begun.then(() => this.#begin(call)).finally(() => {
      this.#beginning--
      this.#tellIdle()
    })
  }

  #begin (call: Call): Call {
    this.#running.add(call)
    if (this.#isAborting) {
      this.#abort(call, 'shutdown')
      return call
    }
    try {
      const walked = this.#walk(call)
      if (walked instanceof Promise) walked.catch((cause: unknown) => this.#lose(call, cause))
    } catch (cause) {
      this.#lose(call, cause)
    }
    return call
  }

  /** The whole way, in process. */
  async invoke (request: CallRequest): Promise<InvokeResponse> {
    const call = await this.start(request)
    return JSON.parse((await call.settled).responseText) as InvokeResponse
  }

  /** Ends a call now, unless it has settled. */
  cancel (call: Call): void {
    this.#abort(call, 'cancelled')
  }

  /** Takes no more calls, gives the running ones `graceMs` to end, and aborts the rest. Resolves when all are settled. */
  drain (graceMs: number): Promise<void> {
    this.#accepting = false
    this.#drained ??= new Promise<void>((resolve) => {
      this.#onIdle = resolve
      this.#options.clock.after(graceMs, () => {
        this.#isAborting = true
        for (const call of [...this.#running]) this.#abort(call, 'shutdown')
      })
      this.#tellIdle()
    })
    return this.#drained
  }

  #tellIdle (): void {
    if (this.#running.size + this.#beginning === 0) this.#onIdle?.()
  }

  /**
   * The way through: prepare and validate, before-hooks, wait for a slot, mark, execute, after-hooks, validate the output,
   * settle. Each stage may find that the call was settled meanwhile, and then stops. Where nothing has to be waited for,
   * nothing is: then the call has settled when this returns.
   */
  #walk (call: Call): Maybe<void> {
    const { tool } = call
    let args: unknown
    try {
      args = tool.parseInput(call.input)
    } catch (cause) {
      const faults = cause instanceof RefusedValueError ? cause.faults : [{ path: '', keyword: 'input', message: messageOf(cause) }]
      return this.#settle(call, refusal('invalid_input', tool.descriptor.id, faults))
    }
    if (this.#before.length + this.#after.length > 0) return this.#walkHooked(call, args)
    return chain(this.#execute(call, args), (executed) => this.#conclude(call, executed))
  }

  async #walkHooked (call: Call, args: unknown): Promise<void> {
    // One context for all hooks and the tool's own `args`, so that what a hook does to them reaches the tool.
    const context = this.#hookContext(call, args)
    const stopped = await runBefore(this.#before, call, context)
    if (call.isSettled) return
    if (stopped !== undefined) return this.#settle(call, stopped)
    let executed = await this.#execute(call, args)
    if (executed !== undefined && !call.isSettled && !('errorCode' in executed)) executed = await runAfter(this.#after, call, context, executed)
    return this.#conclude(call, executed)
  }

  /** Undefined where the call was settled before it could begin. */
  #execute (call: Call, args: unknown): Maybe<Executed | undefined> {
    // The wait for a slot stands here.
    const { store, clock } = this.#options
    return chain(store.mark(call.invocationId), () => call.isSettled
      ? undefined
      : execute(call, args, clock, (partial) => this.#progress.publish(call, partial), new CallContext(call, this.#options.log)))
  }

  #conclude (call: Call, executed: Executed | undefined): Maybe<void> {
    if (call.isSettled || executed === undefined) return
    // A tool that kept the thread to itself kept the timer from firing, too.
    if (call.executedAt! + call.durationMs! >= call.deadline) return this.#abort(call, 'timeout')
    return this.#settle(call, 'errorCode' in executed
      ? executed
      : settleOutput(call.tool, executed.result, executed.isError, this.#outcomes))
  }

  #abort (call: Call, reason: AbortReason): void {
    if (call.isSettled) return
    void this.#settle(call, failure(reason, abortTexts[reason](call)))
    call.abort(reason)
  }

  /** Decides how the call ends, exactly once, and answers once that is on record. */
  #settle (call: Call, outcome: Outcome): Maybe<void> {
    if (call.isSettled) return
    call.isSettled = true
    call.deadline = Infinity
    const { clock, store } = this.#options
    const executed = call.executedAt !== undefined
    const end: CallEnd = {
      status: outcome.status,
      errorCode: outcome.errorCode,
      isError: outcome.isError,
      result: outcome.result,
      executed,
      durationMs: executed ? roundMicros(call.durationMs ?? clock.monotonic() - call.executedAt!) : 0,
      queuedMs: undefined
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

  /** @param unrecorded why the end is not on record; the caller is answered all the same */
  #answer (call: Call, end: CallEnd, unrecorded?: unknown): void {
    this.#running.delete(call)
    if (unrecorded !== undefined) {
      this.#options.log.error({ invocation: call.invocationId, tool: call.start.toolId, err: unrecorded }, 'the end of a call could not be recorded')
    }
    this.#logEnd(call, end)
    call.resolve(new Settlement(call.start, end))
    this.#tellIdle()
  }

  /** What no stage foresaw. The call must not be left without an end. */
  #lose (call: Call, cause: unknown): void {
    this.#options.log.error({ invocation: call.invocationId, tool: call.start.toolId, ...(call.tool.sensitive ? {} : { err: cause }) }, 'a call failed inside the gateway')
    void this.#settle(call, failure('hook_error', 'The gateway failed to run the call.'))
  }

  #logEnd (call: Call, end: CallEnd): void {
    const fields = { tool: call.start.toolId, invocation: call.invocationId, status: end.status, durationMs: end.durationMs }
    this.#options.log.info(end.errorCode === undefined ? fields : { ...fields, errorCode: end.errorCode }, 'invocation')
  }

  #hookContext (call: Call, args: unknown): BeforeToolCallContext {
    const { start, tool, input, principal } = call
    return {
      toolCall: { type: 'toolCall', id: start.toolCallId, name: start.toolId, arguments: input },
      args,
      tool: tool.descriptor,
      invocation: JSON.parse(call.runningReceipt) as InvocationReceipt,
      principal
    }
  }
}

const abortTexts: Record<AbortReason & OutcomeCode, (call: Call) => string> = {
  timeout: (call) => `The call of tool "${call.start.toolId}" took longer than ${call.timeoutMs} ms and was stopped.`,
  cancelled: (call) => `The call of tool "${call.start.toolId}" was cancelled.`,
  shutdown: (call) => `The gateway stopped before the call of tool "${call.start.toolId}" ended.`
}

function roundMicros (ms: number): number {
  return Math.round(ms * 1000) / 1000
}
