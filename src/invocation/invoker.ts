import type { Clock } from '../clock.ts'
import type { InvokeResponse } from '../contract/invocation.ts'
import { GatewayError } from '../errors.ts'
import type { IdSource } from '../ids.ts'
import { chain, type Earlier, type KeyClaim, type Maybe, type Store, type StoredCall } from '../store/store.ts'
import type { ToolRegistry } from '../tools/registry.ts'
import type { Log } from '../tools/tool.ts'
import { arrive, rearrive, shuttingDown, type CallRequest, type KeyedRequest } from './arrival.ts'
import { CallContext } from './call-context.ts'
import type { Call } from './call.ts'
import { ChildCalls } from './child-calls.ts'
import { createCounters } from './counters.ts'
import { Endings } from './endings.ts'
import { hookContext, type Hooks } from './hooks.ts'
import { Repeats } from './idempotency.ts'
import type { InvokerLimits } from './limits.ts'
import { Marks } from './marks.ts'
import { settleOutput, type OutcomeContext } from './outcome.ts'
import { Progress } from './progress.ts'
import type { Replay } from './replay.ts'
import { RunningCalls } from './running.ts'
import { Slots } from './slots.ts'
import { execute, prepare, runAfter, runBefore, type Executed } from './stages.ts'

export interface InvokerOptions {
  store: Store
  clock: Clock
  ids: IdSource
  log: Log
  /** In this order; the first block wins. */
  hooks: readonly Hooks[]
  limits: InvokerLimits
}

/**
 * Takes calls from arrival to settlement.
 *
 * Contract:
 * - Everything after `begin` has a start event and exactly one end event, failures before execution too.
 * - A call that is aborted (timeout, cancel, shutdown) settles without waiting for hooks or tool; what they do later
 *   has no effect on the answer.
 * - A call ends after its child calls: those that still run when it settles are cancelled first.
 * - `settled` rejects only where the end cannot be recorded before the gateway stops: `not_recorded`.
 */
export class Invoker {
  readonly counters = createCounters()
  readonly #options: InvokerOptions
  readonly #before: readonly Required<Hooks>['beforeToolCall'][]
  readonly #after: readonly Required<Hooks>['afterToolCall'][]
  readonly #running: RunningCalls
  readonly #slots: Slots
  readonly #endings: Endings
  readonly #children: ChildCalls
  readonly #repeats: Repeats
  readonly #marks: Marks
  readonly #progress: Progress
  readonly #outcomes: OutcomeContext
  #registry!: ToolRegistry<any>
  #accepting = true
  #drained: Promise<void> | undefined
  #onIdle: (() => void) | undefined

  constructor (registry: ToolRegistry<any>, options: InvokerOptions) {
    this.#options = options
    this.#slots = new Slots(options.limits)
    this.#before = options.hooks.flatMap((hooks) => hooks.beforeToolCall?.bind(hooks) ?? [])
    this.#after = options.hooks.flatMap((hooks) => hooks.afterToolCall?.bind(hooks) ?? [])
    this.#children = new ChildCalls(options.limits, (request) => this.invoke(request))
    this.#repeats = new Repeats(options, (invocationId) => this.find(invocationId))
    this.#marks = new Marks(options)
    this.#progress = new Progress(options, this.counters)
    this.#outcomes = { limits: options.limits, log: options.log, count: (event) => { this.counters[event]++ } }
    this.#running = new RunningCalls(options.clock, (call) => this.#endings.abort(call, 'timeout'))
    this.#endings = new Endings(options, this.#running, this.#slots, this.counters, () => this.#tellIdle())
    this.use(registry)
  }

  get registry (): ToolRegistry<any> {
    return this.#registry
  }

  /** Seals `registry` and takes calls for its tools from now on. Calls in flight finish on the tools that they began with. */
  use (registry: ToolRegistry<any>): void {
    this.#registry = registry.seal()
    this.#slots.setLanes(registry)
  }

  /** Calls that have not settled. */
  get running (): number {
    return this.#running.size
  }

  /** Slots that are taken and calls that have none yet, of the gateway or of one tool. */
  slots (toolId?: string): { taken: number, pending: number } {
    return this.#slots.count(toolId)
  }

  /** Whether calls are taken. */
  get accepting (): boolean {
    return this.#accepting
  }

  /** The call of this id, where it has not settled. */
  find (invocationId: string): Call | undefined {
    return this.#running.get(invocationId)
  }

  /**
   * Records the call and sets it going. Returns once it is on record; `settled` resolves when it is over.
   *
   * @returns the call; or what takes its place, where another one holds its idempotency key
   * @throws {GatewayError} or rejects where the call gets no invocation: what its `refusalOf` gives, `unknown_tool`, `overloaded`, `shutting_down`,
   *   `store_unavailable`, `idempotency_key_reused`, `not_supported`, `invalid_request` for input that is not JSON
   */
  start (request: KeyedRequest): Maybe<Call | Replay>
  start (request: CallRequest): Maybe<Call>
  start (request: CallRequest | KeyedRequest): Maybe<Call | Replay> {
    const { store } = this.#options
    // Not even by a key that it sent when it still might.
    const refusal = request.refusalOf?.(request.toolId, this.#registry.get(request.toolId)?.descriptor.kind)
    if (refusal !== undefined) throw this.#accepting || refusal.code === 'forbidden' ? refusal : shuttingDown()
    let call: Call
    try {
      call = this.#arrive(request)
    } catch (refusal) {
      return this.#repeats.replayRefused(request, refusal)
    }
    const { parent } = call
    const claim = this.#repeats.claim(request, call)
    call.startsAfter = store.head
    this.#running.add(call)
    parent?.addChild(call)
    try {
      const begun = store.begin(call.start, claim)
      if (!(begun instanceof Promise)) return this.#begin(call, begun, claim)
      this.#hasten(call)
      return begun.then((earlier) => this.#begin(call, earlier, claim), (cause: unknown) => this.#forget(call, cause))
    } catch (cause) {
      return this.#forget(call, cause)
    }
  }

  /** Sets a call going that was begun before the gateway was started; or leaves it to the next start, where this one is over. */
  resume (stored: StoredCall): void {
    if (!this.#accepting) return
    const call = rearrive(stored, this.#registry.get(stored.start.toolId)!, this.#slots, this.#options.clock)
    this.#running.add(call)
    this.#go(call)
  }

  #arrive (request: CallRequest): Call {
    // Calls that run have their time to end, and so have the calls that they make.
    if (!this.#accepting && request.parent === undefined) {
      throw shuttingDown()
    }
    try {
      return arrive(request, this.#registry, this.#slots, this.#options)
    } catch (cause) {
      if (cause instanceof GatewayError && cause.code === 'overloaded') this.counters.overloaded++
      throw cause
    }
  }

  /**
   * What needs no waiting is done while the call is being recorded. Where nothing has to be waited for before it may
   * execute, the mark goes on record together with the beginning.
   */
  #hasten (call: Call): void {
    if (this.#before.length > 0) return
    call.prepared = prepare(call)
    if ('args' in call.prepared && this.#slots.hasRoomFor(call)) {
      this.#slots.take(call)
      call.marked = this.#marks.set(call)
    }
  }

  #begin (call: Call, earlier: Earlier | undefined, claim: KeyClaim | undefined): Call | Replay {
    if (earlier === undefined) return this.#go(call)
    this.#endings.forget(call)
    return this.#repeats.replay(earlier, claim!)
  }

  #go (call: Call): Call {
    if (call.isSettled) {
      // Stopped while it was being recorded; it may have a slot by then.
      this.#endings.free(call)
      return call
    }
    try {
      const walked = this.#walk(call)
      if (walked instanceof Promise) walked.catch((cause: unknown) => this.#endings.lose(call, cause))
    } catch (cause) {
      this.#endings.lose(call, cause)
    }
    return call
  }

  #forget (call: Call, cause: unknown): never {
    this.#endings.forget(call)
    throw cause
  }

  /** The whole way, in process. */
  async invoke (request: CallRequest | KeyedRequest): Promise<InvokeResponse> {
    const call = await this.start(request)
    return JSON.parse((await call.settled).responseText) as InvokeResponse
  }

  /** Ends a call now, unless it has settled. */
  cancel (call: Call): void {
    this.#endings.abort(call, 'cancelled')
  }

  /** Takes no more calls, gives the running ones `graceMs` to end, and aborts the rest. Resolves when all are settled. */
  drain (graceMs: number): Promise<void> {
    this.#accepting = false
    this.#drained ??= new Promise<void>((resolve) => {
      this.#onIdle = resolve
      this.#options.clock.after(graceMs, () => {
        for (const call of [...this.#running]) this.#endings.abort(call, 'shutdown')
        this.#endings.giveUp()
      })
      this.#tellIdle()
    })
    return this.#drained
  }

  #tellIdle (): void {
    if (this.#running.size === 0) this.#onIdle?.()
  }

  get #isHooked (): boolean {
    return this.#before.length + this.#after.length > 0
  }

  /**
   * The way through: prepare and validate, before-hooks, wait for a slot, mark, execute, after-hooks, validate the output,
   * settle. Each stage may find that the call was settled meanwhile, and then stops. Where nothing has to be waited for,
   * nothing is: then the call has settled when this returns.
   */
  #walk (call: Call): Maybe<void> {
    const prepared = call.prepared ?? prepare(call)
    if ('refused' in prepared) return this.#endings.settle(call, prepared.refused)
    const { args } = prepared
    if (this.#isHooked) return this.#walkHooked(call, args)
    return chain(this.#takeSlot(call), (hasSlot) => hasSlot
      ? chain(this.#execute(call, args), (executed) => this.#conclude(call, executed))
      : undefined)
  }

  async #walkHooked (call: Call, args: unknown): Promise<void> {
    // One context for all hooks and the tool's own `args`, so that what a hook does to them reaches the tool.
    const context = hookContext(call, args)
    const stopped = await runBefore(this.#before, call, context)
    if (call.isSettled) return
    if (stopped !== undefined) return this.#endings.settle(call, stopped)
    if (!await this.#takeSlot(call)) return
    let executed = await this.#execute(call, args)
    if (executed !== undefined && !call.isSettled && !('errorCode' in executed)) executed = await runAfter(this.#after, call, context, executed)
    return this.#conclude(call, executed)
  }

  /** False where the call was settled before its turn came. */
  #takeSlot (call: Call): Maybe<boolean> {
    if (call.standing === 'holding') return true
    const taken = this.#slots.take(call)
    if (taken instanceof Promise) call.queuedAt = this.#options.clock.monotonic()
    return taken
  }

  /** Undefined where the call was settled before it could begin. */
  #execute (call: Call, args: unknown): Maybe<Executed | undefined> {
    const { clock, log } = this.#options
    return chain(call.isSettled ? undefined : call.marked ?? this.#marks.set(call), () => call.isSettled
      ? undefined
      : execute(call, args, clock, (partial) => this.#progress.publish(call, partial), new CallContext(call, log, this.#children.invoke)))
  }

  /** The call no longer executes, whoever decided how it ends. */
  #conclude (call: Call, executed: Executed | undefined): Maybe<void> {
    const settled = this.#decide(call, executed)
    this.#endings.free(call)
    return settled
  }

  #outcomesOf (call: Call): OutcomeContext {
    return call.masking === undefined ? this.#outcomes : { ...this.#outcomes, log: call.ownLog(this.#options.log) }
  }

  #decide (call: Call, executed: Executed | undefined): Maybe<void> {
    if (call.isSettled || executed === undefined) return
    // A tool that kept the thread to itself kept the timer from firing, too.
    if (call.executedAt! + call.durationMs! >= call.deadline) return this.#endings.stop(call, 'timeout')
    return this.#endings.settle(call, 'errorCode' in executed
      ? executed
      : settleOutput(call.tool, executed.result, executed.isError, this.#outcomesOf(call)))
  }
}
