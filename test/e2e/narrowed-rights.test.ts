import assert from 'node:assert/strict'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { it, type TestContext } from 'node:test'
import type { GatewayOptions } from '../../src/gateway.ts'
import { Batch } from '../../src/invocation/batch.ts'
import type { ToolContext } from '../../src/tools/tool.ts'
import { fileOf, makeKey } from '../auth/keys/keys.ts'
import { directoryOf } from './cli.ts'
import { gate, invoke, send, tool, waitFor, type RunningGateway } from './harness.ts'
import { openStream } from './sse-client.ts'
import { overStores, type Start } from './stores.ts'

const json = { accept: 'application/json' }

/** A gateway with tools of two families, and a caller who may do everything with one of them. */
async function setUp (t: TestContext, start: Start, more: GatewayOptions = {}) {
  const narrowed = makeKey('narrowed', { scopes: ['admin'], tools: ['a_*'] })
  const full = makeKey('full')
  const keysFile = join(await directoryOf(t, {}), 'keys.json')
  await writeFile(keysFile, fileOf(narrowed, full))
  const calls = (toolId: string) => async (_id: string, input: unknown, _signal: AbortSignal, _onUpdate: unknown, { invoke: child }: ToolContext) =>
    ({ structuredContent: (await child(toolId, input)).structuredContent ?? null })
  const gateway = await start(t, {
    keysFile,
    heartbeatMs: 100,
    tools: [
      tool('a_1', () => ({ structuredContent: 'a' })), tool('b_1', () => ({ structuredContent: 'b' })), tool('b_in_turn', () => ({}), { executionMode: 'sequential' }),
      tool('a_calls_b', calls('b_1')), tool('b_calls_a', calls('a_1'))
    ],
    ...more
  })
  const as = (key: { text: string }) => ({ authorization: `Bearer ${key.text}` })
  return { gateway, narrowed: as(narrowed), full: as(full) }
}

/** Everything that a reader can have of the past: events in both forms, records, lists. */
async function everything ({ url }: RunningGateway, headers: Record<string, string>): Promise<string> {
  const texts: string[] = []
  for (const path of ['/tools', '/invocations', '/invocations?limit=1', '/audit', '/readyz', '/events?lastEventId=earliest', '/events?lastEventId=earliest&view=receipt', '/events?lastEventId=earliest&toolId=b_1&toolId=a_1&toolId=a_calls_b&toolId=b_calls_a']) {
    const { status, text, headers: answered } = await send(url + path, { headers: { ...headers, ...json } })
    assert.equal(status, 200, text)
    texts.push(text, JSON.stringify([...answered]))
  }
  for (const { invocationId } of (await send(`${url}/invocations`, { headers })).body.invocations) {
    texts.push((await send(`${url}/invocations/${invocationId}`, { headers })).text, (await send(`${url}/invocations/${invocationId}/events`, { headers })).text)
  }
  return texts.join('\n')
}

overStores('a caller with rights to some tools', (start) => {
  it('finds nothing of the others in anything that it can ask for, not even ids', async (t) => {
    const { gateway, narrowed, full } = await setUp(t, start)
    const hidden: string[] = []
    for (let n = 0; n < 3; n++) {
      assert.equal((await invoke(gateway, 'a_1', {}, { headers: narrowed })).status, 200)
      hidden.push((await invoke(gateway, 'b_1', {}, { headers: full })).body.invocation.invocationId)
      assert.equal((await invoke(gateway, 'a_calls_b', {}, { headers: narrowed })).body.structuredContent, 'b', 'what a tool uses is its own affair')
      assert.equal((await invoke(gateway, 'b_calls_a', {}, { headers: full })).status, 200)
    }
    const all = (await send(`${gateway.url}/invocations?limit=1000`, { headers: full })).body.invocations
    hidden.push(...all.filter(({ toolId }: any) => toolId.startsWith('b_')).flatMap(({ invocationId, spanId }: any) => [invocationId, spanId]))
    assert.equal(all.length, 18)
    const seen = await everything(gateway, narrowed)
    for (const id of [...hidden, gateway.app.toolgate.store.eventId(1).slice(0, 16)]) assert.equal(seen.includes(id), false, id)
    // Its own tool names what it calls in its result if it likes; this one does not.
    assert.doesNotMatch(seen, /b_1|b_calls|b_in_turn/)
    assert.match(seen, /a_calls_b/)
    const child = (await send(`${gateway.url}/invocations?toolId=a_1`, { headers: full })).body.invocations.find(({ parentInvocationId }: any) => parentInvocationId !== undefined)
    const { invocation } = (await send(`${gateway.url}/invocations/${child.invocationId}`, { headers: narrowed })).body
    assert.deepEqual([invocation.parentInvocationId, invocation.parentSpanId], [undefined, undefined])
  })

  it('is not told which call made the one that it ends', async (t) => {
    const over = gate()
    const begun = gate<string>()
    const { gateway, narrowed, full } = await setUp(t, start, {
      tools: [
        tool('a_wait', async (_id: string, _input: unknown, _signal: unknown, _onUpdate: unknown, { invocationId }: ToolContext) => { begun.open(invocationId); await over.promise; return {} }),
        tool('b_parent', async (_id: string, _input: unknown, _signal: unknown, _onUpdate: unknown, { invoke: child }: ToolContext) => { await child('a_wait'); return {} })
      ]
    })
    t.after(() => over.open())
    const parent = (await invoke(gateway, 'b_parent', {}, { headers: { ...full, prefer: 'respond-async' } })).body.invocation
    const { status, text } = await send(`${gateway.url}/invocations/${await begun.reached('the child call')}/cancel`, { method: 'POST', headers: narrowed })
    assert.equal(status, 202)
    for (const id of [parent.invocationId, parent.spanId]) assert.equal(text.includes(id), false)
  })

  it('cannot tell by anything that it has whether there were others', async (t) => {
    const { gateway, narrowed, full } = await setUp(t, start)
    const views: unknown[] = []
    for (const others of [0, 5]) {
      for (let n = 0; n < others; n++) await invoke(gateway, 'b_1', {}, { headers: full })
      const list = (await send(`${gateway.url}/tools`, { headers: narrowed }))
      const { body } = await send(`${gateway.url}/events?lastEventId=earliest`, { headers: { ...narrowed, ...json } })
      assert.match(body.next, /^[0-9a-f]{32}$/)
      views.push([list.text, list.headers.get('etag'), body.events, (await send(`${gateway.url}/invocations`, { headers: narrowed })).text, (await send(`${gateway.url}/readyz`, { headers: narrowed })).text])
    }
    assert.deepEqual(views[0], views[1])
  })

  it('is told of a tool out of its sight what it is told of none', async (t) => {
    const { gateway, narrowed } = await setUp(t, start)
    const ask = async (toolId: string) => {
      const answers = [
        await send(`${gateway.url}/tools/${toolId}`, { headers: narrowed }), await invoke(gateway, toolId, {}, { headers: narrowed }),
        await invoke(gateway, toolId, {}, { headers: { ...narrowed, prefer: 'respond-async', 'idempotency-key': 'k' } }), await invoke(gateway, toolId, {}, { headers: { ...narrowed, accept: 'text/event-stream' } }),
        await send(`${gateway.url}/batch`, { method: 'POST', headers: { ...narrowed, 'content-type': 'application/json' }, body: JSON.stringify({ calls: [{ toolId }] }) }),
        await send(`${gateway.url}/events?lastEventId=earliest&toolId=${toolId}`, { headers: { ...narrowed, ...json } }), await send(`${gateway.url}/invocations?toolId=${toolId}`, { headers: narrowed })
      ]
      return answers.map(({ status, headers, text }) => [status, [...headers].filter(([name]) => name !== 'date'), text.replaceAll(toolId, 'TOOL').replace(/"next":"[0-9a-f]{32}"/, 'NEXT')])
    }
    assert.deepEqual(await ask('b_1'), await ask('b_9'))
  })

  it('a batch that names a sequential tool out of its sight runs as if there was none', async (t) => {
    const { gateway, narrowed } = await setUp(t, start)
    let together = 0
    let most = 0
    const { app } = await start(t, {
      tools: [tool('a_slow', async () => {
        most = Math.max(most, ++together)
        await waitFor(() => most === 2, 'the other call')
        together--
        return {}
      }), tool('b_in_turn', () => ({}), { executionMode: 'sequential' })]
    })
    // Through the gateway's own parts, as both have to be the same gateway for the two calls to meet.
    const { refusalOfCall } = (await gateway.app.toolgate.authenticate(narrowed.authorization)).access
    const batch = new Batch(app.toolgate.invoker, app.toolgate.log)
    const call = (toolId: string) => ({ toolId, principal: { id: 'narrowed' }, refusalOf: refusalOfCall })
    const { results } = JSON.parse((await batch.run([call('a_slow'), call('b_in_turn'), call('a_slow')], 'parallel')).join(''))
    assert.deepEqual(results.map(({ problem, invocation }: any) => problem?.code ?? invocation.status), ['succeeded', 'unknown_tool', 'succeeded'])
  })

  it('follows its tools live, with ids that resume without gap or double among events of others', async (t) => {
    const { gateway, narrowed, full } = await setUp(t, start)
    const first = await openStream(t, gateway.url, { headers: narrowed })
    const run = async (count: number) => {
      for (let n = 0; n < count; n++) {
        await invoke(gateway, 'b_1', {}, { headers: full })
        await invoke(gateway, 'a_1', {}, { headers: narrowed, runId: `run-${n}` })
      }
    }
    await run(3)
    await waitFor(() => first.events.length === 6, 'six events')
    await run(2)
    for (const at of [0, 2, 5]) {
      const again = await openStream(t, gateway.url, { headers: { ...narrowed, 'last-event-id': first.events[at]!.id! } })
      await waitFor(() => again.events.length === 10 - at - 1, `the rest after ${at}`)
      assert.ok(again.events.every(({ event, data }) => event !== 'events_lost' && data.toolId === 'a_1'))
      await waitFor(() => first.events.length === 10, 'all of them')
      assert.deepEqual(again.events.map(({ id }) => id), first.events.slice(at + 1).map(({ id }) => id), 'an event has one id')
    }
    // An id is a place for every client: that of one who sees everything as well, and the other way round.
    const plain = (await send(`${gateway.url}/events?lastEventId=earliest`, { headers: { ...full, ...json } })).body.events
    const after = await send(`${gateway.url}/events?lastEventId=${plain[3].id}`, { headers: { ...narrowed, ...json } })
    assert.deepEqual(after.body.events.map(({ id }: any) => id), first.events.slice(2).map(({ id }) => id))
    const back = await send(`${gateway.url}/events?lastEventId=${first.events[9]!.id}`, { headers: { ...full, ...json } })
    assert.deepEqual([back.body.events, back.body.lost], [[], undefined])
  })

  it('pages through its own records alone, by cursors that tell nothing', async (t) => {
    const { gateway, narrowed, full } = await setUp(t, start)
    for (let n = 0; n < 5; n++) {
      await invoke(gateway, 'b_1', {}, { headers: full })
      await invoke(gateway, 'a_1', {}, { headers: full })
    }
    const found: string[] = []
    for (let cursor: string | undefined = ''; cursor !== undefined;) {
      const { body }: any = await send(`${gateway.url}/invocations?limit=2${cursor === '' ? '' : `&cursor=${cursor}`}`, { headers: narrowed })
      found.push(...body.invocations.map(({ toolId }: any) => toolId))
      cursor = body.nextCursor
      if (cursor !== undefined) assert.match(cursor, /^[0-9a-f]{32}$/)
    }
    assert.deepEqual(found, Array(5).fill('a_1'))
  })
})
