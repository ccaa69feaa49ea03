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
  /** Calls let in that have no slot yet: those in the line, and those that have not come to it. */
  pending = 0
  /** Who holds the slots. */
  readonly holders = new Set<Slotted>()
  /** Root calls and child calls wait apart, since only the former need a slot of the gateway as well. */
  readonly roots = new Queue<Place>()
  readonly children = new Queue<Place>()

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
    return this.taken + this.pending === 0
  }
}
