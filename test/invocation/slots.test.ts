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
  /** One for whose answer nobody waits. */
  const arriveAsync = (toolId: string) => arrive(toolId, undefined, true)
  /** One that was accepted before the gateway was started. */
  const rearrive = (toolId: string) => {
    const call = new FakeCall(toolId, undefined, slots.readmit(toolId), true)
    void slots.take(call)
    return call
  }
  const end = (call: FakeCall) => {
    call.parent?.children.delete(call)
    slots.leave(call)
    slots.release(call)
  }
  return { slots, admit, arrive, arriveAsync, rearrive, end }
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

  describe('async calls', () => {
    it('have slots of their own: neither kind keeps the other waiting', () => {
      const { slots, arrive, arriveAsync, end } = setUp({ free: Infinity, other: Infinity }, { calls: 2, asyncCalls: 3 })
      const unawaited = [arriveAsync('free'), arriveAsync('other'), arriveAsync('free'), arriveAsync('other')]
      assert.deepEqual(standings(unawaited), ['holding', 'holding', 'holding', 'waiting'])
      const awaited = [arrive('free'), arrive('other'), arrive('free')]
      assert.deepEqual(standings(awaited), ['holding', 'holding', 'waiting'])
      assert.deepEqual([slots.count(), slots.count('free'), slots.count('other')], [{ taken: 5, pending: 2 }, { taken: 3, pending: 1 }, { taken: 2, pending: 1 }])
      end(awaited[0]!)
      assert.deepEqual([awaited[2]!.standing, unawaited[3]!.standing], ['holding', 'waiting'])
      end(unawaited[0]!)
      assert.equal(unawaited[3]!.standing, 'holding')
    })

    it('are held to the limit of their tool together with the others', () => {
      const { slots, arrive, arriveAsync } = setUp({ two: 2 })
      assert.deepEqual(standings([arriveAsync('two'), arrive('two'), arriveAsync('two'), arrive('two')]), ['holding', 'holding', 'waiting', 'waiting'])
      assert.deepEqual(slots.count('two'), { taken: 2, pending: 2 })
    })

    it('that wait do not count among those of their tool that others wait behind, nor the other way round', () => {
      const { arrive, arriveAsync } = setUp({ one: 1 }, { waiting: 2, backlog: 3 })
      arrive('one')
      for (let n = 0; n < 3; n++) arriveAsync('one')
      assert.throws(() => arriveAsync('one'), { code: 'overloaded', message: /3 async calls/ })
      for (let n = 0; n < 2; n++) arrive('one')
      assert.throws(() => arrive('one'), { code: 'overloaded', message: /2 calls of tool "one"/ })
    })

    it('are bounded in number while they wait, whatever their tools; one that has room does not wait', () => {
      const { slots, arriveAsync, end } = setUp({ one: 1, uno: 1, free: Infinity }, { backlog: 2 })
      const [one] = [arriveAsync('one'), arriveAsync('uno'), arriveAsync('one'), arriveAsync('uno')]
      for (const id of ['one', 'uno']) assert.throws(() => arriveAsync(id), { code: 'overloaded' })
      assert.equal(arriveAsync('free').standing, 'holding')
      end(one!)
      assert.deepEqual(slots.count().pending, 1)
      arriveAsync('one')
      assert.throws(() => arriveAsync('one'), { code: 'overloaded' })
    })

    it('are bounded while they wait for slots of the gateway, too', () => {
      const { arriveAsync, end } = setUp({ free: Infinity, other: Infinity }, { asyncCalls: 1, backlog: 1 })
      const first = arriveAsync('free')
      assert.equal(arriveAsync('free').standing, 'waiting')
      for (const id of ['free', 'other']) assert.throws(() => arriveAsync(id), { code: 'overloaded' })
      end(first)
      assert.equal(arriveAsync('other').standing, 'waiting')
    })

    it('of which none may wait are taken while there is room, those counted that come to the line later', () => {
      const { slots, admit, end } = setUp({ two: 2 }, { backlog: 0 })
      const [first, second] = [admit('two', undefined, true), admit('two', undefined, true)]
      assert.throws(() => admit('two', undefined, true), { code: 'overloaded' })
      assert.deepEqual([slots.take(first), slots.take(second)], [true, true])
      assert.throws(() => admit('two', undefined, true), { code: 'overloaded' })
      end(first)
      assert.equal(slots.take(admit('two', undefined, true)), true)
    })

    it('that leave before they have a slot, make room in the backlog', () => {
      const { slots, admit, arrive, arriveAsync } = setUp({ one: 1 }, { backlog: 2 })
      arrive('one')
      const [admitted, waiting] = [admit('one', undefined, true), arriveAsync('one')]
      assert.throws(() => arriveAsync('one'), { code: 'overloaded' })
      for (const call of [admitted, waiting]) for (let times = 0; times < 2; times++) slots.leave(call)
      assert.deepEqual(slots.count('one'), { taken: 1, pending: 0 })
      for (let n = 0; n < 2; n++) arriveAsync('one')
      assert.throws(() => arriveAsync('one'), { code: 'overloaded' })
    })

    it('and others that wait for one tool take turns, each kind in its order', () => {
      for (const firstKind of [true, false]) {
        const { arrive, end } = setUp({ one: 1 })
        let holder = arrive('one')
        const early = Array.from({ length: 3 }, () => arrive('one', undefined, firstKind))
        const late = Array.from({ length: 3 }, () => arrive('one', undefined, !firstKind))
        const served: FakeCall[] = []
        for (let n = 0; n < 6; n++) {
          end(holder)
          holder = [...early, ...late].find(({ isHolding }) => isHolding)!
          served.push(holder)
        }
        const [unawaited, awaited] = firstKind ? [early, late] : [late, early]
        assert.deepEqual(served, unawaited.flatMap((call, index) => [call, awaited[index]]))
      }
    })

    it('and others wait no longer than for one of the other kind, however many of these come', () => {
      for (const isAsync of [true, false]) {
        const { arrive, end } = setUp({ one: 1, free: Infinity })
        const crowd = Array.from({ length: 5 }, () => arrive('one', undefined, !isAsync))
        let rare = arrive('one', undefined, isAsync)
        for (let round = 0; round < 10; round++) {
          let between = 0
          while (!rare.isHolding) {
            end(crowd.splice(crowd.findIndex(({ isHolding }) => isHolding), 1)[0]!)
            crowd.push(arrive('one', undefined, !isAsync))
            between++
          }
          assert.ok(between <= 2, `${between} came first`)
          const next = arrive('one', undefined, isAsync)
          end(rare)
          rare = next
        }
      }
    })

    it('have no turn while the gateway has no slot for them', () => {
      const { arrive, arriveAsync, end } = setUp({ one: 1, free: Infinity }, { asyncCalls: 1 })
      const busy = arriveAsync('free')
      const holder = arrive('one')
      const unawaited = arriveAsync('one')
      const awaited = [arrive('one'), arrive('one')]
      end(holder)
      assert.deepEqual(standings([unawaited, ...awaited]), ['waiting', 'holding', 'waiting'])
      end(busy)
      assert.equal(unawaited.standing, 'waiting', 'the tool is busy')
      end(awaited[0]!)
      assert.deepEqual(standings([unawaited, awaited[1]!]), ['holding', 'waiting'])
    })

    it('make child calls, which need no slot of the gateway', () => {
      const { slots, arrive, arriveAsync, end } = setUp({ free: Infinity, one: 1 }, { calls: 1, asyncCalls: 1 })
      const parent = arriveAsync('free')
      const children = [arrive('free', parent), arrive('one', parent), arrive('one', parent)]
      assert.deepEqual([standings(children), slots.count().taken], [['holding', 'holding', 'waiting'], 1])
      assert.equal(arrive('free').standing, 'holding')
      end(children[1]!)
      assert.equal(children[2]!.standing, 'holding')
    })

    it("make child calls of their own tool, which run in the parent's slot", () => {
      const { slots, arrive, arriveAsync, end } = setUp({ one: 1 })
      const parent = arriveAsync('one')
      const child = arrive('one', parent)
      const next = arriveAsync('one')
      end(parent)
      assert.deepEqual([parent.standing, child.standing, next.standing], ['lending', 'holding', 'waiting'])
      end(child)
      assert.deepEqual([parent.standing, next.standing], ['gone', 'holding'])
      end(next)
      assert.deepEqual(slots.count(), { taken: 0, pending: 0 })
    })

    it('that were accepted before are let in however many wait, and then wait as others do', () => {
      const { slots, arriveAsync, rearrive, end } = setUp({ one: 1, free: Infinity }, { asyncCalls: 1, backlog: 1 })
      const again = Array.from({ length: 5 }, () => rearrive('one'))
      assert.deepEqual([standings(again), slots.count()], [['holding', 'waiting', 'waiting', 'waiting', 'waiting'], { taken: 1, pending: 4 }])
      for (const id of ['one', 'free']) assert.throws(() => arriveAsync(id), { code: 'overloaded' }, 'more wait than may')
      for (const call of again) {
        assert.equal(call.standing, 'holding')
        end(call)
      }
      assert.equal(arriveAsync('one').standing, 'holding')
      assert.equal(slots.count().pending, 0)
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

interface Step { act: 'root' | 'async' | 'child' | 'end' | 'cancel', toolId: string, call: number }

const ids = ['one', 'uno', 'two', 'free']
/** More of the sort that can wait in circles. */
const often = ['one', 'uno', 'one', 'uno', 'two', 'free']

describe('slots, whatever comes', () => {
  const steps = fc.array(fc.record<Step>({
    act: fc.constantFrom('root', 'root', 'async', 'async', 'child', 'child', 'child', 'child', 'end', 'end', 'end', 'end', 'cancel'),
    toolId: fc.constantFrom(...often),
    call: fc.nat({ max: 50 })
  }), { minLength: 5, maxLength: 60, size: 'max' })

  it('no limit is passed, nobody waits where there is room, order is kept, kinds take turns, and all are served in the end', () => {
    fc.assert(fc.property(steps, fc.constantFrom(2, 4, 100), fc.constantFrom(1, 3, 100), (script, calls, asyncCalls) => {
      const limits: Limits = { one: 1, uno: 1, two: 2, free: Infinity }
      const { slots, arrive, arriveAsync, end } = setUp(limits, { calls, asyncCalls })
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
            const earlier = all.slice(0, all.indexOf(call)).filter((other) => other.parent === undefined && other.toolId === call.toolId && other.isAsync === call.isAsync)
            assert.ok(!earlier.some(({ standing }) => standing === 'waiting'), 'first come, first served')
          }
          served.push(call)
        }
        const roots = taking().filter(({ parent }) => parent === undefined)
        const ofKind = (isAsync: boolean) => roots.filter((call) => call.isAsync === isAsync).length
        const isFull = (isAsync: boolean) => ofKind(isAsync) >= (isAsync ? asyncCalls : calls)
        assert.ok(ofKind(false) <= calls && ofKind(true) <= asyncCalls)
        assert.equal(slots.count().taken, roots.length)
        for (const call of live('waiting')) {
          assert.ok(!call.lane.hasRoom || (call.parent === undefined && isFull(call.isAsync)), 'nobody waits where there is room')
        }
        checkTurns((isAsync) => isFull(isAsync) || wasFull(isAsync))
        wasFull = isFull
        for (const id of ids) {
          const own = all.filter((call) => call.toolId === id && call.lane.owner === undefined)
          assert.deepEqual(slots.count(id), {
            taken: own.filter((call) => taking().includes(call)).length,
            pending: own.filter(({ standing }) => standing === 'waiting').length
          })
        }
      }

      /** Where one call alone was called from the line, it is not of the kind that was called last while one of the other waits that could be. */
      function checkTurns (isFull: (isAsync: boolean) => boolean): void {
        // Those who left may have been called first.
        const called = [...waited].filter(({ standing }) => standing !== 'waiting')
        waited = new Set(live('waiting'))
        const [call] = called
        if (called.length > 1 || call?.standing === 'gone') return lastCalled.clear()
        if (call === undefined || call.lane.owner !== undefined) return
        const { lane, isAsync } = call
        if (call.parent === undefined && !isFull(!isAsync) && [...waited].some((other) => other.parent === undefined && other.lane === lane && other.isAsync !== isAsync)) {
          assert.notEqual(lastCalled.get(lane), isAsync, 'kinds take turns')
        }
        lastCalled.set(lane, isAsync)
      }
      let waited = new Set<FakeCall>()
      let wasFull = (_isAsync: boolean) => false
      const lastCalled = new Map<Lane, boolean>()

      for (const { act, toolId, call } of script) {
        const holding = live('holding')
        if (act === 'root') all.push(arrive(toolId))
        else if (act === 'async') all.push(arriveAsync(toolId))
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
