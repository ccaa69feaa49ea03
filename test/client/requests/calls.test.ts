import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { OutputError, ProblemError, ToolError, type ToolExecutionUpdateEvent } from '../../../src/client.ts'
import { heldTool } from '../../e2e/calls.ts'
import { echo, tool, waitFor } from '../../e2e/harness.ts'
import { overStores } from '../../e2e/stores.ts'
import { byteProxy, clientOf, rejection, rejections } from './servers.ts'

const big = 'x'.repeat(300 * 1024)
const failing = tool('failing', () => ({ isError: true, content: [{ type: 'text', text: 'It is broken.' }], details: { why: 1 }, structuredContent: { half: true } }))
const secret = tool('secret', (_id: string, input: unknown, _signal: unknown, onUpdate: any) => {
  onUpdate({ content: [{ type: 'text', text: 'secret' }] })
  return { content: [{ type: 'text', text: 'secret' }], structuredContent: input }
}, { sensitive: true })

overStores('calls through the client', (start) => {
  it('a success is the whole answer', async (t) => {
    const client = clientOf(await start(t, { tools: [echo] }))
    const answer = await client.invoke('echo', { a: 1 }, { output: { type: 'object' } })
    assert.deepEqual([answer.isError, answer.structuredContent, answer.content, answer.details], [false, { a: 1 }, [], null])
    assert.deepEqual([answer.invocation.toolId, answer.invocation.status], ['echo', 'succeeded'])
  })

  it('a failure is thrown with its data, or given back', async (t) => {
    const client = clientOf(await start(t, { tools: [failing] }))
    for (const more of [{}, { onUpdate: () => {} }]) {
      const error = await rejection(client.invoke('failing', 1, { output: { type: 'object' }, ...more }))
      assert.ok(error instanceof ToolError)
      assert.deepEqual([error.code, error.message, error.response.structuredContent, error.response.details], ['tool_error', 'It is broken.', { half: true }, { why: 1 }])
      const given = await client.invoke('failing', 1, { throwOnError: false, ...more })
      assert.deepEqual([given.isError, given.structuredContent], [true, { half: true }])
    }
    const { invocationId } = await client.invokeAsync('failing')
    assert.equal((await rejection(client.wait(invocationId))).code, 'tool_error')
    assert.equal((await client.wait(invocationId, { throwOnError: false })).isError, true)
  })

  it('input that the tool refuses is a failure that did not run, with every fault', async (t) => {
    const strict = tool('strict', () => assert.fail('ran'), { parameters: { type: 'object', required: ['a', 'b'] } })
    const client = clientOf(await start(t, { tools: [strict] }))
    for (const more of [{}, { onUpdate: () => {} }, { idempotencyKey: 'k' }, { idempotencyKey: 'k', signal: new AbortController().signal }]) {
      const error = await rejection(client.invoke('strict', {}, more))
      assert.equal(error.code, 'invalid_input')
      assert.deepEqual(error.response.details.errors.map(({ path }: any) => path), ['/a', '/b'])
    }
  })

  it('5,000 updates come in order, with their content, before the answer', async (t) => {
    const busy = tool('busy', async (_id: string, _input: unknown, _signal: unknown, onUpdate: any) => {
      for (let n = 0; n < 5000; n++) {
        onUpdate({ content: [{ type: 'text', text: `${n}` }], structuredContent: { n } })
        if (n % 500 === 0) await new Promise(setImmediate)
      }
      return { structuredContent: 'done' }
    })
    const client = clientOf(await start(t, { tools: [busy] }))
    const seen: number[] = []
    let last: ToolExecutionUpdateEvent | undefined
    const answer = await client.invoke('busy', {}, {
      onUpdate: async ({ content, structuredContent }, event) => {
        const n = seen.push((structuredContent as any).n) - 1
        assert.deepEqual(content, [{ type: 'text', text: `${n}` }])
        last = event
        if (n % 1000 === 0) await new Promise(setImmediate)
      }
    })
    assert.equal(answer.structuredContent, 'done')
    assert.deepEqual(seen, Array.from({ length: 5000 }, (_, n) => n))
    assert.deepEqual([last!.type, last!.invocationId], ['tool_execution_update', answer.invocation.invocationId])
  })

  it('what is large is whole, in an answer, a stream, a replay, a record and a batch', async (t) => {
    const client = clientOf(await start(t, { tools: [echo] }))
    const plain = await client.invoke('echo', big, { idempotencyKey: 'k' })
    assert.equal(plain.structuredContent, big)
    assert.equal((await client.invoke('echo', big, { onUpdate: () => {} })).structuredContent, big)
    assert.equal((await client.invoke('echo', big, { idempotencyKey: 'k', onUpdate: () => {} })).structuredContent, big)
    const { invocationId } = plain.invocation
    assert.equal((await client.wait(invocationId)).structuredContent, big)
    assert.equal((await client.invocation(invocationId)).input, big)
    assert.equal(((await client.batch([{ toolId: 'echo', input: big }])).results[0] as any).structuredContent, big)
  })

  it('a stream that was cut, and whose end is left out of its events for its size, is answered from the record', async (t) => {
    const held = heldTool()
    const gateway = await start(t, { tools: [held.subject] })
    // Enough for the headers and the start event.
    const proxy = await byteProxy(t, gateway.port, (count) => count === 1 ? { cutAfterBytes: 900 } : undefined)
    const asked = clientOf(proxy).invoke('held', big, { idempotencyKey: 'k', onUpdate: () => {} })
    await held.running(1)
    await waitFor(() => proxy.connections > 1, 'the stream to be asked for again')
    held.release()
    const { structuredContent, details } = await asked
    assert.equal(structuredContent, big)
    assert.deepEqual(details, { run: 1 })
  })

  it('async: a receipt at once, then the answer, held to its schema', async (t) => {
    const held = heldTool()
    const client = clientOf(await start(t, { tools: [held.subject] }))
    const receipt = await client.invokeAsync('held', { a: 1 }, { toolCallId: 'mine' })
    assert.deepEqual([receipt.status, receipt.toolCallId], ['running', 'mine'])
    assert.equal((await client.invocation(receipt.invocationId)).invocation.status, 'running')
    const waits = [client.wait(receipt.invocationId, { output: { type: 'object' } }), client.wait(receipt.invocationId)]
    await held.running(1)
    held.release()
    for (const { structuredContent } of await Promise.all(waits)) assert.deepEqual(structuredContent, { a: 1 })
    assert.ok(await rejection(client.wait(receipt.invocationId, { output: { type: 'string' } })) instanceof OutputError)
    const { input, result } = await client.invocation(receipt.invocationId)
    assert.deepEqual([input, result?.structuredContent], [{ a: 1 }, { a: 1 }])
  })

  it('async: what is not called so is refused, input that is refused is on record', async (t) => {
    const strict = tool('strict', () => assert.fail('ran'), { parameters: { type: 'string' } })
    const client = clientOf(await start(t, { tools: [secret, strict] }))
    assert.equal((await rejection(client.invokeAsync('secret'))).code, 'not_supported')
    const { invocationId } = await client.invokeAsync('strict', 1)
    assert.equal((await rejection(client.wait(invocationId))).code, 'invalid_input')
  })

  it('waiting can be given up, and the call goes on', async (t) => {
    const held = heldTool()
    const client = clientOf(await start(t, { tools: [held.subject] }))
    const { invocationId } = await client.invokeAsync('held', 1)
    const controller = new AbortController()
    const waiting = rejection(client.wait(invocationId, { signal: controller.signal }))
    await held.running(1)
    const reason = new Error('enough')
    controller.abort(reason)
    assert.equal(await waiting, reason)
    held.release()
    assert.equal((await client.wait(invocationId)).structuredContent, 1)
    assert.deepEqual(held.aborted, [])
  })

  it('calls that nobody knows are problems', async (t) => {
    const client = clientOf(await start(t, { tools: [echo] }))
    for (const error of await rejections([client.wait('none'), client.invocation('none'), client.cancel('none')])) {
      assert.ok(error instanceof ProblemError)
      assert.deepEqual([error.code, error.status], ['unknown_invocation', 404])
    }
  })

  it('a cancel ends the call, for who waits and who asked; a second one is told that it had ended', async (t) => {
    const held = heldTool()
    const client = clientOf(await start(t, { tools: [held.subject] }))
    const asked = rejection(client.invoke('held', 1))
    await held.running(1)
    const [{ invocationId }] = (await client.invocations({ status: 'running' })).invocations as [any]
    const waiting = rejection(client.wait(invocationId))
    const receipt = await client.cancel(invocationId)
    assert.deepEqual([receipt.status, receipt.errorCode, receipt.invocationId], ['cancelled', 'cancelled', invocationId])
    for (const error of await Promise.all([asked, waiting])) {
      assert.ok(error instanceof ToolError)
      assert.equal(error.code, 'cancelled')
    }
    assert.deepEqual(held.aborted, [1])
    const second = await rejection(client.cancel(invocationId))
    assert.deepEqual([second.code, second.status], ['already_settled', 409])
  })

  it('a batch has every result in its place, and problems in theirs', async (t) => {
    const client = clientOf(await start(t, { tools: [echo, failing] }))
    const { results, terminate } = await client.batch([{ toolId: 'echo', input: 1 }, { toolId: 'none' }, { toolId: 'failing' }, { toolId: 'echo', input: [] }])
    assert.equal(terminate, false)
    assert.deepEqual(results.map((result) => 'problem' in result ? result.problem.code : result.isError ? result.invocation.errorCode : result.structuredContent), [1, 'unknown_tool', 'tool_error', []])
    assert.equal((await rejection(client.batch([]))).code, 'invalid_request')
  })

  it('lists receipts by what they are asked for, and goes on from a cursor', async (t) => {
    const client = clientOf(await start(t, { tools: [echo, failing] }))
    for (let n = 0; n < 3; n++) await client.invoke('echo', n, { runId: `run ${n}&` })
    await client.invoke('failing', 1, { throwOnError: false })
    const ids = ({ invocations }: { invocations: { toolId: string, runId?: string }[] }) => invocations.map(({ runId, toolId }) => runId ?? toolId)
    assert.deepEqual(ids(await client.invocations()), ['failing', 'run 2&', 'run 1&', 'run 0&'])
    assert.deepEqual(ids(await client.invocations({ runId: ['run 0&', 'run 1&'], status: 'succeeded' })), ['run 1&', 'run 0&'])
    const page = await client.invocations({ toolId: ['echo', 'failing'], limit: 3 })
    assert.deepEqual(ids(await client.invocations({ limit: 3, toolId: ['echo', 'failing'], cursor: page.nextCursor })), ['run 0&'])
    assert.equal((await rejection(client.invocations({ limit: 0 }))).code, 'invalid_request')
  })

  it('a sensitive tool tells its caller alone', async (t) => {
    const client = clientOf(await start(t, { tools: [secret] }))
    const updates: unknown[] = []
    const plain = await client.invoke('secret', 1, { output: { type: 'number' }, idempotencyKey: 'k' })
    assert.equal(plain.structuredContent, 1)
    const streamed = await client.invoke('secret', 2, { output: { type: 'number' }, onUpdate: (partial) => { updates.push(partial.redacted) } })
    assert.equal(streamed.structuredContent, 2)
    assert.deepEqual(updates, [true])
    const again = await client.invoke('secret', 1, { idempotencyKey: 'k' })
    assert.deepEqual([again.redacted, again.structuredContent, again.content], [true, undefined, []])
    const error = await rejection(client.invoke('secret', 1, { idempotencyKey: 'k', output: { type: 'number' } }))
    assert.ok(error instanceof OutputError)
    assert.match(error.message, /withheld/)
    assert.equal((await client.invocation(plain.invocation.invocationId)).input, undefined)
  })
})

describe('progress', () => {
  it('what its reader throws cancels the call, with a key as well, and rejects', async (t) => {
    const { startGateway } = await import('../../e2e/harness.ts')
    const aborted: string[] = []
    const talking = tool('talking', async (id: string, _input: unknown, signal: AbortSignal, onUpdate: any) => {
      signal.addEventListener('abort', () => aborted.push(id))
      onUpdate({ content: [] })
      await new Promise(() => {})
    })
    const client = clientOf(await startGateway(t, { tools: [talking] }))
    for (const idempotencyKey of [undefined, 'k']) {
      for (const isLater of [false, true]) {
        const reason = new Error('I do not like it')
        const toolCallId = `${idempotencyKey} ${isLater}`
        const onUpdate = () => {
          if (isLater) return Promise.reject(reason)
          throw reason
        }
        assert.equal(await rejection(client.invoke('talking', toolCallId, { idempotencyKey: idempotencyKey && toolCallId, toolCallId, onUpdate })), reason)
        await waitFor(() => aborted.includes(toolCallId), 'the tool to be told')
      }
    }
  })
})
