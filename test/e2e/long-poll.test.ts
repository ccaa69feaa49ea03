import assert from 'node:assert/strict'
import { connect } from 'node:net'
import { describe, it, type TestContext } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { Value } from '@sinclair/typebox/value'
import { EventList } from '../../src/contract/event.ts'
import type { GatewayOptions } from '../../src/gateway.ts'
import type { StoredEvent } from '../../src/store/store.ts'
import { eventText } from '../../src/store/wire.ts'
import { FakeClock } from '../conformance/fake-clock.ts'
import { seeded } from '../conformance/seeded.ts'
import { assertProblem, echo, exchange, gate, invoke, parseResponse, send, startGateway, tool, waitFor, within, type RunningGateway } from './harness.ts'
import { poll } from './poll-client.ts'
import { openStream } from './sse-client.ts'

const SEED = 20_261_130
const place = (id: string | undefined) => Number(id!.split('-')[1])
const json = { accept: 'application/json' }

/** A poll, and its parsed list. */
async function list ({ url }: RunningGateway, query = '', headers: Record<string, string> = {}): Promise<EventList> {
  const { status, body, text } = await send(`${url}/events${query}`, { headers: { ...json, ...headers } })
  assert.equal(status, 200, text)
  assert.ok(Value.Check(EventList, body), text.slice(0, 300))
  return body
}

const placesOf = ({ events }: EventList) => events.map(({ id }) => place(id))

/** How many follow the store. */
function countFollowers ({ app }: RunningGateway): () => number {
  const { store } = app.toolgate
  const follow = store.follow.bind(store)
  let followers = 0
  store.follow = (listener) => {
    followers++
    const stop = follow(listener)
    return () => { followers--; stop() }
  }
  return () => followers
}

const hubSize = ({ app }: RunningGateway, size: number) => waitFor(() => app.toolgate.hub.size === size, `${size} subscribers`)

describe('Accept on /events', () => {
  const stream = 'text/event-stream'
  const list = 'application/json; charset=utf-8'
  const accepts: [accept: string | undefined, type: string | undefined][] = [
    [undefined, stream],
    ['*/*', stream],
    [stream, stream],
    ['text/*', stream],
    [`${stream}, application/json`, stream],
    [`application/json;q=0.5, ${stream}`, stream],
    ['*/*, application/json;q=0.1', stream],
    ['application/json', list],
    ['application/*', list],
    ['Application/JSON; charset=utf-8', list],
    [`application/json, ${stream}`, list],
    [`${stream};q=0.5, application/json`, list],
    ['text/html, application/json;q=0.1', list],
    ['text/html', undefined],
    [`${stream};q=0, application/json;q=0`, undefined]
  ]
  for (const [accept, type] of accepts) {
    it(`${accept ?? 'none'}: ${type ?? 406}`, async (t) => {
      const gateway = await startGateway(t)
      const head = `HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n${accept === undefined ? '' : `Accept: ${accept}\r\n`}\r\n`
      for (const method of ['HEAD', 'GET']) {
        const text = await exchange(gateway.port, `${method} /events ${head}`, (text) => method === 'GET' && text.includes('\r\n\r\n'))
        const answer = parseResponse(text)
        assert.equal(answer.headers.vary, 'accept', method)
        if (type !== undefined) {
          assert.deepEqual([answer.status, answer.headers['content-type']], [200, type], method)
          assert.equal(answer.headers['cache-control'], type === stream ? 'no-store, no-transform' : 'no-store')
          if (method === 'HEAD') assert.equal(answer.body, '')
        } else if (method === 'GET') assertProblem(answer, 406, 'not_acceptable')
        else assert.equal(answer.status, 406)
      }
    })
  }

  it('HEAD does not wait, and takes nobody\'s place', async (t) => {
    const gateway = await startGateway(t, { maxSubscribers: 0 })
    const { status, text } = await send(`${gateway.url}/events`, { method: 'HEAD', headers: { ...json, prefer: 'wait=30' } })
    assert.deepEqual([status, text], [200, ''])
  })

  it('CORS headers stand on both, and Vary names both reasons', async (t) => {
    const origin = 'https://app.example'
    const gateway = await startGateway(t, { corsOrigins: [origin] })
    for (const accept of [stream, 'application/json', 'text/html']) {
      const { headers } = await openStream(t, gateway.url, { headers: { origin, accept } })
      assert.equal(headers['access-control-allow-origin'], origin, accept)
      assert.equal(headers.vary, 'Origin, accept', accept)
    }
  })
})

describe('events as JSON', () => {
  it('are those of the stream, with their ids, and where to go on', async (t) => {
    const gateway = await startGateway(t, { tools: [echo], maxEventPartBytes: 1000 })
    for (const input of [1, { 'ä\u2028': '\ud800' }, 'x'.repeat(2000)]) await invoke(gateway, 'echo', input)
    const stream = await openStream(t, gateway.url, { path: '/events?lastEventId=earliest' })
    await waitFor(() => stream.ends.length === 3, 'the ends')
    const { events, next } = await list(gateway, '?lastEventId=earliest')
    assert.deepEqual(events, stream.events.map(({ id, data }) => ({ id, event: data })))
    assert.deepEqual(events.map(({ event }) => event.omitted), [undefined, undefined, undefined, undefined, ['args'], ['result']])
    assert.equal(next, stream.lastId)
  })

  it('begin now without an id, and go on from next', async (t) => {
    const gateway = await startGateway(t, { tools: [echo] })
    await invoke(gateway, 'echo', 'before')
    const now = await list(gateway)
    assert.deepEqual(now, { events: [], next: gateway.app.toolgate.store.eventId(2) })
    await invoke(gateway, 'echo', 'after')
    const later = await list(gateway, `?lastEventId=${now.next}`)
    assert.deepEqual([placesOf(later), place(later.next)], [[3, 4], 4])
  })

  it('take the header before the query, and an empty one for none', async (t) => {
    const gateway = await startGateway(t, { tools: [echo] })
    for (const input of [1, 2]) await invoke(gateway, 'echo', input)
    const id = (at: number) => gateway.app.toolgate.store.eventId(at)
    assert.deepEqual(placesOf(await list(gateway, `?lastEventId=${id(3)}`)), [4])
    assert.deepEqual(placesOf(await list(gateway, '?lastEventId=earliest', { 'last-event-id': id(2) })), [3, 4])
    assert.deepEqual(placesOf(await list(gateway, `?lastEventId=${id(3)}`, { 'last-event-id': '' })), [4])
    assert.deepEqual(placesOf(await list(gateway, '?lastEventId=')), [])
  })

  it('tell of a loss: an id that is foreign, malformed, past the end, or too old', async (t) => {
    const gateway = await startGateway(t, { tools: [echo], storeMaxEvents: 4 })
    const other = await startGateway(t)
    for (const input of [1, 2, 3]) await invoke(gateway, 'echo', input)
    const { store } = gateway.app.toolgate
    for (const requestedId of [other.app.toolgate.store.eventId(0), 'non"sense', store.eventId(7), store.eventId(1)]) {
      for (const prefer of ['', 'wait=30']) {
        const told = await list(gateway, `?lastEventId=${encodeURIComponent(requestedId)}`, { prefer })
        assert.deepEqual([placesOf(told), told.lost], [[3, 4, 5, 6], { requestedId, earliestId: store.eventId(3) }])
      }
    }
    assert.deepEqual([await list(gateway, '?lastEventId=earliest'), await list(gateway, `?lastEventId=${store.eventId(2)}`)].map(({ lost }) => lost), [undefined, undefined])
  })

  it('come a page at a time', async (t) => {
    const gateway = await startGateway(t, { tools: [tool('busy', (_id, _input, _signal, onUpdate) => { for (let at = 0; at < 2998; at++) onUpdate({ details: at }) })] })
    await invoke(gateway, 'busy')
    const sizes: number[] = []
    for (let next = 'earliest'; place(next) !== gateway.app.toolgate.store.head;) {
      const page = await list(gateway, `?lastEventId=${next}`)
      sizes.push(page.events.length)
      next = page.next
    }
    assert.deepEqual(sizes, [1000, 1000, 1000])
  })

  it('refuse what the stream refuses', async (t) => {
    const gateway = await startGateway(t)
    for (const query of ['?toolid=a', '?view=short', '?type=start']) assertProblem(await send(`${gateway.url}/events${query}`, { headers: json }), 400, 'invalid_request')
  })
})

describe('Prefer: wait on /events', () => {
  it('is answered on the first event that is wanted, with all that its turn brought', async (t) => {
    const gateway = await startGateway(t, { tools: [echo, tool('busy', (_id, _input, _signal, onUpdate) => { for (let at = 0; at < 5; at++) onUpdate({ details: at }) })] })
    const waiting = poll(t, gateway.url, { path: '/events?toolId=busy', headers: { prefer: 'respond-async, wait=30; x=1' } })
    await hubSize(gateway, 1)
    await invoke(gateway, 'echo')
    assert.equal(gateway.app.toolgate.hub.size, 1, 'waits on')
    const began = performance.now()
    await invoke(gateway, 'busy')
    const { list, headers } = await waiting
    assert.ok(performance.now() - began < 1000)
    assert.deepEqual(placesOf(list), [3, 4, 5, 6, 7, 8, 9])
    assert.equal(headers['preference-applied'], 'wait=30')
    assert.equal(gateway.app.toolgate.hub.size, 0)
  })

  it('is answered with nothing at the end of the wait, which is cut to the limit', async (t) => {
    const clock = new FakeClock()
    const gateway = await startGateway(t, { tools: [echo], clock, maxWaitMs: 2500, heartbeatMs: 24_000 })
    for (const [prefer, seconds] of [['wait=1', 1], ['wait=30', 2]] as const) {
      const waiting = poll(t, gateway.url, { path: '/events?toolId=nobody', headers: { prefer } })
      await hubSize(gateway, 1)
      await invoke(gateway, 'echo')
      clock.advance(seconds * 1000 - 1)
      await nextTurn()
      assert.equal(gateway.app.toolgate.hub.size, 1, 'waits on')
      clock.advance(1)
      const { status, headers, list } = await waiting
      assert.deepEqual([status, headers['preference-applied'], list], [200, `wait=${seconds}`, { events: [], next: gateway.app.toolgate.store.eventId(2 * seconds) }])
    }
  })

  it('of nothing, or of what is no number of seconds, does not wait', async (t) => {
    const gateway = await startGateway(t)
    for (const [prefer, applied] of [['wait=0', 'wait=0'], ['wait=soon', undefined], ['wait=1.5', undefined], ['respond-async', undefined]] as const) {
      const { list, headers } = await poll(t, gateway.url, { headers: { prefer } })
      assert.deepEqual([list.events, headers['preference-applied']], [[], applied], prefer)
    }
  })

  it('counts as a subscriber', async (t) => {
    const gateway = await startGateway(t, { tools: [echo], maxSubscribers: 1 })
    const waiting = poll(t, gateway.url, { headers: { prefer: 'wait=30' } })
    await hubSize(gateway, 1)
    for (const headers of [{ ...json, prefer: 'wait=30' }, json, { accept: 'text/event-stream' }]) {
      const refused = await send(`${gateway.url}/events?lastEventId=earliest`, { headers })
      assertProblem(refused, 429, 'too_many_subscribers')
      assert.match(refused.headers.get('retry-after')!, /^\d+$/)
    }
    await invoke(gateway, 'echo')
    await waiting
    await hubSize(gateway, 0)
    assert.equal((await openStream(t, gateway.url)).status, 200)
  })

  it('counts until it was read', async (t) => {
    // An event that is more than sockets hold by themselves.
    const large = tool('large', () => ({ structuredContent: 'x'.repeat(8_000_000) }))
    const gateway = await startGateway(t, { tools: [large], maxSubscribers: 1, maxEventPartBytes: 10_000_000 })
    await invoke(gateway, 'large')
    const request = 'GET /events?lastEventId=earliest&type=tool_execution_end HTTP/1.1\r\nHost: localhost\r\nAccept: application/json\r\n\r\n'
    const deaf = connect(gateway.port, '127.0.0.1').pause()
    t.after(() => deaf.destroy())
    deaf.write(request)
    await hubSize(gateway, 1)
    assertProblem(await send(`${gateway.url}/events`, { headers: json }), 429, 'too_many_subscribers')
    deaf.destroy()
    await hubSize(gateway, 0)
    assert.equal((await send(`${gateway.url}/events`, { headers: json })).status, 200)
  })

  it('is one at a time on a connection: those that are sent behind it are refused', async (t) => {
    const gateway = await startGateway(t, { tools: [echo] })
    const request = 'GET /events HTTP/1.1\r\nHost: localhost\r\nAccept: application/json\r\n\r\n'
    const text = await exchange(gateway.port, request.repeat(3), (text) => text.split('HTTP/1.1 ').length === 4 && text.endsWith('}'))
    assert.deepEqual([...text.matchAll(/HTTP\/1\.1 (\d+)/g)].map(([, status]) => status), ['200', '429', '429'])
  })

  it('leaves nothing behind where the caller hangs up, with one request on its connection or several in a row', async (t) => {
    const gateway = await startGateway(t, { tools: [echo] })
    const followers = countFollowers(gateway)
    const request = 'GET /events HTTP/1.1\r\nHost: localhost\r\nAccept: application/json\r\nPrefer: wait=30\r\n\r\n'
    for (const count of [1, 3]) {
      const socket = connect(gateway.port, '127.0.0.1')
      t.after(() => socket.destroy())
      socket.write(request.repeat(count))
      await hubSize(gateway, 1)
      assert.equal(followers(), 1)
      socket.destroy()
      await hubSize(gateway, 0)
      assert.equal(followers(), 0)
    }
    assert.equal((await invoke(gateway, 'echo', 1)).status, 200)
  })

  it('1,000 that wait are answered by one event, and leave nothing behind', async (t) => {
    const gateway = await startGateway(t, { tools: [echo] })
    const followers = countFollowers(gateway)
    const polls = Array.from({ length: 1000 }, (_, at) => poll(t, gateway.url, {
      headers: { prefer: 'wait=30' },
      ...(at % 2 === 0 ? {} : { path: `/events?toolId=echo&toolId=${at}` })
    }))
    await waitFor(() => gateway.app.toolgate.hub.size === 1000, 'all of them', 20_000)
    assert.equal(followers(), 1)
    await invoke(gateway, 'echo')
    for (const { list } of await Promise.all(polls)) assert.deepEqual(placesOf(list), [1, 2])
    await hubSize(gateway, 0)
    assert.equal(followers(), 0)
  })

  it('is answered at once on shutdown, with the last end events', async (t) => {
    const began = gate()
    const gateway = await startGateway(t, { tools: [tool('slow', (_id, _input, signal) => { began.open(); return new Promise((resolve) => signal.addEventListener('abort', resolve)) })] })
    const running = invoke(gateway, 'slow')
    await began.reached('the tool to run')
    const [idle, told] = [
      poll(t, gateway.url, { path: '/events?toolId=nobody', headers: { prefer: 'wait=60' } }),
      poll(t, gateway.url, { path: '/events?type=tool_execution_end', headers: { prefer: 'wait=60' } })
    ]
    await hubSize(gateway, 2)
    const closing = gateway.app.close()
    const [nothing, end] = await within(Promise.all([idle, told]), 'the answers')
    assert.deepEqual([nothing.cut, nothing.list.events, place(nothing.list.next)], ['none', [], 2])
    assert.deepEqual(end.list.events.map(({ event }) => [event.type, (event as { errorCode?: string }).errorCode]), [['tool_execution_end', 'shutdown']])
    await within(closing, 'the close')
    assert.equal((await running).body.invocation.errorCode, 'shutdown')
  })
})

/** What a consumer got over all its connections. */
interface Received {
  events: { id: string, event: unknown }[]
  losses: { requestedId: string, earliestId: string }[]
  /** Where it would go on. */
  next: string
  cuts: Record<string, number>
}

/** One workload, its whole log, and two consumers that are cut at random until it is over. */
async function throughCuts (t: TestContext, options: GatewayOptions, isLossy: boolean) {
  const CALLS = 600
  const log: { id: string, event: unknown }[] = []
  const consumers = { sse: newReceived(), poll: newReceived() }
  const slowest = () => Math.min(...Object.values(consumers).map(({ next }) => next === 'earliest' ? 0 : place(next)))
  let isRunning = true
  const busy = (id: string, updates: number) => tool(id, async (_id, input: number, _signal, onUpdate) => {
    for (let at = 0; at < updates; at++) {
      // Ahead of its readers by a little, so that cuts fall into what is replayed, into what is live, and between them.
      if (!isLossy) await waitFor(() => gateway.app.toolgate.store.head - slowest() < 400, 'the readers to keep up', 30_000)
      onUpdate({ details: { call: input, at, text: 'ä'.repeat(at * 40) } })
      await nextTurn()
    }
    if (input % 7 === 0) throw new Error('no')
    return { structuredContent: input }
  })
  const gateway: RunningGateway = await startGateway(t, { tools: [busy('a', 3), busy('b', 8), busy('c', 0)], ...options })
  const { store, config } = gateway.app.toolgate
  store.follow((event: StoredEvent) => { log.push({ id: store.eventId(event.sequence), event: JSON.parse(eventText(event, config.maxEventPartBytes, false)) }) })

  const INVOKERS = 6
  const working = Promise.all(Array.from({ length: INVOKERS }, async (_, invoker) => {
    for (let call = invoker; call < CALLS; call += INVOKERS) await invoke(gateway, 'abc'[call % 3]!, call)
  })).then(() => { isRunning = false })

  /** Before coming back, a consumer stays away while so many events pass. */
  const away = async (events: number) => {
    const until = store.head + events
    await waitFor(() => store.head >= until || !isRunning, 'events to pass', 30_000)
  }

  async function byStream (received: Received): Promise<void> {
    const random = seeded(SEED)
    for (;;) {
      const isLast = !isRunning
      const client = await openStream(t, gateway.url, {
        path: `/events?lastEventId=${received.next}`,
        cutAfterBytes: isLast ? Infinity : 1 + Math.floor(random() * 60_000),
        onEvent: ({ id, event, data }) => {
          if (event === 'events_lost') received.losses.push(data)
          else received.events.push({ id: id!, event: data })
          if (id !== undefined) received.next = id
        }
      })
      if (isLast) {
        await waitFor(() => place(received.next) === store.head, 'the end of the log', 20_000)
        return client.destroy()
      }
      // One that is level may wait for bytes that never come once the work is done.
      await waitFor(() => client.how !== undefined || !isRunning, 'the cut', 30_000)
      client.destroy()
      await client.closed()
      received.cuts.stream = (received.cuts.stream ?? 0) + 1
      if (isLossy) await away(Math.floor(random() * 120))
    }
  }

  async function byPolls (received: Received): Promise<void> {
    const random = seeded(SEED + 1)
    for (;;) {
      const isLast = !isRunning
      const dice = isLast ? 1 : random()
      const { list, cut } = await poll(t, gateway.url, {
        path: `/events?lastEventId=${received.next}`,
        headers: { prefer: isLast ? 'wait=0' : 'wait=5' },
        ...(dice < 0.3 ? { cutAfterBytes: 1 + Math.floor(random() * 2000) } : dice < 0.6 ? { cutAfterMs: Math.floor(random() * 4) } : {})
      })
      received.cuts[cut] = (received.cuts[cut] ?? 0) + 1
      if (cut === 'none') {
        if (list.lost !== undefined) received.losses.push(list.lost)
        received.events.push(...list.events)
        received.next = list.next
        if (isLast && place(received.next) === store.head) return
      }
      if (isLossy) await away(Math.floor(random() * 120))
    }
  }

  await within(Promise.all([working, byStream(consumers.sse), byPolls(consumers.poll)]), 'the workload and its readers', 60_000)
  await hubSize(gateway, 0)
  return { log, ...consumers }
}

function newReceived (): Received {
  return { events: [], losses: [], next: 'earliest', cuts: {} }
}

describe('through the same cuts', () => {
  it('a consumer that polls and one that streams both get each event once, in order', async (t) => {
    const { log, sse, poll } = await throughCuts(t, {}, false)
    assert.equal(log.length, 600 * 2 + 200 * 11)
    t.diagnostic(JSON.stringify([poll.cuts, sse.cuts]))
    assert.ok(poll.cuts.waiting! > 10 && poll.cuts.body! > 10 && poll.cuts.none! > 10 && sse.cuts.stream! > 10, JSON.stringify([poll.cuts, sse.cuts]))
    assert.deepEqual([sse.losses, poll.losses], [[], []])
    assert.deepEqual(log.map(({ id }) => place(id)), log.map((_, at) => at + 1))
    assert.deepEqual(sse.events, log)
    assert.deepEqual(poll.events, log)
  })

  it('of a log that forgets, both are told of each gap, and get everything else once, in order', async (t) => {
    const { log, sse, poll } = await throughCuts(t, { storeMaxEvents: 60 }, true)
    for (const [name, { events, losses }] of Object.entries({ sse, poll })) {
      let gaps = 0
      let before = log[0]!.id
      for (const { id, event } of events) {
        const [last, at] = [place(before), place(id)]
        assert.ok(events[0]!.id === id || at > last, `${name}: ${id} after ${before}`)
        assert.deepEqual(event, log[at - 1]!.event)
        if (at > last + 1) {
          gaps++
          assert.ok(losses.some((lost) => lost.requestedId === before && lost.earliestId === id), `${name}: nothing told of the gap from ${before} to ${id}`)
        }
        before = id
      }
      assert.equal(before, log.at(-1)!.id, `${name}: up to the end`)
      t.diagnostic(`${name}: ${gaps} gaps`)
      assert.ok(gaps >= 3, `${name}: ${gaps} gaps`)
    }
  })
})
