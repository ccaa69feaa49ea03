import { GatewayError } from '../errors.ts'
import type { Maybe } from '../store/store.ts'
import type { RegisteredTool } from '../tools/registered-tool.ts'
import { isStuck } from './deadlock.ts'
import { Lane, Place, type Slotted } from './lane.ts'

export interface SlotLimits {
  /** Root calls that execute at once, whatever their tools. */
  maxConcurrentCalls: number
  /** Calls of one tool that wait. */
  maxWaitingCalls: number
  /** Child calls under one root call, those counted that go on although they were stopped. */
  maxChildCalls: number
}

/**
 * Decides which calls may execute: at most so many of a tool (its lane), and so many of the gateway.
 *
 * Contract:
 * - First come, first served, in the order in which calls reach the line. No call waits while there is room for it.
 * - A child call needs no slot of the gateway: it runs in that of its root, which waits for it.
 * - A child call of a tool that one of its ancestors is a call of runs in that ancestor's slot, one such child at a time.
 * - No wait is for ever: a child call that closes a circle of waits runs in the slot of a call that stands still in it, in
 *   a `context.invoke`, as a child call of that one would.
 * - Every call that was admitted calls `leave` or `release` in the end, and may call either more than once.
 */
export class Slots {
  readonly #limits: SlotLimits
  #lanes = new Map<string, Lane>()
  /** Slots of the gateway that are taken. */
  #taken = 0
  /** Lanes in which root calls wait. */
  readonly #lines = new Set<Lane>()
  #tickets = 0

  constructor (limits: SlotLimits) {
    this.#limits = limits
  }

  /** Takes over the tools' limits. Lanes go by tool id, so that calls of a tool's earlier version count on. */
  setLanes (tools: Iterable<RegisteredTool>): void {
    const before = this.#lanes
    this.#lanes = new Map([...before].filter(([, lane]) => !lane.isIdle))
    for (const { descriptor, maxConcurrent } of tools) {
      const limit = Math.min(descriptor.executionMode === 'sequential' ? 1 : Infinity, maxConcurrent ?? Infinity)
      const lane = before.get(descriptor.id) ?? new Lane(limit)
      lane.limit = limit
      this.#lanes.set(descriptor.id, lane)
      this.#serve(lane)
    }
  }

  /** Slots that are taken and calls that have none yet, of the gateway or of one tool. */
  count (toolId?: string): { taken: number, pending: number } {
    if (toolId === undefined) return { taken: this.#taken, pending: [...this.#lanes.values()].reduce((sum, lane) => sum + lane.pending, 0) }
    const { taken, pending } = this.#lanes.get(toolId) ?? { taken: 0, pending: 0 }
    return { taken, pending }
  }

  /**
   * The lane that a call will run in, with a place for it.
   * @throws {GatewayError} `overloaded` where as many wait as may, or as many child calls are there
   */
  admit (toolId: string, parent: Slotted | undefined): Lane {
    const { maxWaitingCalls, maxConcurrentCalls, maxChildCalls } = this.#limits
    if (parent !== undefined && parent.root.descendants >= maxChildCalls) {
      throw new GatewayError('overloaded', `There are ${maxChildCalls} child calls under one call already.`)
    }
    const lane = insideSlot(toolId, parent, this.#lanes.get(toolId)!)
    const room = Math.min(lane.limit - lane.taken, parent === undefined ? maxConcurrentCalls - this.#taken : Infinity)
    if (lane.pending >= maxWaitingCalls + Math.max(0, room)) {
      throw new GatewayError('overloaded', `${maxWaitingCalls} calls of tool "${toolId}" wait already.`)
    }
    lane.pending++
    if (parent !== undefined) parent.root.descendants++
    return lane
  }

  /** Takes a slot: at once where there is one, and else when the call's turn comes. False where it left the line before. */
  take (call: Slotted): Maybe<boolean> {
    const { lane } = call
    if (lane.hasRoom && (call.parent !== undefined || this.#taken < this.#limits.maxConcurrentCalls)) {
      this.#grant(call)
      return true
    }
    return new Promise((resolve) => {
      call.standing = 'waiting'
      call.place = new Place(call, this.#tickets++, resolve)
      if (call.parent === undefined) {
        lane.roots.add(call.place)
        this.#lines.add(lane)
      } else {
        lane.children.add(call.place)
        this.#untangle(call)
      }
    })
  }

  /** For a call that settles before it has a slot. */
  leave (call: Slotted): void {
    if (call.standing === 'waiting') this.#takeOut(call.place!).resolve(false)
    else if (call.standing !== 'admitted') return
    this.#go(call)
    call.lane.pending--
  }

  /**
   * Gives the call's slot back, once it no longer executes; or later, where child calls in it still do.
   * @param isForced gives it back in any case
   */
  release (call: Slotted, isForced = false): void {
    const { standing, inner } = call
    if (standing !== 'holding' && standing !== 'lending') return
    if (inner !== undefined && inner.taken > 0 && !isForced) {
      call.standing = 'lending'
      return
    }
    this.#go(call)
    const { lane } = call
    lane.holders.delete(call)
    if (call.parent === undefined) this.#taken--
    const isOver = !lane.hasRoom
    this.#serve(lane)
    // In a lane whose limit was lowered, the end of a call makes no room, and somebody may have counted on it.
    if (isOver) for (const place of [...lane.children]) this.#untangle(place.call)
    if (lane.owner?.standing === 'lending') this.release(lane.owner)
  }

  #go (call: Slotted): void {
    call.standing = 'gone'
    if (call.parent !== undefined) call.root.descendants--
  }

  #grant (call: Slotted): void {
    call.standing = 'holding'
    const { lane } = call
    lane.pending--
    lane.holders.add(call)
    if (call.parent === undefined) this.#taken++
  }

  /** Gives slots to those whose turn it is. They go on in a later step, so that a long line makes no deep stack. */
  #serve (lane: Lane): void {
    for (let place = this.#next(lane); place !== undefined; place = this.#next(lane)) this.#call(place)
  }

  /** Where the wait of a child call would never end, it goes on inside a slot that it waits for, whose holder stands still. */
  #untangle (call: Slotted): void {
    while (call.standing === 'waiting' && isStuck(call)) {
      const place = this.#takeOut(call.place!)
      const holders = [...call.lane.holders]
      const holder = holders.find(({ inner }) => inner === undefined || inner.hasRoom) ?? holders[0]!
      call.lane.pending--
      call.lane = insideOf(holder)
      call.lane.pending++
      if (call.lane.hasRoom) {
        this.#grant(call)
        place.resolve(true)
      } else {
        call.place = place
        call.lane.children.add(place)
      }
    }
  }

  /** Who waits longest of those that there is room for: a child call of the lane in which a slot was freed, or any root call. */
  #next (freed: Lane): Place | undefined {
    let next = freed.hasRoom ? freed.children.first : undefined
    if (this.#taken >= this.#limits.maxConcurrentCalls) return next
    for (const lane of this.#lines) {
      const first = lane.hasRoom ? lane.roots.first : undefined
      if (first !== undefined && (next === undefined || first.ticket < next.ticket)) next = first
    }
    return next
  }

  #call (place: Place): void {
    this.#takeOut(place)
    this.#grant(place.call)
    place.resolve(true)
  }

  #takeOut (place: Place): Place {
    const { call } = place
    const { lane } = call
    call.place = undefined
    if (call.parent !== undefined) lane.children.delete(place)
    else lane.roots.delete(place)
    if (lane.roots.size === 0) this.#lines.delete(lane)
    return place
  }
}

/** The inside of the slot that the nearest ancestor in this lane holds, or else the lane. */
function insideSlot (toolId: string, parent: Slotted | undefined, lane: Lane): Lane {
  if (lane.limit === Infinity) return lane
  for (let ancestor = parent; ancestor !== undefined; ancestor = ancestor.parent) {
    if (ancestor.toolId === toolId && ancestor.standing !== 'gone') return insideOf(ancestor)
  }
  return lane
}

function insideOf (holder: Slotted): Lane {
  holder.inner ??= new Lane(1, holder)
  return holder.inner
}
