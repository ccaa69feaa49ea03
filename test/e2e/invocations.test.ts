import assert from 'node:assert/strict'
import { describe, it, type TestContext } from 'node:test'
import { Type } from '@sinclair/typebox'
import { assertProblem, echo, gate, invoke, send, tool, type Answer } from './harness.ts'
import { accepted, cancel, heldTool, list, prefer, record, settledRecord } from './calls.ts'
import { overStores, type Start } from './stores.ts'

overStores('GET /invocations/:id', (start) => {
  describe('the record', () => {
    it('of a call that succeeded: the receipt of its answer, its input and its result', async (t) => {
      const gateway = await start(t, { tools: [tool('rich', () => ({ content: [{ type: 'text', text: 'ä' }], details: [1], structuredContent: null, terminate: true }))] })
      const more = { toolCallId: 'mine', runId: 'a run', parentInvocationId: 'p', headers: { traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01' } }
      const { invocation, ...result } = (await invoke(gateway, 'rich', { b: 1, a: [null] }, more)).body
      const { body, headers } = await record(gateway, invocation.invocationId)
      assert.deepEqual(body, { invocation, input: { b: 1, a: [null] }, result })
      assert.deepEqual(['toolgate-invocation-id', 'toolgate-status', 'toolgate-error-code', 'cache-control', 'preference-applied'].map((name) => headers.get(name)), [invocation.invocationId, 'succeeded', null, 'no-store', null])
    })

    it('of one that runs: no result yet', async (t) => {
      const { subject, running, release } = heldTool()
      const gateway = await start(t, { tools: [subject] })
      const answering = invoke(gateway, 'held', 1)
      await running(1)
      const { invocations: [listed] } = await list(gateway)
      const { body, headers } = await record(gateway, listed.invocationId)
      assert.deepEqual([body, headers.get('toolgate-status')], [{ invocation: listed, input: 1 }, 'running'])
      assert.deepEqual([listed.status, listed.durationMs, 'errorCode' in listed], ['running', 0, false])
      release()
      assert.deepEqual((await answering).body.invocation, (await settledRecord(gateway, listed.invocationId)).invocation)
    })

    it('of one that failed, before its tool ran or in it: what its caller was told', async (t) => {
      const gateway = await start(t, {
        tools: [
          tool('failing', () => { throw new Error('it broke') }), tool('picky', () => ({}), { parameters: Type.Object({ n: Type.Integer() }) }), tool('slow', () => new Promise(() => {}))
        ]
      })
      for (const [toolId, errorCode] of [['failing', 'tool_error'], ['picky', 'invalid_input'], ['slow', 'timeout']] as const) {
        const { invocation, ...result } = (await invoke(gateway, toolId, {}, { timeoutMs: 50 })).body
        const { body, headers, status } = await record(gateway, invocation.invocationId)
        assert.deepEqual([status, body, headers.get('toolgate-status'), headers.get('toolgate-error-code')], [200, { invocation, input: {}, result }, 'failed', errorCode])
      }
    })

    it('of a sensitive tool: neither input nor result, but that they were withheld', async (t) => {
      const { subject, running, release } = heldTool('held', { sensitive: true })
      const gateway = await start(t, { tools: [subject] })
      const answering = invoke(gateway, 'held', { secret: 'hunter2' })
      await running(1)
      const { invocations: [{ invocationId }] } = await list(gateway) as { invocations: [any] }
      assert.deepEqual(Object.keys((await record(gateway, invocationId)).body), ['invocation'])
      release()
      const { invocation } = (await answering).body
      assert.deepEqual((await record(gateway, invocationId)).body, { invocation, result: { content: [], details: null, isError: false, redacted: true } })
    })

    it('of a large call: whole, where the events leave parts out', async (t) => {
      const large = 'ä'.repeat(200 * 1024)
      const gateway = await start(t, { tools: [echo] })
      const { invocation } = (await invoke(gateway, 'echo', large)).body
      const events = (await send(`${gateway.url}/events?lastEventId=earliest`, { headers: { accept: 'application/json' } })).body.events
      assert.deepEqual(events.map(({ event }: any) => event.omitted), [['args'], ['result']])
      const { body } = await record(gateway, invocation.invocationId)
      assert.deepEqual([body.input, body.result.structuredContent], [large, large])
    })

    it('of the calls of a batch, of a child call and of a call in process, as of any', async (t) => {
      const outer = tool('outer', async (_id, input, _signal, _onUpdate, context) => ({ structuredContent: (await context.invoke('echo', input)).invocation.invocationId }))
      const gateway = await start(t, { tools: [outer, echo] })
      const { body } = await send(`${gateway.url}/batch`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{"calls":[{"toolId":"outer","input":1}],"runId":"r"}' })
      const [{ structuredContent: childId, invocation }] = body.results
      assert.deepEqual((await record(gateway, invocation.invocationId)).body.invocation, invocation)
      const child = (await record(gateway, childId)).body
      assert.deepEqual([child.invocation.parentInvocationId, child.invocation.parentSpanId, child.invocation.runId, child.input], [invocation.invocationId, invocation.spanId, 'r', 1])
      const inProcess = await gateway.app.invoke({ toolId: 'echo', input: 2 })
      assert.deepEqual((await record(gateway, inProcess.invocation.invocationId)).body.invocation, inProcess.invocation)
    })

    it('never changes once it has an end', async (t) => {
      const gateway = await start(t, { tools: [tool('twice', async () => { setTimeout(() => {}, 1); return { structuredContent: 1 } })] })
      const { invocation } = (await invoke(gateway, 'twice')).body
      const before = await record(gateway, invocation.invocationId)
      assertProblem(await cancel(gateway, invocation.invocationId), 409, 'already_settled')
      assert.equal((await record(gateway, invocation.invocationId)).text, before.text)
    })
  })

  describe('with Prefer: wait', () => {
    it('waits until the call has ended, however it ends', async (t) => {
      for (const how of ['released', 'cancelled'] as const) {
        const { subject, running, release } = heldTool()
        const gateway = await start(t, { tools: [subject] })
        const id = await accepted(gateway, 'held')
        await running(1)
        const waiting = [record(gateway, id, { prefer: 'wait=20' }), record(gateway, id, { prefer: 'wait=20' })]
        if (how === 'released') release()
        else await cancel(gateway, id)
        for (const { body, headers } of await Promise.all(waiting)) {
          assert.deepEqual([body.invocation.status, headers.get('toolgate-status'), headers.get('preference-applied')], how === 'released' ? ['succeeded', 'succeeded', 'wait=20'] : ['cancelled', 'cancelled', 'wait=20'])
          assert.equal(body.result.isError, how === 'cancelled')
        }
      }
    })

    it('no longer than it asks for: then the call as it runs', async (t) => {
      const gateway = await start(t, { tools: [heldTool().subject], maxWaitMs: 1999 })
      const id = await accepted(gateway, 'held')
      await Promise.all(([['wait=0', 'wait=0', 0], ['wait=1', 'wait=1', 990], ['wait=3600', 'wait=1', 990]] as const).map(async ([preference, granted, atLeastMs]) => {
        const began = performance.now()
        const { body, headers } = await record(gateway, id, { prefer: preference })
        assert.deepEqual([body.invocation.status, headers.get('preference-applied')], ['running', granted])
        assert.ok(performance.now() - began >= atLeastMs)
      }))
    })

    it('does not wait for what has ended, nor where the wait is none', async (t) => {
      const gateway = await start(t, { tools: [echo, heldTool().subject] })
      const { invocation } = (await invoke(gateway, 'echo')).body
      assert.equal((await record(gateway, invocation.invocationId, { prefer: 'wait=20' })).body.invocation.status, 'succeeded')
      const id = await accepted(gateway, 'held')
      for (const preference of ['wait=soon', 'wait=1.5', 'respond-async']) {
        const { body, headers } = await record(gateway, id, { prefer: preference })
        assert.deepEqual([body.invocation.status, headers.get('preference-applied')], ['running', null])
      }
    })

    it('who hangs up while it waits cancels nothing', async (t) => {
      const { subject, aborted, running, release } = heldTool()
      const gateway = await start(t, { tools: [subject] })
      const id = await accepted(gateway, 'held')
      await running(1)
      const gone = new AbortController()
      const waiting = assert.rejects(send(`${gateway.url}/invocations/${id}`, { headers: { prefer: 'wait=20' }, signal: gone.signal }))
      gone.abort()
      await waiting
      release()
      assert.deepEqual([(await settledRecord(gateway, id)).invocation.status, aborted], ['succeeded', []])
    })
  })

  describe('refusals', () => {
    it('an id that no record has is 404, on every route of it', async (t) => {
      const gateway = await start(t, { tools: [echo] })
      for (const id of ['nope', 'constructor', '__proto__', 'toString', '%00', '..%2f..%2fevents', '%F0%9F%92%A9', 'x'.repeat(3000)]) {
        assertProblem(await record(gateway, id), 404, 'unknown_invocation')
        assertProblem(await record(gateway, id, { prefer: 'wait=20' }), 404, 'unknown_invocation')
        assertProblem(await cancel(gateway, id), 404, 'unknown_invocation')
        assertProblem(await send(`${gateway.url}/invocations/${id}/events`), 404, 'unknown_invocation')
      }
      for (const path of ['%', '%zz', '%/cancel']) assert.ok((await send(`${gateway.url}/invocations/${path}`)).status >= 400)
    })

    const refused: Record<string, { path: string, init?: RequestInit, status: number, code: string }> = {
      'a query on a record': { path: '/ID?wait=1', status: 400, code: 'invalid_request' },
      'a query on a cancel': { path: '/ID/cancel?force=true', init: { method: 'POST' }, status: 400, code: 'invalid_request' },
      'a query on the events': { path: '/ID/events?lastEventId=earliest', status: 400, code: 'invalid_request' },
      'a record as a stream': { path: '/ID', init: { headers: { accept: 'text/event-stream' } }, status: 406, code: 'not_acceptable' },
      'a list as a stream': { path: '', init: { headers: { accept: 'text/event-stream' } }, status: 406, code: 'not_acceptable' },
      'events as JSON': { path: '/ID/events', init: { headers: { accept: 'application/json' } }, status: 406, code: 'not_acceptable' },
      'a DELETE': { path: '/ID', init: { method: 'DELETE' }, status: 405, code: 'method_not_allowed' },
      'a POST of a record': { path: '/ID', init: { method: 'POST' }, status: 405, code: 'method_not_allowed' },
      'a GET of a cancel': { path: '/ID/cancel', status: 405, code: 'method_not_allowed' },
      'a POST of events': { path: '/ID/events', init: { method: 'POST' }, status: 405, code: 'method_not_allowed' }
    }
    it('each is a problem', async (t) => {
      const { gateway, id } = await withOneCall(t, start)
      for (const [name, { path, init, status, code }] of Object.entries(refused)) {
        const answer: Answer = await send(`${gateway.url}/invocations${path.replace('ID', id)}`, init)
        assert.equal(answer.status, status, name)
        assertProblem(answer, status, code)
      }
    })

    it('with a key set, every route asks for it', async (t) => {
      const gateway = await start(t, { tools: [echo], apiKey: 'a key of 16 characters'.replaceAll(' ', '-') })
      for (const path of ['', '/x', '/x/events', '/x/cancel']) {
        assertProblem(await send(`${gateway.url}/invocations${path}`, { method: path === '/x/cancel' ? 'POST' : 'GET' }), 401, 'unauthorized')
      }
    })
  })

  it('HEAD tells what GET would, without the body', async (t) => {
    const { gateway, id } = await withOneCall(t, start)
    const head = await send(`${gateway.url}/invocations/${id}`, { method: 'HEAD' })
    const got = await record(gateway, id)
    assert.deepEqual([head.status, head.text, head.headers.get('toolgate-status'), head.headers.get('content-length')], [200, '', 'succeeded', got.headers.get('content-length')])
    assert.equal((await send(`${gateway.url}/invocations`, { method: 'HEAD' })).status, 200)
  })

  it('of a call whose tool is gone or another since a reload: the record is what it was', async (t) => {
    const open = gate()
    const gateway = await start(t, { tools: [echo, tool('held', async () => { await open.promise; return {} })] })
    const id = await accepted(gateway, 'held')
    await gateway.app.reloadTools({ toolSettings: { held: { kind: 'other', sensitive: true } } })
    open.open()
    const { invocation, input } = await settledRecord(gateway, id)
    assert.deepEqual([invocation.kind, input], ['test', {}])
    assertProblem(await prefer(gateway, 'respond-async', 'held'), 400, 'not_supported')
  })
})

async function withOneCall (t: TestContext, start: Start) {
  const gateway = await start(t, { tools: [echo] })
  return { gateway, id: (await invoke(gateway, 'echo')).body.invocation.invocationId as string }
}
