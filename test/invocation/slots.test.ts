import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import type { Lane, Place, Slotted, Standing } from '../../src/invocation/lane.ts'
import { Slots } from '../../src/invocation/slots.ts'
import type { RegisteredTool } from '../../src/tools/registered-tool.ts'
import { turns } from '../conformance/until.ts'

type Limits = Record<string, number>

/** Registered tools, as far as slots look at them: 1 is said as `sequential`, Infinity by saying nothing. */
function toolsOf (limits: Limits): RegisteredTool[] {
  return Object.entries(limits).map(([id, limit]) => ({
    descriptor: { id, executionMode: limit === 1 ? 'sequential' : 'parallel' },
    maxConcurrent: limit === 1 || limit === Infinity ? undefined : limit
  }) as unknown as RegisteredTool)
}

class FakeCall implements Slotted {
  readonly toolId: string
  readonly parent: FakeCall | undefined
  readonly root: FakeCall
  descendants = 0
  readonly children = new Set<FakeCall>()
  lane: Lane
  standing: Standing = 'admitted'
  place: Place | undefined
  inner: Lane | undefined
  readonly isAsync: boolean

  constructor (toolId: string, parent: FakeCall | undefined, lane: Lane, isAsync: boolean) {
    this.toolId = toolId
    this.isAsync = isAsync
    this.parent = parent
    this.root = parent?.root ?? this
    this.lane = lane
    parent?.children.add(this)
  }

  get isHolding (): boolean {
    return this.standing === 'holding'
  }
}

function setUp (limits: Limits, { calls = 256, asyncCalls = 64, waiting = 100, backlog = 1000, maxChildCalls = 1000 } = {}) {
  const slots = new Slots({ maxConcurrentCalls: calls, maxConcurrentAsyncCalls: asyncCalls, maxWaitingCalls: waiting, maxAsyncBacklog: backlog, maxChildCalls })
  slots.setLanes(toolsOf(limits))
  const admit = (toolId: string, parent?: FakeCall, isAsync = false) => new FakeCall(toolId, parent, slots.admit(toolId, parent, isAsync), isAsync)
  /** A call that goes to the line as soon as it is let in. */
  const arrive = (toolId: string, parent?: FakeCall, isAsync = false) => {
    const call = admit(toolId, parent, isAsync)
    void slots.take(call)
    return call
  }
  const end = (call: FakeCall) => {
    call.parent?.children.delete(call)
    slots.leave(call)
    slots.release(call)
  }
  return { slots, admit, arrive, end }
}

const standings = (calls: FakeCall[]) => calls.map(({ standing }) => standing)

describe('slots', () => {
  describe('a call', () => {
    it('that there is room for has its slot at once; one that there is none for is promised it', async () => {
      const { slots, admit, end } = setUp({ one: 1 })
      const [first, second] = [admit('one'), admit('one')]
      assert.equal(slots.take(first), true)
      const promised = slots.take(second)
      assert.ok(promised instanceof Promise)
      end(first)
      assert.equal(second.standing, 'holding', 'it has the slot before it is told')
      assert.equal(await promised, true)
    })

    it('that leaves the line is told so, and the one behind it moves up', async () => {
      const { slots, admit, arrive, end } = setUp({ one: 1 })
      const first = arrive('one')
      const second = admit('one')
      const promised = slots.take(second)
      const third = arrive('one')
      slots.leave(second)
      assert.equal(await promised, false)
      end(first)
      assert.deepEqual(standings([first, second, third]), ['gone', 'gone', 'holding'])
    })

    it('that leaves and is released more than once, changes the count once', () => {
      const { slots, admit, arrive, end } = setUp({ one: 1 })
      const [first, second, third, fourth] = [arrive('one'), arrive('one'), arrive('one'), admit('one')]
      for (let times = 0; times < 3; times++) {
        slots.leave(second!)
        slots.release(second!)
        slots.leave(fourth)
      }
      assert.deepEqual(slots.count('one'), { taken: 1, pending: 1 })
      for (let times = 0; times < 3; times++) {
        slots.leave(first)
        slots.release(first)
        slots.release(first, true)
      }
      assert.deepEqual([slots.count('one'), slots.count()], [{ taken: 1, pending: 0 }, { taken: 1, pending: 0 }])
      end(third)
      assert.deepEqual(slots.count(), { taken: 0, pending: 0 })
    })

    it('of a tool without a limit counts, and is counted off', () => {
      const { slots, arrive, end } = setUp({ free: Infinity })
      const calls = Array.from({ length: 50 }, () => arrive('free'))
      assert.deepEqual([slots.count('free'), slots.count()], [{ taken: 50, pending: 0 }, { taken: 50, pending: 0 }])
      calls.forEach(end)
      assert.deepEqual([slots.count('free'), slots.count()], [{ taken: 0, pending: 0 }, { taken: 0, pending: 0 }])
    })

    it('of a tool that there is not has no slots to count', () => {
      assert.deepEqual(setUp({}).slots.count('constructor'), { taken: 0, pending: 0 })
    })
  })

  describe('order', () => {
    it('is that of arrival at the line, not of admission', () => {
      const { slots, admit, arrive, end } = setUp({ one: 1 })
      const first = arrive('one')
      const [early, late] = [admit('one'), admit('one')]
      void slots.take(late)
      void slots.take(early)
      end(first)
      assert.deepEqual(standings([early, late]), ['waiting', 'holding'])
    })

    it('of calls that wait for a slot of the gateway is that of arrival, whatever their tools', () => {
      const { arrive, end } = setUp({ one: 1, other: 1, free: Infinity }, { calls: 1 })
      const first = arrive('free')
      const waiting = ['other', 'one', 'free', 'one', 'other'].map((id) => arrive(id))
      const served: FakeCall[] = []
      for (let holder: FakeCall | undefined = first; holder !== undefined; holder = waiting.find(({ isHolding }) => isHolding)) {
        end(holder)
        served.push(holder)
      }
      assert.deepEqual(served, [first, ...waiting])
    })

    it('lets pass who is held up by nothing: a full lane keeps no other tool waiting', () => {
      const { arrive } = setUp({ one: 1, free: Infinity }, { calls: 2 })
      const [, blocked, free] = [arrive('one'), arrive('one'), arrive('free')]
      assert.deepEqual(standings([blocked!, free!]), ['waiting', 'holding'])
    })

    it('of a child call and root calls of one tool is that of arrival', () => {
      const { arrive, end } = setUp({ one: 1, free: Infinity })
      const parent = arrive('free')
      const holder = arrive('one')
      const [before, child, after] = [arrive('one'), arrive('one', parent), arrive('one')]
      end(holder)
      assert.deepEqual(standings([before, child, after]), ['holding', 'waiting', 'waiting'])
      end(before)
      assert.deepEqual(standings([child, after]), ['holding', 'waiting'])
    })

    it('a child call passes root calls that have no slot of the gateway, since it needs none', () => {
      const { arrive, end } = setUp({ one: 1, free: Infinity }, { calls: 2 })
      const [parent, other] = [arrive('free'), arrive('free')]
      const root = arrive('one')
      const child = arrive('one', parent)
      assert.deepEqual(standings([root, child]), ['waiting', 'holding'])
      end(other)
      assert.equal(root.standing, 'waiting', 'the lane is full now')
      end(child)
      assert.equal(root.standing, 'holding')
    })

    it('of a long line is served without a deep stack', async () => {
      const { slots, admit, arrive, end } = setUp({ one: 1 }, { waiting: 20_000 })
      const first = arrive('one')
      let served = 0
      for (let n = 0; n < 20_000; n++) {
        const call = admit('one')
        void (slots.take(call) as Promise<boolean>).then(() => { served++; end(call) })
      }
      end(first)
      while (slots.count().pending > 0) await turns()
      assert.equal(served, 20_000)
    })
  })

  describe('a full line', () => {
    it('refuses the call that is one too many, and takes one again once there is a place', () => {
      const { slots, arrive, end } = setUp({ two: 2, free: Infinity }, { waiting: 3 })
      const calls = Array.from({ length: 5 }, () => arrive('two'))
      assert.throws(() => arrive('two'), { code: 'overloaded', message: /3 calls of tool "two"/ })
      assert.deepEqual(slots.count('two'), { taken: 2, pending: 3 })
      assert.equal(arrive('free').standing, 'holding', 'other tools have lines of their own')
      slots.leave(calls[3]!)
      arrive('two')
      assert.throws(() => arrive('two'), { code: 'overloaded' })
      end(calls[0]!)
      arrive('two')
      assert.throws(() => arrive('two'), { code: 'overloaded' })
    })

    it('of no places takes as many as have a slot, those counted that come to it later', () => {
      const { slots, admit, end } = setUp({ two: 2 }, { waiting: 0 })
      const [first, second] = [admit('two'), admit('two')]
      assert.throws(() => admit('two'), { code: 'overloaded' })
      assert.deepEqual([slots.take(first), slots.take(second)], [true, true])
      assert.throws(() => admit('two'), { code: 'overloaded' })
      end(first)
      assert.equal(slots.take(admit('two')), true)
    })

    it('bounds the calls that wait for the gateway, too', () => {
      const { arrive } = setUp({ free: Infinity, other: Infinity }, { calls: 2, waiting: 1 })
      for (let n = 0; n < 3; n++) arrive('free')
      assert.throws(() => arrive('free'), { code: 'overloaded' })
      assert.equal(arrive('other').standing, 'waiting')
    })

    it('inside a slot bounds the child calls that wait there', () => {
      const { arrive } = setUp({ one: 1 }, { waiting: 1 })
      const parent = arrive('one')
      assert.deepEqual(standings([arrive('one', parent), arrive('one', parent)]), ['holding', 'waiting'])
      assert.throws(() => arrive('one', parent), { code: 'overloaded' })
    })
  })

  describe('a child call', () => {
    it('needs no slot of the gateway', () => {
      const { slots, arrive } = setUp({ free: Infinity, two: 2 }, { calls: 1 })
      const parent = arrive('free')
      assert.deepEqual(standings([arrive('two', parent), arrive('free', parent), arrive('two', parent), arrive('two', parent)]), ['holding', 'holding', 'holding', 'waiting'])
      assert.deepEqual([slots.count().taken, slots.count('two').taken], [1, 2])
    })

    it("of its ancestor's tool runs in the ancestor's slot, one at a time, however far up the ancestor is", () => {
      const { slots, arrive, end } = setUp({ one: 1, free: Infinity })
      const parent = arrive('one')
      const between = arrive('free', parent)
      const [first, second] = [arrive('one', between), arrive('one', between)]
      assert.deepEqual(standings([first, second]), ['holding', 'waiting'])
      assert.deepEqual(slots.count('one'), { taken: 1, pending: 0 }, 'it takes no other slot')
      end(first)
      assert.equal(second.standing, 'holding')
    })

    it('that outlives its ancestor keeps the slot taken until it ends', () => {
      const { slots, arrive, end } = setUp({ one: 1 })
      const parent = arrive('one')
      const child = arrive('one', parent)
      const next = arrive('one')
      end(parent)
      assert.deepEqual([parent.standing, next.standing, slots.count().taken], ['lending', 'waiting', 1])
      end(child)
      assert.deepEqual([parent.standing, next.standing], ['gone', 'holding'])
      end(next)
      assert.deepEqual(slots.count(), { taken: 0, pending: 0 })
    })

    it('that outlives two ancestors in one slot keeps it taken, too', () => {
      const { slots, arrive, end } = setUp({ one: 1 })
      const root = arrive('one')
      const child = arrive('one', root)
      const grandchild = arrive('one', child)
      end(child)
      end(root)
      assert.deepEqual(standings([root, child]), ['lending', 'lending'])
      end(grandchild)
      assert.deepEqual(standings([root, child]), ['gone', 'gone'])
      assert.deepEqual([slots.count('one'), slots.count()], [{ taken: 0, pending: 0 }, { taken: 0, pending: 0 }])
    })

    it('does not keep a slot that is given away by force, and gives back none later', () => {
      const { slots, arrive, end } = setUp({ one: 1 })
      const parent = arrive('one')
      const child = arrive('one', parent)
      const [next, afterNext] = [arrive('one'), arrive('one')]
      slots.release(parent, true)
      assert.equal(next.standing, 'holding')
      end(child)
      slots.release(parent)
      assert.deepEqual([afterNext.standing, slots.count('one')], ['waiting', { taken: 1, pending: 1 }])
    })
  })

  describe('limits that change', () => {
    it('to more serve those who wait, in order', () => {
      const { slots, arrive } = setUp({ one: 1 })
      const calls = Array.from({ length: 4 }, () => arrive('one'))
      slots.setLanes(toolsOf({ one: 3 }))
      assert.deepEqual(standings(calls), ['holding', 'holding', 'holding', 'waiting'])
      slots.setLanes(toolsOf({ one: Infinity }))
      assert.equal(calls[3]!.standing, 'holding')
    })

    it('to fewer count the calls that run, and serve the next once enough have ended', () => {
      const { slots, arrive, end } = setUp({ one: Infinity })
      const calls = Array.from({ length: 3 }, () => arrive('one'))
      slots.setLanes(toolsOf({ one: 1 }))
      const next = arrive('one')
      for (const call of calls) {
        assert.equal(next.standing, 'waiting')
        end(call)
      }
      assert.equal(next.standing, 'holding')
    })

    it('of a tool that is gone leave its calls their lane, and a later one of that name counts them', () => {
      const { slots, arrive, end } = setUp({ one: 1, idle: 1 })
      const first = arrive('one')
      const second = arrive('one')
      slots.setLanes([])
      assert.throws(() => arrive('idle'))
      slots.setLanes(toolsOf({ one: 1 }))
      assert.deepEqual(slots.count('one'), { taken: 1, pending: 1 })
      end(first)
      assert.equal(second.standing, 'holding')
    })

    it('from none to one know the calls that there are: a circle through them is found', () => {
      const { slots, arrive, end } = setUp({ a: Infinity, b: Infinity })
      const [a, b] = [arrive('a'), arrive('b')]
      slots.setLanes(toolsOf({ a: 1, b: 1 }))
      const [first, second] = [arrive('b', a), arrive('a', b)]
      assert.deepEqual(standings([first, second]), ['waiting', 'holding'])
      for (const call of [second, b, first, a]) end(call)
      assert.deepEqual(slots.count(), { taken: 0, pending: 0 })
    })

    it('to fewer close no circle unseen', () => {
      const { slots, arrive, end } = setUp({ a: 2, b: 1 })
      const [a, busy, b] = [arrive('a'), arrive('a'), arrive('b')]
      const waiting = [arrive('b', a), arrive('a', b)]
      assert.deepEqual(standings(waiting), ['waiting', 'waiting'], 'one of them can hope for the busy call')
      slots.setLanes(toolsOf({ a: 1, b: 1 }))
      end(busy)
      assert.deepEqual(standings(waiting), ['waiting', 'holding'])
    })
  })
})

interface Step { act: 'root' | 'child' | 'end' | 'cancel', toolId: string, call: number }

const ids = ['one', 'uno', 'two', 'free']
/** More of the sort that can wait in circles. */
const often = ['one', 'uno', 'one', 'uno', 'two', 'free']

describe('slots, whatever comes', () => {
  const steps = fc.array(fc.record<Step>({
    act: fc.constantFrom('root', 'root', 'child', 'child', 'child', 'child', 'end', 'end', 'end', 'end', 'cancel'),
    toolId: fc.constantFrom(...often),
    call: fc.nat({ max: 50 })
  }), { minLength: 5, maxLength: 60, size: 'max' })

  it('no limit is passed, nobody waits where there is room, order is kept, and all are served in the end', () => {
    fc.assert(fc.property(steps, fc.constantFrom(2, 4, 100), (script, calls) => {
      const limits: Limits = { one: 1, uno: 1, two: 2, free: Infinity }
      const { slots, arrive, end } = setUp(limits, { calls })
      const all: FakeCall[] = []
      const served: FakeCall[] = []
      // Whose child call is cancelled goes on, whoever was let into its slot meanwhile.
      const isCancelled = script.some(({ act }) => act === 'cancel')
      const live = (standing: Standing) => all.filter((call) => call.standing === standing)
      const taking = () => [...live('holding'), ...live('lending')]
      const cancel = (call: FakeCall) => {
        for (const child of [...call.children]) cancel(child)
        end(call)
      }

      function check (): void {
        for (const call of live('holding')) {
          if (served.includes(call)) continue
          const { lane } = call
          assert.ok(taking().filter((other) => other.lane === lane).length <= lane.limit, 'no limit is passed')
          const { owner } = lane as { owner: FakeCall | undefined }
          if (owner !== undefined) {
            assert.ok(owner.standing === 'lending' || owner.children.size > 0 || isCancelled, 'a slot is used by another call while its holder stands still')
            assert.ok(call.parent !== undefined)
          }
          if (call.parent === undefined) {
            const earlier = all.slice(0, all.indexOf(call)).filter((other) => other.parent === undefined && other.toolId === call.toolId)
            assert.ok(!earlier.some(({ standing }) => standing === 'waiting'), 'first come, first served')
          }
          served.push(call)
        }
        const roots = taking().filter(({ parent }) => parent === undefined)
        assert.ok(roots.length <= calls)
        assert.equal(slots.count().taken, roots.length)
        for (const call of live('waiting')) {
          assert.ok(!call.lane.hasRoom || (call.parent === undefined && roots.length >= calls), 'nobody waits where there is room')
        }
        for (const id of ids) {
          const own = all.filter((call) => call.toolId === id && call.lane.owner === undefined)
          assert.deepEqual(slots.count(id), {
            taken: own.filter((call) => taking().includes(call)).length,
            pending: own.filter(({ standing }) => standing === 'waiting').length
          })
        }
      }

      for (const { act, toolId, call } of script) {
        const holding = live('holding')
        if (act === 'root') all.push(arrive(toolId))
        else if (act === 'child' && holding.length > 0) all.push(arrive(toolId, holding[call % holding.length]))
        else if (act === 'cancel' && all.length > 0) cancel(all[call % all.length]!)
        else if (act === 'end') {
          const able = holding.filter(({ children }) => children.size === 0)
          if (able.length > 0) end(able[call % able.length]!)
        }
        check()
      }
      for (let able = live('holding'); able.length > 0; able = live('holding')) {
        const next = able.find(({ children }) => children.size === 0)
        assert.ok(next !== undefined, 'all that hold a slot wait for each other')
        end(next)
        check()
      }
      assert.deepEqual([slots.count(), live('waiting').length], [{ taken: 0, pending: 0 }, 0])
    }), { numRuns: 1000 })
  })
})
