import { Queue } from './queue.ts'

/**
 * Where a call stands with its slot: let in and not yet at the line (`admitted`), in the line, holding a slot, holding it
 * for child calls that still use it after it has ended itself (`lending`), or done with it.
 */
export type Standing = 'admitted' | 'waiting' | 'holding' | 'lending' | 'gone'

/** What waits for a slot and holds one: a call. */
export interface Slotted {
  readonly toolId: string
  readonly parent: Slotted | undefined
  /** The call at the top; itself, where it is no child call. */
  readonly root: Slotted
  /** Of a root: how many child calls there are under it, at any depth. */
  descendants: number
  /** Whether nobody waits for its answer: it takes a slot of those kept for such calls. Child calls need none. */
  readonly isAsync: boolean
  /** Child calls that have not settled. */
  readonly children: ReadonlySet<Slotted>
  lane: Lane
  standing: Standing
  /** Its place in the line, while it waits. */
  place: Place | undefined
  /** The one slot that it holds, as a lane for other calls of its tool while it stands still: for its descendants, above all. */
  inner: Lane | undefined
}

/** A place in a line. */
export class Place {
  readonly call: Slotted
  /** Rises with each place that is given, whatever the line. */
  readonly ticket: number
  /** Tells the call that it has its slot, or that it has left the line. */
  readonly resolve: (hasSlot: boolean) => void
  previous: Place | undefined
  next: Place | undefined

  constructor (call: Slotted, ticket: number, resolve: (hasSlot: boolean) => void) {
    this.call = call
    this.ticket = ticket
    this.resolve = resolve
  }
}

/** The slots of one tool, and the line before them. */
export class Lane {
  /** Infinity for as many as there are calls. */
  limit: number
  /** The call whose slot this is, where the lane is the inside of a slot. */
  readonly owner: Slotted | undefined
  /** Calls let in that have no slot yet: those in the line, and those that have not come to it. Async ones apart. */
  pending = 0
  pendingAsync = 0
  /** Who holds the slots. */
  readonly holders = new Set<Slotted>()
  /** Root calls, async ones and child calls wait apart, since each of them needs something else beside a slot here. */
  readonly roots = new Queue<Place>()
  readonly asyncRoots = new Queue<Place>()
  readonly children = new Queue<Place>()
  /** Whether the last who was called from the line is an async call: where both wait, they take turns. */
  calledAsync = false

  constructor (limit: number, owner?: Slotted) {
    this.limit = limit
    this.owner = owner
  }

  get taken (): number {
    return this.holders.size
  }

  get hasRoom (): boolean {
    return this.taken < this.limit
  }

  get isIdle (): boolean {
    return this.taken + this.pending + this.pendingAsync === 0
  }
}

/** Slots of the gateway for one kind of root call, whatever their tools. */
export class Pool {
  readonly limit: number
  readonly #lineOf: (lane: Lane) => Queue<Place>
  taken = 0
  /** Lanes in which such calls wait. */
  readonly #lanes = new Set<Lane>()

  constructor (limit: number, lineOf: (lane: Lane) => Queue<Place>) {
    this.limit = limit
    this.#lineOf = lineOf
  }

  get room (): number {
    return this.limit - this.taken
  }

  add (place: Place): void {
    const { lane } = place.call
    this.#lineOf(lane).add(place)
    this.#lanes.add(lane)
  }

  delete (place: Place): void {
    const { lane } = place.call
    const line = this.#lineOf(lane)
    line.delete(place)
    if (line.size === 0) this.#lanes.delete(lane)
  }

  /** Who waits longest of those that there is room for, here and in their lanes. */
  next (): Place | undefined {
    if (this.room <= 0) return undefined
    let next: Place | undefined
    for (const lane of this.#lanes) {
      const first = lane.hasRoom ? this.#lineOf(lane).first : undefined
      if (first !== undefined && (next === undefined || first.ticket < next.ticket)) next = first
    }
    return next
  }
}
