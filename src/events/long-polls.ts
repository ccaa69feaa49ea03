import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Clock } from '../clock.ts'
import { GatewayError } from '../errors.ts'
import type { CallSight } from '../store/call-sight.ts'
import type { PageTurns } from '../store/page-turns.ts'
import type { Store, StoredEvent } from '../store/store.ts'
import { eventText } from '../store/wire.ts'
import { EventListText } from './event-list.ts'
import { eventIdFor, placeId, placeOf } from './event-ids.ts'
import { compileFilter, type EventFilter, type EventView } from './filter.ts'
import type { Room } from './room.ts'

export interface LongPollsOptions {
  store: Store
  clock: Clock
  /** Bytes of args, partialResult or result over which an event leaves them out. */
  maxPartBytes: number
}

export interface PollOptions {
  filter: EventFilter
  view: EventView
  /** The calls that it may see; absent, all. */
  sight?: CallSight | undefined
  /** Whether it may still do so. */
  isCurrent?: () => boolean
  /** The id of the last event already held, or `earliest` for all that is kept; absent, the poll starts now. */
  after?: string | undefined
  /** How long to wait for a first event, milliseconds; with 0 the answer is what there is. */
  waitMs: number
  /** Aborted when the caller is gone. */
  signal: AbortSignal
  /** Aborted once the answer was read, or never will be. Until then the poll counts as a subscriber: it takes as much memory. */
  read?: AbortSignal
}

/** What is read from the store at once. Between two such pages everybody else gets a turn. */
const storePage = { events: 500, bytes: 256 * 1024 }

/**
 * Answers polls: a page of the events after a place, or the first that comes.
 *
 * A poll looks through the store up to its end, and waits where it has looked through all that its followers have been
 * told: the two are compared in the same step in which it begins to wait, so there is no gap. What it is woken for it
 * reads from the store again, so there is one way to collect, and no double.
 */
export class LongPolls {
  readonly #options: LongPollsOptions
  readonly #room: Room
  readonly #turns: PageTurns
  /** Those that wait, and for nothing that was published yet. */
  readonly #waiting = new Set<Poll>()
  #woken: Poll[] = []
  /** Set while somebody waits. */
  #unfollow: (() => void) | undefined
  #published = 0

  /** @param turns for pages, shared with the replays of streams */
  constructor (options: LongPollsOptions, room: Room, turns: PageTurns) {
    this.#options = options
    this.#room = room
    this.#turns = turns
  }

  /**
   * Contract:
   * - Events after `after` that pass the filter, each once, in log order; no more than a page holds.
   * - `next` is the place up to which the log was looked through. It is never past what is committed.
   * - `lost` where events after `after` are gone, or it names no place of this log; then everything kept. A loss is
   *   answered at once. A gap behind events already collected ends the page, and is told to who goes on from `next`.
   * - With nothing to tell, waits for up to `waitMs`, and answers with all that the turn of the first event brought. It
   *   answers at once when the room closes.
   *
   * @returns the text of an EventList; undefined where the caller is gone
   * @throws {GatewayError} `shutting_down`; `too_many_subscribers` where it counts, before anything is read;
   *   `unauthorized` within a second where it may see no more while it waits
   */
  async poll (options: PollOptions): Promise<string | undefined> {
    const { read } = options
    const counts = options.waitMs > 0 || read !== undefined
    if (counts) this.#room.assertPlace()
    else this.#room.assertOpen()
    this.#room.enter(counts)
    const leave = () => this.#room.leave(counts)
    try {
      return await this.#answer(options)
    } catch (error) {
      // At the end of the grace time the store closes on those that still read.
      if (this.#room.isClosed) throw new GatewayError('shutting_down', 'The gateway is shutting down.', { cause: error })
      throw error
    } finally {
      if (read === undefined || read.aborted) leave()
      else read.addEventListener('abort', leave, { once: true })
    }
  }

  /** Wakes those that wait and may see no more. */
  recheck (): void {
    for (const poll of this.#waiting) if (!poll.isCurrent()) poll.wake()
  }

  /** Lets every poll that waits answer with what there is. To be called once the room is closed. */
  close (): void {
    for (const poll of this.#waiting) poll.wake()
  }

  async #answer ({ filter, view, sight, isCurrent, after, waitMs, signal }: PollOptions): Promise<string | undefined> {
    const { store, clock } = this.#options
    const located = after === undefined || after === 'earliest' ? undefined : placeOf(store, after, sight !== undefined)
    const start = after === undefined ? store.head : located ?? store.earliest - 1
    const poll = new Poll(compileFilter(filter, sight), { view, sight, isCurrent, signal }, start)
    if (after !== undefined) poll.loss = after === 'earliest' ? 'none' : located === undefined ? 'certain' : 'possible'
    if (after !== 'earliest') poll.requestedId = after

    let isOver = waitMs <= 0
    const end = () => {
      isOver = true
      poll.wake()
    }
    const stopTimer = isOver ? undefined : clock.after(waitMs, end)
    signal.addEventListener('abort', end)
    try {
      for (;;) {
        await this.#collect(poll)
        if (signal.aborted) return undefined
        if (!poll.isCurrent()) throw new GatewayError('unauthorized', 'The credentials of this poll are no longer valid.', { refusedFor: 'expired or revoked meanwhile' })
        if (poll.list.hasNews || isOver || this.#room.isClosed) return poll.list.finish(placeId(store, poll.cursor, sight !== undefined))
        await this.#wait(poll)
      }
    } finally {
      stopTimer?.()
      signal.removeEventListener('abort', end)
    }
  }

  /** Takes what the store has after the poll's cursor, as far as there was anything when this began, or the page holds. */
  async #collect (poll: Poll): Promise<void> {
    const { store, maxPartBytes } = this.#options
    const { list, view, sight, signal } = poll
    const head = store.head
    while (!signal.aborted) {
      const read = await store.readEvents(poll.cursor, storePage)
      if (read.lost && list.hasNews) return
      if (poll.loss === 'certain' || (read.lost && poll.loss === 'possible')) {
        const earliest = read.events[0]?.sequence ?? read.through + 1
        list.tellLoss(poll.requestedId ?? placeId(store, poll.cursor, sight !== undefined), placeId(store, earliest, sight !== undefined))
      }
      // From the second page on, what goes missing went while this poll was reading.
      poll.loss = 'possible'
      poll.requestedId = undefined
      for (const event of read.events) {
        if (poll.matches(event) && !list.add(eventIdFor(store, event.sequence, sight !== undefined), eventText(event, maxPartBytes, view === 'receipt', sight))) return
        poll.cursor = event.sequence
      }
      poll.cursor = read.through
      if (list.isFull || read.events.length === 0 || poll.cursor >= head) return
      await this.#turns.next()
    }
  }

  /** Resolves when there is something for `poll` to collect, or it is woken for another reason. */
  async #wait (poll: Poll): Promise<void> {
    const { store } = this.#options
    if (this.#unfollow === undefined) this.#published = store.head
    if (poll.cursor < this.#published) return await nextTurn()
    this.#unfollow ??= store.follow((event) => this.#publish(event))
    this.#waiting.add(poll)
    await poll.woken()
    // Still among them, it has been told of everything up to here, and wanted none of it.
    if (this.#waiting.delete(poll)) poll.cursor = Math.max(poll.cursor, this.#published)
    if (this.#waiting.size > 0) return
    this.#unfollow?.()
    this.#unfollow = undefined
  }

  #publish (event: StoredEvent): void {
    this.#published = event.sequence
    for (const poll of this.#waiting) {
      // A store may tell of an event after it was read from it.
      if (event.sequence <= poll.cursor || !poll.matches(event)) continue
      poll.cursor = event.sequence - 1
      this.#waiting.delete(poll)
      if (this.#woken.push(poll) === 1) setImmediate(() => this.#wake())
    }
  }

  /** Once the turn is over, so that they find all that it brought. */
  #wake (): void {
    const woken = this.#woken
    this.#woken = []
    for (const poll of woken) poll.wake()
  }
}

interface Seer {
  view: EventView
  sight: CallSight | undefined
  isCurrent: (() => boolean) | undefined
  signal: AbortSignal
}

const always = () => true

/** One poll, from its request to its answer. */
class Poll {
  readonly matches: (event: StoredEvent) => boolean
  readonly view: EventView
  readonly sight: CallSight | undefined
  readonly isCurrent: () => boolean
  readonly signal: AbortSignal
  readonly list = new EventListText()
  /** The place up to which it has looked. */
  cursor: number
  /** Whether the next page must, may or cannot begin with the news that what was asked for is gone. */
  loss: 'certain' | 'possible' | 'none' = 'possible'
  /** The id that such news names, where it is not the place reached. */
  requestedId: string | undefined
  #onWake: (() => void) | undefined

  constructor (matches: (event: StoredEvent) => boolean, { view, sight, isCurrent, signal }: Seer, cursor: number) {
    this.matches = matches
    this.view = view
    this.sight = sight
    this.isCurrent = isCurrent ?? always
    this.signal = signal
    this.cursor = cursor
  }

  woken (): Promise<void> {
    return new Promise((resolve) => { this.#onWake = resolve })
  }

  wake (): void {
    this.#onWake?.()
    this.#onWake = undefined
  }
}
