import type { ToolExecutionEventType } from '../contract/event.ts'
import type { FinalStatus, InvocationStatus, OutcomeCode } from '../contract/invocation.ts'
import type { CallSight } from './call-sight.ts'

/**
 * An answer now, or a promise of it. Drivers that hold everything in memory answer now, and whoever asks goes on at once:
 * a call of a tool that does not wait then settles in the turn in which it arrived.
 */
export type Maybe<T> = T | Promise<T>

/** Goes on with an answer: at once where it is there, later where it is promised. */
export function chain<T, U> (answer: Maybe<T>, next: (value: T) => Maybe<U>): Maybe<U> {
  return answer instanceof Promise ? answer.then(next) : next(answer)
}

/** A tool, as far as rights go by it. */
export interface ToolIdentity {
  readonly toolId: string
  readonly kind: string
}

/** Who called what, and when. Never changes. */
export interface CallIdentity {
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
  /** Whether a running tool made it, by `context.invoke`. */
  readonly isChild: boolean
  /** Of a child call: the tool that made it, where that is known. */
  readonly parentTool?: ToolIdentity | undefined
  /** Who called. */
  readonly principalId: string
  /** Time it was given, milliseconds. */
  readonly timeoutMs: number
}

/** The same, with what was asked. */
export interface CallStart extends CallIdentity {
  /** JSON text of the input as the caller sent it, but for what is masked; undefined where it is withheld. */
  readonly input: string | undefined
  /** Whether parts of the input are masked: it is not what the tool was given. */
  readonly isMasked?: boolean
}

/** How a call ended, without what came out of it. */
export interface CallVerdict {
  readonly status: FinalStatus
  readonly errorCode: OutcomeCode | undefined
  /** What `execute` took, milliseconds. */
  readonly durationMs: number
  readonly queuedMs: number | undefined
}

/** How a call ended. */
export interface CallEnd extends CallVerdict {
  readonly isError: boolean
  /** JSON text of the whole ToolResult, redacted where the tool is sensitive or values in it are masked. */
  readonly result: string
  /** Whether `execute` began. */
  readonly executed: boolean
}

/** The record of one invocation. */
export interface StoredCall {
  readonly start: CallStart
  /** The place of its start event in the log. */
  readonly startSequence: number
  /** How often it was marked as about to execute. */
  readonly attempts: number
  /** Absent while it runs. */
  readonly end: CallEnd | undefined
  /** The place of its end event in the log. */
  readonly endSequence: number | undefined
}

/** A record as lists have it. */
export interface ListedCall {
  readonly start: CallIdentity
  readonly end: CallVerdict | undefined
}

/** An idempotency key that a call claims for as long as it is kept. */
export interface KeyClaim {
  /** Stands for the caller, the tool and the key together. */
  readonly scope: string
  /** The same for JSON-equal inputs. */
  readonly fingerprint: string
  /** Epoch milliseconds; the later the claim is made, the later it ends. */
  readonly untilMs: number
}

/** The call that holds a key already. */
export interface Earlier {
  readonly call: StoredCall
  readonly fingerprint: string
}

/** Which records a list is to hold. An absent name lets everything through; a present one, its values. */
export interface CallFilter {
  readonly toolId?: readonly string[] | undefined
  readonly kind?: readonly string[] | undefined
  readonly status?: readonly InvocationStatus[] | undefined
  readonly runId?: readonly string[] | undefined
  /** Arrived then or later, epoch milliseconds. */
  readonly from?: number | undefined
  /** Arrived before then, epoch milliseconds. */
  readonly to?: number | undefined
  readonly principalId?: readonly string[] | undefined
  /** What the reader may see; absent, everything. */
  readonly sight?: CallSight | undefined
}

export interface CallPage {
  /** Newest first. */
  readonly calls: readonly ListedCall[]
  /** The place to go on from; undefined where nothing older is there. */
  readonly next: number | undefined
}

/** One place in the log: an event, with the call that it is about. */
export interface StoredEvent {
  /** Its place in the log: whole numbers from 1, rising without gaps. */
  readonly sequence: number
  readonly type: ToolExecutionEventType
  /** With its input in a start event; the others may come without. */
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
   * Records a call and its start event, and the key that it claims.
   *
   * A key is held from then on until its time is over, or its call ends without having executed. The record of a call that
   * holds one is kept for as long, whatever the bounds.
   *
   * @returns undefined; or the call that holds the key, and then nothing was recorded
   * @throws {GatewayError} `store_unavailable` where it cannot be recorded; `overloaded` where as many keys are held as may
   *   be. Then nothing was recorded
   */
  begin (start: CallStart, key?: KeyClaim): Maybe<Earlier | undefined>

  /** The call that holds a key; undefined where none does. */
  holder (scope: string): Maybe<Earlier | undefined>

  /**
   * Marks a call as about to execute. A call never marked may always be run again. Without effect once it has settled.
   * @throws {GatewayError} `store_unavailable` where it cannot be recorded
   */
  mark (invocationId: string): Maybe<void>

  /**
   * Appends an update event. Without effect once the call has settled.
   * @throws {GatewayError} `store_unavailable` where it cannot be recorded; the update is lost
   */
  progress (invocationId: string, partialResult: string): Maybe<void>

  /**
   * Records how a call ended, with its end event.
   * @returns false where it had settled already; then nothing changed
   * @throws {GatewayError} `store_unavailable` where it cannot be recorded; it may be tried again
   */
  settle (invocationId: string, end: CallEnd): Maybe<boolean>

  get (invocationId: string): Maybe<StoredCall | undefined>

  /** Calls begun and not settled, oldest first. */
  unsettled (): Maybe<readonly StoredCall[]>

  /**
   * Lists records, newest first.
   *
   * @param before the `next` of the page before; undefined for the first page. Going on from it gives each record that was
   *   there all the while once, whatever arrives and settles meanwhile
   * @param limit records a page holds at most
   */
  list (filter: CallFilter, before: number | undefined, limit: number): Maybe<CallPage>

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

  /** Why nothing can be recorded at the moment, for the people who run this; undefined where all is well. */
  readonly fault: string | undefined

  /** The last place committed; 0 in an empty log. */
  readonly head: number

  /** The oldest place kept; `head + 1` where none is. */
  readonly earliest: number

  /** The public id of a place: `epoch-sequence`, the same for every client. */
  eventId (sequence: number): string

  /**
   * An id of the same place that tells nothing of how many others there are: for readers who may not see all of them. It
   * names the place for every client, as long as the log is there.
   *
   * @param isPlace the id is not an event's: then it is another one each time, so that two do not tell whether anything
   *   happened between them
   */
  sealedId (sequence: number, isPlace?: boolean): string

  /** The place that an id of either kind names in this log, or undefined where it is malformed, of another log, or past the end. */
  locate (id: string): number | undefined

  close (): Maybe<void>
}
