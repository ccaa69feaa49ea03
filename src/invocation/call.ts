import { receiptText, responseText } from '../store/wire.ts'
import type { CallEnd, CallStart, Maybe, StoredEvent } from '../store/store.ts'
import type { RegisteredTool } from '../tools/registered-tool.ts'
import type { Log, Principal } from '../tools/tool.ts'
import { GatewayError, outcomeHttpStatus } from '../errors.ts'
import type { Dated } from './deadlines.ts'
import type { Masking } from './masking.ts'
import type { Outcome } from './outcome.ts'
import type { Lane, Place, Slotted, Standing } from './lane.ts'

export type AbortReason = 'timeout' | 'cancelled' | 'shutdown'

/** How a call ended, as its caller is told: with all of its result. */
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

/** What a call is from its arrival on. */
export interface CallOrigin {
  start: CallStart
  tool: RegisteredTool
  input: unknown
  /** The input as it was sent, whatever hooks and tool do to it. */
  text: string
  principal: Principal
  parent: Call | undefined
  lane: Lane
  isAsync: boolean
  /** What is masked of it; undefined where nothing is. */
  masking: Masking | undefined
  /** How often it was run before the gateway was started. */
  attemptsBefore: number
}

interface Waiting {
  resolve: (settlement: Settlement) => void
  reject: (error: GatewayError) => void
}

/** What a tool is about to be given, or why it is given nothing. */
export type Prepared = { args: unknown } | { refused: Outcome }

const none: ReadonlySet<Call> = new Set()

/** One call while it runs. The invoker moves it along, and the slots its standing; nobody else writes its state. */
export class Call implements Dated<Call>, Slotted {
  readonly start: CallStart
  readonly tool: RegisteredTool
  readonly input: unknown
  readonly principal: Principal
  readonly parent: Call | undefined
  readonly root: Call
  descendants = 0
  /** Calls above it. */
  readonly depth: number
  #children: Set<Call> | undefined
  lane: Lane
  standing: Standing = 'admitted'
  place: Place | undefined
  inner: Lane | undefined
  readonly isAsync: boolean
  readonly masking: Masking | undefined
  /** On the monotonic clock; Infinity once it no longer matters. */
  deadline: number
  previous: Call | undefined
  next: Call | undefined
  /** The input as it was sent, whatever hooks and tool do to it. */
  readonly inputText: string
  #controller: AbortController | undefined
  #abortedBy: AbortReason | undefined
  #settlement: Settlement | undefined
  #unrecorded: GatewayError | undefined
  #waiting: Set<Waiting> | undefined

  /** Set where it has to wait for a slot, on the monotonic clock. */
  queuedAt: number | undefined
  /** Set once `execute` is about to run, on the monotonic clock. */
  executedAt: number | undefined
  /** What `execute` took, once it is over. */
  durationMs: number | undefined
  /** Set in the step that decides how the call ends; whatever comes later has no effect. */
  isSettled = false
  /** How often it was run before the gateway was started. */
  readonly attemptsBefore: number
  updates = 0
  /** A place in the log before the call's start event. */
  startsAfter = 0
  /** How it ended, from the step that decided it: with a result that is neither withheld nor masked, as the record's may be. */
  end: CallEnd | undefined

  /** What was done already while the call was being recorded: its input, and the mark that it is about to execute. */
  prepared: Prepared | undefined
  marked: Maybe<true> | undefined

  /** Calls off the look at whether it goes on after it was stopped. */
  unwatch: (() => void) | undefined

  constructor ({ start, tool, input, text, principal, parent, lane, isAsync, masking, attemptsBefore }: CallOrigin, arrivedAt: number) {
    this.start = start
    this.inputText = text
    this.tool = tool
    this.input = input
    this.principal = principal
    this.deadline = arrivedAt + start.timeoutMs
    this.parent = parent
    this.root = parent?.root ?? this
    this.depth = parent === undefined ? 0 : parent.depth + 1
    this.lane = lane
    this.isAsync = isAsync
    this.masking = masking
    this.attemptsBefore = attemptsBefore
    this.prepared = undefined
    this.marked = undefined
  }

  get timeoutMs (): number {
    return this.start.timeoutMs
  }

  get toolId (): string {
    return this.start.toolId
  }

  /** Child calls that have not settled. */
  get children (): ReadonlySet<Call> {
    return this.#children ?? none
  }

  addChild (child: Call): void {
    (this.#children ??= new Set()).add(child)
  }

  deleteChild (child: Call): void {
    this.#children?.delete(child)
  }

  get invocationId (): string {
    return this.start.invocationId
  }

  /** How the call ended, once that is on record. Rejects with {@link GatewayError} `not_recorded` where it never will be. */
  get settled (): Maybe<Settlement> {
    return this.#settlement ?? new Promise((resolve, reject) => this.#wait({ resolve, reject }))
  }

  /** The same, or undefined once `over` resolves. Who goes on without it leaves nothing behind, however long the call runs. */
  settledBefore (over: Promise<undefined>): Maybe<Settlement | undefined> {
    return this.#settlement ?? new Promise((resolve, reject) => {
      const waiting: Waiting = { resolve, reject }
      this.#wait(waiting)
      void over.then(() => {
        this.#waiting?.delete(waiting)
        resolve(undefined)
      })
    })
  }

  #wait (waiting: Waiting): void {
    if (this.#unrecorded === undefined) (this.#waiting ??= new Set()).add(waiting)
    else waiting.reject(this.#unrecorded)
  }

  /** Made once somebody asks for it. */
  get signal (): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController()
      if (this.#abortedBy !== undefined) this.abort(this.#abortedBy)
    }
    return this.#controller.signal
  }

  /** Tells hooks and tool that nobody waits for them any more. */
  abort (reason: AbortReason): void {
    this.#abortedBy = reason
    this.#controller?.abort(reason === 'timeout'
      ? new DOMException(`The call took longer than ${this.timeoutMs} ms.`, 'TimeoutError')
      : new DOMException(reason === 'shutdown' ? 'The gateway is shutting down.' : 'The call was cancelled.', 'AbortError'))
  }

  /** Whether the tool began to run, now or before the gateway was started. */
  get hasExecuted (): boolean {
    return this.executedAt !== undefined || this.attemptsBefore > 0
  }

  /** Whether the tool is done with it, or it has settled without. */
  get isOver (): boolean {
    return this.isSettled || this.durationMs !== undefined
  }

  /** Tells everyone who waits how the call ended. */
  resolve (settlement: Settlement): void {
    this.#settlement = settlement
    this.#waiting?.forEach(({ resolve }) => resolve(settlement))
    this.#waiting = undefined
  }

  /** Tells everyone who waits that how the call ended is on record nowhere: another start may give it another end. */
  abandon (): void {
    const unrecorded = new GatewayError('not_recorded', 'The gateway stopped before the end of the call could be recorded.')
    this.#unrecorded = unrecorded
    this.#waiting?.forEach(({ reject }) => reject(unrecorded))
    this.#waiting = undefined
  }

  /** An event of this call as its own caller may have it: with what is withheld or masked of its input and its result. */
  reveal (event: StoredEvent): StoredEvent {
    return { ...event, start: { ...event.start, input: this.inputText, isMasked: false }, end: event.end && this.end }
  }

  /** `log` for lines about this call, which have nothing of what is masked. */
  ownLog (log: Log): Log {
    return this.masking === undefined ? log : this.masking.log(log)
  }

  /** The receipt of the call as it runs. */
  get runningReceipt (): string {
    return receiptText(this.start, undefined)
  }
}

const abortTexts: Record<AbortReason, (call: Call) => string> = {
  timeout: ({ toolId, timeoutMs }) => `The call of tool "${toolId}" took longer than ${timeoutMs} ms and was stopped.`,
  cancelled: ({ toolId }) => `The call of tool "${toolId}" was cancelled.`,
  shutdown: ({ toolId }) => `The gateway stopped before the call of tool "${toolId}" ended.`
}

/** What the caller of a call that was stopped is told. */
export function abortText (call: Call, reason: AbortReason): string {
  return abortTexts[reason](call)
}
