import { GatewayError } from '../errors.ts'
import type { Maybe } from '../store/store.ts'
import type { RegisteredTool } from '../tools/registered-tool.ts'
import { isStuck } from './deadlock.ts'
import { Lane, Place, Pool, type Slotted } from './lane.ts'

export interface SlotLimits {
  /** Root calls that execute at once, whatever their tools. */
  maxConcurrentCalls: number
  /** The same for async calls, which are counted apart. */
  maxConcurrentAsyncCalls: number
  /** Calls of one tool that wait, async ones not counted. */
  maxWaitingCalls: number
  /** Async calls that wait, whatever their tools. */
  maxAsyncBacklog: number
  /** Child calls under one root call, those counted that go on although they were stopped. */
  maxChildCalls: number
}

/**
 * Decides which calls may execute: at most so many of a tool (its lane), and so many of the gateway.
 *
 * Contract:
 * - First come, first served, in the order in which calls reach the line. No call waits while there is room for it.
 * - Async calls have slots of their own, so that neither kind is kept waiting by the other; where both wait for one tool,
 *   they take turns.
 * - A child call needs no slot of the gateway: it runs in that of its root, which waits for it.
 * - A child call of a tool that one of its ancestors is a call of runs in that ancestor's slot, one such child at a time.
 * - No wait is for ever: a child call that closes a circle of waits runs in the slot of a call that stands still in it, in
 *   a `context.invoke`, as a child call of that one would.
 * - Every call that was admitted calls `leave` or `release` in the end, and may call either more than once.
 */
export class Slots {
  readonly #limits: SlotLimits
  #lanes = new Map<string, Lane>()
  readonly #awaited: Pool
  readonly #async: Pool
  /** Async calls let in that have no slot yet. */
  #backlog = 0
  #tickets = 0

  constructor (limits: SlotLimits) {
    this.#limits = limits
    this.#awaited = new Pool(limits.maxConcurrentCalls, (lane) => lane.roots)
    this.#async = new Pool(limits.maxConcurrentAsyncCalls, (lane) => lane.asyncRoots)
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
    if (toolId === undefined) {
      const pending = [...this.#lanes.values()].reduce((sum, lane) => sum + lane.pending + lane.pendingAsync, 0)
      return { taken: this.#awaited.taken + this.#async.taken, pending }
    }
    const lane = this.#lanes.get(toolId)
    return { taken: lane?.taken ?? 0, pending: (lane?.pending ?? 0) + (lane?.pendingAsync ?? 0) }
  }

  /**
   * The lane that a call will run in, with a place for it.
   * @throws {GatewayError} `overloaded` where as many wait as may, or as many child calls are there
   */
  admit (toolId: string, parent: Slotted | undefined, isAsync: boolean): Lane {
    const { maxWaitingCalls, maxAsyncBacklog, maxChildCalls } = this.#limits
    if (parent !== undefined && parent.root.descendants >= maxChildCalls) {
      throw new GatewayError('overloaded', `There are ${maxChildCalls} child calls under one call already.`)
    }
    const lane = insideSlot(toolId, parent, this.#lanes.get(toolId)!)
    const room = Math.max(0, Math.min(lane.limit - lane.taken, parent === undefined ? this.#poolOf(isAsync).room : Infinity))
    if (isAsync) {
      if (this.#backlog >= maxAsyncBacklog + room) throw new GatewayError('overloaded', `${maxAsyncBacklog} async calls wait already.`)
    } else if (lane.pending >= maxWaitingCalls + room) {
      throw new GatewayError('overloaded', `${maxWaitingCalls} calls of tool "${toolId}" wait already.`)
    }
    this.#count(lane, isAsync, 1)
    if (parent !== undefined) parent.root.descendants++
    return lane
  }

  /** The same for an async call that was accepted before the gateway was started: it is let in however many wait. */
  readmit (toolId: string): Lane {
    const lane = this.#lanes.get(toolId)!
    this.#count(lane, true, 1)
    return lane
  }

  /** Whether `take` has a slot for the call at once. */
  hasRoomFor (call: Slotted): boolean {
    return call.lane.hasRoom && (call.parent !== undefined || this.#poolOf(call.isAsync).room > 0)
  }

  /** Takes a slot: at once where there is one, and else when the call's turn comes. False where it left the line before. */
  take (call: Slotted): Maybe<boolean> {
    const { lane } = call
    if (this.hasRoomFor(call)) {
      this.#grant(call)
      return true
    }
    return new Promise((resolve) => {
      call.standing = 'waiting'
      call.place = new Place(call, this.#tickets++, resolve)
      if (call.parent === undefined) {
        this.#poolOf(call.isAsync).add(call.place)
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
    this.#count(call.lane, call.isAsync, -1)
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
    if (call.parent === undefined) this.#poolOf(call.isAsync).taken--
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
    this.#count(lane, call.isAsync, -1)
    lane.holders.add(call)
    if (call.parent === undefined) this.#poolOf(call.isAsync).taken++
  }

  #poolOf (isAsync: boolean): Pool {
    return isAsync ? this.#async : this.#awaited
  }

  /** Counts a call among those that have no slot yet. */
  #count (lane: Lane, isAsync: boolean, change: 1 | -1): void {
    if (isAsync) {
      lane.pendingAsync += change
      this.#backlog += change
    } else {
      lane.pending += change
    }
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
      this.#count(call.lane, false, -1)
      call.lane = insideOf(holder)
      this.#count(call.lane, false, 1)
      if (call.lane.hasRoom) {
        this.#grant(call)
        place.resolve(true)
      } else {
        call.place = place
        call.lane.children.add(place)
      }
    }
  }

  /** Whose turn it is: a child call of the lane in which a slot was freed, or any root call. */
  #next (freed: Lane): Place | undefined {
    const awaited = earlier(freed.hasRoom ? freed.children.first : undefined, this.#awaited.next())
    const unawaited = this.#async.next()
    if (awaited === undefined || unawaited?.call.lane !== awaited.call.lane) return earlier(awaited, unawaited)
    return unawaited.call.lane.calledAsync ? awaited : unawaited
  }

  #call (place: Place): void {
    const { call } = this.#takeOut(place)
    this.#grant(call)
    call.lane.calledAsync = call.isAsync
    place.resolve(true)
  }

  #takeOut (place: Place): Place {
    const { call } = place
    call.place = undefined
    if (call.parent !== undefined) call.lane.children.delete(place)
    else this.#poolOf(call.isAsync).delete(place)
    return place
  }
}

function earlier (one: Place | undefined, other: Place | undefined): Place | undefined {
  return one === undefined || (other !== undefined && other.ticket < one.ticket) ? other : one
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
