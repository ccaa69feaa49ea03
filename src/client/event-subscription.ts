import { EventsLost, ToolExecutionEndEvent, ToolExecutionStartEvent, ToolExecutionUpdateEvent, type ToolExecutionEvent } from '../contract/event.ts'
import { ConnectionError, ProblemError, ProtocolError, type ClientError } from './errors.ts'
import { backoffMs, elapsed, isPassing } from './retry.ts'
import { assertShape } from './shapes.ts'
import { readMessages, type StreamMessage } from './stream-messages.ts'
import { placeEvent } from './place-marker.ts'
import type { Transport } from './transport.ts'

/** Told in its place among the events: those after `requestedId` are gone, and everything that is kept follows. */
export interface EventsLostNotice extends EventsLost { type: 'events_lost' }

export type SubscriptionItem = ToolExecutionEvent | EventsLostNotice

export interface FollowOptions {
  /** The id of the last event already held, or `earliest` for all that is kept; absent, the stream starts now. */
  lastEventId?: string | undefined
  /** Ends the subscription: the loop over it is left as if the stream were over. */
  signal?: AbortSignal | undefined
  /** Told each time that the stream stands: what happens from then on is not missed. */
  onOpen?: (() => void) | undefined
  /** Told each time that the stream is lost and will be asked for again, with the reason and the wait before. */
  onReconnect?: ((reason: ClientError | undefined, delayMs: number) => void) | undefined
  /** A connection that brings nothing for so long is given up, milliseconds. Default 45,000: three signs of life of a gateway. */
  silenceMs?: number | undefined
}

/** Garbage in a row, without one event between, after which there is no use in asking again. */
const MAX_GARBAGE = 5

const schemas: Readonly<Record<string, { static: ToolExecutionEvent } & object>> = {
  tool_execution_start: ToolExecutionStartEvent,
  tool_execution_update: ToolExecutionUpdateEvent,
  tool_execution_end: ToolExecutionEndEvent
}

/**
 * Events of a gateway, one after the other, for as long as they are asked for.
 *
 * Contract:
 * - Each event once and in order, whatever becomes of the connection: it is asked for again with the last id.
 * - Where that cannot be, `events_lost` says so before what follows.
 * - Nothing is read ahead beyond what the connection has buffered: a slow loop costs no memory.
 * - One loop at a time. Leaving it closes the connection; a new loop goes on after the last event that was given out.
 *
 * Its loop throws {@link ProblemError} where the gateway refuses for good, {@link ProtocolError} where something else
 * answers, and {@link ConnectionError} where a first connection cannot be made. Once it stood, it is tried again for ever.
 */
export class EventSubscription implements AsyncIterable<SubscriptionItem> {
  readonly #transport: Transport
  readonly #path: string
  readonly #query: string
  readonly #options: FollowOptions
  /** Whether it follows one call, and is over after its end event. */
  readonly #untilEnd: boolean
  #lastEventId: string | undefined
  #retryMs: number | undefined

  constructor (transport: Transport, path: string, query: string, options: FollowOptions, untilEnd = false) {
    this.#transport = transport
    this.#path = path
    this.#query = query
    this.#options = options
    this.#untilEnd = untilEnd
    this.#lastEventId = options.lastEventId
  }

  /**
   * The place up to which everything has been given out: that of the event in hand, or beyond it where the stream has
   * told of nothing new. Kept and given to a later subscription as `lastEventId`, it goes on from here.
   */
  get lastEventId (): string | undefined {
    return this.#lastEventId
  }

  async * [Symbol.asyncIterator] (): AsyncGenerator<SubscriptionItem, void, undefined> {
    const { signal } = this.#options
    // Of its own for each loop, so that leaving one closes its connection and no other.
    const leaving = new AbortController()
    const stop = signal === undefined ? leaving.signal : AbortSignal.any([signal, leaving.signal])
    let failures = 0
    let garbage = 0
    let hasStood = false
    try {
      while (!stop.aborted) {
        let reason: ClientError | undefined
        try {
          const response = await this.#open(stop, hasStood)
          if (response === undefined) return
          hasStood = true
          this.#options.onOpen?.()
          for await (const item of this.#read(response)) {
            failures = garbage = 0
            if (item === undefined) continue
            yield item
            if (stop.aborted || (this.#untilEnd && item.type === 'tool_execution_end')) return
          }
        } catch (error) {
          if (stop.aborted) return
          if (error instanceof ProtocolError) garbage++
          if (!isLoss(error) || !hasStood || garbage >= MAX_GARBAGE) throw error
          reason = error
        }
        const { minDelayMs, maxDelayMs } = this.#transport.retry
        const asked = reason instanceof ProblemError ? reason.retryAfterMs : undefined
        const delayMs = Math.max(asked ?? 0, backoffMs(++failures, { minDelayMs: this.#retryMs ?? minDelayMs, maxDelayMs }, Math.random()))
        this.#options.onReconnect?.(reason, delayMs)
        await elapsed(delayMs, stop)
      }
    } finally {
      leaving.abort()
    }
  }

  #open (signal: AbortSignal, isAgain: boolean): Promise<Response | undefined> {
    const id = this.#lastEventId
    // A page's script may not set the header across origins without asking first; the query says the same.
    const query = id === undefined || this.#untilEnd ? this.#query : `${this.#query}${this.#query === '' ? '?' : '&'}lastEventId=${encodeURIComponent(id)}`
    return this.#transport.stream({
      method: 'GET',
      path: this.#path + query,
      ...(id !== undefined && this.#untilEnd ? { headers: { 'last-event-id': id } } : {}),
      signal,
      isRepeatable: true,
      ...(isAgain ? { retries: 0 } : {})
    })
  }

  /** A connection's events; undefined for a sign of life. */
  async * #read (response: Response): AsyncGenerator<SubscriptionItem | undefined, void, undefined> {
    const { silenceMs = 45_000 } = this.#options
    for await (const message of readMessages(response, { silenceMs, onRetry: (ms) => { this.#retryMs = ms } })) {
      const item = itemOf(message, response.status)
      if (message.id !== undefined) this.#lastEventId = message.id
      yield item
    }
  }
}

/** Whether coming back may help: the connection was lost, or the gateway has no room or is starting again. */
function isLoss (error: unknown): error is ClientError {
  return error instanceof ConnectionError || error instanceof ProtocolError || (error instanceof ProblemError && isPassing(error.code))
}

/**
 * What a message says; undefined for a place, and for what later versions may have to tell.
 * @throws {ProtocolError} where it is not what a gateway sends
 */
export function itemOf ({ event, data }: StreamMessage, status: number): SubscriptionItem | undefined {
  const schema = Object.hasOwn(schemas, event) ? schemas[event] : undefined
  if (event === placeEvent || (schema === undefined && event !== 'events_lost')) return undefined
  let value: unknown
  try {
    value = JSON.parse(data)
  } catch (cause) {
    throw new ProtocolError('An event is not JSON.', status, { cause })
  }
  if (schema !== undefined) return assertShape(schema, value, 'An event', status)
  const { requestedId, earliestId } = assertShape(EventsLost, value, 'An event', status)
  return { type: 'events_lost', requestedId, earliestId }
}
