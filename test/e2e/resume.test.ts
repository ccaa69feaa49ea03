import assert from 'node:assert/strict'
import { describe, it, type TestContext } from 'node:test'
import { EventSource } from 'eventsource'
import type { GatewayOptions } from '../../src/gateway.ts'
import { seeded } from '../conformance/seeded.ts'
import { echo, gate, invoke, startGateway, tool, waitFor, type RunningGateway } from './harness.ts'
import { openStream, type EventClient, type StreamEvent } from './sse-client.ts'

const SEED = 20_261_130
const place = (id: string | undefined) => Number(id!.split('-')[1])

/** Follows the stream over connections that are cut after random numbers of bytes, then over one that stays. */
async function followThroughCuts (t: TestContext, gateway: RunningGateway, cuts: number, path: string, onEvent: (event: StreamEvent) => void) {
  const random = seeded(SEED)
  let lastId: string | undefined
  const connection = async (cutAfterBytes: number) => {
    const headers = lastId === undefined ? {} : { 'last-event-id': lastId }
    const client = await openStream(t, gateway.url, { path, headers, cutAfterBytes, onEvent })
    const note = () => { lastId = client.lastId ?? lastId }
    return { client, note }
  }
  for (let cut = 0; cut < cuts; cut++) {
    const { client, note } = await connection(1 + Math.floor(random() * 80_000))
    assert.equal(await client.closed(), 'cut')
    note()
  }
  return (await connection(Infinity)).client
}

/** One call is this many events: a start, updates, an end. */
const EVENTS_A_CALL = 25

/** A tool whose events keep just ahead of a reader, so that cuts fall into replay, into live, and between them. */
function busy (id: string, received: () => number, head: () => number) {
  return tool(id, async (_id, input: number, _signal, onUpdate) => {
    for (let at = 0; at < EVENTS_A_CALL - 2; at++) {
      await waitFor(() => head() - received() < 1000, 'the reader to keep up', 30_000)
      onUpdate({ details: { call: input, at, text: 'ä'.repeat(at * 10) } })
      await new Promise(setImmediate)
    }
    return { structuredContent: input }
  })
}

function assertWholeCalls (events: any[], calls: number): void {
  const byCall = Map.groupBy(events, ({ invocationId }) => invocationId)
  assert.equal(byCall.size, calls)
  for (const [first, ...rest] of byCall.values()) {
    assert.equal(first.type, 'tool_execution_start')
    assert.deepEqual(rest.slice(0, -1).map(({ partialResult }) => [partialResult.details.call, partialResult.details.at]),
      Array.from({ length: EVENTS_A_CALL - 2 }, (_, at) => [first.args, at]))
    assert.deepEqual([rest.at(-1).type, rest.at(-1).result.structuredContent], ['tool_execution_end', first.args])
  }
}

describe('resume', () => {
  it('a client cut at random 200 times while 20,000 events pass receives each once, in order', async (t) => {
    const received: { id: string, data: any }[] = []
    const gateway: RunningGateway = await startGateway(t, { tools: [busy('busy', () => received.length, () => gateway.app.toolgate.store.head)] })
    const INVOKERS = 8
    const CALLS = 20_000 / EVENTS_A_CALL
    const invoking = Promise.all(Array.from({ length: INVOKERS }, async (_, invoker) => {
      for (let call = invoker; call < CALLS; call += INVOKERS) await invoke(gateway, 'busy', call)
    }))
    // One that stays has the same filter, so that whoever comes back joins a group in full swing.
    const steady: number[] = []
    await openStream(t, gateway.url, { path: '/events?lastEventId=earliest', onEvent: ({ id }) => { steady.push(place(id)) } })
    // The header wins over the query, so this replays nothing twice.
    const client = await followThroughCuts(t, gateway, 200, '/events?lastEventId=earliest', ({ id, event, data }) => {
      assert.equal(data.type, event)
      received.push({ id: id!, data })
    })
    await invoking
    await waitFor(() => received.length >= 20_000 && steady.length >= 20_000, 'all events', 20_000)
    assert.equal(client.how, undefined)
    const all = Array.from({ length: 20_000 }, (_, at) => at + 1)
    assert.deepEqual(received.map(({ id }) => place(id)), all)
    assert.deepEqual(steady, all)
    assert.equal(new Set(received.map(({ id }) => id.split('-')[0])).size, 1, 'one epoch')
    assertWholeCalls(received.map(({ data }) => data), CALLS)
  })

  it('with a filter, too, each once, in order, and no others', async (t) => {
    const received: any[] = []
    let seen = 0
    const gateway: RunningGateway = await startGateway(t, { tools: [busy('wanted', () => seen, () => gateway.app.toolgate.store.head), busy('other', () => seen, () => gateway.app.toolgate.store.head)], heartbeatMs: 20 })
    const CALLS = 60
    const invoking = Promise.all(['wanted', 'other'].flatMap((id) => [0, 1].map(async (odd) => {
      for (let call = odd; call < CALLS; call += 2) await invoke(gateway, id, call)
    })))
    const client = await followThroughCuts(t, gateway, 15, '/events?toolId=wanted&lastEventId=earliest', ({ id, data }) => {
      received.push(data)
      seen = place(id)
    })
    await invoking
    await waitFor(() => received.length >= CALLS * EVENTS_A_CALL && place(client.lastId) === gateway.app.toolgate.store.head, 'all events', 10_000)
    assert.equal(received.length, CALLS * EVENTS_A_CALL)
    assert.ok(received.every(({ toolId }) => toolId === 'wanted'))
    assertWholeCalls(received, CALLS)
  })

  it('with neither id, the stream starts now, at a place to come back to', async (t) => {
    const gateway = await startGateway(t, { tools: [echo] })
    await invoke(gateway, 'echo', 'before')
    const first = await openStream(t, gateway.url)
    await waitFor(() => first.lastId, 'the place')
    first.destroy()
    await first.closed()
    await invoke(gateway, 'echo', 'between')
    const second = await openStream(t, gateway.url, { headers: { 'last-event-id': first.lastId! } })
    await invoke(gateway, 'echo', 'after')
    await waitFor(() => second.ends.length === 2, 'both ends')
    assert.deepEqual(first.events, [])
    assert.deepEqual(second.of('tool_execution_start').map(({ data }) => data.args), ['between', 'after'])
  })

  it('earliest replays all that is kept, and goes on live', async (t) => {
    const gateway = await startGateway(t, { tools: [echo] })
    for (const input of [1, 2, 3]) await invoke(gateway, 'echo', input)
    const client = await openStream(t, gateway.url, { path: '/events?lastEventId=earliest' })
    await invoke(gateway, 'echo', 4)
    await waitFor(() => client.ends.length === 4, 'all ends')
    assert.deepEqual(client.events.map(({ id }) => place(id)), [1, 2, 3, 4, 5, 6, 7, 8])
  })

  it('earliest of a log that lost its beginning loses nothing that it asked for', async (t) => {
    const gateway = await startGateway(t, { tools: [echo], storeMaxEvents: 4 })
    for (const input of [1, 2, 3]) await invoke(gateway, 'echo', input)
    const client = await openStream(t, gateway.url, { path: '/events?lastEventId=earliest' })
    await waitFor(() => client.ends.length === 2, 'the kept events')
    assert.deepEqual(client.events.map(({ id }) => place(id)), [3, 4, 5, 6])
  })

  it('the query resumes as the header does, and the header wins', async (t) => {
    const gateway = await startGateway(t, { tools: [echo] })
    for (const input of [1, 2]) await invoke(gateway, 'echo', input)
    const { store } = gateway.app.toolgate
    const byQuery = await openStream(t, gateway.url, { path: `/events?lastEventId=${store.eventId(2)}` })
    const byBoth = await openStream(t, gateway.url, { path: '/events?lastEventId=earliest', headers: { 'last-event-id': store.eventId(3) } })
    await invoke(gateway, 'echo', 3)
    await waitFor(() => byQuery.ends.length === 2 && byBoth.ends.length === 2, 'the ends')
    assert.deepEqual(byQuery.events.map(({ id }) => place(id)), [3, 4, 5, 6])
    assert.deepEqual(byBoth.events.map(({ id }) => place(id)), [4, 5, 6])
  })

  it('after the last event there is nothing to replay, and nothing lost', async (t) => {
    const gateway = await startGateway(t, { tools: [echo], storeMaxEvents: 2 })
    await invoke(gateway, 'echo', 1)
    const client = await openStream(t, gateway.url, { headers: { 'last-event-id': gateway.app.toolgate.store.eventId(2) } })
    await invoke(gateway, 'echo', 2)
    await waitFor(() => client.ends.length === 1, 'the next end')
    assert.deepEqual(client.events.map(({ id }) => place(id)), [3, 4])
  })
})

describe('events_lost', () => {
  async function lost (t: TestContext, idOf: (gateway: RunningGateway) => string, options: GatewayOptions = {}, path = '/events'): Promise<{ client: EventClient, requestedId: string, gateway: RunningGateway }> {
    const gateway = await startGateway(t, { tools: [echo], ...options })
    for (const input of [1, 2, 3]) await invoke(gateway, 'echo', input)
    const requestedId = idOf(gateway)
    const client = await openStream(t, gateway.url, { path, headers: { 'last-event-id': requestedId } })
    await invoke(gateway, 'echo', 4)
    await waitFor(() => client.ends.at(-1)?.result.structuredContent === 4, 'the live event')
    return { client, requestedId, gateway }
  }
  const epochOf = (gateway: RunningGateway) => gateway.app.toolgate.store.eventId(0).split('-')[0]
  const unknown: Record<string, (gateway: RunningGateway) => string> = {
    'of another log': () => '0123456789abcdef-2',
    'past the end': (gateway) => `${epochOf(gateway)}-7`,
    'far past the end': (gateway) => `${epochOf(gateway)}-9007199254740991`,
    'that is malformed': () => 'no-such-id',
    'that is a bare number': () => '2',
    'with a leading zero': (gateway) => `${epochOf(gateway)}-02`,
    'with a sign': (gateway) => `${epochOf(gateway)}--1`,
    'in capitals': (gateway) => `${epochOf(gateway)!.toUpperCase().replace(/^\d*$/, 'A')}-2`
  }
  for (const [name, idOf] of Object.entries(unknown)) {
    it(`an id ${name} is told, then comes everything kept`, async (t) => {
      const { client, requestedId, gateway } = await lost(t, idOf)
      const [first, ...rest] = client.events
      assert.deepEqual(first, { id: undefined, event: 'events_lost', data: { requestedId, earliestId: gateway.app.toolgate.store.eventId(1) } })
      assert.deepEqual(rest.map(({ id }) => place(id)), [1, 2, 3, 4, 5, 6, 7, 8])
    })
  }

  it('an id whose followers are gone is told, then comes everything kept', async (t) => {
    const { client, requestedId, gateway } = await lost(t, ({ app }) => app.toolgate.store.eventId(1), { storeMaxEvents: 4 })
    const [first, ...rest] = client.events
    const kept = rest.map(({ id }) => place(id))
    assert.deepEqual(first, { id: undefined, event: 'events_lost', data: { requestedId, earliestId: gateway.app.toolgate.store.eventId(kept[0]!) } })
    assert.deepEqual(kept.slice(-2), [7, 8])
    assert.deepEqual(kept, kept.map((_, at) => kept[0]! + at), 'without a gap')
    assert.equal(client.of('events_lost').length, 1)
  })

  it('an id that is gone itself, but none after it, is not lost', async (t) => {
    const { client } = await lost(t, ({ app }) => app.toolgate.store.eventId(2), { storeMaxEvents: 4 })
    assert.equal(client.of('events_lost').length, 0)
    assert.deepEqual(client.events.map(({ id }) => place(id)), [3, 4, 5, 6, 7, 8])
  })

  it('it comes through any filter', async (t) => {
    const gateway = await startGateway(t, { tools: [echo] })
    const client = await openStream(t, gateway.url, { path: '/events?toolId=nobody&type=tool_execution_end&lastEventId=nonsense' })
    await waitFor(() => client.of('events_lost').length === 1, 'events_lost')
    assert.deepEqual(client.events[0]!.data, { requestedId: 'nonsense', earliestId: gateway.app.toolgate.store.eventId(1) })
  })
})

describe('the eventsource client', () => {
  it('reconnects and resumes, each event once, in order', async (t) => {
    const gateway = await startGateway(t, { tools: [echo] })
    const source = new EventSource(`${gateway.url}/events?type=tool_execution_start`)
    t.after(() => source.close())
    const received: unknown[] = []
    const opened = gate()
    let opens = 0
    source.addEventListener('open', () => { opens++; opened.open() })
    source.addEventListener('message', () => assert.fail('a place without data fires nothing'))
    source.addEventListener('tool_execution_start', ({ data }) => { received.push(JSON.parse(data).args) })
    await opened.reached('the source to open')
    await invoke(gateway, 'echo', 1)
    await waitFor(() => received.length === 1, 'the first event')
    gateway.app.server.closeAllConnections()
    await waitFor(() => source.readyState === EventSource.CONNECTING, 'the cut to be noticed')
    for (const input of [2, 3]) await invoke(gateway, 'echo', input)
    await waitFor(() => opens === 2, 'the reconnect')
    await invoke(gateway, 'echo', 4)
    await waitFor(() => received.length >= 4, 'the rest')
    assert.deepEqual(received, [1, 2, 3, 4])
  })
})
