import assert from 'node:assert/strict'
import { connect, type Socket } from 'node:net'
import { describe, it, type TestContext } from 'node:test'
import { echo, gate, invoke, send, startGateway, tool, waitFor, type RunningGateway } from './harness.ts'
import { openStream } from './sse-client.ts'

function connectionCount ({ app }: RunningGateway): Promise<number> {
  return new Promise((resolve, reject) => app.server.getConnections((error, count) => error === null ? resolve(count) : reject(error)))
}

/** A subscriber on a plain socket that it is up to the test to read. */
async function plain (t: TestContext, port: number, path = '/events'): Promise<Socket> {
  const socket = connect(port, '127.0.0.1')
  t.after(() => socket.destroy())
  socket.on('error', () => {}) // cut
  socket.write(`GET ${path} HTTP/1.1\r\nHost: localhost\r\n\r\n`)
  await new Promise<void>((resolve) => socket.once('connect', resolve))
  return socket
}

describe('filters', () => {
  const speaks = (id: string, kind: string) => tool(id, (_id, input: any, _signal, onUpdate) => {
    onUpdate({ details: 'under way' })
    if (input.fail === true) throw new Error('no')
    return { structuredContent: input }
  }, { kind })

  /** Calls that differ in all that can be asked for. */
  async function start (t: TestContext) {
    const gateway = await startGateway(t, { tools: [speaks('a', 'read'), speaks('b', 'write')], heartbeatMs: 20 })
    const calls = [
      await invoke(gateway, 'a', {}, { runId: 'r1', toolCallId: 'c1' }),
      await invoke(gateway, 'a', { fail: true }, { runId: 'r2', toolCallId: 'c2' }),
      await invoke(gateway, 'b', {}, { runId: 'r1', toolCallId: 'c3' }),
      await invoke(gateway, 'b', { fail: true }, { toolCallId: 'c/4 &=' })
    ]
    const ids = calls.map(({ body }) => body.invocation.invocationId)
    /** Everything that a query lets through of what is kept, as [toolCallId, type]. */
    const replay = async (query: string) => {
      const client = await openStream(t, gateway.url, { path: `/events?lastEventId=earliest&${query}` })
      const head = gateway.app.toolgate.store.eventId(gateway.app.toolgate.store.head)
      await waitFor(() => client.lastId === head, 'the whole replay')
      client.destroy()
      return client.events.map(({ data }) => data)
    }
    /** The same, as JSON. */
    const list = async (query: string) => {
      const { body } = await send(`${gateway.url}/events?lastEventId=earliest&${query}`, { headers: { accept: 'application/json' } })
      return body.events.map(({ event }: any) => event)
    }
    return { gateway, ids, replay, list }
  }

  type Where = (event: any) => boolean
  const queries: [query: (ids: string[]) => string, Where: (ids: string[]) => Where][] = [
    [() => '', () => () => true],
    [() => 'type=tool_execution_end', () => ({ type }) => type === 'tool_execution_end'],
    [() => 'toolId=a', () => ({ toolId }) => toolId === 'a'],
    [() => 'kind=write', () => ({ kind }) => kind === 'write'],
    [() => 'status=failed', () => ({ status }) => status === 'failed'],
    [() => 'status=running', () => ({ type }) => type !== 'tool_execution_end'],
    [() => 'runId=r1', () => ({ runId }) => runId === 'r1'],
    [([, second]) => `invocationId=${second}`, ([, second]) => ({ invocationId }) => invocationId === second],
    [() => `toolCallId=${encodeURIComponent('c/4 &=')}`, () => ({ toolCallId }) => toolCallId === 'c/4 &='],
    [() => 'toolId=a&toolId=b', () => () => true],
    [() => 'toolCallId=c1&toolCallId=c3', () => ({ toolCallId }) => ['c1', 'c3'].includes(toolCallId)],
    [([first, , third]) => `invocationId=${first}&invocationId=${third}`, ([first, , third]) => ({ invocationId }) => [first, third].includes(invocationId)],
    [() => 'toolId=a&runId=r1', () => ({ toolId, runId }) => toolId === 'a' && runId === 'r1'],
    [() => 'toolId=b&status=succeeded&status=failed', () => ({ toolId, type }) => toolId === 'b' && type === 'tool_execution_end'],
    [() => 'toolId=a&kind=write', () => () => false],
    [() => 'toolId=constructor', () => () => false]
  ]
  for (const [query, where] of queries) {
    it(`${query(['(first)', '(second)', '(third)']) || 'none'}`, async (t) => {
      const { ids, replay, list } = await start(t)
      const everything = await replay('')
      assert.equal(everything.length, 12)
      assert.deepEqual(await replay(query(ids)), everything.filter(where(ids)))
      assert.deepEqual(await list(query(ids)), everything.filter(where(ids)), 'as JSON')
    })
  }

  it('hold for live events as they do for a replay', async (t) => {
    const { gateway } = await start(t)
    const client = await openStream(t, gateway.url, { path: '/events?toolId=b&type=tool_execution_end' })
    for (const id of ['a', 'b', 'a', 'b']) await invoke(gateway, id, {})
    await waitFor(() => client.lastId === gateway.app.toolgate.store.eventId(gateway.app.toolgate.store.head), 'all of it')
    assert.deepEqual(client.events.map(({ event, data }) => [event, data.toolId]), [['tool_execution_end', 'b'], ['tool_execution_end', 'b']])
  })

  it('view=receipt leaves out args, partialResult and result, and nothing else', async (t) => {
    const { replay, list } = await start(t)
    const [full, receipts] = [await replay(''), await replay('view=receipt')]
    assert.deepEqual(receipts, full.map(({ args, partialResult, result, ...receipt }) => receipt))
    assert.deepEqual(await replay('view=full'), full)
    assert.deepEqual([await list(''), await list('view=full'), await list('view=receipt')], [full, full, receipts], 'as JSON')
  })
})

describe('heartbeats', () => {
  it('carry the place reached, without an event', async (t) => {
    const gateway = await startGateway(t, { tools: [echo], heartbeatMs: 20 })
    const client = await openStream(t, gateway.url, { path: '/events?toolId=nobody' })
    await invoke(gateway, 'echo', 1)
    const { store } = gateway.app.toolgate
    await waitFor(() => client.lastId === store.eventId(2), 'a heartbeat of the second place')
    assert.deepEqual(client.events, [])
    assert.match(client.text, new RegExp(`\\n\\nid: ${store.eventId(2)}\\n\\n`))
  })

  it('let an idle filtered client resume without loss, though what it had seen last is long gone', async (t) => {
    const gateway = await startGateway(t, { tools: [echo, tool('quiet', () => ({}))], heartbeatMs: 20, storeMaxEvents: 10 })
    const { store } = gateway.app.toolgate
    const client = await openStream(t, gateway.url, { path: '/events?toolId=quiet' })
    const old = await waitFor(() => client.lastId, 'the opening place')
    for (let at = 0; at < 20; at++) await invoke(gateway, 'echo', at)
    await waitFor(() => client.lastId === store.eventId(40), 'the heartbeat')
    client.destroy()
    await client.closed()
    await invoke(gateway, 'quiet')
    const resumed = await openStream(t, gateway.url, { path: '/events?toolId=quiet', headers: { 'last-event-id': client.lastId! } })
    await waitFor(() => resumed.ends.length === 1, 'the end that it missed')
    assert.deepEqual(resumed.events.map(({ event }) => event), ['tool_execution_start', 'tool_execution_end'])
    // Without the heartbeat's id it would have been told of a loss.
    const forgetful = await openStream(t, gateway.url, { path: '/events?toolId=quiet', headers: { 'last-event-id': old } })
    await waitFor(() => forgetful.of('events_lost').length === 1, 'events_lost')
  })

  it('do not come while events do', async (t) => {
    const gateway = await startGateway(t, { tools: [echo], heartbeatMs: 60_000 })
    const client = await openStream(t, gateway.url)
    for (let at = 0; at < 5; at++) await invoke(gateway, 'echo', at)
    await waitFor(() => client.ends.length === 5, 'the events')
    assert.equal(client.text.match(/^id: /gm)!.length, 11, 'the opening place and ten events')
  })
})

describe('a subscriber that stops reading', () => {
  it('is cut at its bound; its memory returns, and the others miss nothing meanwhile', async (t) => {
    const maxBacklogBytes = 64 * 1024
    const gateway = await startGateway(t, { tools: [echo], maxBacklogBytes })
    const { hub } = gateway.app.toolgate
    let waiting: Socket | undefined
    gateway.app.server.once('connection', (socket) => { waiting = socket })
    const deaf = (await plain(t, gateway.port)).pause()
    await waitFor(() => hub.size === 1, 'the subscriber')
    const others = [{ events: 0 }, { events: 0 }]
    for (const other of others) await openStream(t, gateway.url, { onEvent: () => { other.events++ } })
    const text = 'x'.repeat(10_000)
    let most = 0
    let calls = 0
    while (!waiting!.destroyed) {
      assert.ok(calls < 5000, 'not cut after 100 MB')
      await invoke(gateway, 'echo', text)
      calls++
      most = Math.max(most, waiting!.writableLength)
      // Whoever reads has each event at once, whatever waits for the deaf one.
      await waitFor(() => others.every(({ events }) => events === calls * 2), 'the others to have it', 1000)
    }
    assert.equal(hub.size, 2)
    assert.equal(waiting!.writableLength, 0)
    // The bound, behind the message being sent, and what came in the turn that crossed it.
    assert.ok(most > maxBacklogBytes && most < maxBacklogBytes + 4 * text.length + 10_000, `${most} bytes waited`)
    await waitFor(async () => await connectionCount(gateway) <= 3, 'its connection to be gone')
    deaf.destroy()
  })

  it('resumes by its last id, and nothing is missing from the middle', async (t) => {
    const gateway = await startGateway(t, { tools: [echo], maxBacklogBytes: 64 * 1024 })
    const slow = await openStream(t, gateway.url)
    slow.pause()
    let calls = 0
    while (gateway.app.toolgate.hub.size > 0) {
      assert.ok(calls < 5000, 'not cut')
      await invoke(gateway, 'echo', `${calls++}${'x'.repeat(10_000)}`)
    }
    slow.resume()
    assert.equal(await slow.closed(), 'cut')
    const resumed = await openStream(t, gateway.url, { headers: { 'last-event-id': slow.lastId! } })
    await waitFor(() => slow.events.length + resumed.events.length >= calls * 2, 'the rest')
    const places = [...slow.events, ...resumed.events].map(({ id }) => Number(id!.split('-')[1]))
    assert.deepEqual(places, Array.from({ length: calls * 2 }, (_, at) => at + 1))
  })
})

describe('1,000 subscribers', () => {
  it('killed half-way leave nothing behind', async (t) => {
    const warnings: Error[] = []
    const note = (warning: Error) => { warnings.push(warning) }
    process.on('warning', note)
    t.after(() => process.off('warning', note))
    const half = gate()
    const gateway = await startGateway(t, {
      tools: [tool('busy', async (_id, _input, _signal, onUpdate) => {
        for (let at = 0; at < 20; at++) {
          onUpdate({ details: at })
          await new Promise((resolve) => setTimeout(resolve, 1))
          if (at === 10) half.open()
        }
        return {}
      })]
    })
    const { hub } = gateway.app.toolgate
    // Some share a filter, some have one of their own, some name an invocation, some replay.
    const paths = ['/events', '/events?view=receipt', '/events?lastEventId=earliest', '/events?runId=', '/events?invocationId=']
    const sockets = await Promise.all(Array.from({ length: 1000 }, (_, at) => {
      const path = paths[at % paths.length]!
      return plain(t, gateway.port, path.endsWith('=') ? `${path}${at}` : path)
    }))
    let received = 0
    for (const socket of sockets) socket.on('data', () => { received++ })
    await waitFor(() => hub.size === 1000, '1,000 subscribers', 20_000)
    const answering = invoke(gateway, 'busy')
    await half.reached('the tool to be half-way')
    await waitFor(() => received > 1000, 'events on their way')
    for (const socket of sockets) socket.destroy()
    assert.equal((await answering).status, 200, 'the call is none the worse')
    await waitFor(() => hub.size === 0, 'all of them to be gone', 10_000)
    const own = 1 // the keep-alive connection of `invoke`
    await waitFor(async () => await connectionCount(gateway) <= own, 'their connections to be gone', 10_000)
    assert.deepEqual(warnings, [])
    // A newcomer is served as ever.
    const client = await openStream(t, gateway.url)
    await invoke(gateway, 'busy')
    await waitFor(() => client.ends.length === 1, 'the end event')
    assert.equal(hub.size, 1)
  })
})
