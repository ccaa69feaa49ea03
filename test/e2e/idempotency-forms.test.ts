import assert from 'node:assert/strict'
import { describe, it, type TestContext } from 'node:test'
import { assertProblem, tool, waitFor, type RunningGateway } from './harness.ts'
import { accepted, assertAccepted, heldTool, keyed, logged, settledRecord, watchArrivals } from './calls.ts'
import { openStream, type EventClient } from './sse-client.ts'
import { overStores } from './stores.ts'

function stream (t: TestContext, { url }: RunningGateway, key: string, toolId: string, input?: unknown): Promise<EventClient> {
  return openStream(t, url, {
    path: `/tools/${toolId}/invoke`,
    method: 'POST',
    headers: { accept: 'text/event-stream', 'idempotency-key': key },
    body: JSON.stringify({ input })
  })
}

const data = ({ events }: EventClient) => events.map((event) => event.data)
const LARGE = 'x'.repeat(300 * 1024)
const progressing = (execute: (...args: any[]) => unknown = (_id, input) => ({ structuredContent: input }), more: object = {}) =>
  tool('progressing', async (...args) => {
    args[3]({ details: 1 })
    args[3]({ details: 2 })
    return await execute(...args)
  }, more)

overStores('a call with an Idempotency-Key, in every form of answer', (start) => {
  describe('as a stream', () => {
    it('the first time it is a call as any: its events, and no word of a replay', async (t) => {
      const gateway = await start(t, { tools: [progressing()] })
      const own = await stream(t, gateway, 'k', 'progressing', { n: 1 })
      assert.equal(await own.closed(), 'ended')
      assert.deepEqual([own.status, own.headers['idempotency-replayed']], [200, undefined])
      assert.deepEqual(own.events.map(({ event }) => event), ['tool_execution_start', 'tool_execution_update', 'tool_execution_update', 'tool_execution_end'])
    })

    it('after it settled: the same events, with the same ids', async (t) => {
      const gateway = await start(t, { tools: [progressing()] })
      const own = await stream(t, gateway, 'k', 'progressing', { n: 1 })
      await own.closed()
      const again = await stream(t, gateway, 'k', 'progressing', { n: 1 })
      assert.equal(await again.closed(), 'ended')
      assert.deepEqual(again.events, own.events)
      assert.deepEqual([again.headers['idempotency-replayed'], again.headers['toolgate-invocation-id']], ['true', own.headers['toolgate-invocation-id']])
      assert.equal((await logged(gateway)).length, 4)
    })

    it('after it was answered as JSON, and the other way round', async (t) => {
      const gateway = await start(t, { tools: [progressing()] })
      const { body } = await keyed(gateway, 'json', 'progressing', { n: 1 })
      const streamed = await stream(t, gateway, 'json', 'progressing', { n: 1 })
      await streamed.closed()
      const { invocation, ...result } = body
      assert.deepEqual([streamed.ends[0].invocationId, streamed.ends[0].result], [invocation.invocationId, result])
      const own = await stream(t, gateway, 'stream', 'progressing', { n: 2 })
      await own.closed()
      const again = await keyed(gateway, 'stream', 'progressing', { n: 2 })
      assert.deepEqual([again.body.invocation.invocationId, again.headers.get('idempotency-replayed')], [own.ends[0].invocationId, 'true'])
    })

    it('in flight: joins it from its start', async (t) => {
      const { subject, running, release } = heldTool()
      const gateway = await start(t, { tools: [subject] })
      const first = keyed(gateway, 'k', 'held', { n: 1 })
      await running(1)
      const joined = await stream(t, gateway, 'k', 'held', { n: 1 })
      assert.equal(joined.headers['idempotency-replayed'], 'true')
      await waitFor(() => joined.of('tool_execution_start').length === 1, 'the start event')
      release()
      assert.equal(await joined.closed(), 'ended')
      assert.deepEqual(data(joined).map(({ type, invocationId }) => [type, invocationId]), ['start', 'end'].map((type) => [`tool_execution_${type}`, joined.headers['toolgate-invocation-id']]))
      assert.equal((await first).body.invocation.invocationId, joined.headers['toolgate-invocation-id'])
    })

    it('one that goes away does not cancel', async (t) => {
      const { subject, aborted, running, release } = heldTool()
      const gateway = await start(t, { tools: [subject] })
      const own = await stream(t, gateway, 'k', 'held')
      await running(1)
      own.destroy()
      await waitFor(() => gateway.app.toolgate.hub.size === 0, 'the stream to be gone')
      release()
      const { body } = await keyed(gateway, 'k', 'held')
      assert.deepEqual([body.invocation.status, aborted], ['succeeded', []])
    })

    it('its parts are whole, whatever their size, joined or replayed', async (t) => {
      const { subject, running, release } = heldTool()
      const gateway = await start(t, { tools: [subject] })
      const first = keyed(gateway, 'k', 'held', LARGE)
      await running(1)
      const joined = await stream(t, gateway, 'k', 'held', LARGE)
      release()
      await first
      const replayed = await stream(t, gateway, 'k', 'held', LARGE)
      for (const client of [joined, replayed]) {
        assert.equal(await client.closed(), 'ended')
        const [begun, ended] = data(client)
        assert.deepEqual([begun.args, ended.result.structuredContent, 'omitted' in begun, 'omitted' in ended], [LARGE, LARGE, false, false])
      }
    })

    it('of a sensitive tool it is withheld once the call has settled; who joins in flight gets what JSON gives', async (t) => {
      const { subject, running, release } = heldTool('held', { sensitive: true })
      const gateway = await start(t, { tools: [subject] })
      const first = keyed(gateway, 'k', 'held', { secret: 1 })
      await running(1)
      const joined = await stream(t, gateway, 'k', 'held', { secret: 1 })
      release()
      const { invocation, ...result } = (await first).body
      await joined.closed()
      assert.deepEqual([data(joined)[0].args, joined.ends[0].result], [{ secret: 1 }, result])
      const replayed = await stream(t, gateway, 'k', 'held', { secret: 1 })
      await replayed.closed()
      assert.deepEqual(replayed.ends[0].result, { content: [], details: null, isError: false, redacted: true })
      assert.ok(!replayed.text.includes('secret'))
    })

    it('problems are problems: another input, a key too long', async (t) => {
      const gateway = await start(t, { tools: [progressing()] })
      await keyed(gateway, 'k', 'progressing', { n: 1 })
      const headers = { accept: 'text/event-stream' }
      assertProblem(await keyed(gateway, 'k', 'progressing', { n: 2 }, { headers }), 422, 'idempotency_key_reused')
      assertProblem(await keyed(gateway, 'k'.repeat(257), 'progressing', { n: 2 }, { headers }), 400, 'invalid_request')
    })
  })

  describe('async', () => {
    const respondAsync = { headers: { prefer: 'respond-async' } }

    it('202 while it runs, for the first and for who comes again; its answer at once when it has settled', async (t) => {
      const { subject, inputs, running, release } = heldTool()
      const gateway = await start(t, { tools: [subject] })
      const first = await keyed(gateway, 'k', 'held', { n: 1 }, respondAsync)
      const id = assertAccepted(first)
      await running(1)
      const again = await keyed(gateway, 'k', 'held', { n: 1 }, respondAsync)
      assert.equal(assertAccepted(again), id)
      assert.deepEqual([first.headers.get('idempotency-replayed'), again.headers.get('idempotency-replayed')], [null, 'true'])
      assert.deepEqual(again.body, first.body)
      release()
      await settledRecord(gateway, id)
      const settled = await keyed(gateway, 'k', 'held', { n: 1 }, respondAsync)
      assert.deepEqual([settled.status, settled.body.invocation.invocationId, settled.body.structuredContent], [200, id, { n: 1 }])
      assert.deepEqual([settled.headers.get('idempotency-replayed'), settled.headers.get('preference-applied'), settled.headers.get('location')], ['true', 'respond-async', null])
      assert.equal(inputs.length, 1)
    })

    it('whoever waits joins an async call, and has its answer', async (t) => {
      const { subject, running, release } = heldTool()
      const gateway = await start(t, { tools: [subject] })
      const id = await accepted(gateway, 'held', { n: 1 }, { headers: { 'idempotency-key': 'k' } })
      await running(1)
      const arrivals = watchArrivals(gateway)
      const waiting = keyed(gateway, 'k', 'held', { n: 1 })
      const bounded = keyed(gateway, 'k', 'held', { n: 1 }, { headers: { prefer: 'wait=20' } })
      await arrivals.reached(2)
      release()
      for (const answer of [await waiting, await bounded]) assert.deepEqual([answer.status, answer.body.invocation.invocationId], [200, id])
    })

    it('a call that its first caller waits for is 202 to one that does not', async (t) => {
      const { subject, running, release } = heldTool()
      const gateway = await start(t, { tools: [subject] })
      const first = keyed(gateway, 'k', 'held', { n: 1 })
      await running(1)
      const id = assertAccepted(await keyed(gateway, 'k', 'held', { n: 1 }, respondAsync))
      release()
      assert.equal((await first).body.invocation.invocationId, id)
    })

    it('two at once run once', async (t) => {
      const { subject, inputs, release } = heldTool()
      const gateway = await start(t, { tools: [subject] })
      const ids = await Promise.all([1, 2].map(async () => assertAccepted(await keyed(gateway, 'k', 'held', {}, respondAsync))))
      release()
      await settledRecord(gateway, ids[0]!)
      assert.deepEqual([ids[0], inputs.length], [ids[1], 1])
    })

    it('one refused for a full backlog leaves the key free', async (t) => {
      const { subject, running, release } = heldTool()
      const gateway = await start(t, { tools: [subject], maxConcurrentAsyncCalls: 1, maxAsyncBacklog: 0 })
      const ahead = await accepted(gateway, 'held', 'ahead')
      await running(1)
      assertProblem(await keyed(gateway, 'k', 'held', 'behind', respondAsync), 503, 'overloaded')
      release()
      await settledRecord(gateway, ahead)
      const again = await keyed(gateway, 'k', 'held', 'behind', respondAsync)
      assertAccepted(again)
      assert.equal(again.headers.get('idempotency-replayed'), null)
    })
  })
})
