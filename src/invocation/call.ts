import { receiptText, responseText } from '../store/wire.ts'
import type { CallEnd, CallStart } from '../store/store.ts'
import type { RegisteredTool } from '../tools/registered-tool.ts'
import type { Principal } from '../tools/tool.ts'
import { outcomeHttpStatus } from '../errors.ts'

export type AbortReason = 'timeout' | 'cancelled' | 'shutdown'

/** How a call ended, as its caller is told: sensitive results included. */
export class Settlement {
  readonly start: CallStart
  readonly end: CallEnd

  constructor (start: CallStart, end: CallEnd) {
    this.start = start
    this.end = end
  }

  /** 400 and above exactly where the tool did not run. */
  get httpStatus (): number {
    return this.end.errorCode === undefined ? 200 : outcomeHttpStatus(this.end.errorCode, this.end.executed)
  }

  /** JSON text of the InvokeResponse. */
  get responseText (): string {
    return responseText(this.end.result, this.start, this.end)
  }
}

/** One call while it runs. The invoker moves it along; nobody else writes its state. */
export class Call {
  readonly start: CallStart
  readonly tool: RegisteredTool
  readonly input: unknown
  readonly principal: Principal
  readonly timeoutMs: number
  /** On the monotonic clock. */
  readonly deadline: number
  readonly settled: Promise<Settlement>
  readonly #controller = new AbortController()
  #resolve!: (settlement: Settlement) => void

  /** Set once `execute` is about to run, on the monotonic clock. */
  executedAt: number | undefined
  /** What `execute` took, once it is over. */
  durationMs: number | undefined
  /** Set in the step that decides how the call ends; whatever comes later has no effect. */
  isSettled = false
  updates = 0
  /** A place in the log before the call's start event. */
  startsAfter = 0

  constructor (start: CallStart, tool: RegisteredTool, input: unknown, principal: Principal, timeoutMs: number, arrivedAt: number) {
    this.start = start
    this.tool = tool
    this.input = input
    this.principal = principal
    this.timeoutMs = timeoutMs
    this.deadline = arrivedAt + timeoutMs
    this.settled = new Promise((resolve) => { this.#resolve = resolve })
  }

  get invocationId (): string {
    return this.start.invocationId
  }

  get signal (): AbortSignal {
    return this.#controller.signal
  }

  /** Tells hooks and tool that nobody waits for them any more. */
  abort (reason: AbortReason): void {
    this.#controller.abort(reason === 'timeout'
      ? new DOMException(`The call took longer than ${this.timeoutMs} ms.`, 'TimeoutError')
      : new DOMException(reason === 'shutdown' ? 'The gateway is shutting down.' : 'The call was cancelled.', 'AbortError'))
  }

  resolve (settlement: Settlement): void {
    this.#resolve(settlement)
  }

  /** The receipt of the call as it runs. */
  get runningReceipt (): string {
    return receiptText(this.start, undefined)
  }
}
