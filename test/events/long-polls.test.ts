import assert from 'node:assert/strict'
import { describe, it, type TestContext } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { Value } from '@sinclair/typebox/value'
import fc from 'fast-check'
import { EventList } from '../../src/contract/event.ts'
import { pageLimits } from '../../src/events/event-list.ts'
import { Hub, type HubOptions } from '../../src/events/hub.ts'
import type { PollOptions } from '../../src/events/long-polls.ts'
import { createIdSource } from '../../src/ids.ts'
import { MemoryStore } from '../../src/store/memory.ts'
import { defaultRetention } from '../../src/store/retention.ts'
import type { Store } from '../../src/store/store.ts'
import { emptyResult, endOf, startOf } from '../conformance/calls.ts'
import { FakeClock } from '../conformance/fake-clock.ts'
import { turns, until } from '../conformance/until.ts'
import { FakeSink } from './fake-sink.ts'
import { behaviours, type Late } from './late-stores.ts'

const ids = createIdSource()
const none = new AbortController().signal
const placeOf = (id: string) => Number(id.split('-')[1])
const from = (first: number, last: number) => Array.from({ length: last - first + 1 }, (_, n) => first + n)

interface Setting extends Partial<Omit<HubOptions, 'store' | 'clock'>> {
  maxEvents?: number
  maxEventAgeMs?: number
  late?: Late
}

function setUp (t: TestContext, { maxEvents = 50_000, maxEventAgeMs = 1e9, late, ...options }: Setting = {}) {
  const clock = new FakeClock()
  const memory = new MemoryStore({ epoch: ids.epoch(), now: () => clock.now(), ...defaultRetention.memory, maxRecords: 1000, maxEvents, maxEventAgeMs })
  /** What the hub does with its store. */
  const seen = { reads: [] as number[], followers: 0 }
  const store: Store = new Proxy(memory, {
    get (target, name) {
      if (name === 'readEvents') {
        return (...read: Parameters<MemoryStore['readEvents']>) => {
          seen.reads.push(read[0])
          return late === undefined ? target.readEvents(...read) : late(() => target.readEvents(...read))
        }
      }
      if (name === 'follow') {
        return (listener: Parameters<MemoryStore['follow']>[0]) => {
          seen.followers++
          const stop = target.follow(listener)
          return () => { seen.followers--; stop() }
        }
      }
      const member: unknown = Reflect.get(target, name, target)
      return typeof member === 'function' ? member.bind(target) : member
    }
  })
  const hub = new Hub({ store, clock, maxSubscribers: 100, maxBacklogBytes: 1000, maxPartBytes: 100_000, heartbeatMs: 15_000, ...options })
  t.after(() => hub.close(0))

  /** A poll's answer; undefined for one whose caller went away. */
  async function poll (wanted: Partial<PollOptions> = {}): Promise<EventList | undefined> {
    const text = await hub.polls.poll({ filter: {}, view: 'full', waitMs: 0, signal: none, ...wanted })
    if (text === undefined) return undefined
    const list: unknown = JSON.parse(text)
    assert.ok(Value.Check(EventList, list), text.slice(0, 300))
    return list
  }
  /** The places of a poll's events, where it went on to, and what it says is lost. */
  async function look (wanted: Partial<PollOptions> = {}) {
    const { events, next, lost } = (await poll(wanted))!
    return { places: events.map(({ id }) => placeOf(id)), next: placeOf(next), ...(lost === undefined ? {} : { lost }) }
  }
  /** The same of a poll that is left to wait. */
  function begin (wanted: Partial<PollOptions> = {}) {
    const state: { answer: Awaited<ReturnType<typeof look>> | undefined } = { answer: undefined }
    void look({ waitMs: 30_000, ...wanted }).then((answer) => { state.answer = answer })
    return state
  }
  /** A whole call: two events and one for each update. */
  function run (fields: Parameters<typeof startOf>[0] = {}, updates = 0): void {
    const start = startOf(fields)
    memory.begin(start)
    for (let n = 0; n < updates; n++) memory.progress(start.invocationId, `{"content":[],"details":${n},"isError":false}`)
    memory.settle(start.invocationId, endOf())
  }
  return { clock, store: memory, hub, seen, poll, look, begin, run, id: (place: number) => memory.eventId(place) }
}

describe('a poll', () => {
  it('without an id starts now: it gives nothing of before, and the place', async (t) => {
    const { look, run } = setUp(t)
    assert.deepEqual(await look(), { places: [], next: 0 })
    run()
    assert.deepEqual(await look(), { places: [], next: 2 })
  })

  it('gives each event after the id, whole, with the id of each', async (t) => {
    const { poll, run, id } = setUp(t)
    run()
    run({ input: '{"a":1}', toolCallId: 'mine"' }, 1)
    const { events, next } = (await poll({ after: id(2) }))!
    assert.deepEqual(events.map(({ id, event }) => [id, event.type, event.toolCallId]), [
      [id(3), 'tool_execution_start', 'mine"'], [id(4), 'tool_execution_update', 'mine"'], [id(5), 'tool_execution_end', 'mine"']
    ])
    assert.deepEqual((events[0]!.event as { args: unknown }).args, { a: 1 })
    assert.equal(next, id(5))
  })

  it('at the end of the log gives nothing, and the same place', async (t) => {
    const { look, run, id } = setUp(t)
    run()
    assert.deepEqual(await look({ after: id(2) }), { places: [], next: 2 })
  })

  it('gives the very text that a stream has as its data', async (t) => {
    const { hub, run } = setUp(t, { maxPartBytes: 100 })
    for (const updates of [0, 2]) run({ toolCallId: `"\\\u2028${updates}`, runId: 'r' }, updates)
    run({ input: JSON.stringify('x'.repeat(200)) })
    for (const view of ['full', 'receipt'] as const) {
      const sink = new FakeSink()
      hub.subscribe(sink, { filter: {}, view, after: 'earliest' })
      await turns()
      const text = await hub.polls.poll({ filter: {}, view, after: 'earliest', waitMs: 0, signal: none })
      const entries = [...sink.text.matchAll(/^id: ([^\n]*)\nevent: [^\n]*\ndata: ([^\n]*)\n\n/gm)].map(([, id, data]) => `{"id":"${id}","event":${data}}`)
      assert.equal(entries.length, 8)
      assert.equal(text, `{"events":[${entries.join(',')}],"next":"${sink.lastId}"}`)
    }
  })

  it('with a filter goes on past what does not pass it', async (t) => {
    const { look, run, seen, id } = setUp(t)
    run({ toolId: 'a' })
    run({ toolId: 'b' })
    run({ toolId: 'a' })
    const filter = { toolId: ['b'], type: ['tool_execution_end'] }
    assert.deepEqual(await look({ after: 'earliest', filter }), { places: [4], next: 6 })
    assert.deepEqual(await look({ after: id(6), filter }), { places: [], next: 6 })
    assert.deepEqual(seen.reads, [0, 6])
  })

  it('follows nothing, and takes nobody\'s place', async (t) => {
    const { look, hub, seen, clock } = setUp(t, { maxSubscribers: 0 })
    await look({ after: 'earliest' })
    assert.deepEqual([seen.followers, hub.size, clock.pending], [0, 0, 1])
  })

  it('of a store that fails, fails, and leaves nothing behind', async (t) => {
    const { poll, hub, clock } = setUp(t, { late: () => Promise.reject(new Error('disk')) })
    for (const waitMs of [0, 1000]) await assert.rejects(poll({ waitMs }), /disk/)
    assert.deepEqual([hub.size, clock.pending], [0, 1])
  })
})

describe('a page', () => {
  it('has so many events at most, and the next one goes on', async (t) => {
    const { look, run, id } = setUp(t)
    for (let n = 0; n < 1100; n++) run()
    const first = await look({ after: 'earliest' })
    assert.deepEqual(first, { places: from(1, pageLimits.events), next: pageLimits.events })
    const second = await look({ after: id(first.next) })
    assert.deepEqual(second.places, from(1001, 2000))
    assert.deepEqual(await look({ after: id(second.next) }), { places: from(2001, 2200), next: 2200 })
  })

  it('has so many bytes at most; an event over it comes alone', async (t) => {
    const { hub, store, id } = setUp(t, { maxPartBytes: 1e9 })
    const half = pageLimits.bytes / 2
    const begin = (length: number, filling = 'x') => store.begin(startOf({ input: JSON.stringify(filling.repeat(length)) }))
    for (const length of [half - 2000, half - 2000, 10_000, 3 * half, 10]) begin(length)
    begin(half / 2, 'ä')
    begin(half / 2 + 10, 'ä')
    const pages: number[][] = []
    for (let after = id(0); after !== id(store.head);) {
      const text = await hub.polls.poll({ filter: {}, view: 'full', after, waitMs: 0, signal: none })
      const { events, next } = JSON.parse(text!) as EventList
      pages.push(events.map(({ id }) => placeOf(id)))
      assert.ok(events.length === 1 || Buffer.byteLength(text!) < pageLimits.bytes + 2000)
      assert.equal(next, events.at(-1)!.id)
      after = next
    }
    assert.deepEqual(pages, [[1, 2], [3], [4], [5, 6], [7]])
  })

  it('is looked for in turns: others get theirs between two pages of the store', async (t) => {
    const { look, run, seen } = setUp(t)
    for (let n = 0; n < 1500; n++) run()
    const looking = look({ after: 'earliest', filter: { toolId: ['b'] } })
    for (let before = 0; seen.reads.length < 6; before = seen.reads.length) {
      await nextTurn()
      assert.ok(seen.reads.length <= before + 1, 'more than one in a turn')
    }
    assert.deepEqual(await looking, { places: [], next: 3000 })
    assert.deepEqual(seen.reads, [0, 500, 1000, 1500, 2000, 2500])
  })

  it('is not looked for any further once the caller is gone', async (t) => {
    const { poll, run, seen, hub } = setUp(t)
    for (let n = 0; n < 1500; n++) run()
    const caller = new AbortController()
    const looking = poll({ after: 'earliest', filter: { toolId: ['b'] }, signal: caller.signal })
    await nextTurn()
    caller.abort()
    const { length } = seen.reads
    assert.equal(await looking, undefined)
    assert.ok(seen.reads.length <= length + 1 && length < 6, `${length} reads, then ${seen.reads.length}`)
    assert.equal(hub.size, 0)
  })

  it('of a log that keeps growing ends where the log ended when it began', async (t) => {
    let grow = () => {}
    const { look, run } = setUp(t, { late: async (read) => { const page = read(); grow(); return page } })
    run()
    grow = run
    assert.deepEqual(await look({ after: 'earliest', filter: { toolId: ['b'] } }), { places: [], next: 2 })
  })
})

describe('a loss', () => {
  it('is told of an id that is unknown, foreign, malformed or past the end; then everything kept', async (t) => {
    const { look, run, id } = setUp(t)
    run()
    for (const after of [`${'0'.repeat(16)}-1`, 'nonsense', id(99), '"\n\u2028\ud800', `${id(1)}x`]) {
      assert.deepEqual(await look({ after }), { places: [1, 2], next: 2, lost: { requestedId: after, earliestId: id(1) } })
    }
  })

  it('is told of an id whose successors are gone, and of none whose successors are kept', async (t) => {
    const { look, run, id } = setUp(t, { maxEvents: 10 })
    for (let n = 0; n < 20; n++) run()
    assert.deepEqual(await look({ after: id(5) }), { places: from(31, 40), next: 40, lost: { requestedId: id(5), earliestId: id(31) } })
    assert.deepEqual(await look({ after: id(30) }), { places: from(31, 40), next: 40 })
    assert.deepEqual(await look({ after: 'earliest' }), { places: from(31, 40), next: 40 })
  })

  it('in an empty log names the next to come, and leads to it', async (t) => {
    const { look, run, id } = setUp(t)
    assert.deepEqual(await look({ after: 'nonsense' }), { places: [], next: 0, lost: { requestedId: 'nonsense', earliestId: id(1) } })
    run()
    assert.deepEqual(await look({ after: id(0) }), { places: [1, 2], next: 2 })
  })

  it('by age names the first that really follows', async (t) => {
    const { look, store, clock, id } = setUp(t, { maxEventAgeMs: 1000 })
    const start = startOf()
    store.begin(start)
    clock.advance(900)
    store.settle(start.invocationId, endOf())
    clock.advance(200)
    assert.deepEqual(await look({ after: 'nonsense' }), { places: [2], next: 2, lost: { requestedId: 'nonsense', earliestId: id(2) } })
  })

  it('is answered at once, though there is no event to go with it', async (t) => {
    const { look, run, hub, id } = setUp(t, { maxEvents: 10 })
    for (let n = 0; n < 20; n++) run()
    const told = await look({ after: id(5), filter: { toolId: ['b'] }, waitMs: 1000 })
    assert.deepEqual(told, { places: [], next: 40, lost: { requestedId: id(5), earliestId: id(31) } })
    assert.equal(hub.size, 0)
  })

  /** A log that forgets while its second page is being read. */
  function forgetful (t: TestContext, toolIds: string[]) {
    let reads = 0
    const log = setUp(t, {
      maxEvents: 1200,
      late: async (read) => {
        if (++reads === 2) for (let n = 0; n < 600; n++) log.run({ toolId: 'later' })
        return read()
      }
    })
    for (let n = 0; n < 600; n++) log.run({ toolId: toolIds[n] ?? 'other' })
    return log
  }

  it('between two pages of the store ends the page where events were collected; who goes on is told', async (t) => {
    const { look, id } = forgetful(t, ['first'])
    const filter = { toolId: ['first', 'later'], type: ['tool_execution_end'] }
    const first = await look({ after: 'earliest', filter })
    assert.deepEqual(first, { places: [2], next: 500 })
    const second = await look({ after: id(first.next), filter })
    assert.deepEqual(second.lost, { requestedId: id(500), earliestId: id(1201) })
    assert.deepEqual(second.places[0], 1202)
  })

  it('between two pages of the store is told now where nothing was collected', async (t) => {
    const { look, id } = forgetful(t, [])
    const { places, next, lost } = await look({ after: 'earliest', filter: { toolId: ['later'] } })
    assert.deepEqual(lost, { requestedId: id(500), earliestId: id(1201) })
    assert.deepEqual([places, next], [from(1201, 1700), 1700])
  })

  it('after another one ends the page, so that each is told', async (t) => {
    const { look, id } = forgetful(t, [])
    const filter = { toolId: ['later'] }
    assert.deepEqual(await look({ after: 'nonsense', filter }), { places: [], next: 500, lost: { requestedId: 'nonsense', earliestId: id(1) } })
    assert.deepEqual((await look({ after: id(500), filter })).lost, { requestedId: id(500), earliestId: id(1201) })
  })
})

describe('a poll that waits', () => {
  it('is answered with all that the turn of the first event brought', async (t) => {
    const { begin, run, seen, hub, clock } = setUp(t)
    const waiting = begin()
    await turns()
    assert.deepEqual([waiting.answer, seen.followers, hub.size], [undefined, 1, 1])
    run()
    run({}, 3)
    await turns()
    assert.deepEqual(waiting.answer, { places: from(1, 7), next: 7 })
    assert.deepEqual([seen.followers, hub.size, clock.pending], [0, 0, 1])
  })

  it('does not wait where there is something already', async (t) => {
    const { look, run, seen } = setUp(t)
    run()
    assert.deepEqual(await look({ after: 'earliest', waitMs: 1000 }), { places: [1, 2], next: 2 })
    assert.equal(seen.followers, 0)
  })

  it('is answered with nothing at the end of its time, from where it has listened', async (t) => {
    const { begin, run, clock, seen, hub } = setUp(t)
    const waiting = begin({ filter: { toolId: ['b'] }, waitMs: 2000 })
    await turns()
    run()
    clock.advance(1999)
    run()
    await turns()
    assert.equal(waiting.answer, undefined)
    clock.advance(1)
    await turns()
    assert.deepEqual(waiting.answer, { places: [], next: 4 })
    assert.deepEqual([seen.followers, hub.size, clock.pending], [0, 0, 1])
  })

  it('whose time ends in the turn of its event gets the event', async (t) => {
    const { begin, run, clock } = setUp(t)
    const waiting = begin({ waitMs: 2000 })
    await turns()
    run()
    clock.advance(2000)
    await turns()
    assert.deepEqual(waiting.answer, { places: [1, 2], next: 2 })
  })

  it('goes past what it does not want, and what it listened to need not be kept', async (t) => {
    const { begin, run } = setUp(t, { maxEvents: 10 })
    const waiting = begin({ filter: { toolId: ['b'] } })
    await turns()
    for (let n = 0; n < 50; n++) run()
    await turns()
    run({ toolId: 'b' })
    await turns()
    assert.deepEqual(waiting.answer, { places: [101, 102], next: 102 })
  })

  it('is told where its own event is gone before it could be read', async (t) => {
    const { begin, run, id } = setUp(t, { maxEvents: 10 })
    const waiting = begin({ filter: { toolId: ['b'] } })
    await turns()
    run()
    run({ toolId: 'b' })
    for (let n = 0; n < 50; n++) run()
    await turns()
    assert.deepEqual(waiting.answer, { places: [], next: 104, lost: { requestedId: id(2), earliestId: id(95) } })
  })

  it('costs an event that it does not want its test, and nothing else', async (t) => {
    const { begin, run, seen } = setUp(t)
    const waiting = Array.from({ length: 100 }, (_, n) => begin({ filter: { toolId: ['b'], runId: [`r${n}`] } }))
    await turns()
    const { length } = seen.reads
    for (let n = 0; n < 20; n++) run()
    await turns()
    assert.deepEqual([seen.reads.length, seen.followers], [length, 1])
    run({ toolId: 'b', runId: 'r7' })
    await turns()
    assert.deepEqual([seen.reads.length, waiting.filter(({ answer }) => answer !== undefined).length], [length + 1, 1])
    assert.deepEqual(waiting[7]!.answer, { places: [41, 42], next: 42 })
  })

  it('is forgotten when its caller goes away', async (t) => {
    const { poll, run, seen, hub, clock } = setUp(t)
    const callers = [new AbortController(), new AbortController()]
    const polls = callers.map(({ signal }) => poll({ waitMs: 1000, signal }))
    await turns()
    assert.deepEqual([hub.size, seen.followers, clock.pending], [2, 1, 3])
    callers[0]!.abort()
    assert.equal(await polls[0], undefined)
    assert.deepEqual([hub.size, seen.followers, clock.pending], [1, 1, 2])
    // In the very turn of an event, too.
    run()
    callers[1]!.abort()
    assert.equal(await polls[1], undefined)
    await turns()
    assert.deepEqual([hub.size, seen.followers, clock.pending], [0, 0, 1])
  })

  it('whose caller was gone before it came is none', async (t) => {
    const { poll, seen } = setUp(t)
    assert.equal(await poll({ waitMs: 1000, signal: AbortSignal.abort() }), undefined)
    assert.deepEqual([seen.reads, seen.followers], [[], 0])
  })

  it('counts as a subscriber, beside the streams, until it is answered', async (t) => {
    const { hub, poll, look, begin, run, seen } = setUp(t, { maxSubscribers: 2 })
    const sink = new FakeSink()
    hub.subscribe(sink, { filter: {}, view: 'full' })
    const waiting = begin()
    await turns()
    const { length } = seen.reads
    await assert.rejects(poll({ after: 'earliest', waitMs: 1000 }), { code: 'too_many_subscribers' })
    assert.throws(() => hub.assertRoom(), { code: 'too_many_subscribers' })
    assert.deepEqual([seen.reads.length, hub.size], [length, 2], 'nothing was read, nobody came in')
    assert.deepEqual(await look(), { places: [], next: 0 }, 'who does not wait needs no place')
    run()
    await turns()
    assert.deepEqual(waiting.answer!.places, [1, 2])
    assert.doesNotThrow(() => hub.assertRoom())
  })
})

describe('the seam between looking and waiting', () => {
  for (const [name, late] of behaviours) {
    it(`${name}: no gap, no double, whatever comes between, and whoever is cut`, async (t) => {
      const step = fc.record({ act: fc.constantFrom('run', 'other', 'turn', 'microtask', 'consume', 'cut', 'time'), updates: fc.nat({ max: 2 }) })
      await fc.assert(fc.asyncProperty(fc.array(step, { minLength: 3, maxLength: 40 }), async (steps) => {
        const { poll, run, store, hub, clock, seen } = setUp(t, late === undefined ? {} : { late })
        const filter = { toolId: ['echo'] }
        const consumers: { from: number, places: number[], cut: () => void, done: Promise<void> }[] = []
        let isOver = false
        /** Polls and goes on from there, whether it is answered or cut; the last one comes when all is done. */
        function consume (): void {
          let caller = new AbortController()
          const consumer = { from: store.head, places: [] as number[], cut: () => caller.abort(), done: Promise.resolve() }
          const follow = async () => {
            for (let after = store.eventId(consumer.from); ;) {
              const isLast = isOver
              caller = new AbortController()
              const list = await poll({ filter, after, waitMs: isLast ? 0 : 1000, signal: caller.signal })
              if (list !== undefined) {
                assert.equal(list.lost, undefined)
                consumer.places.push(...list.events.map(({ id }) => placeOf(id)))
                after = list.next
                if (isLast && placeOf(after) === store.head) return
              }
              await null
            }
          }
          consumer.done = follow()
          consumers.push(consumer)
        }
        const wanted: number[] = []
        store.follow((event) => { if (event.start.toolId === 'echo') wanted.push(event.sequence) })
        consume()
        for (const { act, updates } of steps) {
          if (act === 'run') run({}, updates)
          else if (act === 'other') run({ toolId: 'other' }, updates)
          else if (act === 'turn') await nextTurn()
          else if (act === 'microtask') await null
          else if (act === 'time') clock.advance(400)
          else if (act === 'cut') consumers.at(-1)!.cut()
          else consume()
        }
        isOver = true
        for (let past = 0; past < 20; past++) {
          await turns()
          clock.advance(1000)
        }
        await Promise.all(consumers.map(({ done }) => done))
        for (const consumer of consumers) assert.deepEqual(consumer.places, wanted.filter((place) => place > consumer.from))
        assert.deepEqual([hub.size, seen.followers], [0, 0])
        await hub.close(0)
      }), { numRuns: 60 })
    })
  }
})

describe('closing', () => {
  it('answers who waits at once, with the last events', async (t) => {
    const { begin, run, hub, seen, clock } = setUp(t)
    const [idle, busy] = [begin({ filter: { toolId: ['b'] } }), begin()]
    await turns()
    run()
    await hub.close(1000)
    await null
    assert.deepEqual([idle.answer, busy.answer], [{ places: [], next: 2 }, { places: [1, 2], next: 2 }])
    assert.deepEqual([hub.size, seen.followers], [0, 0])
    assert.ok(clock.pending <= 1, 'no poll has its timer left')
  })

  it('waits for who still reads, who does not wait any more then', async (t) => {
    const held = Promise.withResolvers<void>()
    const { begin, hub, run } = setUp(t, { late: async (read) => { await held.promise; return read() } })
    const reading = begin()
    let isClosed = false
    const closing = hub.close(1000).then(() => { isClosed = true })
    await turns()
    assert.deepEqual([isClosed, reading.answer], [false, undefined])
    run()
    held.resolve()
    await closing
    await until(() => reading.answer !== undefined, 'the answer')
    assert.deepEqual(reading.answer, { places: [1, 2], next: 2 })
  })

  it('refuses newcomers, those that would not wait as well', async (t) => {
    const { poll, hub, seen } = setUp(t)
    await hub.close(0)
    for (const waitMs of [0, 1000]) await assert.rejects(poll({ waitMs }), { code: 'shutting_down' })
    assert.deepEqual(seen.reads, [])
  })

  it('tells who is still reading when the time is up, and the store closes', async (t) => {
    const held = Promise.withResolvers<void>()
    const { poll, hub, store, clock } = setUp(t, { late: async (read) => { await held.promise; return read() } })
    const reading = poll({ after: 'earliest' })
    const closing = hub.close(1000)
    clock.advance(1000)
    await closing
    store.close()
    held.resolve()
    await assert.rejects(reading, { code: 'shutting_down' })
  })
})

describe('the bounds of a page', () => {
  it('are those of one part over the limit, too', async (t) => {
    const { poll, store } = setUp(t, { maxPartBytes: 50 })
    const start = startOf({ input: JSON.stringify('x'.repeat(100)) })
    store.begin(start)
    store.settle(start.invocationId, endOf({ result: emptyResult }))
    const { events } = (await poll({ after: 'earliest' }))!
    assert.deepEqual(events.map(({ event }) => event.omitted), [['args'], undefined])
  })
})
