import type { Clock } from '../clock.ts'
import type { InvocationReceipt, InvokeResponse, OutcomeCode } from '../contract/invocation.ts'
import { GatewayError } from '../errors.ts'
import { spanIdOf, type IdSource } from '../ids.ts'
import { NotJsonError, stringifyJson } from '../json/stringify.ts'
import type { CallEnd, CallStart, Store } from '../store/store.ts'
import { messageOf } from '../tools/error-message.ts'
import { RefusedValueError, type RegisteredTool } from '../tools/registered-tool.ts'
import type { ToolRegistry } from '../tools/registry.ts'
import type { Log, Principal, ToolContext } from '../tools/tool.ts'
import { Call, Settlement, type AbortReason } from './call.ts'
import { Deadlines } from './deadlines.ts'
import { mergeAfterToolCall, type BeforeToolCallContext, type Hooks, type MergedResult } from './hooks.ts'
import type { CallLimits } from './limits.ts'
import { failure, partialText, redactedResult, refusal, settleOutput, type Outcome, type OutcomeContext } from './outcome.ts'
import type { TraceParent } from './traceparent.ts'

export interface InvokerOptions {
  store: Store
  clock: Clock
  ids: IdSource
  log: Log
  /** In this order; the first block wins. */
  hooks: readonly Hooks[]
  limits: CallLimits
}

/** A call as it arrives. */
export interface CallRequest {
  toolId: string
  /** `{}` where absent. */
  input?: unknown
  toolCallId?: string | undefined
  runId?: string | undefined
  parentInvocationId?: string | undefined
  timeoutMs?: number | undefined
  trace?: TraceParent | undefined
  principal: Principal
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
  #registry: ToolRegistry<any>
  #accepting = true
  #onIdle: (() => void) | undefined

  constructor (registry: ToolRegistry<any>, options: InvokerOptions) {
    this.#registry = registry.seal()
    this.#options = options
    this.#before = options.hooks.flatMap((hooks) => hooks.beforeToolCall?.bind(hooks) ?? [])
    this.#after = options.hooks.flatMap((hooks) => hooks.afterToolCall?.bind(hooks) ?? [])
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
  async start (request: CallRequest): Promise<Call> {
    const call = this.#arrive(request)
    const { store } = this.#options
    call.startsAfter = store.head
    await store.begin(call.start)
    this.#running.add(call)
    this.#walk(call).catch((cause: unknown) => this.#lose(call, cause))
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
  async drain (graceMs: number): Promise<void> {
    this.#accepting = false
    if (this.#running.size === 0) return
    await new Promise<void>((resolve) => {
      this.#onIdle = resolve
      this.#options.clock.after(graceMs, () => {
        for (const call of [...this.#running]) this.#abort(call, 'shutdown')
      })
    })
  }

  #arrive (request: CallRequest): Call {
    if (!this.#accepting) throw new GatewayError('shutting_down', 'The gateway is shutting down and takes no more calls.')
    const tool = this.#registry.get(request.toolId)
    if (tool === undefined) throw new GatewayError('unknown_tool', `There is no tool "${request.toolId}".`)
    const { clock, ids, limits } = this.#options
    const input = request.input === undefined ? {} : request.input
    const startedAtMs = clock.now()
    const invocationId = ids.invocationId(startedAtMs)
    const start: CallStart = {
      invocationId,
      toolId: tool.descriptor.id,
      toolCallId: request.toolCallId ?? invocationId,
      kind: tool.descriptor.kind,
      startedAtMs,
      runId: request.runId,
      traceId: request.trace?.traceId,
      parentSpanId: request.trace?.parentSpanId,
      parentInvocationId: request.parentInvocationId,
      input: tool.sensitive ? undefined : inputText(input, limits.maxJsonDepth)
    }
    const timeoutMs = Math.min(request.timeoutMs ?? Infinity, tool.descriptor.timeoutMs, limits.maxTimeoutMs)
    return new Call(start, tool, input, request.principal, timeoutMs, clock.monotonic())
  }

  /** The way through. Each stage may find that the call was settled meanwhile, and then stops. */
  async #walk (call: Call): Promise<void> {
    const { tool } = call
    let args: unknown
    try {
      args = tool.parseInput(call.input)
    } catch (cause) {
      const faults = cause instanceof RefusedValueError ? cause.faults : [{ path: '', keyword: 'input', message: messageOf(cause) }]
      return this.#settle(call, refusal('invalid_input', tool.descriptor.id, faults))
    }

    // Hooks and tool share one context, so that what a hook does to `args` reaches the tool.
    const hooked = this.#before.length + this.#after.length > 0 ? this.#hookContext(call, args) : undefined
    if (hooked !== undefined) {
      const stopped = await this.#runBefore(call, hooked)
      if (call.isSettled) return
      if (stopped !== undefined) return this.#settle(call, stopped)
    }

    // The wait for a slot stands here.

    await this.#options.store.mark(call.invocationId)
    if (call.isSettled) return
    let current = await this.#execute(call, args)
    if (call.isSettled) return

    if (hooked !== undefined && !('errorCode' in current)) {
      current = await this.#runAfter(call, hooked, current)
      if (call.isSettled) return
    }
    return this.#settle(call, 'errorCode' in current ? current : settleOutput(current.result, current.isError, this.#outcomeContext(tool)))
  }

  async #runBefore (call: Call, context: BeforeToolCallContext): Promise<Outcome | undefined> {
    try {
      for (const beforeToolCall of this.#before) {
        const answer = await beforeToolCall(context, call.signal)
        if (call.isSettled) return undefined
        if (answer?.block === true) {
          return failure('blocked', answer.reason || 'The call was blocked.', answer.terminate === undefined ? {} : { terminate: answer.terminate })
        }
      }
      return undefined
    } catch (cause) {
      return failure('hook_error', messageOf(cause))
    }
  }

  async #execute (call: Call, args: unknown): Promise<{ result: MergedResult, isError: boolean } | Outcome> {
    const { clock } = this.#options
    const { tool } = call
    call.executedAt = clock.monotonic()
    let raw: unknown
    try {
      raw = await tool.execute(
        call.start.toolCallId, args, call.signal, (partial) => this.#update(call, partial), this.#toolContext(call)
      )
    } catch (cause) {
      return { result: { content: [{ type: 'text', text: messageOf(cause) }], details: null }, isError: true }
    } finally {
      call.durationMs = clock.monotonic() - call.executedAt
    }
    try {
      const output = { ...tool.toOutput(raw) }
      return { result: { ...output, content: output.content ?? [], details: output.details ?? null }, isError: output.isError === true }
    } catch (cause) {
      return refusal('invalid_output', tool.descriptor.id, [{ path: '', keyword: 'json', message: `the result cannot be read: ${messageOf(cause)}` }])
    }
  }

  async #runAfter (call: Call, context: BeforeToolCallContext, first: { result: MergedResult, isError: boolean }): Promise<{ result: MergedResult, isError: boolean } | Outcome> {
    let current = first
    try {
      for (const afterToolCall of this.#after) {
        current = mergeAfterToolCall(current, await afterToolCall({ ...context, ...current }, call.signal))
        if (call.isSettled) return current
      }
      return current
    } catch (cause) {
      return failure('hook_error', messageOf(cause))
    }
  }

  #update (call: Call, partial: unknown): void {
    if (call.isSettled || call.durationMs !== undefined) return
    const { limits, store } = this.#options
    if (call.updates >= limits.maxUpdates) {
      if (call.updates++ === limits.maxUpdates) this.#warn(call, 'a call reached the limit of updates; further ones are dropped')
      this.counters.updatesDropped++
      return
    }
    call.updates++
    const text = call.tool.sensitive ? redactedResult(false) : partialText(partial, limits.maxJsonDepth)
    if (text === undefined) {
      if (this.counters.updatesInvalid++ === 0) this.#warn(call, 'a partial result is not valid and was dropped')
      return
    }
    Promise.resolve(store.progress(call.invocationId, text)).catch(() => this.#warn(call, 'an update could not be recorded'))
  }

  #abort (call: Call, reason: AbortReason): void {
    if (call.isSettled) return
    void this.#settle(call, failure(reason, abortTexts[reason](call)))
    call.abort(reason)
  }

  /** Decides how the call ends, exactly once, and answers once that is on record. */
  async #settle (call: Call, outcome: Outcome): Promise<void> {
    if (call.isSettled) return
    call.isSettled = true
    const { clock, store } = this.#options
    const executed = call.executedAt !== undefined
    const end: CallEnd = {
      ...outcome,
      executed,
      durationMs: executed ? roundMicros(call.durationMs ?? clock.monotonic() - call.executedAt!) : 0,
      queuedMs: undefined
    }
    try {
      await store.settle(call.invocationId, call.tool.sensitive ? { ...end, result: redactedResult(end.isError) } : end)
    } catch (cause) {
      this.#options.log.error({ invocation: call.invocationId, tool: call.start.toolId, err: cause }, 'the end of a call could not be recorded')
    }
    this.#running.delete(call)
    this.#logEnd(call, end)
    call.resolve(new Settlement(call.start, end))
    if (this.#running.size === 0) this.#onIdle?.()
  }

  /** What no stage foresaw. The call must not be left without an end. */
  #lose (call: Call, cause: unknown): void {
    this.#options.log.error({ invocation: call.invocationId, tool: call.start.toolId, err: cause }, 'a call failed inside the gateway')
    void this.#settle(call, failure('hook_error', 'The gateway failed to run the call.'))
  }

  #logEnd (call: Call, end: CallEnd): void {
    const fields = { tool: call.start.toolId, invocation: call.invocationId, status: end.status, durationMs: end.durationMs }
    this.#options.log.info(end.errorCode === undefined ? fields : { ...fields, errorCode: end.errorCode }, 'invocation')
  }

  #warn (call: Call, message: string): void {
    this.#options.log.warn({ tool: call.start.toolId, invocation: call.invocationId }, message)
  }

  #outcomeContext (tool: RegisteredTool): OutcomeContext {
    const { limits, log } = this.#options
    return { tool, limits, log, count: (event) => { this.counters[event]++ } }
  }

  #toolContext (call: Call): ToolContext {
    const { invocationId, runId } = call.start
    return {
      invocationId,
      ...(runId === undefined ? {} : { runId }),
      spanId: spanIdOf(invocationId),
      principal: call.principal,
      log: this.#options.log,
      attempt: 1
    }
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

function inputText (input: unknown, maxJsonDepth: number): string {
  try {
    return stringifyJson(input, maxJsonDepth)
  } catch (cause) {
    throw new GatewayError('invalid_request', `The input is not JSON: ${(cause as NotJsonError).message}`, { cause })
  }
}

function roundMicros (ms: number): number {
  return Math.round(ms * 1000) / 1000
}
