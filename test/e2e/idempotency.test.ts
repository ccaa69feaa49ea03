import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Call } from '../../src/invocation/call.ts'
import { assertProblem, echo, invoke, rawInvoke, send, tool, waitFor, type Answer } from './harness.ts'
import { heldTool, keyed, list, logged, prefer, record, watchArrivals } from './calls.ts'
import { overStores } from './stores.ts'

const told = ['content-type', 'toolgate-invocation-id', 'toolgate-status', 'toolgate-error-code']

/** The answer of the same call: equal as JSON, in status and in headers, and said to be no new one. */
function assertReplay (answer: Answer, first: Answer): void {
  assert.deepEqual([answer.status, answer.body], [first.status, first.body])
  for (const name of told) assert.equal(answer.headers.get(name), first.headers.get(name), name)
  assert.deepEqual([answer.headers.get('idempotency-replayed'), first.headers.get('idempotency-replayed')], ['true', null])
}

overStores('a call with an Idempotency-Key', (start) => {
  describe('sent again', () => {
    it('twice at once: it runs once, and both have its answer', async (t) => {
      const { subject, inputs, running, release } = heldTool()
      const gateway = await start(t, { tools: [subject] })
      const arrivals = watchArrivals(gateway)
      const first = keyed(gateway, 'k', 'held', { n: 1 })
      await running(1)
      const second = keyed(gateway, 'k', 'held', { n: 1 })
      await arrivals.reached(2)
      release()
      assertReplay(await second, await first)
      assert.deepEqual([inputs, (await first).body.structuredContent, (await logged(gateway)).length], [[{ n: 1 }], { n: 1 }, 2])
    })

    it('fifty times at once: it runs once, and one answer alone is no replay', async (t) => {
      const { subject, inputs, release } = heldTool()
      const gateway = await start(t, { tools: [subject] })
      const arrivals = watchArrivals(gateway)
      const sent = Array.from({ length: 50 }, () => keyed(gateway, 'k', 'held', { n: 1 }))
      await arrivals.reached(50)
      release()
      const answers = await Promise.all(sent)
      const [first, ...others] = answers.toSorted((one, other) => Number(one.headers.has('idempotency-replayed')) - Number(other.headers.has('idempotency-replayed')))
      for (const answer of others) assertReplay(answer, first!)
      assert.deepEqual([inputs.length, (await logged(gateway)).length], [1, 2])
    })

    it('of a tool that does not wait: it runs once', async (t) => {
      const runs: unknown[] = []
      const gateway = await start(t, { tools: [tool('quick', (_id, input) => ({ structuredContent: runs.push(input) }))] })
      const answers = await Promise.all(Array.from({ length: 20 }, () => keyed(gateway, 'k', 'quick', { n: 1 })))
      assert.deepEqual([runs, new Set(answers.map(({ text }) => text)).size], [[{ n: 1 }], 1])
      assert.equal(answers.filter(({ headers }) => !headers.has('idempotency-replayed')).length, 1)
    })

    it('after it settled: the same invocation, answer, status and headers, as often as it is asked', async (t) => {
      const gateway = await start(t, { tools: [tool('rich', () => ({ content: [{ type: 'text', text: 'ä\u2028' }], details: { a: [1, null] }, structuredContent: { b: 0.1 }, terminate: true }))] })
      const first = await keyed(gateway, 'k', 'rich', {}, { toolCallId: 'first', runId: 'a run' })
      for (const more of [{}, { toolCallId: 'second' }, { runId: 'another' }, { timeoutMs: 1 }]) assertReplay(await keyed(gateway, 'k', 'rich', {}, more), first)
      assert.equal((await logged(gateway)).length, 2, 'nothing is recorded of a replay')
    })

    it('while it waits in line: joins it there', async (t) => {
      const { subject, inputs, running, release } = heldTool('held', { executionMode: 'sequential' })
      const gateway = await start(t, { tools: [subject] })
      const arrivals = watchArrivals(gateway)
      const ahead = invoke(gateway, 'held', 'ahead')
      await running(1)
      const first = keyed(gateway, 'k', 'held', 'behind')
      await arrivals.reached(2)
      const second = keyed(gateway, 'k', 'held', 'behind')
      await arrivals.reached(3)
      assert.deepEqual(gateway.app.toolgate.invoker.slots('held'), { taken: 1, pending: 1 })
      release()
      assertReplay(await second, await first)
      assert.deepEqual([(await ahead).status, inputs], [200, ['ahead', 'behind']])
    })
  })

  describe('another input, tool or caller', () => {
    it('another input is refused, while the call runs and after it, and runs nothing', async (t) => {
      const { subject, inputs, running, release } = heldTool()
      const gateway = await start(t, { tools: [subject] })
      const first = keyed(gateway, 'k', 'held', { n: 1 })
      await running(1)
      const during = await keyed(gateway, 'k', 'held', { n: 2 })
      assertProblem(during, 422, 'idempotency_key_reused')
      assert.deepEqual(['idempotency-replayed', 'toolgate-invocation-id'].map((name) => during.headers.get(name)), [null, null])
      release()
      await first
      assertProblem(await keyed(gateway, 'k', 'held', { n: 2 }), 422, 'idempotency_key_reused')
      assertReplay(await keyed(gateway, 'k', 'held', { n: 1 }), await first)
      assert.deepEqual([inputs, (await logged(gateway)).length], [[{ n: 1 }], 2])
    })

    const inputs: Record<string, { one: string, other: string, same: boolean }> = {
      'keys in another order': { one: '{"input":{"a":1,"b":{"c":[1,2],"d":null}}}', other: '{"input":{"b":{"d":null,"c":[1,2]},"a":1}}', same: true },
      '1 and 1.0': { one: '{"input":{"a":1}}', other: '{"input":{"a":1.0}}', same: true },
      '100 and 1e2': { one: '{"input":100}', other: '{"input":1e2}', same: true },
      'an escape and its character': { one: '{"input":"ä"}', other: '{"input":"\\u00e4"}', same: true },
      'white space': { one: '{"input":{"a":1}}', other: '{ "input" : { "a" : 1 } }', same: true },
      'no input and {}': { one: '{}', other: '{"input":{}}', same: true },
      'no body and {}': { one: '', other: '{"input":{}}', same: true },
      'null and {}': { one: '{"input":null}', other: '{"input":{}}', same: false },
      'null and no input': { one: '{"input":null}', other: '{}', same: false },
      '1 and "1"': { one: '{"input":1}', other: '{"input":"1"}', same: false },
      'a list in another order': { one: '{"input":[1,2]}', other: '{"input":[2,1]}', same: false },
      'an absent key and null': { one: '{"input":{"a":null}}', other: '{"input":{}}', same: false },
      'one list and two': { one: '{"input":[[1],[2]]}', other: '{"input":[[1,2]]}', same: false }
    }
    it('inputs are the same where they are JSON-equal', async (t) => {
      const gateway = await start(t, { tools: [echo] })
      for (const [name, { one, other, same }] of Object.entries(inputs)) {
        const post = (body: string) => send(`${gateway.url}/tools/echo/invoke`, { method: 'POST', headers: { 'content-type': 'application/json', 'idempotency-key': encodeURIComponent(name) }, body })
        const first = await post(one)
        assert.equal(first.status, 200, name)
        if (same) assertReplay(await post(other), first)
        else assertProblem(await post(other), 422, 'idempotency_key_reused')
      }
    })

    it('what prepareArguments and hooks make of the input does not count, only what was sent', async (t) => {
      const rewriting = tool('rewriting', (_id, input) => ({ structuredContent: input }), { prepareArguments: () => ({ always: 'the same' }) })
      const gateway = await start(t, { tools: [rewriting], hooks: { beforeToolCall: ({ args }: any) => { args.at = Math.random() } } })
      const first = await keyed(gateway, 'k', 'rewriting', { n: 1 })
      assertReplay(await keyed(gateway, 'k', 'rewriting', { n: 1 }), first)
      assertProblem(await keyed(gateway, 'k', 'rewriting', { n: 2 }), 422, 'idempotency_key_reused')
    })

    it('another tool is another call', async (t) => {
      const gateway = await start(t, { tools: [echo, tool('other', (_id, input) => ({ structuredContent: [input] }))] })
      const first = await keyed(gateway, 'k', 'echo', { n: 1 })
      const other = await keyed(gateway, 'k', 'other', { n: 2 })
      assert.deepEqual([first.body.structuredContent, other.body.structuredContent], [{ n: 1 }, [{ n: 2 }]])
    })

    it('another caller is another call, whatever its input', async (t) => {
      const gateway = await start(t, { tools: [echo] })
      const first = await keyed(gateway, 'k', 'echo', { n: 1 })
      const { invoker } = gateway.app.toolgate
      for (const input of [{ n: 1 }, { n: 2 }]) {
        const call = await invoker.start({ toolId: 'echo', input, principal: { id: `somebody with ${input.n}` }, idempotencyKey: 'k' })
        assert.ok(call instanceof Call)
        assert.notEqual(call.invocationId, first.body.invocation.invocationId)
        assert.equal((await call.settled).httpStatus, 200)
      }
    })

    it('another key is another call', async (t) => {
      const gateway = await start(t, { tools: [echo] })
      const ids = await Promise.all(['k', 'K', 'k ', 'k k'].map(async (key) => (await keyed(gateway, key, 'echo')).body.invocation.invocationId))
      assert.deepEqual([ids[2], new Set(ids).size], [ids[0], 3], 'HTTP takes spaces at the end for none')
    })
  })

  describe('a caller that hangs up', () => {
    it('does not cancel: a retry joins the call in flight, and a later one has the same answer', async (t) => {
      const { subject, inputs, aborted, running, release } = heldTool()
      const gateway = await start(t, { tools: [subject] })
      const arrivals = watchArrivals(gateway)
      const first = rawInvoke(gateway.port, 'held', '{"input":{"n":1}}', { 'idempotency-key': 'k' })
      await running(1)
      const id = [...await gateway.app.toolgate.store.unsettled()][0]!.start.invocationId
      first.destroy()
      await waitFor(() => new Promise((resolve) => gateway.app.server.getConnections((_error, count) => resolve(count === 0))), 'the caller to be gone')
      const second = keyed(gateway, 'k', 'held', { n: 1 })
      await arrivals.reached(2)
      assert.deepEqual(aborted, [])
      release()
      const joined = await second
      const later = await keyed(gateway, 'k', 'held', { n: 1 })
      for (const { status, headers, body } of [joined, later]) {
        assert.deepEqual([status, headers.get('idempotency-replayed'), body.invocation.invocationId, body.structuredContent], [200, 'true', id, { n: 1 }])
      }
      assert.deepEqual([inputs.length, aborted, later.body], [1, [], joined.body])
    })

    it('nor does one that joined: the first has its answer', async (t) => {
      const { subject, aborted, running, release } = heldTool()
      const gateway = await start(t, { tools: [subject] })
      const arrivals = watchArrivals(gateway)
      const first = keyed(gateway, 'k', 'held')
      await running(1)
      const second = rawInvoke(gateway.port, 'held', '{}', { 'idempotency-key': 'k' })
      await arrivals.reached(2)
      second.destroy()
      await waitFor(() => new Promise((resolve) => gateway.app.server.getConnections((_error, count) => resolve(count === 1))), 'the second to be gone')
      release()
      assert.deepEqual([(await first).body.isError, aborted], [false, []])
    })

    it('without a key it does cancel', async (t) => {
      const { subject, aborted, running } = heldTool()
      const gateway = await start(t, { tools: [subject] })
      const call = rawInvoke(gateway.port, 'held', '{"input":1}')
      await running(1)
      call.destroy()
      await waitFor(() => aborted.length === 1, 'the cancel')
    })
  })

  describe('the key itself', () => {
    it('has 1 to 256 characters; others are refused, and nothing runs', async (t) => {
      const { subject, inputs } = heldTool()
      const gateway = await start(t, { tools: [subject, echo] })
      for (const key of ['', 'x'.repeat(257)]) assertProblem(await keyed(gateway, key, 'held'), 400, 'invalid_request')
      for (const key of ['x', 'x'.repeat(256), '"quoted"', 'ümläut', '__proto__', '{"a":1}']) {
        const first = await keyed(gateway, key, 'echo', { key })
        assert.equal(first.status, 200, key)
        assertReplay(await keyed(gateway, key, 'echo', { key }), first)
      }
      assert.deepEqual(inputs, [])
    })

    it('a batch is refused with one, even an empty one, and runs nothing', async (t) => {
      const { subject, inputs } = heldTool()
      const gateway = await start(t, { tools: [subject] })
      for (const key of ['k', '']) {
        const answer = await send(`${gateway.url}/batch`, { method: 'POST', headers: { 'content-type': 'application/json', 'idempotency-key': key }, body: '{"calls":[{"toolId":"held"}]}' })
        assertProblem(answer, 400, 'not_supported')
      }
      assert.deepEqual([inputs, await logged(gateway)], [[], []])
    })

    it('is neither in events nor in records, nor what it was claimed for', async (t) => {
      const gateway = await start(t, { tools: [echo] })
      const { body } = await keyed(gateway, 'a-key-of-my-own', 'echo')
      const { text } = await send(`${gateway.url}/invocations/${body.invocation.invocationId}`)
      assert.ok(!(text + JSON.stringify(await logged(gateway))).includes('a-key-of-my-own'))
    })

    it('holds its record, whatever else goes; past as many as are kept a call with another one is refused, and runs without', async (t) => {
      const gateway = await start(t, { tools: [echo], storeMaxRecords: 2 })
      const first = await keyed(gateway, 'one', 'echo', 1)
      await keyed(gateway, 'two', 'echo', 2)
      for (let n = 0; n < 10; n++) await invoke(gateway, 'echo')
      const refused = await keyed(gateway, 'three', 'echo', 3)
      assertProblem(refused, 503, 'overloaded')
      assert.match(refused.headers.get('retry-after')!, /^[1-9]\d*$/)
      assert.equal((await invoke(gateway, 'echo', 3)).status, 200)
      assertReplay(await keyed(gateway, 'one', 'echo', 1), first)
      assert.deepEqual((await record(gateway, first.body.invocation.invocationId)).body.invocation, first.body.invocation)
      const ids = (await list(gateway, '?limit=1000')).invocations.map(({ invocationId }) => invocationId)
      assert.deepEqual([ids.at(-1), new Set(ids).size], [first.body.invocation.invocationId, ids.length])
    })

    it('of a tool that is not there is refused as without one', async (t) => {
      const gateway = await start(t, { tools: [echo] })
      assertProblem(await keyed(gateway, 'k', 'nope'), 404, 'unknown_tool')
      assertProblem(await prefer(gateway, 'respond-async', 'nope', {}, { headers: { 'idempotency-key': 'k' } }), 404, 'unknown_tool')
    })
  })
})
