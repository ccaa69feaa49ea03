import assert from 'node:assert/strict'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { it } from 'node:test'
import { fileOf, makeKey } from '../auth/keys/keys.ts'
import { directoryOf } from './cli.ts'
import { assertProblem, gate, invoke, send, tool } from './harness.ts'
import { overStores } from './stores.ts'

const scopes = ['tools:invoke', 'invocations:read?own', 'invocations:cancel?own', 'events:read?own']

overStores('callers with rights to their own calls', (start) => {
  async function setUp (t: Parameters<typeof start>[0], tools: object[]) {
    const [one, two, other] = [makeKey('one', { scopes }), makeKey('one', { scopes }), makeKey('other', { scopes })]
    const keysFile = join(await directoryOf(t, {}), 'keys.json')
    await writeFile(keysFile, fileOf(one, two, other))
    const gateway = await start(t, { keysFile, tools: tools as never })
    const [mine, mineToo, theirs] = [one, two, other].map(({ text }) => ({ authorization: `Bearer ${text}` }))
    return { gateway, mine: mine!, mineToo: mineToo!, theirs: theirs! }
  }

  it('a key of one caller says nothing to another: neither that it was used, nor with what', async (t) => {
    let runs = 0
    const { gateway, mine, mineToo, theirs } = await setUp(t, [tool('count', () => ({ structuredContent: ++runs }))])
    const call = (input: object, headers: object) => invoke(gateway, 'count', input, { headers: { 'idempotency-key': 'the-same', ...headers } })
    const first = await call({ a: 1 }, mine)
    const others = await call({ a: 1 }, theirs)
    assert.deepEqual([first.body.structuredContent, others.body.structuredContent, others.headers.get('idempotency-replayed')], [1, 2, null])
    assert.notEqual(first.body.invocation.invocationId, others.body.invocation.invocationId)
    assert.equal((await call({ a: 2 }, theirs)).status, 422)
    const again = await call({ a: 1 }, mineToo)
    assert.deepEqual([again.body, again.headers.get('idempotency-replayed')], [first.body, 'true'], 'two keys of one name are one caller')
  })

  it('neither reads, follows nor cancels the calls of another, and all of its own', async (t) => {
    const over = gate()
    const { gateway, mine, mineToo, theirs } = await setUp(t, [tool('wait', async () => { await over.promise; return {} })])
    t.after(() => over.open())
    const { body } = await invoke(gateway, 'wait', {}, { headers: { ...mine, prefer: 'respond-async' } })
    const record = `${gateway.url}/invocations/${body.invocation.invocationId}`
    for (const [path, method] of [['', 'GET'], ['/events', 'GET'], ['/cancel', 'POST']] as const) {
      assertProblem(await send(record + path, { method, headers: theirs }), 404, 'unknown_invocation')
    }
    const events = (headers: Record<string, string>) => send(`${gateway.url}/events?lastEventId=earliest`, { headers: { ...headers, accept: 'application/json' } })
    assert.deepEqual((await send(`${gateway.url}/invocations`, { headers: theirs })).body.invocations, [])
    assert.deepEqual((await events(theirs)).body.events, [])
    assert.equal((await send(record, { headers: mineToo })).body.invocation.status, 'running')
    assert.equal((await send(`${record}/cancel`, { method: 'POST', headers: mineToo })).status, 202)
    assert.deepEqual((await events(mine)).body.events.map(({ event }: any) => event.type), ['tool_execution_start', 'tool_execution_end'])
  })
})
