import type { ToolExecutionEventType } from '../contract/event.ts'
import type { FinalStatus, OutcomeCode } from '../contract/invocation.ts'

/**
 * An answer now, or a promise of it. Drivers that hold everything in memory answer now, and whoever asks goes on at once:
 * a call of a tool that does not wait then settles in the turn in which it arrived.
 */
export type Maybe<T> = T | Promise<T>

/** Goes on with an answer: at once where it is there, later where it is promised. */
export function chain<T, U> (answer: Maybe<T>, next: (value: T) => Maybe<U>): Maybe<U> {
  return answer instanceof Promise ? answer.then(next) : next(answer)
}

/** What is on record of a call from its beginning. Never changes. */
export interface CallStart {
  readonly invocationId: string
  readonly toolId: string
  readonly toolCallId: string
  readonly kind: string
  /** Arrival, epoch milliseconds. */
  readonly startedAtMs: number
  readonly runId: string | undefined
  readonly traceId: string | undefined
  readonly parentSpanId: string | undefined
  readonly parentInvocationId: string | undefined
  /** JSON text of the input as the caller sent it; undefined where it is withheld. */
  readonly input: string | undefined
}

/** How a call ended. */
export interface CallEnd {
  readonly status: FinalStatus
  readonly errorCode: OutcomeCode | undefined
  readonly isError: boolean
  /** JSON text of the whole ToolResult, redacted where the tool is sensitive. */
  readonly result: string
  /** Whether `execute` began. */
  readonly executed: boolean
  /** What `execute` took, milliseconds. */
  readonly durationMs: number
  readonly queuedMs: number | undefined
}

/** The record of one invocation. */
export interface StoredCall {
  readonly start: CallStart
  /** Whether it was marked as about to execute. */
  readonly executing: boolean
  /** Absent while it runs. */
  readonly end: CallEnd | undefined
}

/** One place in the log: an event, with the call that it is about. */
export interface StoredEvent {
  /** Its place in the log: whole numbers from 1, rising without gaps. */
  readonly sequence: number
  readonly type: ToolExecutionEventType
  readonly start: CallStart
  /** JSON text of the partial result; of updates only. */
  readonly partialResult: string | undefined
  /** Of ends only. */
  readonly end: CallEnd | undefined
}

export interface EventPage {
  readonly events: readonly StoredEvent[]
  /** The place up to which the page looked; read on from here. */
  readonly through: number
  /** Whether events between the cursor and the oldest kept are gone. */
  readonly lost: boolean
}

export interface ReadLimits {
  /** Events a page holds at most. */
  readonly events: number
  /** Bytes of JSON text after which a page ends; it always holds one event where there is one. */
  readonly bytes: number
}

/**
 * The durable record of invocations and of their events: two readings of one fact, so one port.
 *
 * Contract:
 * - Writes take effect in the order they are made. Each appends its event in the same transaction.
 * - Events become readable, and reach `follow` listeners, once committed, in log order, each once.
 * - Of one invocation: a start, then updates, then exactly one end.
 * - After `close`, every method that reads or writes throws or rejects with {@link GatewayError} `store_closed`.
 */
export interface Store {
  /**
   * Records a call and its start event.
   * @throws {GatewayError} `store_unavailable` where it cannot be recorded; then nothing was
   */
  begin (start: CallStart): Maybe<void>

  /** Marks a call as about to execute. A call never marked may always be run again. */
  mark (invocationId: string): Maybe<void>

  /** Appends an update event. Without effect once the call has settled. */
  progress (invocationId: string, partialResult: string): Maybe<void>

  /**
   * Records how a call ended, with its end event.
   * @returns false where it had settled already; then nothing changed
   */
  settle (invocationId: string, end: CallEnd): Maybe<boolean>

  get (invocationId: string): Maybe<StoredCall | undefined>

  /** Calls begun and not settled, oldest first. */
  unsettled (): Maybe<readonly StoredCall[]>

  /**
   * Reads events after the place `after`, oldest first.
   *
   * - Each event once, in log order. An empty page means that nothing newer is committed.
   * - `lost` where events after `after` are gone; the page then begins at the oldest kept.
   */
  readEvents (after: number, limits: ReadLimits): Maybe<EventPage>

  /**
   * Calls `listener` with each event, once committed, in log order.
   * The listener must not throw and must not write to the store.
   * @returns how to stop
   */
  follow (listener: (event: StoredEvent) => void): () => void

  /** The last place committed; 0 in an empty log. */
  readonly head: number

  /** The oldest place kept; `head + 1` where none is. */
  readonly earliest: number

  /** The public id of a place: `epoch-sequence`, the same for every client. */
  eventId (sequence: number): string

  /** The place that `id` names in this log, or undefined where it is malformed, of another log, or past the end. */
  locate (id: string): number | undefined

  close (): Maybe<void>
}
