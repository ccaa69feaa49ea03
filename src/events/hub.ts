import type { Clock } from '../clock.ts'
import { PageTurns } from '../store/page-turns.ts'
import type { EventPage, Store, StoredEvent } from '../store/store.ts'
import { eventText } from '../store/wire.ts'
import { Burst } from './burst.ts'
import { eventIdFor, placeId, placeOf } from './event-ids.ts'
import { Groups } from './groups.ts'
import { LongPolls } from './long-polls.ts'
import { Room } from './room.ts'
import type { Sink } from './sink.ts'
import * as sse from './sse.ts'
import { Subscription, type Group, type SubscribeOptions } from './subscription.ts'

export interface HubOptions {
  store: Store
  clock: Clock
  maxSubscribers: number
  /** Bytes that may wait for one subscriber behind the message being sent. */
  maxBacklogBytes: number
  /** Bytes of args, partialResult or result over which an event leaves them out. */
  maxPartBytes: number
  /** Silence after which a subscriber is told the place reached, milliseconds. */
  heartbeatMs: number
}

/** What one page of a replay may hold; it is all that a slow reader keeps in memory. */
const page = { events: 500, bytes: 256 * 1024 }
/** A page takes a millisecond or two. */
const PAGES_A_TURN = 2

/**
 * Tells subscribers of events: each one every event that it asked for, once, in log order, across replay and live.
 *
 * A subscriber reads from the store until it has reached the place up to which the hub has published, and joins its
 * group there in the same step: no gap, no double, and nothing is held back for it meanwhile. Events come from the
 * store's `follow`, so everything a subscriber sees is committed and can be resumed from.
 */
export class Hub {
  /** Those who ask for pages instead of listening to a stream. */
  readonly polls: LongPolls
  readonly #options: HubOptions
  readonly #room: Room
  readonly #groups = new Groups()
  readonly #turns = new PageTurns(PAGES_A_TURN)
  readonly #subscriptions = new Set<Subscription>()
  readonly #dirty = new Set<Group>()
  /** Set while somebody is subscribed: an event that nobody listens for costs nothing here. */
  #unfollow: (() => void) | undefined
  #published: number
  #flushScheduled = false
  #stopHeartbeat: () => void = () => {}

  constructor (options: HubOptions) {
    this.#options = options
    this.#room = new Room(options.maxSubscribers)
    this.polls = new LongPolls(options, this.#room, this.#turns)
    this.#published = options.store.head
    this.#scheduleHeartbeat()
  }

  /** Streams and polls there are, the streams of single calls included. */
  get size (): number {
    return this.#room.size
  }

  /**
   * To be called before a stream's headers are sent.
   * @throws {GatewayError} `too_many_subscribers`, `shutting_down`
   */
  assertRoom (): void {
    this.#room.assertPlace()
  }

  /** Streams events into `sink`, whose headers are sent, until it closes, falls behind, or the hub closes. */
  subscribe (sink: Sink, options: SubscribeOptions): void {
    const { store, clock } = this.#options
    const { after } = options
    if (this.#unfollow === undefined) {
      this.#published = store.head
      this.#unfollow = store.follow((event) => this.#publish(event))
    }
    const group = this.#groups.of(options)
    const located = after === undefined || after === 'earliest' ? undefined : placeOf(store, after, group.isSealed)
    const start = after === undefined ? this.#published : located ?? store.earliest - 1
    const subscription = new Subscription(sink, group, start, options, clock.monotonic())

    group.members.add(subscription)
    this.#subscriptions.add(subscription)
    this.#room.enter(subscription.counts)
    sink.onClose(() => this.#leave(subscription))

    // The place where the stream starts lets a client that loses it before the first event resume without a gap.
    this.#write(subscription, new Burst(after === undefined ? sse.opening + this.#place(start, group) : sse.opening))
    const loss = after === undefined || after === 'earliest' ? 'none' : located === undefined ? 'certain' : 'possible'
    this.#replay(subscription, loss, after ?? '').catch(() => this.#cut(subscription))
  }

  /** Ends every stream and answers every poll after what is published. Those that still read get `forMs` to do so. */
  async close (forMs: number): Promise<void> {
    if (this.#room.isClosed) return
    this.#room.close()
    this.#stopHeartbeat()
    this.#stopFollowing()
    this.#flush()
    for (const subscription of this.#subscriptions) if (subscription.live) this.#end(subscription)
    this.polls.close()
    await this.#room.emptied(this.#options.clock, forMs)
    for (const subscription of this.#subscriptions) this.#end(subscription)
  }

  /**
   * Gives a subscriber what the store has after its cursor, page by page at its own pace, and lets it go live where the
   * two meet.
   *
   * @param loss whether the first page must, may or cannot begin with the news that what it asked for is gone
   * @param requestedId the id that such news names
   */
  async #replay (subscription: Subscription, loss: 'certain' | 'possible' | 'none', requestedId: string): Promise<void> {
    const { store } = this.#options
    while (!subscription.ended) {
      const from = subscription.cursor
      const read: EventPage = await store.readEvents(from, page)
      if (subscription.ended) return
      subscription.cursor = read.through
      const isLost = loss === 'certain' || (read.lost && loss === 'possible')
      const { group } = subscription
      if (isLost) subscription.held += this.#lost(requestedId || placeId(store, from, group.isSealed), group)
      // From the second page on, what goes missing went while this subscriber was reading.
      loss = 'possible'
      requestedId = ''
      const wanted = read.events.filter((event) => group.matches(event))
      for (const event of wanted) subscription.held += this.#frame(event, group)
      const isOver = subscription.untilEnd && wanted.some(({ type }) => type === 'tool_execution_end')
      const isLevel = read.through >= this.#published
      // Pages of the store end where others' events make them end: who is not to count these is not shown where.
      const mayWait = group.isSealed && !isLevel && !isOver && subscription.held.length < page.bytes
      if (!mayWait && subscription.held !== '') this.#write(subscription, new Burst(subscription.takeHeld()))
      if (isOver || (isLevel && (await this.#isPastEnd(subscription) || this.#room.isClosed))) return this.#end(subscription)
      if (read.through >= this.#published) {
        subscription.live = !subscription.ended
        return
      }
      await subscription.sink.drained()
      await this.#turns.next()
    }
  }

  /**
   * Whether the end that a stream waits for came before all that it is given. Then that end is gone from the log, and is told
   * as the record has it: who waits for nothing else would come back for it for ever.
   */
  async #isPastEnd (subscription: Subscription): Promise<boolean> {
    const { untilEnd, group, cursor } = subscription
    if (!untilEnd) return false
    const call = await this.#options.store.get(group.invocationIds![0]!)
    if (call === undefined) return true
    const { start, end, endSequence } = call
    if (endSequence === undefined || endSequence > cursor) return false
    if (!subscription.ended) {
      const told = { sequence: endSequence, type: 'tool_execution_end', start, partialResult: undefined, end } as const
      this.#write(subscription, new Burst(this.#frame(told, group)))
    }
    return true
  }

  #lost (requestedId: string, { isSealed }: Group): string {
    const { store } = this.#options
    return sse.notice('events_lost', JSON.stringify({ requestedId, earliestId: placeId(store, store.earliest, isSealed) }))
  }

  #place (sequence: number, { isSealed }: Group): string {
    return sse.place(placeId(this.#options.store, sequence, isSealed))
  }

  #frame (event: StoredEvent, { view, sight, isSealed, reveal }: Group): string {
    const { store, maxPartBytes } = this.#options
    const text = reveal === undefined
      ? eventText(event, maxPartBytes, view === 'receipt', sight)
      : eventText(reveal(event), Infinity, view === 'receipt', sight)
    return sse.message(eventIdFor(store, event.sequence, isSealed), event.type, text)
  }

  #publish (event: StoredEvent): void {
    this.#published = event.sequence
    const framed: { full?: string, receipt?: string } = {}
    this.#groups.forEach(event, (group) => {
      if (group.isFlooded) return
      const isShared = group.reveal === undefined && !group.isSealed
      const text = isShared ? framed[group.view] ??= this.#frame(event, group) : this.#frame(event, group)
      group.add({ sequence: event.sequence, text, isEnd: event.type === 'tool_execution_end' })
      this.#dirty.add(group)
    })
    if (this.#dirty.size > 0 && !this.#flushScheduled) {
      this.#flushScheduled = true
      setImmediate(() => this.#flush())
    }
  }

  /** Writes what the turn brought: for each group one burst, for each member one write. */
  #flush (): void {
    this.#flushScheduled = false
    const now = this.#options.clock.monotonic()
    for (const group of this.#dirty) {
      const { frames, isFlooded } = group.take()
      if (isFlooded) {
        for (const member of group.members) if (member.live) this.#fallBehind(member)
        continue
      }
      const burst = new Burst(frames.map((frame) => frame.text).join(''))
      const first = frames[0]!.sequence
      const last = frames.at(-1)!
      for (const member of group.members) {
        if (!member.live || member.cursor >= last.sequence) continue
        // A member that joined in this very turn has been given the first of them by its replay.
        const own = member.cursor < first
          ? burst
          : new Burst(frames.filter((frame) => frame.sequence > member.cursor).map((frame) => frame.text).join(''))
        this.#deliver(member, own, last.sequence, now)
        const hasAll = member.cursor >= last.sequence
        if (member.untilEnd && hasAll && frames.some((frame) => frame.isEnd)) this.#end(member)
      }
    }
    this.#dirty.clear()
  }

  #deliver (member: Subscription, burst: Burst, through: number, now: number): void {
    if (member.sink.backlog > this.#options.maxBacklogBytes) {
      if (!member.untilEnd) return this.#cut(member)
      return this.#fallBehind(member)
    }
    member.sink.write(burst)
    member.cursor = through
    member.lastWriteAt = now
  }

  /** Lets a member read on from the store, at its own pace, until it is level again. */
  #fallBehind (member: Subscription): void {
    member.live = false
    Promise.resolve(member.sink.drained()).then(() => this.#replay(member, 'possible', '')).catch(() => this.#cut(member))
  }

  #write (subscription: Subscription, burst: Burst): void {
    subscription.sink.write(burst)
    subscription.lastWriteAt = this.#options.clock.monotonic()
  }

  #leave (subscription: Subscription): void {
    if (!this.#subscriptions.delete(subscription)) return
    subscription.ended = true
    subscription.live = false
    if (this.#subscriptions.size === 0) this.#stopFollowing()
    this.#room.leave(subscription.counts)
    const { group } = subscription
    group.members.delete(subscription)
    if (group.members.size > 0) return
    this.#groups.delete(group)
    this.#dirty.delete(group)
  }

  #stopFollowing (): void {
    this.#unfollow?.()
    this.#unfollow = undefined
  }

  #end (subscription: Subscription): void {
    this.#leave(subscription)
    subscription.sink.end()
  }

  #cut (subscription: Subscription): void {
    this.#leave(subscription)
    subscription.sink.destroy()
  }

  #scheduleHeartbeat (): void {
    const { clock, heartbeatMs } = this.#options
    this.#stopHeartbeat = clock.after(Math.min(1000, heartbeatMs), () => {
      this.#flush()
      const now = clock.monotonic()
      let burst: Burst | undefined
      this.polls.recheck()
      for (const subscription of this.#subscriptions) {
        if (!subscription.isCurrent()) {
          this.#end(subscription)
          continue
        }
        if (now - subscription.lastWriteAt < heartbeatMs) continue
        // All that is published and wanted has been written, so the place reached is the hub's own.
        if (subscription.live) {
          const place = () => new Burst(this.#place(this.#published, subscription.group))
          this.#deliver(subscription, subscription.group.isSealed ? place() : burst ??= place(), this.#published, now)
        } else if (subscription.sink.backlog === 0) {
          this.#write(subscription, new Burst(subscription.takeHeld() || this.#place(subscription.cursor, subscription.group)))
        }
      }
      this.#scheduleHeartbeat()
    })
  }
}
