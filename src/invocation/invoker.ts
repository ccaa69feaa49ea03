import type { Clock } from '../clock.ts'
import type { InvokeResponse } from '../contract/invocation.ts'
import { GatewayError } from '../errors.ts'
import { spanIdOf, type IdSource } from '../ids.ts'
import { chain, type Maybe, type Store } from '../store/store.ts'
import { messageOf } from '../tools/error-message.ts'
import { RefusedValueError } from '../tools/registered-tool.ts'
import type { ToolRegistry } from '../tools/registry.ts'
import type { Log } from '../tools/tool.ts'
import { arrive, type CallRequest } from './arrival.ts'
import { Breather } from './breather.ts'
import { CallContext, type InvokeChild } from './call-context.ts'
import type { Call } from './call.ts'
import { createCounters } from './counters.ts'
import { Deadlines } from './deadlines.ts'
import { Endings } from './endings.ts'
import { hookContext, type Hooks } from './hooks.ts'
import type { InvokerLimits } from './limits.ts'
import { refusal, settleOutput, type OutcomeContext } from './outcome.ts'
import { Progress } from './progress.ts'
import { Slots } from './slots.ts'
import { execute, runAfter, runBefore, type Executed } from './stages.ts'

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
 * - `settled` never rejects.
 */
export class Invoker {
  readonly counters = createCounters()
  readonly #options: InvokerOptions
  readonly #before: readonly Required<Hooks>['beforeToolCall'][]
  readonly #after: readonly Required<Hooks>['afterToolCall'][]
  readonly #running: Deadlines<Call>
  readonly #slots: Slots
  readonly #endings: Endings
  readonly #breather = new Breather()
  readonly #progress: Progress
  readonly #outcomes: OutcomeContext
  #registry!: ToolRegistry<any>
  #accepting = true
  #isAborting = false
  #drained: Promise<void> | undefined
  #onIdle: (() => void) | undefined

  constructor (registry: ToolRegistry<any>, options: InvokerOptions) {
    this.#options = options
    this.#slots = new Slots(options.limits)
    this.#before = options.hooks.flatMap((hooks) => hooks.beforeToolCall?.bind(hooks) ?? [])
    this.#after = options.hooks.flatMap((hooks) => hooks.afterToolCall?.bind(hooks) ?? [])
    this.#progress = new Progress(options, this.counters)
    this.#outcomes = { limits: options.limits, log: options.log, count: (event) => { this.counters[event]++ } }
    this.#running = new Deadlines(options.clock, (call) => this.#endings.abort(call, 'timeout'))
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

  /**
   * Records the call and sets it going. Returns once it is on record; `settled` resolves when it is over.
   * @throws {GatewayError} where the call gets no invocation: `unknown_tool`, `overloaded`, `shutting_down`,
   *   `store_unavailable`, `invalid_request` for input that is not JSON
   */
  start (request: CallRequest): Maybe<Call> {
    const { parent } = request
    // Calls that run have their time to end, and so have the calls that they make.
    if (this.#isAborting || !(this.#accepting || parent !== undefined)) {
      throw new GatewayError('shutting_down', 'The gateway is shutting down and takes no more calls.')
    }
    const { store } = this.#options
    const call = this.#arrive(request)
    call.startsAfter = store.head
    this.#running.add(call)
    parent?.addChild(call)
    try {
      const begun = store.begin(call.start)
      return begun instanceof Promise ? begun.then(() => this.#begin(call), (cause: unknown) => this.#forget(call, cause)) : this.#begin(call)
    } catch (cause) {
      return this.#forget(call, cause)
    }
  }

  #arrive (request: CallRequest): Call {
    try {
      return arrive(request, this.#registry, this.#slots, this.#options)
    } catch (cause) {
      if (cause instanceof GatewayError && cause.code === 'overloaded') this.counters.overloaded++
      throw cause
    }
  }

  #begin (call: Call): Call {
    if (call.isSettled) return call
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
  async invoke (request: CallRequest): Promise<InvokeResponse> {
    const call = await this.start(request)
    return JSON.parse((await call.settled).responseText) as InvokeResponse
  }

  /** See `ToolContext.invoke`. A tool that does not wait for the answer need not hear that there is none. */
  readonly #invokeChild: InvokeChild = (parent, toolId, input) => {
    const answered = this.#startChild(parent, toolId, input)
    answered.catch(() => {})
    return answered
  }

  async #startChild (parent: Call, toolId: string, input: unknown): Promise<InvokeResponse> {
    const pause = this.#breather.pause()
    if (pause !== undefined) await pause
    if (parent.isOver) throw new GatewayError('cancelled', `The call of tool "${parent.toolId}" is over and can make no child calls.`)
    const { maxChildDepth } = this.#options.limits
    if (parent.depth >= maxChildDepth) throw new GatewayError('calls_too_deep', `Child calls may be ${maxChildDepth} deep.`)
    const { invocationId, runId, traceId } = parent.start
    return await this.invoke({
      toolId,
      input,
      parent,
      parentInvocationId: invocationId,
      runId,
      trace: { traceId, parentSpanId: spanIdOf(invocationId) },
      principal: parent.principal
    })
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
        this.#isAborting = true
        for (const call of [...this.#running]) this.#endings.abort(call, 'shutdown')
      })
      this.#tellIdle()
    })
    return this.#drained
  }

  #tellIdle (): void {
    if (this.#running.size === 0) this.#onIdle?.()
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
      return this.#endings.settle(call, refusal('invalid_input', tool.descriptor.id, faults))
    }
    if (this.#before.length + this.#after.length > 0) return this.#walkHooked(call, args)
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
    const taken = this.#slots.take(call)
    if (taken instanceof Promise) call.queuedAt = this.#options.clock.monotonic()
    return taken
  }

  /** Undefined where the call was settled before it could begin. */
  #execute (call: Call, args: unknown): Maybe<Executed | undefined> {
    const { store, clock, log } = this.#options
    return chain(call.isSettled ? undefined : store.mark(call.invocationId), () => call.isSettled
      ? undefined
      : execute(call, args, clock, (partial) => this.#progress.publish(call, partial), new CallContext(call, log, this.#invokeChild)))
  }

  /** The call no longer executes, whoever decided how it ends. */
  #conclude (call: Call, executed: Executed | undefined): Maybe<void> {
    const settled = this.#decide(call, executed)
    this.#endings.free(call)
    return settled
  }

  #decide (call: Call, executed: Executed | undefined): Maybe<void> {
    if (call.isSettled || executed === undefined) return
    // A tool that kept the thread to itself kept the timer from firing, too.
    if (call.executedAt! + call.durationMs! >= call.deadline) return this.#endings.stop(call, 'timeout')
    return this.#endings.settle(call, 'errorCode' in executed
      ? executed
      : settleOutput(call.tool, executed.result, executed.isError, this.#outcomes))
  }
}
