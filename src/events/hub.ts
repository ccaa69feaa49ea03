import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Clock } from '../clock.ts'
import { GatewayError } from '../errors.ts'
import type { EventPage, Store, StoredEvent } from '../store/store.ts'
import { eventText } from '../store/wire.ts'
import { Burst } from './burst.ts'
import { compileFilter, filterKey, type EventFilter, type EventView } from './filter.ts'
import type { Sink } from './sink.ts'
import * as sse from './sse.ts'

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

export interface SubscribeOptions {
  filter: EventFilter
  view: EventView
  /** The id of the last event already held, or `earliest` for all that is kept; absent, the stream starts now. */
  after?: string | undefined
  /** For the stream of one call: ends after its end event, is never cut for slowness, and takes no subscriber's place. */
  untilEnd?: boolean
}

/** What one page of a replay may hold; it is all that a slow reader keeps in memory. */
const page = { events: 500, bytes: 256 * 1024 }

/** Subscribers with the same filter and view: an event is matched and framed once for all of them. */
class Group {
  readonly key: string
  readonly view: EventView
  readonly matches: (event: StoredEvent) => boolean
  readonly invocationIds: readonly string[] | undefined
  readonly members = new Set<Subscription>()
  /** Frames of this turn, not yet written. */
  frames: { sequence: number, text: string, isEnd: boolean }[] = []

  constructor (filter: EventFilter, view: EventView) {
    this.key = filterKey(filter, view)
    this.view = view
    this.matches = compileFilter(filter)
    this.invocationIds = filter.invocationId
  }
}

/** One subscriber, from its first byte to its last. */
class Subscription {
  readonly sink: Sink
  readonly group: Group
  readonly untilEnd: boolean
  /** The place up to which it has been given everything. */
  cursor: number
  lastWriteMs: number
  live = false
  ended = false

  constructor (sink: Sink, group: Group, cursor: number, untilEnd: boolean, nowMs: number) {
    this.sink = sink
    this.group = group
    this.cursor = cursor
    this.untilEnd = untilEnd
    this.lastWriteMs = nowMs
  }
}

/**
 * Tells subscribers of events: each one every event that it asked for, once, in log order, across replay and live.
 *
 * A subscriber reads from the store until it has reached the place up to which the hub has published, and joins its
 * group there in the same step: no gap, no double, and nothing is held back for it meanwhile. Events come from the
 * store's `follow`, so everything a subscriber sees is committed and can be resumed from.
 */
export class Hub {
  readonly #options: HubOptions
  readonly #groups = new Map<string, Group>()
  /** Groups whose filter names invocations, by each of them: such groups are many, and each event concerns few. */
  readonly #groupsByInvocation = new Map<string, Set<Group>>()
  readonly #openGroups = new Set<Group>()
  readonly #subscriptions = new Set<Subscription>()
  readonly #dirty = new Set<Group>()
  readonly #unfollow: () => void
  #counted = 0
  #published: number
  #flushScheduled = false
  #stopHeartbeat: () => void = () => {}
  #closed = false

  constructor (options: HubOptions) {
    this.#options = options
    this.#published = options.store.head
    this.#unfollow = options.store.follow((event) => this.#publish(event))
    this.#scheduleHeartbeat()
  }

  /** Streams there are, the streams of single calls included. */
  get size (): number {
    return this.#subscriptions.size
  }

  /**
   * To be called before a stream's headers are sent.
   * @throws {GatewayError} `too_many_subscribers`, `shutting_down`
   */
  assertRoom (): void {
    if (this.#closed) throw new GatewayError('shutting_down', 'The gateway is shutting down.')
    if (this.#counted >= this.#options.maxSubscribers) {
      throw new GatewayError('too_many_subscribers', `The gateway takes ${this.#options.maxSubscribers} subscribers.`)
    }
  }

  /** Streams events into `sink`, whose headers are sent, until it closes, falls behind, or the hub closes. */
  subscribe (sink: Sink, options: SubscribeOptions): void {
    const { store, clock } = this.#options
    const { after } = options
    const located = after === undefined || after === 'earliest' ? undefined : store.locate(after)
    const start = after === undefined ? this.#published : located ?? store.earliest - 1
    const group = this.#groupOf(options)
    const subscription = new Subscription(sink, group, start, options.untilEnd === true, clock.now())

    group.members.add(subscription)
    this.#subscriptions.add(subscription)
    if (!subscription.untilEnd) this.#counted++
    sink.onClose(() => this.#leave(subscription))
    if (this.#closed) return this.#end(subscription)

    // The place where the stream starts lets a client that loses it before the first event resume without a gap.
    const unknown = after !== undefined && after !== 'earliest' && located === undefined
    const opening = after === undefined ? sse.opening + sse.place(store.eventId(start)) : sse.opening
    this.#write(subscription, new Burst(unknown ? opening + this.#lost(after) : opening))
    this.#replay(subscription, after === 'earliest' || unknown ? undefined : after).catch(() => this.#cut(subscription))
  }

  /** Ends every stream after what is published. */
  close (): void {
    if (this.#closed) return
    this.#closed = true
    this.#stopHeartbeat()
    this.#unfollow()
    this.#flush()
    for (const subscription of [...this.#subscriptions]) this.#end(subscription)
  }

  /** @param requestedId the id asked for, where losing what follows it must be told */
  async #replay (subscription: Subscription, requestedId: string | undefined): Promise<void> {
    const { store } = this.#options
    let tellLoss = requestedId !== undefined
    while (!subscription.ended) {
      const read: EventPage = await store.readEvents(subscription.cursor, page)
      if (subscription.ended) return
      const from = subscription.cursor
      subscription.cursor = read.through
      let text = read.lost && tellLoss ? this.#lost(requestedId ?? store.eventId(from)) : ''
      tellLoss = true
      let finished = false
      for (const event of read.events) {
        if (!subscription.group.matches(event)) continue
        text += this.#frame(event, subscription.group.view)
        finished ||= subscription.untilEnd && event.type === 'tool_execution_end'
      }
      requestedId = undefined
      if (text !== '') this.#write(subscription, new Burst(text))
      if (finished) return this.#end(subscription)
      if (read.through >= this.#published) {
        subscription.live = true
        return
      }
      await (subscription.sink.drained() ?? nextTurn())
    }
  }

  #lost (requestedId: string): string {
    const { store } = this.#options
    return sse.notice('events_lost', JSON.stringify({ requestedId, earliestId: store.eventId(store.earliest) }))
  }

  #frame (event: StoredEvent, view: EventView): string {
    const { store, maxPartBytes } = this.#options
    return sse.message(store.eventId(event.sequence), event.type, eventText(event, maxPartBytes, view === 'receipt'))
  }

  #publish (event: StoredEvent): void {
    this.#published = event.sequence
    if (this.#subscriptions.size === 0) return
    const framed: { full?: string, receipt?: string } = {}
    const add = (group: Group) => {
      if (!group.matches(event)) return
      const text = framed[group.view] ??= this.#frame(event, group.view)
      group.frames.push({ sequence: event.sequence, text, isEnd: event.type === 'tool_execution_end' })
      this.#dirty.add(group)
    }
    this.#openGroups.forEach(add)
    if (this.#groupsByInvocation.size > 0) this.#groupsByInvocation.get(event.start.invocationId)?.forEach(add)
    if (this.#dirty.size > 0 && !this.#flushScheduled) {
      this.#flushScheduled = true
      setImmediate(() => this.#flush())
    }
  }

  /** Writes what the turn brought: for each group one burst, for each member one write. */
  #flush (): void {
    this.#flushScheduled = false
    const nowMs = this.#options.clock.now()
    for (const group of this.#dirty) {
      const { frames } = group
      group.frames = []
      const burst = new Burst(frames.map((frame) => frame.text).join(''))
      const first = frames[0]!.sequence
      const last = frames.at(-1)!
      for (const member of group.members) {
        if (!member.live || member.cursor >= last.sequence) continue
        // A member that joined in this very turn has been given the first of them by its replay.
        const own = member.cursor < first
          ? burst
          : new Burst(frames.filter((frame) => frame.sequence > member.cursor).map((frame) => frame.text).join(''))
        this.#deliver(member, own, last.sequence, nowMs)
        if (member.untilEnd && frames.some((frame) => frame.isEnd)) this.#end(member)
      }
    }
    this.#dirty.clear()
  }

  #deliver (member: Subscription, burst: Burst, through: number, nowMs: number): void {
    if (member.sink.backlog > this.#options.maxBacklogBytes) {
      if (!member.untilEnd) return this.#cut(member)
      // The reader of its own call goes at its own pace, from the store.
      member.live = false
      Promise.resolve(member.sink.drained()).then(() => this.#replay(member, undefined)).catch(() => this.#cut(member))
      return
    }
    member.sink.write(burst)
    member.cursor = through
    member.lastWriteMs = nowMs
  }

  #write (subscription: Subscription, burst: Burst): void {
    subscription.sink.write(burst)
    subscription.lastWriteMs = this.#options.clock.now()
  }

  #groupOf ({ filter, view }: SubscribeOptions): Group {
    const key = filterKey(filter, view)
    let group = this.#groups.get(key)
    if (group === undefined) {
      group = new Group(filter, view)
      this.#groups.set(key, group)
      if (group.invocationIds === undefined) this.#openGroups.add(group)
      for (const id of group.invocationIds ?? []) {
        const groups = this.#groupsByInvocation.get(id) ?? new Set()
        this.#groupsByInvocation.set(id, groups.add(group))
      }
    }
    return group
  }

  #leave (subscription: Subscription): void {
    if (!this.#subscriptions.delete(subscription)) return
    subscription.ended = true
    subscription.live = false
    if (!subscription.untilEnd) this.#counted--
    const { group } = subscription
    group.members.delete(subscription)
    if (group.members.size > 0) return
    this.#groups.delete(group.key)
    this.#openGroups.delete(group)
    this.#dirty.delete(group)
    for (const id of group.invocationIds ?? []) {
      const groups = this.#groupsByInvocation.get(id)
      groups?.delete(group)
      if (groups?.size === 0) this.#groupsByInvocation.delete(id)
    }
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
      const nowMs = clock.now()
      let burst: Burst | undefined
      for (const subscription of this.#subscriptions) {
        if (nowMs - subscription.lastWriteMs < heartbeatMs) continue
        // All that is published and wanted has been written, so the place reached is the hub's own.
        if (subscription.live) {
          burst ??= new Burst(sse.place(this.#options.store.eventId(this.#published)))
          this.#deliver(subscription, burst, this.#published, nowMs)
        } else if (subscription.sink.backlog === 0) {
          this.#write(subscription, new Burst(sse.place(this.#options.store.eventId(subscription.cursor))))
        }
      }
      this.#scheduleHeartbeat()
    })
  }
}
