import type { CallSight } from '../store/call-sight.ts'
import type { StoredEvent } from '../store/store.ts'
import { compileFilter, type EventFilter, type EventView } from './filter.ts'
import type { Sink } from './sink.ts'

export interface SubscribeOptions {
  filter: EventFilter
  view: EventView
  /** The calls that it may see; absent, all. */
  sight?: CallSight | undefined
  /** Whether its ids are to tell nothing of other events; as a rule, where it does not see them all. */
  isSealed?: boolean
  /** Whether it may still do so: a stream for which this turns false is ended within a second. */
  isCurrent?: () => boolean
  /** The id of the last event already held, or `earliest` for all that is kept; absent, the stream starts now. */
  after?: string | undefined
  /** For the stream of one call: ends after its end event, and is never cut for slowness. */
  untilEnd?: boolean
  /** For the answer to a call: takes no subscriber's place. */
  isAnswer?: boolean
  /** What this subscriber, and no other, may see of an event beyond what is on record; parts of any size with it. */
  reveal?: ((event: StoredEvent) => StoredEvent) | undefined
}

/** Text that a group holds for one turn of the event loop. */
const MAX_TURN_BYTES = 1024 * 1024

/** One event as a group's members get it. */
export interface Frame {
  sequence: number
  text: string
  isEnd: boolean
}

/** Subscribers with the same rights, filter and view: an event is matched and framed once for all of them. */
export class Group {
  readonly key: string
  readonly view: EventView
  readonly sight: CallSight | undefined
  readonly isSealed: boolean
  readonly matches: (event: StoredEvent) => boolean
  readonly invocationIds: readonly string[] | undefined
  readonly reveal: ((event: StoredEvent) => StoredEvent) | undefined
  readonly members = new Set<Subscription>()
  /** Frames of this turn, not yet written. */
  frames: Frame[] = []
  frameBytes = 0
  /** Set where a turn brings more than is held for it: members then read it from the store, each at its own pace. */
  isFlooded = false

  constructor (key: string, { filter, view, sight, isSealed, reveal }: SubscribeOptions) {
    this.key = key
    this.view = view
    this.sight = sight
    this.isSealed = isSealed ?? sight !== undefined
    this.reveal = reveal
    this.matches = compileFilter(filter, sight)
    this.invocationIds = filter.invocationId
  }

  add (frame: Frame): void {
    this.frames.push(frame)
    this.frameBytes += frame.text.length
    if (this.frameBytes <= MAX_TURN_BYTES) return
    this.isFlooded = true
    this.frames = []
  }

  /** What the turn brought; the next one starts afresh. */
  take (): { frames: Frame[], isFlooded: boolean } {
    const taken = { frames: this.frames, isFlooded: this.isFlooded }
    this.frames = []
    this.frameBytes = 0
    this.isFlooded = false
    return taken
  }
}

const always = () => true

/** One subscriber, from its first byte to its last. */
export class Subscription {
  readonly sink: Sink
  readonly group: Group
  readonly untilEnd: boolean
  /** Whether it takes a subscriber's place. */
  readonly counts: boolean
  readonly isCurrent: () => boolean
  /** The place up to which it has been given everything. */
  cursor: number
  /** Text up to the cursor that is not written yet. */
  held = ''
  /** On the monotonic clock. */
  lastWriteAt: number
  /** Gets events as they are published. Until then it reads them from the store. */
  live = false
  ended = false

  constructor (sink: Sink, group: Group, cursor: number, { untilEnd, isAnswer, isCurrent }: SubscribeOptions, now: number) {
    this.sink = sink
    this.group = group
    this.cursor = cursor
    this.untilEnd = untilEnd === true
    this.counts = isAnswer !== true
    this.isCurrent = isCurrent ?? always
    this.lastWriteAt = now
  }

  /** The text that is held, which is to be written now. */
  takeHeld (): string {
    const { held } = this
    this.held = ''
    return held
  }
}
