import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { assertProblem, echo, gate, invoke, send, tool, waitFor } from './harness.ts'
import { accepted, assertShape, cancel, heldTool, list, logged, record, settledRecord, watchArrivals } from './calls.ts'
import { InvocationAnswer } from '../../src/contract/invocation.ts'
import { overStores } from './stores.ts'
import { openStream } from './sse-client.ts'

const receiptOf = async (gateway: { url: string }, toolId: string) => (await list(gateway, `?toolId=${toolId}&limit=1`)).invocations[0]

overStores('POST /invocations/:id/cancel', (start) => {
  it('while it executes: 202 with the receipt, the signal aborts, and its caller has 200 cancelled', async (t) => {
    const { subject, aborted, running } = heldTool()
    const gateway = await start(t, { tools: [subject] })
    const answering = invoke(gateway, 'held', 1)
    await running(1)
    const { invocationId } = await receiptOf(gateway, 'held')
    const answer = await cancel(gateway, invocationId)
    assert.equal(answer.status, 202)
    assertShape(InvocationAnswer, answer.body)
    assert.deepEqual([answer.body.invocation.status, answer.body.invocation.errorCode], ['cancelled', 'cancelled'])
    assert.deepEqual(['toolgate-invocation-id', 'toolgate-status', 'toolgate-error-code', 'location'].map((name) => answer.headers.get(name)), [invocationId, 'cancelled', 'cancelled', null])
    await waitFor(() => aborted.length === 1, 'the abort')
    const { status, body } = await answering
    assert.deepEqual([status, body.isError, body.invocation], [200, true, answer.body.invocation])
    assert.deepEqual((await record(gateway, invocationId)).body.invocation, answer.body.invocation)
  })

  it('a tool that ignores its signal: cancelled at once, and what it does later counts for nothing', async (t) => {
    const open = gate()
    const began = gate()
    const over = gate()
    const gateway = await start(t, {
      tools: [tool('deaf', async (_id, _input, _signal, onUpdate) => {
        began.open()
        await open.promise
        onUpdate({ details: 'late' })
        setImmediate(over.open)
        return { structuredContent: 'late' }
      })]
    })
    const id = await accepted(gateway, 'deaf')
    await began.reached('the tool to run')
    assert.equal((await cancel(gateway, id)).status, 202)
    open.open()
    await over.reached('the end of the tool')
    assert.equal((await record(gateway, id)).body.invocation.status, 'cancelled')
    assert.deepEqual((await logged(gateway)).map(({ event }) => event.type), ['tool_execution_start', 'tool_execution_end'])
  })

  it('while it waits in line: 202, and its caller has 409, since the tool did not run', async (t) => {
    const { subject, inputs, running, release } = heldTool('held', { executionMode: 'sequential' })
    const gateway = await start(t, { tools: [subject] })
    const ahead = invoke(gateway, 'held', 'ahead')
    await running(1)
    const arrivals = watchArrivals(gateway)
    const waiting = invoke(gateway, 'held', 'behind')
    await arrivals.reached(1)
    const { invocationId } = await receiptOf(gateway, 'held')
    assert.equal((await cancel(gateway, invocationId)).status, 202)
    const { status, body, headers } = await waiting
    assert.deepEqual([status, body.isError, body.invocation.status, body.invocation.durationMs, headers.get('toolgate-error-code')], [409, true, 'cancelled', 0, 'cancelled'])
    assert.ok(body.invocation.queuedMs > 0)
    assert.equal((await gateway.app.toolgate.store.get(invocationId))!.end!.executed, false)
    release()
    assert.deepEqual([(await ahead).status, inputs, gateway.app.toolgate.invoker.slots('held').pending], [200, ['ahead'], 0])
  })

  it('while a hook has it: its caller has 409', async (t) => {
    const hooked = gate()
    const gateway = await start(t, { tools: [echo], hooks: { beforeToolCall: () => { hooked.open(); return new Promise<never>(() => {}) } } })
    const answering = invoke(gateway, 'echo')
    await hooked.reached('the hook')
    assert.equal((await cancel(gateway, (await receiptOf(gateway, 'echo')).invocationId)).status, 202)
    assert.deepEqual([(await answering).status, (await answering).body.invocation.errorCode], [409, 'cancelled'])
  })

  it('an async call: the record says so, and who waits for it is told', async (t) => {
    const { subject, running } = heldTool()
    const gateway = await start(t, { tools: [subject] })
    const id = await accepted(gateway, 'held')
    await running(1)
    const waiting = settledRecord(gateway, id)
    assert.equal((await cancel(gateway, id)).status, 202)
    assert.deepEqual([(await waiting).invocation.status, (await waiting).result.isError], ['cancelled', true])
  })

  it('one in the backlog never runs, and makes room', async (t) => {
    const { subject, inputs, running, release } = heldTool()
    const gateway = await start(t, { tools: [subject], maxConcurrentAsyncCalls: 1, maxAsyncBacklog: 1 })
    const ahead = await accepted(gateway, 'held', 0)
    await running(1)
    assert.equal((await cancel(gateway, await accepted(gateway, 'held', 1))).status, 202)
    const next = await accepted(gateway, 'held', 2)
    release()
    for (const id of [ahead, next]) await settledRecord(gateway, id)
    assert.deepEqual(inputs, [0, 2])
  })

  it('a call that is answered as a stream: its stream ends with the end event', async (t) => {
    const { subject, running } = heldTool()
    const gateway = await start(t, { tools: [subject] })
    const own = await openStream(t, gateway.url, { path: '/tools/held/invoke', method: 'POST', headers: { accept: 'text/event-stream' }, body: '{}' })
    await running(1)
    assert.equal((await cancel(gateway, own.headers['toolgate-invocation-id'] as string)).status, 202)
    assert.equal(await own.closed(), 'ended')
    assert.deepEqual(own.ends.map(({ status, errorCode }) => [status, errorCode]), [['cancelled', 'cancelled']])
  })

  describe('child calls', () => {
    const outer = tool('outer', async (_id, input, _signal, _onUpdate, context) => {
      const { isError, invocation } = await context.invoke('held', input)
      return { structuredContent: { isError, errorCode: invocation.errorCode } }
    })

    it('a child is cancelled alone: the call that made it is told, and goes on', async (t) => {
      const { subject, running } = heldTool()
      const gateway = await start(t, { tools: [outer, subject] })
      const answering = invoke(gateway, 'outer')
      await running(1)
      const child = await receiptOf(gateway, 'held')
      assert.equal((await cancel(gateway, child.invocationId)).status, 202)
      const { body } = await answering
      assert.deepEqual([body.invocation.status, body.structuredContent], ['succeeded', { isError: true, errorCode: 'cancelled' }])
    })

    it('a parent takes its children with it, and their ends come before its own', async (t) => {
      const { subject, aborted, running } = heldTool()
      const gateway = await start(t, { tools: [outer, subject] })
      const id = await accepted(gateway, 'outer')
      await running(1)
      const child = await receiptOf(gateway, 'held')
      assert.equal((await cancel(gateway, id)).status, 202)
      assert.deepEqual([(await record(gateway, child.invocationId)).body.invocation.status, aborted.length], ['cancelled', 1])
      const ends = (await logged(gateway)).filter(({ event }) => event.type === 'tool_execution_end').map(({ event }) => event.invocationId)
      assert.deepEqual(ends, [child.invocationId, id])
    })
  })

  it('twice at once: one 202, one 409, one end event', async (t) => {
    const { subject, running } = heldTool()
    const gateway = await start(t, { tools: [subject] })
    const id = await accepted(gateway, 'held')
    await running(1)
    const answers = await Promise.all(Array.from({ length: 10 }, () => cancel(gateway, id)))
    assert.deepEqual(answers.map(({ status }) => status).sort(), [202, ...Array.from({ length: 9 }, () => 409)])
    for (const answer of answers.filter(({ status }) => status === 409)) assertProblem(answer, 409, 'already_settled')
    assert.equal((await logged(gateway)).filter(({ event }) => event.type === 'tool_execution_end').length, 1)
  })

  it('once it has ended, however: 409, and nothing changes', async (t) => {
    const gateway = await start(t, { tools: [echo, tool('failing', () => { throw new Error('it broke') })] })
    for (const toolId of ['echo', 'failing']) {
      const { invocation } = (await invoke(gateway, toolId)).body
      const refused = await cancel(gateway, invocation.invocationId)
      assertProblem(refused, 409, 'already_settled')
      assert.match(refused.body.detail, new RegExp(invocation.status))
      assert.deepEqual((await record(gateway, invocation.invocationId)).body.invocation, invocation)
    }
  })

  it('takes no body, an empty one or {}; anything else is refused and cancels nothing', async (t) => {
    const { subject, running } = heldTool()
    const gateway = await start(t, { tools: [subject] })
    const id = await accepted(gateway, 'held')
    await running(1)
    const json = { 'content-type': 'application/json' }
    assertProblem(await cancel(gateway, id, { headers: json, body: '{"reason":"enough"}' }), 400, 'invalid_request')
    assertProblem(await cancel(gateway, id, { headers: json, body: 'null' }), 400, 'invalid_request')
    assertProblem(await cancel(gateway, id, { headers: json, body: '{' }), 400, 'malformed_json')
    assertProblem(await cancel(gateway, id, { headers: { 'content-type': 'text/plain' }, body: '{}' }), 415, 'unsupported_media_type')
    assertProblem(await cancel(gateway, id, { headers: { accept: 'text/event-stream' } }), 406, 'not_acceptable')
    assert.equal((await record(gateway, id)).body.invocation.status, 'running')
    assert.equal((await cancel(gateway, id, { headers: json, body: '' })).status, 202)
    for (const body of [undefined, '{}']) {
      const next = await accepted(gateway, 'held')
      assert.equal((await cancel(gateway, next, body === undefined ? {} : { headers: json, body })).status, 202)
    }
  })

  it('a call of a sensitive tool: nothing of it is told', async (t) => {
    const { subject, running } = heldTool('held', { sensitive: true })
    const gateway = await start(t, { tools: [subject] })
    const answering = invoke(gateway, 'held', { secret: 'hunter2' })
    await running(1)
    const answer = await cancel(gateway, (await receiptOf(gateway, 'held')).invocationId)
    assert.deepEqual([answer.status, answer.text.includes('hunter2'), (await answering).body.invocation.status], [202, false, 'cancelled'])
  })

  it('a page of a foreign origin cancels nothing', async (t) => {
    const { subject, running } = heldTool()
    const gateway = await start(t, { tools: [subject] })
    const id = await accepted(gateway, 'held')
    await running(1)
    assertProblem(await cancel(gateway, id, { headers: { origin: 'https://elsewhere.example' } }), 403, 'forbidden')
    assert.equal((await send(`${gateway.url}/invocations/${id}`)).body.invocation.status, 'running')
  })
})
