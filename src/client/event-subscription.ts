import { EventsLost, ToolExecutionEndEvent, ToolExecutionStartEvent, ToolExecutionUpdateEvent, type ToolExecutionEvent } from '../contract/event.ts'
import { ConnectionError, ProblemError, ProtocolError, type ClientError } from './errors.ts'
import { backoffMs, elapsed, isPassing, MAX_TIMER_MS } from './retry.ts'
import { assertShape } from './shapes.ts'
import { readMessages, type StreamMessage } from './stream-messages.ts'
import { mayTryAgain, type Transport } from './transport.ts'

/** Told in its place among the events: those after `requestedId` are gone, and everything that is kept follows. */
export interface EventsLostNotice extends EventsLost { type: 'events_lost' }

export type SubscriptionItem = ToolExecutionEvent | EventsLostNotice

export interface FollowOptions {
  /** The id of the last event already held, or `earliest` for all that is kept; absent, the stream starts now. */
  lastEventId?: string | undefined
  /** Ends the subscription, whatever it is waiting for: the loop over it is left as if the stream were over. */
  signal?: AbortSignal | undefined
  /** Told each time that the stream stands: what happens from then on is not missed, whatever becomes of the connection. */
  onOpen?: (() => void) | undefined
  /** Told each time that the stream is lost or cannot be had, with the reason where there is one, and the wait before the next try. */
  onReconnect?: ((reason: ClientError | undefined, delayMs: number) => void) | undefined
  /** A connection that brings nothing for so long is given up, milliseconds. Default 45,000: three signs of life of a gateway. */
  silenceMs?: number | undefined
}

/** Garbage in a row, without getting any further, after which there is no use in asking again. */
const MAX_GARBAGE = 5
/** A gateway that would have a client stay away for longer is asked after this time all the same, milliseconds. */
const MAX_ASKED_MS = 60_000

const schemas = new Map<string, { static: ToolExecutionEvent } & object>([
  ['tool_execution_start', ToolExecutionStartEvent],
  ['tool_execution_update', ToolExecutionUpdateEvent],
  ['tool_execution_end', ToolExecutionEndEvent]
])

/**
 * Events of a gateway, one after the other, for as long as they are asked for.
 *
 * Contract:
 * - Each event once and in order, whatever becomes of the connection: it is asked for again with the last id.
 * - Where that cannot be, `events_lost` says so before what follows. Where the connection is lost again before the next
 *   event, it says so once more.
 * - Nothing is read ahead beyond what the connection has buffered: a slow loop costs no memory.
 * - One loop at a time. Leaving it closes the connection. A new loop goes on after the last event that was given out, also
 *   where the loop was left because of that event.
 *
 * Its loop throws {@link ProblemError} where the gateway refuses for good, {@link ProtocolError} where something else
 * answers, and {@link ConnectionError} where a first connection cannot be made, in as many tries as the client is set to.
 * Once it stood, it is tried again for ever; only garbage, several times in a row, ends it.
 */
export class EventSubscription implements AsyncIterable<SubscriptionItem> {
  readonly #transport: Transport
  readonly #path: string
  readonly #query: string
  readonly #options: FollowOptions
  readonly #silenceMs: number
  /** Whether it follows one call, and is over after its end event. */
  readonly #untilEnd: boolean
  #lastEventId: string | undefined
  #isRead = false
  /** What the gateway asks for before a connection that was lost is made again. */
  #retryMs = 0
  /** Tries in a row that came to nothing. */
  #failures = 0
  #garbage = 0

  constructor (transport: Transport, path: string, query: string, options: FollowOptions, untilEnd = false) {
    this.#transport = transport
    this.#path = path
    this.#query = query
    this.#options = options
    this.#silenceMs = Math.min(options.silenceMs ?? 45_000, MAX_TIMER_MS)
    this.#untilEnd = untilEnd
    this.#lastEventId = options.lastEventId || undefined
  }

  /**
   * The place up to which everything has been given out: that of the event in hand, or beyond it where the stream has
   * told of nothing new. Kept and given to a later subscription as `lastEventId`, it goes on from here.
   */
  get lastEventId (): string | undefined {
    return this.#lastEventId
  }

  /** For `for await`. Its `return()` closes the connection at once, also while `next()` waits, which is then done. */
  [Symbol.asyncIterator] (): AsyncGenerator<SubscriptionItem, void, undefined> {
    // Of its own for each loop, so that leaving one closes its connection and no other.
    const leaving = new AbortController()
    const items = this.#items(leaving)
    // A generator's own waits until the generator has something to give out.
    const leave = items.return.bind(items)
    items.return = (value) => {
      leaving.abort()
      return leave(value)
    }
    return items
  }

  async * #items (leaving: AbortController): AsyncGenerator<SubscriptionItem, void, undefined> {
    if (this.#isRead) throw new TypeError('One loop at a time reads a subscription. Ask for another one.')
    const { signal, onReconnect } = this.#options
    const stop = signal === undefined ? leaving.signal : AbortSignal.any([signal, leaving.signal])
    let hasStood = false
    this.#isRead = true
    this.#failures = this.#garbage = 0
    try {
      while (!stop.aborted) {
        let reason: ClientError | undefined
        // A signal of its own: what is left on it goes with the connection, however many there are.
        const connection = new AbortController()
        const hangUp = () => connection.abort()
        stop.addEventListener('abort', hangUp)
        try {
          const response = await this.#open(connection)
          if (response === undefined) return
          hasStood = true
          for await (const item of this.#read(response)) {
            yield item
            if (stop.aborted || (this.#untilEnd && item.type === 'tool_execution_end')) return
          }
        } catch (error) {
          if (stop.aborted) return
          if (!(hasStood ? this.#mayComeBack(error) : this.#mayTryFirst(error))) throw error
          reason = error as ClientError
        } finally {
          stop.removeEventListener('abort', hangUp)
          hangUp()
        }
        const delayMs = this.#delayMs(reason)
        onReconnect?.(reason, delayMs)
        await elapsed(delayMs, stop)
      }
    } finally {
      this.#isRead = false
      leaving.abort()
    }
  }

  /** Asks for the stream, once. Headers that do not come are a silence, too. */
  async #open (connection: AbortController): Promise<Response | undefined> {
    const id = this.#lastEventId
    // A page's script may not set the header across origins without asking first; the query says the same.
    const query = id === undefined || this.#untilEnd ? this.#query : `${this.#query}${this.#query === '' ? '?' : '&'}lastEventId=${encodeURIComponent(id)}`
    const timer = setTimeout(() => connection.abort(new ConnectionError('interrupted', `There was no answer within ${this.#silenceMs} ms.`)), this.#silenceMs)
    try {
      return await this.#transport.stream({
        method: 'GET',
        path: this.#path + query,
        ...(id !== undefined && this.#untilEnd ? { headers: { 'last-event-id': id } } : {}),
        signal: connection.signal,
        isRepeatable: true,
        retries: 0
      })
    } finally {
      clearTimeout(timer)
    }
  }

  /** A connection's events. The place moves with what is taken, not with what has arrived. */
  async * #read (response: Response): AsyncGenerator<SubscriptionItem, void, undefined> {
    let toTell = this.#options.onOpen
    const stands = () => {
      toTell?.()
      toTell = undefined
    }
    // A stream that starts now has to say first where that is: lost before, it would start later the next time.
    if (this.#lastEventId !== undefined || this.#untilEnd) stands()
    for await (const message of readMessages(response, { silenceMs: this.#silenceMs, onRetry: (ms) => { this.#retryMs = ms } })) {
      const item = itemOf(message, response.status)
      if (message.id) {
        stands()
        this.#failures = 0
        if (message.id !== this.#lastEventId) this.#garbage = 0
        this.#lastEventId = message.id
      }
      if (item !== undefined) yield item
    }
  }

  #mayTryFirst (error: unknown): boolean {
    return mayTryAgain(error, true) && this.#failures < this.#transport.retry.retries
  }

  /** Whether what was there once may be there again: the connection was lost, or the gateway has no room or is starting again. */
  #mayComeBack (error: unknown): boolean {
    if (error instanceof ProblemError) return isPassing(error.code) || error.status >= 500
    // What stands before a gateway answers in its place while it is away.
    if (error instanceof ProtocolError) return error.status >= 500 || ++this.#garbage < MAX_GARBAGE
    return error instanceof ConnectionError
  }

  /** The wait before the next try. The client's own limits hold for what a stream asked for, but not for a refusal's `Retry-After`. */
  #delayMs (reason: ClientError | undefined): number {
    const { minDelayMs, maxDelayMs } = this.#transport.retry
    const asked = reason instanceof ProblemError ? reason.retryAfterMs ?? 0 : 0
    const delayMs = backoffMs(++this.#failures, { minDelayMs: Math.max(minDelayMs, this.#retryMs), maxDelayMs }, Math.random())
    return Math.max(Math.min(asked, MAX_ASKED_MS), delayMs)
  }
}

/**
 * What a message says; undefined for a place, and for what later versions may have to tell.
 * @throws {ProtocolError} where it is not what a gateway sends
 */
export function itemOf ({ id, event, data }: StreamMessage, status: number): SubscriptionItem | undefined {
  const schema = schemas.get(event)
  if (schema === undefined && event !== 'events_lost') return undefined
  let value: unknown
  try {
    value = JSON.parse(data)
  } catch (cause) {
    throw new ProtocolError('An event is not JSON.', status, { cause })
  }
  if (schema === undefined) {
    const { requestedId, earliestId } = assertShape(EventsLost, value, 'An event', status)
    return { type: 'events_lost', requestedId, earliestId }
  }
  // Nothing could be resumed after it.
  if (!id) throw new ProtocolError('An event has no id.', status)
  return assertShape(schema, value, 'An event', status)
}
