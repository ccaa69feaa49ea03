import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Type } from '@sinclair/typebox'
import { assertProblem, echo, invoke, rawInvoke, send, tool, waitFor } from './harness.ts'
import { accepted, assertAccepted, heldTool, list, logged, prefer, record, settledRecord, watchArrivals } from './calls.ts'
import { overStores } from './stores.ts'
import { openStream } from './sse-client.ts'

const slow = (work: (...args: any[]) => unknown = () => new Promise(() => {})) => tool('slow', work)

overStores('async calls', (start) => {
  describe('Prefer: respond-async', () => {
    it('202 at once, with the place of the record; the call goes on, and its result is in the record', async (t) => {
      const { subject, running, release } = heldTool()
      const gateway = await start(t, { tools: [subject] })
      const answer = await prefer(gateway, 'respond-async', 'held', { n: 1 }, { toolCallId: 'mine', runId: 'a run' })
      const id = assertAccepted(answer)
      assert.equal(answer.headers.get('preference-applied'), 'respond-async')
      await running(1)
      const { toolCallId, runId } = answer.body.invocation
      assert.deepEqual([toolCallId, runId], ['mine', 'a run'])
      release()
      const { invocation, input, result } = await settledRecord(gateway, id)
      assert.deepEqual([invocation.status, input, result.structuredContent, result.isError], ['succeeded', { n: 1 }, { n: 1 }, false])
    })

    it('202 for a tool that does not wait, too', async (t) => {
      const gateway = await start(t, { tools: [echo] })
      const id = await accepted(gateway, 'echo', { n: 1 })
      assert.deepEqual((await settledRecord(gateway, id)).result.structuredContent, { n: 1 })
    })

    it('its result is JSON-equal to what a caller who waits gets', async (t) => {
      const results = [[1, 2], 'x', 0, false, null, { nested: { undeclared: [{ deep: 1e-7 }], text: '\u2028\u0000' } }]
      const gateway = await start(t, { tools: [tool('rich', (_id, at: number) => ({ structuredContent: results[at], details: { at, more: results }, content: [{ type: 'image', data: 'AAAA', mimeType: 'image/png', extra: 1 }] }))] })
      for (const at of results.keys()) {
        const { invocation, ...result } = (await invoke(gateway, 'rich', at)).body
        assert.deepEqual((await settledRecord(gateway, await accepted(gateway, 'rich', at))).result, result)
      }
    })

    it('its events are those of any call', async (t) => {
      const gateway = await start(t, { tools: [tool('subject', async (_id, _input, _signal, onUpdate) => { onUpdate({ details: 1 }); return {} })] })
      const listener = await openStream(t, gateway.url)
      const id = await accepted(gateway, 'subject')
      await listener.endOf(id)
      assert.deepEqual(listener.about(id).map(({ type }) => type), ['tool_execution_start', 'tool_execution_update', 'tool_execution_end'])
    })

    it('nobody is there to hang up: the connection goes, the call stays', async (t) => {
      for (const preference of ['respond-async', 'wait=20', 'respond-async, wait=20']) {
        const { subject, aborted, running, release } = heldTool()
        const gateway = await start(t, { tools: [subject] })
        const call = rawInvoke(gateway.port, 'held', '{}', { prefer: preference })
        await running(1)
        call.destroy()
        await waitFor(() => new Promise((resolve) => gateway.app.server.getConnections((_error, count) => resolve(count === 0))), 'the caller to be gone')
        release()
        const { invocations: [{ invocationId }] } = await list(gateway) as { invocations: [any] }
        assert.deepEqual([(await settledRecord(gateway, invocationId)).invocation.status, aborted], ['succeeded', []])
      }
    })
  })

  describe('Prefer: wait=S', { concurrency: true }, () => {
    it('in time it is answered as any call', async (t) => {
      const gateway = await start(t, { tools: [echo, tool('failing', async () => { throw new Error('it broke') })] })
      const answer = await prefer(gateway, 'wait=20', 'echo', { n: 1 })
      assert.deepEqual([answer.status, answer.body.structuredContent, answer.headers.get('preference-applied'), answer.headers.get('location')], [200, { n: 1 }, 'wait=20', null])
      assert.equal(answer.headers.get('toolgate-status'), 'succeeded')
      const failed = await prefer(gateway, 'wait=20', 'failing')
      assert.deepEqual([failed.status, failed.headers.get('toolgate-error-code')], [200, 'tool_error'])
    })

    it('in time it may be a refusal as any', async (t) => {
      const picky = tool('picky', () => ({}), { parameters: Type.Object({ n: Type.Integer() }) })
      const gateway = await start(t, { tools: [picky, slow()], hooks: { beforeToolCall: ({ tool }) => tool.id === 'slow' ? new Promise<never>(() => {}) : undefined } })
      const refused = await prefer(gateway, 'wait=20', 'picky', { n: 'one' })
      assert.deepEqual([refused.status, refused.body.invocation.errorCode, refused.body.details.errors[0].path], [422, 'invalid_input', '/n'])
      const late = await prefer(gateway, 'wait=20', 'slow', {}, { timeoutMs: 20 })
      assert.deepEqual([late.status, late.body.invocation.errorCode], [504, 'timeout'])
    })

    it('not in time it is 202, not before that time, and the call goes on', async (t) => {
      const { subject, aborted, release } = heldTool()
      const gateway = await start(t, { tools: [subject] })
      const began = performance.now()
      const answer = await prefer(gateway, 'wait=1', 'held')
      const tookMs = performance.now() - began
      const id = assertAccepted(answer)
      assert.equal(answer.headers.get('preference-applied'), 'wait=1')
      assert.ok(tookMs > 990, `${tookMs} ms`)
      release()
      assert.deepEqual([(await settledRecord(gateway, id)).invocation.status, aborted], ['succeeded', []])
    })

    it('wait=0 does not wait', async (t) => {
      const gateway = await start(t, { tools: [slow()] })
      const answer = await prefer(gateway, 'wait=0', 'slow')
      assertAccepted(answer)
      assert.equal(answer.headers.get('preference-applied'), 'wait=0')
    })

    it('a wait over the limit is cut to it, and said to be', async (t) => {
      const gateway = await start(t, { tools: [slow()], maxWaitMs: 999 })
      const answer = await prefer(gateway, 'wait=3600', 'slow')
      assertAccepted(answer)
      assert.equal(answer.headers.get('preference-applied'), 'wait=0')
    })

    it('with respond-async: waits that long, then 202', async (t) => {
      const gateway = await start(t, { tools: [slow(), echo], maxWaitMs: 1999 })
      const inTime = await prefer(gateway, 'respond-async, wait=20', 'echo')
      assert.deepEqual([inTime.status, inTime.headers.get('preference-applied')], [200, 'respond-async, wait=1'])
      await Promise.all(['respond-async, wait=1', 'wait=1;x=y, Respond-Async'].map(async (both) => {
        const began = performance.now()
        const late = await prefer(gateway, both, 'slow')
        assertAccepted(late)
        assert.equal(late.headers.get('preference-applied'), 'respond-async, wait=1')
        assert.ok(performance.now() - began > 990)
      }))
    })
  })

  it('a preference that says nothing of use is passed over: the call is answered when it is over', async (t) => {
    const gateway = await start(t, { tools: [echo] })
    for (const preference of ['wait', 'wait=', 'wait=-1', 'wait=1.5', 'wait=soon', 'wait=1e3', 'return=minimal', 'handling=strict', '', ',', 'respond-asynchronously', 'x="respond-async"', 'x;respond-async']) {
      const answer = await prefer(gateway, preference, 'echo')
      assert.deepEqual([answer.status, answer.headers.get('preference-applied'), answer.body.invocation.status], [200, null, 'succeeded'], preference)
    }
  })

  describe('refusals', () => {
    it('what gets no invocation is a problem: unknown tool, bad body, what cannot be accepted', async (t) => {
      const gateway = await start(t, { tools: [echo] })
      assertProblem(await prefer(gateway, 'respond-async', 'nope'), 404, 'unknown_tool')
      assertProblem(await prefer(gateway, 'respond-async', 'echo', {}, { extra: 1 }), 400, 'invalid_request')
      assertProblem(await prefer(gateway, 'respond-async', 'echo', { constructor: { prototype: {} } }), 400, 'forbidden_key')
      const malformed = await send(`${gateway.url}/tools/echo/invoke`, { method: 'POST', headers: { 'content-type': 'application/json', prefer: 'respond-async' }, body: '{' })
      assertProblem(malformed, 400, 'malformed_json')
      assertProblem(await prefer(gateway, 'respond-async', 'echo', {}, { headers: { accept: 'image/png' } }), 406, 'not_acceptable')
      assert.deepEqual(await logged(gateway), [])
    })

    it('a sensitive tool is refused for respond-async and for wait, and does not run', async (t) => {
      const { subject, inputs } = heldTool('held', { sensitive: true })
      const gateway = await start(t, { tools: [subject] })
      for (const preference of ['respond-async', 'wait=1', 'respond-async, wait=1']) assertProblem(await prefer(gateway, preference, 'held'), 400, 'not_supported')
      assert.deepEqual([inputs, await logged(gateway)], [[], []])
    })

    it('who prefers a stream gets one: there is nothing to come back for', async (t) => {
      const gateway = await start(t, { tools: [echo] })
      const own = await openStream(t, gateway.url, { path: '/tools/echo/invoke', method: 'POST', headers: { accept: 'text/event-stream', prefer: 'respond-async' }, body: '{}' })
      assert.equal(await own.closed(), 'ended')
      assert.deepEqual([own.status, own.headers['preference-applied'], own.ends.length], [200, undefined, 1])
    })

    it('a batch has no async calls: Prefer has no effect on it', async (t) => {
      const gateway = await start(t, { tools: [echo] })
      const answer = await send(`${gateway.url}/batch`, { method: 'POST', headers: { 'content-type': 'application/json', prefer: 'respond-async' }, body: '{"calls":[{"toolId":"echo"}]}' })
      assert.deepEqual([answer.status, answer.headers.get('preference-applied'), answer.body.results.length], [200, null, 1])
    })
  })

  it('failures before and in the tool, by hooks and by time, are on record, each with one end event', async (t) => {
    const gateway = await start(t, {
      tools: [
        tool('picky', () => ({}), { parameters: Type.Object({ n: Type.Integer() }) }), tool('blocked', () => ({})), tool('hooked', () => ({})),
        tool('failing', () => { throw new Error('it broke') }), tool('odd', () => ({ structuredContent: NaN })), slow(), tool('spoilt', () => ({}))
      ],
      hooks: {
        beforeToolCall: ({ tool: { id } }) => {
          if (id === 'hooked') throw new Error('it broke')
          return id === 'blocked' ? { block: true, reason: 'no' } : undefined
        },
        afterToolCall: ({ tool: { id } }) => { if (id === 'spoilt') throw new Error('it broke') }
      }
    })
    const expected = { picky: 'invalid_input', blocked: 'blocked', hooked: 'hook_error', failing: 'tool_error', odd: 'invalid_output', slow: 'timeout', spoilt: 'hook_error' }
    for (const [toolId, errorCode] of Object.entries(expected)) {
      const id = await accepted(gateway, toolId, {}, toolId === 'slow' ? { timeoutMs: 20 } : {})
      const { headers } = await record(gateway, id, { prefer: 'wait=15' })
      const { invocation, result } = await settledRecord(gateway, id)
      assert.deepEqual([invocation.status, invocation.errorCode, result.isError], ['failed', errorCode, true], toolId)
      assert.equal(headers.get('toolgate-error-code'), errorCode)
      assert.equal((await logged(gateway)).filter(({ event }) => event.invocationId === id && event.type === 'tool_execution_end').length, 1)
    }
  })

  describe('slots of their own', () => {
    it('at most so many execute at once; the others wait, are served as they came, and say for how long', async (t) => {
      const { subject, inputs, running, release } = heldTool()
      const gateway = await start(t, { tools: [subject], maxConcurrentAsyncCalls: 2 })
      const ids: string[] = []
      for (let n = 0; n < 6; n++) ids.push(await accepted(gateway, 'held', n))
      await running(2)
      assert.deepEqual([inputs, gateway.app.toolgate.invoker.slots()], [[0, 1], { taken: 2, pending: 4 }])
      for (const id of ids) assert.equal((await record(gateway, id)).body.invocation.status, 'running', 'also while it waits')
      release()
      const waits = await Promise.all(ids.map(async (id) => (await settledRecord(gateway, id)).invocation.queuedMs))
      assert.deepEqual(inputs, [0, 1, 2, 3, 4, 5])
      assert.deepEqual(waits.map((queuedMs) => queuedMs > 0), [false, false, true, true, true, true])
    })

    it('calls that are waited for are not held up by async ones, nor the other way round', async (t) => {
      const { subject, running, release } = heldTool()
      const gateway = await start(t, { tools: [subject, echo], maxConcurrentAsyncCalls: 1, maxConcurrentCalls: 1 })
      const async = [await accepted(gateway, 'held', 'async'), await accepted(gateway, 'echo', 'behind it')]
      await running(1)
      assert.equal((await invoke(gateway, 'echo', 1)).body.structuredContent, 1)
      const awaited = invoke(gateway, 'held', 'awaited')
      await running(2)
      const arrivals = watchArrivals(gateway)
      const behind = invoke(gateway, 'echo', 2)
      await arrivals.reached(1)
      assert.deepEqual(gateway.app.toolgate.invoker.slots(), { taken: 2, pending: 2 })
      release()
      assert.deepEqual([(await awaited).status, (await behind).status], [200, 200])
      for (const id of async) assert.equal((await settledRecord(gateway, id)).invocation.status, 'succeeded')
    })

    it('where both wait for one tool they take turns', async (t) => {
      const { subject, inputs, running, release } = heldTool('held', { executionMode: 'sequential' })
      const gateway = await start(t, { tools: [subject] })
      const first = invoke(gateway, 'held', 'first')
      await running(1)
      const arrivals = watchArrivals(gateway)
      for (const n of [1, 2, 3]) await accepted(gateway, 'held', `async ${n}`)
      const awaited = []
      for (const n of [1, 2, 3]) {
        awaited.push(invoke(gateway, 'held', `awaited ${n}`))
        await arrivals.reached(3 + n)
      }
      release()
      await Promise.all([first, ...awaited])
      await running(7)
      assert.deepEqual(inputs, ['first', 'async 1', 'awaited 1', 'async 2', 'awaited 2', 'async 3', 'awaited 3'])
    })

    it('past the backlog a call is refused with Retry-After, and not recorded; those that are waited for are taken', async (t) => {
      const { subject, inputs, running, release } = heldTool()
      const gateway = await start(t, { tools: [subject, echo], maxConcurrentAsyncCalls: 1, maxAsyncBacklog: 2 })
      const ids = [await accepted(gateway, 'held', 0)]
      await running(1)
      ids.push(await accepted(gateway, 'held', 1), await accepted(gateway, 'echo', 2))
      for (const toolId of ['held', 'echo']) {
        const refused = await prefer(gateway, 'respond-async', toolId)
        assertProblem(refused, 503, 'overloaded')
        assert.match(refused.headers.get('retry-after')!, /^[1-9]\d*$/)
      }
      assert.equal((await invoke(gateway, 'echo')).status, 200)
      const recorded = (await list(gateway)).invocations.map(({ invocationId }) => invocationId)
      assert.equal(recorded.length, 4)
      release()
      for (const id of ids) assert.equal((await settledRecord(gateway, id)).invocation.status, 'succeeded')
      await settledRecord(gateway, await accepted(gateway, 'held', 3))
      assert.deepEqual(inputs, [0, 1, 3])
    })

    it('the backlog is not the line: calls that are waited for do not fill it, nor async ones the line', async (t) => {
      const { subject, running, release } = heldTool('held', { executionMode: 'sequential' })
      const gateway = await start(t, { tools: [subject], maxWaitingCalls: 1, maxAsyncBacklog: 1 })
      const first = invoke(gateway, 'held', 0)
      await running(1)
      const arrivals = watchArrivals(gateway)
      const waiting = invoke(gateway, 'held', 1)
      await arrivals.reached(1)
      const id = await accepted(gateway, 'held', 2)
      assertProblem(await invoke(gateway, 'held', 3), 503, 'overloaded')
      assertProblem(await prefer(gateway, 'respond-async', 'held', 4), 503, 'overloaded')
      release()
      assert.deepEqual([(await first).status, (await waiting).status, (await settledRecord(gateway, id)).invocation.status], [200, 200, 'succeeded'])
    })
  })
})
