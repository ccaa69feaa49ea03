import assert from 'node:assert/strict'
import { describe, it, type TestContext } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import fc from 'fast-check'
import { Hub, type HubOptions } from '../../src/events/hub.ts'
import type { SubscribeOptions } from '../../src/events/subscription.ts'
import { createIdSource } from '../../src/ids.ts'
import { MemoryStore } from '../../src/store/memory.ts'
import { defaultRetention } from '../../src/store/retention.ts'
import type { ReadLimits, Store } from '../../src/store/store.ts'
import { endOf, invocationIdOf, startOf } from '../conformance/calls.ts'
import { FakeClock } from '../conformance/fake-clock.ts'
import { turns, until } from '../conformance/until.ts'
import { FakeSink } from './fake-sink.ts'
import { behaviours, type Late } from './late-stores.ts'

const ids = createIdSource()

interface Setting extends Partial<Omit<HubOptions, 'store' | 'clock'>> {
  maxEvents?: number
  late?: Late
}

function setUp (t: TestContext, { maxEvents = 50_000, late, ...options }: Setting = {}) {
  const clock = new FakeClock()
  const memory = new MemoryStore({ epoch: ids.epoch(), now: () => clock.now(), ...defaultRetention.memory, maxRecords: 1000, maxEvents })
  const store: Store = late === undefined
    ? memory
    : new Proxy(memory, {
      get (target, name) {
        if (name === 'readEvents') return (after: number, limits: ReadLimits) => late(() => target.readEvents(after, limits))
        const member: unknown = Reflect.get(target, name, target)
        return typeof member === 'function' ? member.bind(target) : member
      }
    })
  const hub = new Hub({ store, clock, maxSubscribers: 100, maxBacklogBytes: 1000, maxPartBytes: 1000, heartbeatMs: 15_000, ...options })
  t.after(() => hub.close(0))

  function subscribe (subscription: Partial<SubscribeOptions> = {}, sink = new FakeSink()): FakeSink {
    hub.subscribe(sink, { filter: {}, view: 'full', ...subscription })
    return sink
  }
  /** A whole call: two events and one for each update. */
  function run (fields: Parameters<typeof startOf>[0] = {}, updates = 0): string {
    const start = startOf(fields)
    memory.begin(start)
    for (let n = 0; n < updates; n++) memory.progress(start.invocationId, `{"content":[],"details":${n},"isError":false}`)
    memory.settle(start.invocationId, endOf())
    return start.invocationId
  }
  const from = (first: number, last: number) => Array.from({ length: last - first + 1 }, (_, n) => first + n)
  return { clock, store: memory, hub, subscribe, run, from }
}

describe('hub', () => {
  describe('a new subscriber', () => {
    it('is told at once that the connection stands, and the place where it starts', (t) => {
      const { subscribe, run, store } = setUp(t)
      run()
      const sink = subscribe()
      assert.equal(sink.text, `: connected\nretry: 2000\n\nid: ${store.eventId(2)}\n\n`)
    })

    it('gets what happens from then on, and nothing of before', async (t) => {
      const { subscribe, run } = setUp(t)
      run()
      const sink = subscribe()
      run()
      await turns()
      assert.deepEqual(sink.places, [3, 4])
    })

    it('gets every event that it asked for, whole', async (t) => {
      const { subscribe, run, store } = setUp(t)
      const sink = subscribe()
      const id = run({ input: '{"a":1}', toolCallId: 'mine' }, 1)
      await turns()
      assert.deepEqual(sink.messages.map(({ id, event }) => [id, event]), [
        [store.eventId(1), 'tool_execution_start'], [store.eventId(2), 'tool_execution_update'], [store.eventId(3), 'tool_execution_end']
      ])
      assert.deepEqual(sink.messages.map(({ event, data }) => event === data.type && data.invocationId === id && data.toolCallId === 'mine'), [true, true, true])
      assert.deepEqual([sink.messages[0]!.data.args, sink.messages[1]!.data.partialResult.details], [{ a: 1 }, 0])
    })

    it('gets what one turn brought in one write', async (t) => {
      const { subscribe, run } = setUp(t)
      const sink = subscribe()
      await turns()
      const before = sink.writes
      for (let n = 0; n < 10; n++) run()
      await turns()
      assert.equal(sink.writes, before + 1)
      assert.equal(sink.places.length, 20)
    })

    it('with a filter gets only what passes it, in the view that it asked for', async (t) => {
      const { subscribe, run } = setUp(t)
      const ends = subscribe({ filter: { type: ['tool_execution_end'], toolId: ['b'] }, view: 'receipt' })
      run({ toolId: 'a' })
      run({ toolId: 'b' })
      await turns()
      assert.deepEqual(ends.places, [4])
      assert.ok(!('result' in ends.messages[0]!.data))
    })

    it('of one invocation among many gets that one', async (t) => {
      const { subscribe, run } = setUp(t)
      const [one, two] = [invocationIdOf(1e6), invocationIdOf(1e6 + 1)]
      const sinks = [subscribe({ filter: { invocationId: [one] } }), subscribe({ filter: { invocationId: [two, one] } }), subscribe({ filter: { invocationId: [two, two] } }), subscribe({ filter: { invocationId: [] } })]
      run({ invocationId: one })
      run()
      run({ invocationId: two })
      await turns()
      assert.deepEqual(sinks.map((sink) => sink.places), [[1, 2], [1, 2, 5, 6], [5, 6], []])
    })

    it('does not hear of parts over the limit, but of their omission', async (t) => {
      const { subscribe, run } = setUp(t, { maxPartBytes: 100 })
      const sink = subscribe()
      run({ input: JSON.stringify('x'.repeat(200)) })
      await turns()
      assert.deepEqual([sink.messages[0]!.data.omitted, 'args' in sink.messages[0]!.data], [['args'], false])
    })
  })

  describe('resuming', () => {
    it('gives each event after the id, once, in order', async (t) => {
      const { subscribe, run, store, from } = setUp(t)
      for (let n = 0; n < 5; n++) run()
      const sink = subscribe({ after: store.eventId(3) })
      await turns()
      run()
      await turns()
      assert.deepEqual(sink.places, from(4, 12))
      assert.ok(!sink.text.includes('events_lost'))
    })

    it('from earliest gives all that is kept, and tells of no loss', async (t) => {
      const { subscribe, run, store, from } = setUp(t, { maxEvents: 10 })
      for (let n = 0; n < 20; n++) run()
      const sink = subscribe({ after: 'earliest' })
      await turns()
      assert.deepEqual(sink.places, from(store.earliest, 40))
      assert.ok(!sink.text.includes('events_lost'))
    })

    it('through many pages gives each once', async (t) => {
      const { subscribe, run, from } = setUp(t)
      for (let n = 0; n < 1000; n++) run()
      const sink = subscribe({ after: 'earliest' })
      await until(() => sink.places.length >= 2000, '2,000 events')
      run()
      await turns()
      assert.deepEqual(sink.places, from(1, 2002))
    })

    it('with a filter that nothing passes joins all the same', async (t) => {
      const { subscribe, run, hub } = setUp(t)
      for (let n = 0; n < 600; n++) run()
      const sink = subscribe({ after: 'earliest', filter: { toolId: ['b'] } })
      await turns(6)
      run({ toolId: 'b' })
      await turns()
      assert.deepEqual(sink.places, [1201, 1202])
      assert.equal(hub.size, 1)
    })

    it('each stream that is cut and resumed by its last id misses nothing', async (t) => {
      await fc.assert(fc.asyncProperty(fc.array(fc.constantFrom('run', 'turn', 'cut', 'beat'), { minLength: 5, maxLength: 40 }), async (steps) => {
        const { subscribe, run, store, clock, hub, from } = setUp(t)
        run()
        let sink = subscribe({ after: 'earliest' })
        let last = 'earliest'
        const given: number[] = []
        for (const step of [...steps, 'turn', 'turn', 'turn']) {
          if (step === 'run') run()
          else if (step === 'beat') clock.advance(16_000)
          else if (step === 'turn') await nextTurn()
          else {
            given.push(...sink.places)
            sink.leave()
            last = sink.lastId ?? last
            sink = subscribe({ after: last })
          }
        }
        await turns()
        given.push(...sink.places)
        assert.deepEqual(given, from(1, store.head))
        hub.close(0)
      }), { numRuns: 60 })
    })
  })

  describe('the seam between replay and live', () => {
    for (const [name, late] of behaviours) {
      it(`${name}: no gap, no double, whatever comes between`, async (t) => {
        const step = fc.oneof(fc.record({ act: fc.constant('run'), updates: fc.nat({ max: 2 }) }), fc.record({ act: fc.constantFrom('turn', 'subscribe', 'resume', 'microtask', 'leave'), updates: fc.constant(0) }))
        await fc.assert(fc.asyncProperty(fc.array(step, { minLength: 3, maxLength: 40 }), async (steps) => {
          const { subscribe, run, store, hub, from } = setUp(t, late === undefined ? {} : { late })
          const subscribers: { sink: FakeSink, after: number, left: boolean }[] = []
          for (const { act, updates } of steps) {
            if (act === 'run') run({}, updates)
            else if (act === 'turn') await nextTurn()
            else if (act === 'microtask') await null
            else if (act === 'leave') {
              const last = subscribers.findLast(({ left }) => !left)
              if (last !== undefined) {
                last.left = true
                last.sink.leave()
              }
            } else {
              const after = act === 'resume' ? Math.floor(store.head / 2) : store.head
              subscribers.push({ sink: subscribe(act === 'resume' ? { after: store.eventId(after) } : {}), after, left: false })
            }
          }
          await until(() => subscribers.every(({ sink, left }) => left || sink.places.at(-1) === store.head || sink.places.length === 0), 'the last event everywhere')
          await turns(8)
          for (const { sink, after, left } of subscribers) {
            const expected = from(after + 1, store.head)
            assert.deepEqual(sink.places, left ? expected.slice(0, sink.places.length) : expected)
          }
          hub.close(0)
        }), { numRuns: 60 })
      })
    }

    it('a page that was read before the last event was published does not lose it', async (t) => {
      const held = Promise.withResolvers<void>()
      const { subscribe, run, from } = setUp(t, { late: async (read) => { const page = read(); await held.promise; return page } })
      run()
      const sink = subscribe({ after: 'earliest' })
      run()
      await turns()
      assert.deepEqual(sink.places, [])
      held.resolve()
      await turns()
      assert.deepEqual(sink.places, from(1, 4))
    })
  })

  describe('lost history', () => {
    it('an id that is unknown, foreign, malformed or past the end is told, then everything kept follows', async (t) => {
      const { subscribe, run, store, from } = setUp(t)
      run()
      for (const after of [`${'0'.repeat(16)}-1`, 'nonsense', store.eventId(99), '"\n\u2028', `${store.eventId(1)}x`]) {
        const sink = subscribe({ after })
        await turns()
        assert.deepEqual(sink.messages[0], { id: undefined, event: 'events_lost', data: { requestedId: after, earliestId: store.eventId(1) } })
        assert.deepEqual(sink.places, from(1, 2))
        assert.equal(sink.messages.filter(({ event }) => event === 'events_lost').length, 1)
      }
    })

    it('an id whose successors are gone is told, with the first that follows', async (t) => {
      const { subscribe, run, store, from } = setUp(t, { maxEvents: 10 })
      for (let n = 0; n < 20; n++) run()
      const sink = subscribe({ after: store.eventId(5) })
      await turns()
      assert.deepEqual(sink.messages[0]!.data, { requestedId: store.eventId(5), earliestId: store.eventId(31) })
      assert.deepEqual(sink.places, from(31, 40))
    })

    it('an id whose successors are all kept is not', async (t) => {
      const { subscribe, run, store, from } = setUp(t, { maxEvents: 10 })
      for (let n = 0; n < 20; n++) run()
      const sink = subscribe({ after: store.eventId(30) })
      await turns()
      assert.ok(!sink.text.includes('events_lost'))
      assert.deepEqual(sink.places, from(31, 40))
    })

    it('between two pages of a replay is told where it happens', async (t) => {
      let reads = 0
      const { subscribe, run, store } = setUp(t, { maxEvents: 1200, late: async (read) => { const page = read(); if (++reads === 1) for (let n = 0; n < 600; n++) run(); return page } })
      for (let n = 0; n < 600; n++) run()
      const sink = subscribe({ after: 'earliest' })
      await until(() => sink.places.at(-1) === store.head, 'the end')
      const { messages } = sink
      const at = messages.findIndex(({ event }) => event === 'events_lost')
      assert.equal(at, 500)
      assert.deepEqual(messages[at]!.data, { requestedId: store.eventId(500), earliestId: store.eventId(1201) })
      assert.equal(messages[at + 1]!.id, store.eventId(1201))
    })

    it('of an empty log names the next to come', async (t) => {
      const { subscribe, store } = setUp(t)
      const sink = subscribe({ after: 'nonsense' })
      await turns()
      assert.deepEqual(sink.messages, [{ id: undefined, event: 'events_lost', data: { requestedId: 'nonsense', earliestId: store.eventId(1) } }])
    })

    it('by age names the first that really follows', async (t) => {
      const clock = new FakeClock()
      const store = new MemoryStore({ epoch: ids.epoch(), now: () => clock.now(), ...defaultRetention.memory, maxRecords: 10, maxEvents: 100, maxEventAgeMs: 1000 })
      const hub = new Hub({ store, clock, maxSubscribers: 1, maxBacklogBytes: 1000, maxPartBytes: 1000, heartbeatMs: 15_000 })
      t.after(() => hub.close(0))
      const start = startOf()
      store.begin(start)
      clock.advance(900)
      store.settle(start.invocationId, endOf())
      clock.advance(200)
      const sink = new FakeSink()
      hub.subscribe(sink, { filter: {}, view: 'full', after: 'nonsense' })
      await turns()
      assert.deepEqual(sink.places, [2])
      assert.deepEqual(sink.messages[0]!.data.earliestId, store.eventId(2))
    })
  })

  describe('a slow subscriber', () => {
    it('at its bound is not cut', async (t) => {
      const { subscribe, run } = setUp(t)
      const sink = subscribe()
      await turns()
      sink.backlog = 1000
      run()
      await turns()
      assert.equal(sink.state, 'open')
      assert.deepEqual(sink.places, [1, 2])
    })

    it('past its bound is cut, and nobody else waits; by its last id it misses nothing', async (t) => {
      const { subscribe, run, hub, from } = setUp(t)
      const [slow, quick] = [subscribe(), subscribe()]
      run()
      await turns()
      slow.backlog = 1001
      run()
      await turns()
      assert.deepEqual([slow.state, quick.state, hub.size], ['destroyed', 'open', 1])
      assert.deepEqual([slow.places, quick.places], [from(1, 2), from(1, 4)])
      const again = subscribe({ after: slow.lastId! })
      await turns()
      assert.deepEqual(again.places, from(3, 4))
    })

    it('in its replay is never cut: it reads the store at its own pace', async (t) => {
      const { subscribe, run, from } = setUp(t)
      for (let n = 0; n < 1500; n++) run()
      const sink = new FakeSink()
      sink.slow = true
      subscribe({ after: 'earliest' }, sink)
      await turns(10)
      const held = sink.places.length
      assert.ok(held >= 1 && held <= 500, `${held} events before it read any`)
      run()
      await turns(10)
      assert.equal(sink.places.length, held)
      while (sink.places.length < 3002) {
        sink.drain()
        await turns(2)
      }
      assert.equal(sink.state, 'open')
      assert.deepEqual(sink.places, from(1, 3002))
    })
  })

  describe('the stream of one call', () => {
    const mine = invocationIdOf(7e6)
    const own = { filter: { invocationId: [mine] }, untilEnd: true, isAnswer: true }

    it('ends after its end event, and not before', async (t) => {
      const { subscribe, store, run, hub } = setUp(t)
      const sink = subscribe({ ...own, after: store.eventId(0) })
      store.begin(startOf({ invocationId: mine }))
      store.progress(mine, '{"content":[],"details":null,"isError":false}')
      run()
      await turns()
      assert.equal(sink.state, 'open')
      store.settle(mine, endOf())
      run()
      await turns()
      assert.equal(sink.state, 'ended')
      assert.deepEqual(sink.messages.map(({ event }) => event), ['tool_execution_start', 'tool_execution_update', 'tool_execution_end'])
      assert.equal(hub.size, 0)
    })

    it('of a call that is over already is replayed, and ends', async (t) => {
      const { subscribe, store, run } = setUp(t)
      run({ invocationId: mine }, 3)
      run()
      const sink = subscribe({ ...own, after: store.eventId(0) })
      await turns()
      assert.equal(sink.state, 'ended')
      assert.equal(sink.messages.length, 5)
    })

    it('whose end is gone from the log is told it as the record has it, under its own id', async (t) => {
      const { subscribe, store, run } = setUp(t, { maxEvents: 4 })
      run({ invocationId: mine }, 1)
      for (let n = 0; n < 5; n++) run()
      const sink = subscribe({ ...own, after: store.eventId(0) })
      await turns()
      assert.equal(sink.state, 'ended')
      assert.deepEqual(sink.messages.map(({ event }) => event), ['events_lost', 'tool_execution_end'])
      assert.deepEqual([sink.messages[1]!.id, sink.messages[1]!.data.invocationId], [store.eventId(3), mine])
    })

    it('that is read slowly is not cut: it goes at its reader\'s pace, to the end', async (t) => {
      const { subscribe, store } = setUp(t)
      const sink = subscribe({ ...own, after: store.eventId(0) })
      store.begin(startOf({ invocationId: mine }))
      await turns()
      sink.slow = true
      sink.backlog = 5000
      for (let n = 0; n < 50; n++) {
        store.progress(mine, `{"content":[],"details":${n},"isError":false}`)
        await nextTurn()
      }
      store.settle(mine, endOf())
      await turns()
      assert.equal(sink.state, 'open')
      while (sink.state === 'open') {
        sink.drain()
        await turns(2)
      }
      assert.equal(sink.state, 'ended')
      assert.deepEqual(sink.messages.slice(1, -1).map(({ data }) => data.partialResult.details), Array.from({ length: 50 }, (_, n) => n))
      assert.equal(sink.messages.at(-1)!.event, 'tool_execution_end')
    })

    it('that is read so slowly that history goes is told of the loss', async (t) => {
      const { subscribe, store, run } = setUp(t, { maxEvents: 20 })
      const sink = subscribe({ ...own, after: store.eventId(0) })
      store.begin(startOf({ invocationId: mine }))
      await turns()
      sink.backlog = 5000
      store.progress(mine, '{"content":[],"details":0,"isError":false}')
      await turns()
      for (let n = 0; n < 30; n++) run()
      store.settle(mine, endOf())
      sink.drain()
      await until(() => sink.state === 'ended', 'the end')
      assert.deepEqual(sink.messages.map(({ event }) => event), ['tool_execution_start', 'events_lost', 'tool_execution_end'])
    })

    it('whose end event is gone ends all the same', async (t) => {
      const { subscribe, store, run } = setUp(t, { maxEvents: 20 })
      run({ invocationId: mine })
      for (let n = 0; n < 30; n++) run()
      const sink = subscribe({ ...own, after: store.eventId(0) })
      await turns()
      assert.equal(sink.messages[0]!.event, 'events_lost')
      assert.notEqual(sink.state, 'open', 'nothing can come any more')
    })

    it('takes no subscriber\'s place', (t) => {
      const { subscribe, hub, store } = setUp(t, { maxSubscribers: 1 })
      for (let n = 0; n < 5; n++) subscribe({ ...own, after: store.eventId(0) })
      assert.doesNotThrow(() => hub.assertRoom())
      assert.equal(hub.size, 5)
    })
  })

  describe('silence', () => {
    it('of 15 s is broken by the place reached', async (t) => {
      const { subscribe, clock, run, store } = setUp(t)
      const sink = subscribe({ filter: { toolId: ['quiet'] } })
      run()
      await turns()
      const before = sink.text
      clock.advance(14_999)
      assert.equal(sink.text, before)
      clock.advance(1001)
      assert.equal(sink.text, `${before}id: ${store.eventId(2)}\n\n`)
      clock.advance(15_000)
      assert.equal(sink.text.split(`id: ${store.eventId(2)}`).length, 3)
    })

    it('is none where events come', async (t) => {
      const { subscribe, clock, run } = setUp(t)
      const sink = subscribe()
      await turns()
      for (let n = 0; n < 10; n++) {
        clock.advance(10_000)
        run()
        await turns()
      }
      assert.equal([...sink.text.matchAll(/^id: .*\n\n/gm)].length, 1, 'only the opening place')
    })

    it('tells no place before which something is still to be written', async (t) => {
      const { subscribe, clock, run, store, from } = setUp(t)
      const sink = subscribe()
      await turns()
      run()
      clock.advance(20_000) // in the very turn of the events
      assert.equal(sink.lastId, store.eventId(2))
      await turns()
      assert.deepEqual(sink.places, from(1, 2))
    })

    it('while a replay waits for the store tells the place that the replay has reached', async (t) => {
      const held = Promise.withResolvers<void>()
      const { subscribe, clock, run, store, from } = setUp(t, { late: async (read) => { await held.promise; return read() } })
      for (let n = 0; n < 3; n++) run()
      const sink = subscribe({ after: store.eventId(2) })
      clock.advance(20_000)
      assert.equal(sink.lastId, store.eventId(2))
      held.resolve()
      await turns()
      assert.deepEqual(sink.places, from(3, 6))
    })

    it('is noticed whatever the wall clock does', async (t) => {
      const { store } = setUp(t)
      const clock = new FakeClock()
      let wall = 1_700_000_000_000
      const hub = new Hub({ store, clock: { now: () => wall, monotonic: () => clock.monotonic(), after: (ms, run) => clock.after(ms, run) }, maxSubscribers: 1, maxBacklogBytes: 1000, maxPartBytes: 1000, heartbeatMs: 15_000 })
      t.after(() => hub.close(0))
      const sink = new FakeSink()
      hub.subscribe(sink, { filter: {}, view: 'full' })
      await turns()
      wall -= 3_600_000 // set back by an hour
      const before = sink.writes
      clock.advance(20_000)
      assert.equal(sink.writes, before + 1)
    })

    it('cuts a subscriber whose backlog is past its bound', async (t) => {
      const { subscribe, clock } = setUp(t)
      const sink = subscribe()
      await turns()
      sink.backlog = 5000
      clock.advance(16_000)
      assert.equal(sink.state, 'destroyed')
    })
  })

  describe('room', () => {
    it('is for so many subscribers, and comes back when one leaves', async (t) => {
      const { subscribe, hub } = setUp(t, { maxSubscribers: 2 })
      const [first] = [subscribe(), subscribe()]
      assert.throws(() => hub.assertRoom(), { code: 'too_many_subscribers' })
      first!.leave()
      assert.doesNotThrow(() => hub.assertRoom())
      first!.leave()
      subscribe()
      assert.throws(() => hub.assertRoom(), { code: 'too_many_subscribers' })
    })

    it('of none refuses everyone', (t) => {
      assert.throws(() => setUp(t, { maxSubscribers: 0 }).hub.assertRoom(), { code: 'too_many_subscribers' })
    })

    it('is not taken by one that was gone before it came', async (t) => {
      const { subscribe, hub, run } = setUp(t)
      const gone = new FakeSink()
      gone.leave()
      try {
        subscribe({}, gone)
      } catch {} // this sink minds being written to; a real one does not
      run()
      await turns()
      assert.equal(hub.size, 0)
    })

    it('is left by those who go, with nothing written to them any more', async (t) => {
      const { subscribe, hub, run } = setUp(t)
      const sinks = [subscribe(), subscribe({ filter: { toolId: ['echo'] } }), subscribe({ filter: { invocationId: ['x', 'y'] } }), subscribe({ after: 'earliest' })]
      run()
      for (const sink of sinks) sink.leave()
      await turns()
      run()
      await turns()
      assert.equal(hub.size, 0)
    })
  })

  describe('closing', () => {
    it('ends every stream cleanly after what was published', async (t) => {
      const { subscribe, hub, run } = setUp(t)
      const sink = subscribe()
      await turns()
      run()
      hub.close(0)
      assert.equal(sink.state, 'ended')
      assert.deepEqual(sink.places, [1, 2])
      assert.equal(hub.size, 0)
    })

    it('refuses newcomers, and ends one that slips through', async (t) => {
      const { subscribe, hub } = setUp(t)
      hub.close(0)
      assert.throws(() => hub.assertRoom(), { code: 'shutting_down' })
      const late = subscribe()
      await turns()
      assert.equal(late.state, 'ended')
      assert.equal(hub.size, 0)
    })

    it('twice is the same as once, and leaves no timer', async (t) => {
      const { hub, clock } = setUp(t)
      assert.equal(clock.pending, 1)
      hub.close(0)
      hub.close(0)
      assert.equal(clock.pending, 0)
    })

    it('gives a stream of one call its end event, also while that is still being read from the store', async (t) => {
      const held = Promise.withResolvers<void>()
      const { subscribe, hub, run, store } = setUp(t, { late: async (read) => { await held.promise; return read() } })
      const mine = invocationIdOf(8e6)
      const sink = subscribe({ filter: { invocationId: [mine] }, untilEnd: true, after: store.eventId(0) })
      run({ invocationId: mine })
      hub.close(0)
      held.resolve()
      await turns()
      assert.deepEqual(sink.messages.map(({ event }) => event), ['tool_execution_start', 'tool_execution_end'])
      assert.equal(sink.state, 'ended')
    })
  })

  it('a store that fails cuts the stream, so that its client comes back', async (t) => {
    const { subscribe, hub } = setUp(t, { late: () => Promise.reject(new Error('disk')) })
    const sink = subscribe({ after: 'earliest' })
    await turns()
    assert.deepEqual([sink.state, hub.size], ['destroyed', 0])
  })

  it('subscribers with the same filter share one burst', async (t) => {
    const { hub, run } = setUp(t)
    const bursts: unknown[][] = [[], []]
    for (const [n, filter] of [{ toolId: ['echo', 'b'] }, { toolId: ['b', 'echo'] }].entries()) {
      const sink = new FakeSink()
      sink.write = (burst) => { bursts[n]!.push(burst) }
      hub.subscribe(sink, { filter, view: 'full' })
    }
    await turns()
    run()
    await turns()
    assert.equal(bursts[0]!.at(-1), bursts[1]!.at(-1))
    assert.equal(bursts[0]!.length, 2)
  })
})
