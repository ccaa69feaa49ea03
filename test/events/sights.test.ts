import assert from 'node:assert/strict'
import { describe, it, type TestContext } from 'node:test'
import { Hub } from '../../src/events/hub.ts'
import type { SubscribeOptions } from '../../src/events/subscription.ts'
import { GatewayError } from '../../src/errors.ts'
import { createIdSource } from '../../src/ids.ts'
import { CallSight, type CallGrant } from '../../src/store/call-sight.ts'
import { MemoryStore } from '../../src/store/memory.ts'
import { defaultRetention } from '../../src/store/retention.ts'
import { eventText, receiptText } from '../../src/store/wire.ts'
import { endOf, startEvent, startOf } from '../conformance/calls.ts'
import { FakeClock } from '../conformance/fake-clock.ts'
import { turns, until } from '../conformance/until.ts'
import { FakeSink } from './fake-sink.ts'

const onTools = (pattern: string, more: Partial<CallGrant> = {}, viewer = 'me') => new CallSight([{ tools: [[pattern]], ...more }], viewer)

function setUp (t: TestContext, maxEvents = 1000) {
  const clock = new FakeClock()
  const store = new MemoryStore({ epoch: createIdSource().epoch(), now: () => clock.now(), ...defaultRetention.memory, maxEvents })
  const hub = new Hub({ store, clock, maxSubscribers: 100, maxBacklogBytes: 100_000, maxPartBytes: 1000, heartbeatMs: 15_000 })
  t.after(() => hub.close(0))
  function subscribe (options: Partial<SubscribeOptions> = {}): FakeSink {
    const sink = new FakeSink()
    hub.subscribe(sink, { filter: {}, view: 'full', ...options })
    return sink
  }
  function run (fields: Parameters<typeof startOf>[0] = {}): void {
    const start = startOf(fields)
    store.begin(start)
    store.settle(start.invocationId, endOf())
  }
  const poll = (options: object) => hub.polls.poll({ filter: {}, view: 'full', waitMs: 0, signal: new AbortController().signal, ...options })
  return { clock, store, hub, subscribe, run, poll }
}

const idsIn = (text: string) => [...text.matchAll(/^id: (\S+)$/gm)].map((match) => match[1]!)
const toolsIn = (text: string) => [...text.matchAll(/"toolId":"([^"]+)"/g)].map((match) => match[1]!)

describe('events for readers of different rights', () => {
  it('each gets those of the calls that it may see, live and from the past, whatever it filters by', async (t) => {
    const { subscribe, run } = setUp(t)
    for (const toolId of ['a_1', 'b_1', 'a_2']) run({ toolId })
    const sinks = [
      subscribe({ sight: onTools('a_*'), after: 'earliest' }), subscribe({ sight: onTools('b_*'), after: 'earliest' }),
      subscribe({ sight: onTools('a_*'), after: 'earliest', filter: { toolId: ['b_1', 'a_2'] } }), subscribe({ sight: new CallSight([], 'me'), after: 'earliest' }), subscribe({ after: 'earliest' })
    ]
    await turns()
    for (const toolId of ['b_1', 'a_1']) run({ toolId })
    await turns()
    assert.deepEqual(sinks.map(({ text }) => toolsIn(text).filter((_, n) => n % 2 === 0).join(' ')), ['a_1 a_2 a_1', 'b_1 b_1', 'a_2', '', 'a_1 b_1 a_2 b_1 a_1'])
  })

  it('those of one\'s own are not those of another with the same scope', async (t) => {
    const { subscribe, run } = setUp(t)
    const [mine, yours] = ['me', 'you'].map((principalId) => subscribe({ sight: onTools('*', { principalId }, principalId) }))
    run({ principalId: 'me', toolId: 'mine' })
    run({ principalId: 'you', toolId: 'yours' })
    await turns()
    assert.deepEqual([new Set(toolsIn(mine!.text)), new Set(toolsIn(yours!.text))], [new Set(['mine']), new Set(['yours'])])
  })

  it('who does not see everything cannot tell from ids how much that is', async (t) => {
    const { clock, store, subscribe, run } = setUp(t)
    run({ toolId: 'b' })
    const sink = subscribe({ sight: onTools('a') })
    run({ toolId: 'a' })
    await turns()
    const before = idsIn(sink.text)
    assert.equal(before.length, 3)
    for (let quiet = 0; quiet < 3; quiet++) {
      clock.advance(16_000)
      if (quiet > 0) run({ toolId: 'b' })
      await turns()
    }
    const ids = idsIn(sink.text)
    assert.ok(ids.length > 5, `${ids.length} ids`)
    const epoch = store.eventId(0).split('-')[0]!
    for (const id of ids) assert.match(id, /^[0-9a-f]{32}$/)
    assert.equal(sink.text.includes(epoch), false)
    assert.equal(new Set(ids).size, ids.length, 'also where nothing happened at all')
  })

  it('its ids, those of silences too, are places to resume from, for everyone', async (t) => {
    const { clock, subscribe, run } = setUp(t)
    const sink = subscribe({ sight: onTools('a') })
    run({ toolId: 'a' })
    for (let call = 0; call < 3; call++) run({ toolId: 'b' })
    await turns()
    clock.advance(16_000)
    await turns()
    run({ toolId: 'a', runId: 'later' })
    await turns()
    const ids = idsIn(sink.text)
    for (const [after, count] of [[ids[0], 4], [ids[1], 3], [ids[2], 2], [ids[3], 2], [ids[4], 1]] as const) {
      const again = subscribe({ sight: onTools('a'), after: after! })
      await turns()
      assert.equal(toolsIn(again.text).length, count, `after ${after}`)
      assert.equal(again.text.includes('events_lost'), false)
    }
    const full = subscribe({ after: ids[3]! })
    await turns()
    assert.deepEqual(toolsIn(full.text), ['a', 'a'])
  })

  it('that history is gone is told without telling how much', async (t) => {
    const { store, subscribe, run, poll } = setUp(t, 6)
    const sink = subscribe({ sight: onTools('a') })
    run({ toolId: 'a' })
    await turns()
    const [, first] = idsIn(sink.text)
    for (let call = 0; call < 10; call++) run({ toolId: 'b' })
    run({ toolId: 'a' })
    const epoch = store.eventId(0).split('-')[0]!
    const again = subscribe({ sight: onTools('a'), after: first! })
    await turns()
    const polled = (await poll({ sight: onTools('a'), after: first }))!
    for (const text of [again.text, polled]) {
      assert.match(text, new RegExp(`"requestedId":"${first}","earliestId":"[0-9a-f]{32}"`))
      assert.equal(text.includes(epoch), false)
      assert.deepEqual(toolsIn(text), ['a', 'a'])
    }
  })

  it('polls are as streams are', async (t) => {
    const { run, poll, store } = setUp(t)
    for (const toolId of ['a', 'b', 'a']) run({ toolId })
    const page = JSON.parse((await poll({ sight: onTools('a'), after: 'earliest' }))!)
    assert.deepEqual(page.events.map(({ event }: any) => event.toolId), ['a', 'a', 'a', 'a'])
    assert.match(page.next, /^[0-9a-f]{32}$/)
    assert.equal(store.locate(page.next), 6)
    assert.deepEqual(JSON.parse((await poll({ sight: onTools('a'), after: page.next }))!).events, [])
    assert.equal(store.locate(page.events[3].id), 6)
  })

  it('what was written before others had their say does not tell of them: neither their number nor their size', async (t) => {
    const { subscribe, run } = setUp(t, 10_000)
    const writes: number[] = []
    run({ toolId: 'a' })
    for (const hidden of [0, 700]) {
      for (let n = 0; n < hidden; n++) run({ toolId: 'b', input: n === 0 ? `"${'x'.repeat(300_000)}"` : '{}' })
      run({ toolId: 'a' })
      const sink = subscribe({ sight: onTools('a'), after: 'earliest' })
      const expected = hidden > 0 ? 6 : 4
      await until(() => toolsIn(sink.text).length === expected, 'its own events')
      await turns(10)
      writes.push(sink.writes)
    }
    assert.equal(writes[0], writes[1])
  })

  it('while it looks through what others did it is not silent for longer than anybody', async (t) => {
    const { clock, store, subscribe, run } = setUp(t, 20_000)
    run({ toolId: 'a' })
    for (let n = 0; n < 3000; n++) run({ toolId: 'b' })
    const sink = subscribe({ sight: onTools('a'), after: 'earliest' })
    await turns(2)
    assert.deepEqual(toolsIn(sink.text), [], 'it has not come to the end yet')
    clock.advance(15_000)
    assert.deepEqual(toolsIn(sink.text), ['a', 'a'])
    await until(() => { clock.advance(1000); return idsIn(sink.text).length > 3 }, 'a place')
    assert.equal(toolsIn(sink.text).length, 2)
    assert.equal(store.locate(idsIn(sink.text).at(-1)!)! > 2, true)
  })

  it('an id that says how many there are does not help to find out how many there are', async (t) => {
    const { store, subscribe, run, poll } = setUp(t)
    for (const toolId of ['a', 'b', 'b']) run({ toolId })
    const [epoch] = store.eventId(0).split('-')
    for (const place of [5, 6, 7, 1000]) {
      const after = `${epoch}-${place}`
      const polled = JSON.parse((await poll({ sight: onTools('a'), after }))!)
      const sink = subscribe({ sight: onTools('a'), after })
      await turns()
      assert.deepEqual([polled.events, polled.lost, sink.text.includes('events_lost')], [[], undefined, false], after)
      assert.equal(store.locate(polled.next), Math.max(place > 6 ? 6 : place, 6))
    }
    const foreign = JSON.parse((await poll({ sight: onTools('a'), after: `${'0'.repeat(16)}-3` }))!)
    assert.equal(foreign.lost.requestedId, `${'0'.repeat(16)}-3`, 'one of another log is told as ever')
  })

  it('a stream whose credentials are gone ends within a second, complete; the others go on', async (t) => {
    const { clock, subscribe, run } = setUp(t)
    let isCurrent = true
    const [gone, other] = [subscribe({ isCurrent: () => isCurrent }), subscribe({ isCurrent: () => true })]
    run({ toolId: 'a' })
    await turns()
    isCurrent = false
    clock.advance(1000)
    assert.deepEqual([gone.state, other.state], ['ended', 'open'])
    run({ toolId: 'a' })
    await turns()
    assert.deepEqual([toolsIn(gone.text).length, toolsIn(other.text).length], [2, 4])
  })

  it('a poll whose credentials are gone while it waits is refused within a second', async (t) => {
    const { clock, poll } = setUp(t)
    let isCurrent = true
    const waiting = poll({ waitMs: 60_000, isCurrent: () => isCurrent })
    await turns()
    clock.advance(5000)
    isCurrent = false
    clock.advance(1000)
    await assert.rejects(waiting, (error: GatewayError) => error.code === 'unauthorized')
  })
})

describe('the call that made a call', () => {
  const parent = { parentInvocationId: 'p'.repeat(32), parentSpanId: 'p'.repeat(16) }
  const names = (fields: object, sight?: CallSight) => {
    const event = startEvent({ toolId: 'a', ...parent, runId: 'run', ...fields })
    const texts = [eventText(event, 1000, false, sight), receiptText(event.start, undefined, sight)]
    assert.equal(texts[0]!.includes('pppp'), texts[1]!.includes('pppp'))
    for (const text of texts) assert.equal(JSON.parse(text).runId, 'run')
    return texts[0]!.includes('pppp')
  }
  const child = (toolId: string) => ({ isChild: true, parentTool: { toolId, kind: 'read' } })

  it('is named to who may see it', () => {
    assert.equal(names(child('b')), true)
    assert.equal(names(child('a'), onTools('a')), true)
    assert.equal(names(child('b'), onTools('a')), false)
    assert.equal(names({ isChild: true }, onTools('a')), false, 'which tool it was is not known')
  })

  it('of one\'s own is named, as it is one\'s own', () => {
    const own = onTools('*', { principalId: 'me' })
    assert.equal(names({ ...child('b'), principalId: 'me' }, own), true)
  })

  it('as its caller says is told to the caller, and to who sees everything', () => {
    assert.equal(names({ principalId: 'me' }, onTools('a')), true)
    assert.equal(names({ principalId: 'you' }, onTools('a')), false)
    assert.equal(names({ principalId: 'you' }), true)
  })
})
