import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { ToolContext } from '../../src/tools/tool.ts'
import { echo, gate, invoke, rawInvoke, startGateway, tool, waitFor, within } from './harness.ts'
import { openStream } from './sse-client.ts'

type Run = (context: ToolContext, input: any, signal: AbortSignal) => unknown
const parent = (run: Run, more: object = {}, id = 'parent') => tool(id, (_id: string, input: any, signal: AbortSignal, _onUpdate: unknown, context: ToolContext) => run(context, input, signal), more)
const never = tool('never', () => new Promise(() => {}))

/** What a stream told, in its order. */
const lines = (events: { data: any }[]) => events.map(({ data }) => `${data.type.slice(15)} ${data.toolId}${data.errorCode === undefined ? '' : ` ${data.errorCode}`}`)

describe('child calls over a socket', () => {
  it('are in the stream of their run, from which the tree of calls can be rebuilt', async (t) => {
    const branch = parent(async ({ invoke }, { kids }) => ({ structuredContent: (await Promise.all(kids.map((kid: any) => invoke('branch', kid)))).length }), {}, 'branch')
    const gateway = await startGateway(t, { tools: [branch] })
    const listener = await openStream(t, gateway.url, { path: '/events?runId=run-1' })
    const input = { name: 'root', kids: [{ name: 'a', kids: [{ name: 'aa', kids: [] }, { name: 'ab', kids: [] }] }, { name: 'b', kids: [] }] }
    await invoke(gateway, 'branch', { name: 'other', kids: [{ name: 'x', kids: [] }] }, { runId: 'run-2' })
    const traceparent = `00-${'a'.repeat(32)}-${'b'.repeat(16)}-01`
    const { body } = await invoke(gateway, 'branch', input, { runId: 'run-1', headers: { traceparent } })
    await listener.endOf(body.invocation.invocationId)

    const starts = listener.of('tool_execution_start').map(({ data }) => data)
    const rebuild = (parentInvocationId: string | undefined): any[] => starts
      .filter((start) => start.parentInvocationId === parentInvocationId)
      .map(({ invocationId, args }) => ({ name: args.name, kids: rebuild(invocationId) }))
    assert.deepEqual(rebuild(undefined), [input])
    const spans = new Map(starts.map(({ spanId, invocationId }) => [invocationId, spanId]))
    for (const { runId, traceId, parentSpanId, parentInvocationId } of starts) {
      assert.deepEqual([runId, traceId, parentSpanId], ['run-1', 'a'.repeat(32), parentInvocationId === undefined ? 'b'.repeat(16) : spans.get(parentInvocationId)])
    }
    assert.equal(listener.ends.length, 5)
    for (const { invocationId, parentInvocationId } of listener.ends) {
      const at = (id: string) => listener.ends.findIndex((end) => end.invocationId === id)
      if (parentInvocationId !== undefined) assert.ok(at(invocationId) < at(parentInvocationId), 'a child ends before its parent')
    }
  })

  it("are not in the parent's own stream, which is of one call", async (t) => {
    const gateway = await startGateway(t, { tools: [echo, parent(async ({ invoke }) => await invoke('echo'))] })
    const own = await openStream(t, gateway.url, { path: '/tools/parent/invoke', method: 'POST', headers: { accept: 'text/event-stream' }, body: '{}' })
    assert.equal(await own.closed(), 'ended')
    assert.deepEqual(lines(own.events), ['start parent', 'end parent'])
  })

  it('end with `cancelled` when the caller of their parent hangs up, before it', async (t) => {
    const gateway = await startGateway(t, { tools: [never, parent(({ invoke }) => invoke('never'), {}, 'middle'), parent(({ invoke }) => Promise.all([invoke('middle'), invoke('never')]))] })
    const listener = await openStream(t, gateway.url)
    const call = rawInvoke(gateway.port, 'parent', '{}')
    await waitFor(() => gateway.app.toolgate.invoker.running === 4, 'all calls to run')
    call.destroy()
    await waitFor(() => listener.ends.length === 4, 'the end events')
    assert.deepEqual(lines(listener.of('tool_execution_end')), ['end never cancelled', 'end middle cancelled', 'end never cancelled', 'end parent cancelled'])
    assert.equal(gateway.app.toolgate.invoker.running, 0)
  })

  it('end with `cancelled` when their parent times out', async (t) => {
    const gateway = await startGateway(t, { tools: [never, parent(({ invoke }) => invoke('never'), { timeoutMs: 50 })] })
    const listener = await openStream(t, gateway.url)
    const { body } = await invoke(gateway, 'parent')
    await listener.endOf(body.invocation.invocationId)
    assert.deepEqual(lines(listener.events), ['start parent', 'start never', 'end never cancelled', 'end parent timeout'])
  })

  it('end with `shutdown` on a gateway that stops; those made before are still run', async (t) => {
    const go = gate()
    const gateway = await startGateway(t, { tools: [echo, never, parent(async ({ invoke }) => { await go.promise; await invoke('echo', 'while it drains'); await invoke('never') })], shutdownGraceMs: 300 })
    const listener = await openStream(t, gateway.url)
    const answering = invoke(gateway, 'parent')
    await waitFor(() => gateway.app.toolgate.invoker.running === 1, 'the parent to run')
    const closing = gateway.app.close()
    await waitFor(() => !gateway.app.toolgate.invoker.accepting, 'the gateway to drain')
    go.open()
    const { status, body } = await answering
    await within(closing, 'the close')
    assert.deepEqual([status, body.invocation.errorCode], [200, 'shutdown'])
    assert.equal(await listener.closed(), 'ended')
    assert.deepEqual(lines(listener.events), ['start parent', 'start echo', 'end echo', 'start never', 'end never shutdown', 'end parent shutdown'])
  })

  it('of two sequential tools that call each other are all answered, from many callers at once', async (t) => {
    const to = (own: string, other: string) => parent(async ({ invoke }, left) => {
      if (left === 0) return { structuredContent: 0 }
      const { structuredContent } = await invoke(other, left - 1)
      return { structuredContent: (structuredContent as number) + 1 }
    }, { executionMode: 'sequential' }, own)
    const gateway = await startGateway(t, { tools: [to('ping', 'pong'), to('pong', 'ping')], maxConcurrentCalls: 8 })
    const answers = await within(Promise.all(Array.from({ length: 40 }, (_, n) => invoke(gateway, n % 2 === 0 ? 'ping' : 'pong', 8))), 'all answers', 15_000)
    assert.deepEqual(answers.map(({ status, body }) => [status, body.structuredContent]), answers.map(() => [200, 8]))
    const { invoker } = gateway.app.toolgate
    assert.deepEqual([invoker.slots(), invoker.slots('ping'), invoker.slots('pong'), invoker.running], [{ taken: 0, pending: 0 }, { taken: 0, pending: 0 }, { taken: 0, pending: 0 }, 0])
  })

  it('of a sensitive tool give the parent all, and the stream nothing', async (t) => {
    const gateway = await startGateway(t, { tools: [tool('secret', (_id: string, input: unknown) => ({ structuredContent: input }), { sensitive: true }), parent(async ({ invoke }) => ({ structuredContent: ((await invoke('secret', 'hunter2')).structuredContent as string).length }))] })
    const listener = await openStream(t, gateway.url)
    const { body } = await invoke(gateway, 'parent')
    await listener.endOf(body.invocation.invocationId)
    assert.deepEqual([body.structuredContent, listener.ends.length, listener.text.includes('hunter2')], [7, 2, false])
  })

  it('run with hooks, which can block them: the parent hears of it as a failure', async (t) => {
    const gateway = await startGateway(t, {
      tools: [echo, parent(async ({ invoke }) => { const { isError, content } = await invoke('echo'); return { structuredContent: [isError, content] } })],
      hooks: { beforeToolCall: ({ tool, invocation }) => tool.id === 'echo' && invocation.parentInvocationId !== undefined ? { block: true, reason: 'not from there' } : undefined }
    })
    assert.deepEqual((await invoke(gateway, 'parent')).body.structuredContent, [true, [{ type: 'text', text: 'not from there' }]])
    assert.equal((await invoke(gateway, 'echo')).status, 200)
  })

  it('that never end are stopped by the timeout of the call that makes them: they let the loop turn', async (t) => {
    const endless = tool('endless', async (_id: string, _input: unknown, signal: AbortSignal, _onUpdate: unknown, { invoke }: ToolContext) => {
      for (;;) {
        signal.throwIfAborted()
        await invoke('echo')
      }
    })
    const gateway = await startGateway(t, { tools: [endless, echo] })
    const { status, body } = await invoke(gateway, 'endless', {}, { timeoutMs: 300 })
    assert.deepEqual([status, body.invocation.errorCode], [200, 'timeout'])
  })

  it('that multiply are bounded, and give their places back', async (t) => {
    let most = 0
    let refused = 0
    const spread = tool('spread', async (_id: string, _input: unknown, signal: AbortSignal, _onUpdate: unknown, { invoke }: ToolContext) => {
      most = Math.max(most, gateway.app.toolgate.invoker.running)
      const answers = await Promise.allSettled(Array.from({ length: 5 }, () => invoke('spread')))
      refused += answers.filter((answer) => answer.status === 'rejected' && answer.reason.code === 'overloaded').length
      return {}
    })
    const gateway = await startGateway(t, { tools: [spread], maxChildCalls: 50 })
    for (let round = 0; round < 2; round++) {
      const { status, body } = await invoke(gateway, 'spread', {}, { timeoutMs: 20_000 })
      assert.deepEqual([status, body.isError, gateway.app.toolgate.invoker.running], [200, false, 0])
    }
    assert.ok(most <= 51 && refused > 0, `${most} at once, ${refused} refused`)
  })
})
