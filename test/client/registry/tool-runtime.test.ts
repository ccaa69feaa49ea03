import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { Type } from '@sinclair/typebox'
import { createClient, createToolRuntime, OutputError, ProblemError, ToolError, type Client, type RemoteToolRuntime } from '../../../src/client.ts'
import { ToolRegistry } from '../../../src/tools/registry.ts'
import { echo, startGateway, tool, waitFor, within } from '../../e2e/harness.ts'

const plain = (execute: (input: any) => unknown) => ({ id: 'plain', kind: 'read', parseInput: (value: unknown) => value, execute, parseOutput: (value: unknown) => value })

describe('a registry in process', () => {
  it('answers at once where execute does, and with a promise where execute gives one', async () => {
    const now = new ToolRegistry().register(plain(() => 1)).seal().invoke({ toolId: 'plain' })
    assert.equal(now instanceof Promise, false)
    assert.equal((await now).value, 1)
    const later = new ToolRegistry().register(plain(async () => 1)).seal().invoke({ toolId: 'plain' })
    assert.ok(later instanceof Promise)
    assert.equal((await later).value, 1)
  })

  it('tells how long execute took', async () => {
    const { invocation } = await new ToolRegistry().register(plain(() => sleep(20))).seal().invoke({ toolId: 'plain' })
    assert.ok(invocation.durationMs >= 15, String(invocation.durationMs))
  })

  it('throws at once, or rejects, with what execute throws, or rejects with', async () => {
    const reason = new RangeError('no')
    const throwing = new ToolRegistry().register(plain(() => { throw reason })).seal()
    assert.throws(() => throwing.invoke({ toolId: 'plain' }), (error) => error === reason)
    const rejecting = new ToolRegistry().register(plain(async () => { throw reason })).seal()
    await assert.rejects(async () => await rejecting.invoke({ toolId: 'plain' }), (error) => error === reason)
  })
})

describe('a runtime of a gateway', () => {
  let client: Client
  let tools: RemoteToolRuntime
  const cleanUps: (() => unknown)[] = []
  let runs = 0

  before(async () => {
    const { url } = await startGateway({ after: (run) => { cleanUps.push(run) } }, {
      tools: [
        echo,
        plain((input) => { runs++; return input?.nothing === true ? undefined : input }),
        tool('sleep', async (_id: string, _input: unknown, signal: AbortSignal) => await sleep(3_600_000, undefined, { signal }), { timeoutMs: 3_600_000 }),
        tool('nap', async () => { await sleep(20); return {} }),
        tool('fail', () => ({ isError: true, content: [{ type: 'text', text: 'one' }, { type: 'text', text: 'two' }], structuredContent: { code: 7 } }))
      ]
    })
    client = createClient({ url })
    tools = createToolRuntime(client)
  })
  after(async () => {
    for (const cleanUp of cleanUps.reverse()) await cleanUp()
  })

  it('can have its invoke taken off', async () => {
    const { invoke } = tools
    assert.equal((await invoke({ toolId: 'plain', input: 'x' })).value, 'x')
  })

  for (const value of ['', 0, false, null, [], { a: [null] }]) {
    it(`gives ${JSON.stringify(value)} as it is`, async () => {
      assert.deepEqual((await tools.invoke({ toolId: 'plain', input: value })).value, value)
    })
  }

  it('gives undefined for a tool that gave no value, and an empty object for a call without input', async () => {
    const nothing = await tools.invoke({ toolId: 'plain', input: { nothing: true } })
    assert.deepEqual([Object.keys(nothing), nothing.value], [['value', 'invocation'], undefined])
    assert.deepEqual((await tools.invoke({ toolId: 'plain' })).value, {})
  })

  it("passes the caller's own id on, and no other field of the call", async () => {
    const call = { toolId: 'plain', input: 1, toolCallId: 'mine', idempotencyKey: 'k', runId: 'r' }
    const [one, two] = [await tools.invoke(call), await tools.invoke(call)]
    assert.deepEqual([one.invocation.toolCallId, one.invocation.runId], ['mine', undefined])
    assert.notEqual(one.invocation.invocationId, two.invocation.invocationId)
  })

  it('makes a call of its own of each, even where an idempotency key is smuggled into its options', async () => {
    const bound = createToolRuntime(client, { runId: 'r', idempotencyKey: 'k' } as object)
    const before = runs
    await bound.invoke({ toolId: 'plain' })
    await bound.invoke({ toolId: 'plain' })
    assert.equal(runs - before, 2)
  })

  it('holds every call to its timeout', async () => {
    const error = await within(rejection(createToolRuntime(client, { timeoutMs: 20 }).invoke({ toolId: 'sleep' })), 'the timeout')
    assert.ok(error instanceof ToolError && error.code === 'timeout', String(error))
  })

  it('cancels what runs when its signal aborts, rejects with the reason, and refuses later calls', async () => {
    const controller = new AbortController()
    const bound = createToolRuntime(client, { signal: controller.signal, runId: 'to be aborted' })
    const calls = [bound.invoke({ toolId: 'sleep' }), bound.invoke({ toolId: 'sleep' })].map(rejection)
    await waitFor(async () => (await client.invocations({ runId: 'to be aborted', status: 'running' })).invocations.length === 2, 'both to run')
    const reason = new Error('enough')
    controller.abort(reason)
    assert.deepEqual(await within(Promise.all(calls), 'the rejections'), [reason, reason])
    await waitFor(async () => (await client.invocations({ runId: 'to be aborted', status: 'cancelled' })).invocations.length === 2, 'both to be cancelled')
    assert.equal(await rejection(bound.invoke({ toolId: 'plain' })), reason)
  })

  it('gives a value that keeps its output, and throws for one that breaks it', async () => {
    const output = Type.Object({ n: Type.Integer() })
    const { value } = await tools.invoke({ toolId: 'echo', input: { n: 1 }, output })
    assert.equal(value.n, 1)
    for (const input of [{ n: 'x' }, {}]) {
      const error = await rejection(tools.invoke({ toolId: 'echo', input, output }))
      assert.ok(error instanceof OutputError, String(error))
      assert.equal(error.response.invocation.status, 'succeeded')
    }
    const missing = await rejection(tools.invoke({ toolId: 'plain', input: { nothing: true }, output: { type: 'object' } }))
    assert.ok(missing instanceof OutputError, String(missing))
  })

  it('throws a failure with all that came with it, whatever output says', async () => {
    const error = await rejection(tools.invoke({ toolId: 'fail', output: Type.String() }))
    assert.ok(error instanceof ToolError, String(error))
    assert.deepEqual([error.code, error.message, error.response.structuredContent, error.response.invocation.status], ['tool_error', 'one\ntwo', { code: 7 }, 'failed'])
  })

  it('refuses ids that no path can carry, and sends nothing', async () => {
    for (const toolId of ['', '.', '..']) assert.ok(await rejection(tools.invoke({ toolId })) instanceof TypeError, toolId)
  })

  for (const toolId of ['nothing', 'constructor', '../health', 'a/b']) {
    it(`refuses ${JSON.stringify(toolId)} as an unknown tool`, async () => {
      const error = await rejection(tools.invoke({ toolId }))
      assert.ok(error instanceof ProblemError, String(error))
      assert.deepEqual([error.code, error.status], ['unknown_tool', 404])
    })
  }

  it('rejects what JSON cannot carry, and sends nothing', async () => {
    const before = runs
    for (const input of [NaN, 1n, 2 ** 60]) assert.ok(await rejection(tools.invoke({ toolId: 'plain', input })) instanceof TypeError, String(input))
    assert.equal(runs, before)
  })

  it('tells how long execute took', async () => {
    const { invocation } = await tools.invoke({ toolId: 'nap' })
    assert.ok(invocation.durationMs >= 15, String(invocation.durationMs))
  })
})

async function rejection (call: Promise<unknown>): Promise<unknown> {
  return await call.then(() => assert.fail('it succeeded'), (reason: unknown) => reason)
}
