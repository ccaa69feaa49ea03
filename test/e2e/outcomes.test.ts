import assert from 'node:assert/strict'
import { describe, it, type TestContext } from 'node:test'
import { Type } from '@sinclair/typebox'
import type { GatewayOptions } from '../../src/gateway.ts'
import type { AnyTool } from '../../src/tools/registry.ts'
import { echo, gate, invoke, rawInvoke, send, startGateway, tool, waitFor, within, type Answer, type RunningGateway } from './harness.ts'
import { openStream, type EventClient } from './sse-client.ts'

interface Expected {
  http: number
  status: 'succeeded' | 'failed' | 'cancelled'
  errorCode?: string
  executed: boolean
}

interface Case extends Expected {
  tool?: AnyTool
  input?: unknown
  options?: GatewayOptions
  /** Further fields of the request. */
  more?: Record<string, unknown>
  /** Beyond what every row is held to. */
  check?: (body: any) => void
}

const never = () => new Promise<never>(() => {})
const text = (body: any) => body.content[0].text
const schema = Type.Object({ count: Type.Integer() })
const registryTool = (more: object): AnyTool => ({
  id: 'subject', kind: 'read', parseInput: (value: unknown) => value, execute: () => 'fine', parseOutput: (value: unknown) => value, ...more
})
const subject = (execute: (...args: any[]) => unknown, more: object = {}) => tool('subject', execute, more)

const cases: Record<string, Case> = {
  success: { http: 200, status: 'succeeded', executed: true, tool: subject(() => ({ structuredContent: { count: 1 } }), { outputSchema: schema }) },
  'the tool threw': {
    http: 200, status: 'failed', errorCode: 'tool_error', executed: true,
    tool: subject(() => { throw new Error('disk full') }),
    check: (body) => assert.equal(text(body), 'disk full')
  },
  'the tool rejected': { http: 200, status: 'failed', errorCode: 'tool_error', executed: true, tool: subject(async () => { throw new Error('later') }) },
  'the tool returned isError': {
    http: 200, status: 'failed', errorCode: 'tool_error', executed: true,
    tool: subject(() => ({ isError: true, content: [{ type: 'text', text: 'half done' }], details: { at: 3 }, structuredContent: 'free form' }), { outputSchema: schema }),
    check: (body) => assert.deepEqual([text(body), body.details, body.structuredContent], ['half done', { at: 3 }, 'free form'])
  },
  'an after-hook made it an error': {
    http: 200, status: 'failed', errorCode: 'tool_error', executed: true,
    tool: subject(() => ({ content: [{ type: 'text', text: 'all is well' }] })), options: { hooks: { afterToolCall: () => ({ isError: true }) } }
  },
  'the tool returned isError and no words': {
    http: 200, status: 'failed', errorCode: 'tool_error', executed: true, tool: subject(() => ({ isError: true }))
  },
  'output breaks outputSchema': {
    http: 200, status: 'failed', errorCode: 'invalid_output', executed: true,
    tool: subject(() => ({ structuredContent: { count: 'x', more: 1 } }), { outputSchema: Type.Object({ count: Type.Integer(), other: Type.String() }) }),
    check: (body) => assert.deepEqual(body.details.errors.map(({ path }: any) => path).sort(), ['/count', '/other'])
  },
  'a success lacks the structuredContent it declares': {
    http: 200, status: 'failed', errorCode: 'invalid_output', executed: true, tool: subject(() => ({ content: [] }), { outputSchema: schema })
  },
  'parseOutput threw': {
    http: 200, status: 'failed', errorCode: 'invalid_output', executed: true,
    tool: registryTool({ parseOutput: () => { throw new TypeError('not a status') } }),
    check: (body) => assert.match(body.details.errors[0].message, /not a status/)
  },
  'output is not JSON': {
    http: 200, status: 'failed', errorCode: 'invalid_output', executed: true,
    tool: subject(() => ({ structuredContent: { a: [1, NaN] } })),
    check: (body) => assert.equal(body.details.errors[0].path, '/a/1')
  },
  'result over the size limit': {
    http: 200, status: 'failed', errorCode: 'result_too_large', executed: true,
    tool: subject(() => ({ structuredContent: 'x'.repeat(1001) })), options: { maxResultBytes: 1000 },
    check: (body) => assert.match(text(body), /1000 bytes/)
  },
  'an after-hook threw': {
    http: 200, status: 'failed', errorCode: 'hook_error', executed: true,
    tool: subject(() => ({ structuredContent: 1 })), options: { hooks: { afterToolCall: () => { throw new Error('audit is down') } } },
    check: (body) => assert.deepEqual([text(body), 'structuredContent' in body], ['audit is down', false])
  },
  'timeout while executing': {
    http: 200, status: 'failed', errorCode: 'timeout', executed: true, tool: subject(never, { timeoutMs: 30 })
  },
  "the caller's own timeout while executing": {
    http: 200, status: 'failed', errorCode: 'timeout', executed: true, tool: subject(never), more: { timeoutMs: 30 }
  },
  'input breaks parameters': {
    http: 422, status: 'failed', errorCode: 'invalid_input', executed: false,
    tool: subject(() => ({}), { parameters: Type.Object({ a: Type.Integer(), 'b/c': Type.Array(Type.String()) }) }), input: { a: 'x', 'b/c': [1] },
    check: (body) => assert.deepEqual(body.details.errors.map(({ path }: any) => path).sort(), ['/a', '/b~1c/0'])
  },
  'prepareArguments threw': {
    http: 422, status: 'failed', errorCode: 'invalid_input', executed: false,
    tool: subject(() => ({}), { prepareArguments: () => { throw new Error('cannot read that') } }),
    check: (body) => assert.match(body.details.errors[0].message, /cannot read that/)
  },
  'parseInput threw': {
    http: 422, status: 'failed', errorCode: 'invalid_input', executed: false,
    tool: registryTool({ parseInput: () => { throw new TypeError('an object please') } }),
    check: (body) => assert.match(body.details.errors[0].message, /an object please/)
  },
  'blocked with a reason': {
    http: 403, status: 'failed', errorCode: 'blocked', executed: false,
    options: { hooks: { beforeToolCall: () => ({ block: true, reason: 'not on Sundays', terminate: true }) } },
    check: (body) => assert.deepEqual([text(body), body.terminate], ['not on Sundays', true])
  },
  'blocked without a reason': {
    http: 403, status: 'failed', errorCode: 'blocked', executed: false,
    options: { hooks: { beforeToolCall: () => ({ block: true }) } },
    check: (body) => assert.deepEqual([text(body).length > 0, 'terminate' in body], [true, false])
  },
  'a before-hook threw': {
    http: 500, status: 'failed', errorCode: 'hook_error', executed: false,
    options: { hooks: { beforeToolCall: async () => { throw new Error('policy is down') } } },
    check: (body) => assert.equal(text(body), 'policy is down')
  },
  'timeout before execution': {
    http: 504, status: 'failed', errorCode: 'timeout', executed: false,
    tool: subject(() => ({}), { timeoutMs: 30 }), options: { hooks: { beforeToolCall: ({ tool }) => tool.id === 'subject' ? never() : undefined } }
  }
}

/** A gateway with a subject that tells whether it ran. */
async function start (t: TestContext, { tool: given, options }: Pick<Case, 'tool' | 'options'>) {
  const runs = { count: 0 }
  const author = given ?? subject(() => ({ structuredContent: null }))
  const counted = { ...author, execute: (...args: any[]) => { runs.count++; return (author.execute as any)(...args) } } as AnyTool
  const gateway = await startGateway(t, { ...options, tools: [counted, echo] })
  return { gateway, runs, listener: await openStream(t, gateway.url) }
}

function assertAnswer (answer: Answer, expected: Expected): void {
  const { invocation } = answer.body
  assert.equal(answer.status, expected.http)
  assert.equal(invocation.status, expected.status)
  assert.equal(invocation.errorCode, expected.errorCode)
  assert.equal(answer.body.isError, expected.status !== 'succeeded')
  assert.equal(answer.headers.get('toolgate-invocation-id'), invocation.invocationId)
  assert.equal(answer.headers.get('toolgate-status'), expected.status)
  assert.equal(answer.headers.get('toolgate-error-code'), expected.errorCode ?? null)
  assert.match(answer.headers.get('content-type')!, /^application\/json/)
  if (expected.executed) assert.ok(invocation.durationMs > 0)
  else assert.equal(invocation.durationMs, 0)
  if (expected.status !== 'succeeded') {
    assert.equal(answer.body.content.length, 1)
    assert.ok(text(answer.body).length > 0)
  }
}

/** Start, then exactly one end that says what the answer said. */
async function assertEvents (listener: EventClient, gateway: RunningGateway, invocationId: string, expected: Expected, body?: any): Promise<void> {
  const end = await listener.endOf(invocationId)
  // What comes after is behind everything there is about the call.
  const { body: after } = await invoke(gateway, 'echo', 1)
  if (gateway.app.toolgate.invoker.accepting) await listener.endOf(after.invocation.invocationId)
  assert.deepEqual(listener.about(invocationId).map(({ type }) => type), ['tool_execution_start', 'tool_execution_end'])
  const isError = expected.status !== 'succeeded'
  assert.deepEqual(
    [end.status, end.errorCode, end.isError, end.result.isError],
    [expected.status, expected.errorCode, isError, isError]
  )
  if (body === undefined) return
  const { invocation, ...result } = body
  assert.deepEqual(end.result, result)
  const { type, toolName, result: _result, isError: _isError, ...receipt } = end
  assert.deepEqual(receipt, invocation)
}

describe('outcomes over a socket', () => {
  for (const [name, one] of Object.entries(cases)) {
    const { http, status, errorCode } = one
    it(`${name}: ${http}, ${status}${errorCode === undefined ? '' : `, ${errorCode}`}, and the end event says the same`, async (t) => {
      const { gateway, runs, listener } = await start(t, one)
      const answer = await invoke(gateway, 'subject', one.input, one.more)
      assertAnswer(answer, one)
      assert.equal(runs.count, one.executed ? 1 : 0)
      one.check?.(answer.body)
      await assertEvents(listener, gateway, answer.body.invocation.invocationId, one, answer.body)
    })
  }

  describe('a caller that hangs up', () => {
    const expected = { http: 0, status: 'cancelled', errorCode: 'cancelled' } as const

    it('while the tool executes: cancelled', async (t) => {
      const { gateway, runs, listener } = await start(t, { tool: subject(never) })
      const call = rawInvoke(gateway.port, 'subject', '{}')
      await waitFor(() => runs.count === 1, 'the tool to run')
      call.destroy()
      const [end] = await waitFor(() => listener.ends.length === 1 && listener.ends, 'the end event')
      assert.ok(end.durationMs > 0)
      await assertEvents(listener, gateway, end.invocationId, { ...expected, executed: true })
    })

    it('before execution: cancelled, and the tool never runs', async (t) => {
      const asked = gate()
      const answer = gate()
      const hooks = { beforeToolCall: async (context: any) => { if (context.tool.id === 'subject') { asked.open(); await answer.promise } } }
      const { gateway, runs, listener } = await start(t, { options: { hooks } })
      const call = rawInvoke(gateway.port, 'subject', '{}')
      await asked.reached('the hook to be asked')
      call.destroy()
      const [end] = await waitFor(() => listener.ends.length === 1 && listener.ends, 'the end event')
      answer.open()
      assert.equal(end.durationMs, 0)
      await assertEvents(listener, gateway, end.invocationId, { ...expected, executed: false })
      assert.equal(runs.count, 0)
    })
  })

  describe('a gateway that stops', () => {
    const expected = { status: 'cancelled', errorCode: 'shutdown' } as const

    it('while the tool executes: 200, cancelled, shutdown', async (t) => {
      const { gateway, runs, listener } = await start(t, { tool: subject(never), options: { shutdownGraceMs: 50 } })
      const answering = invoke(gateway, 'subject')
      await waitFor(() => runs.count === 1, 'the tool to run')
      const closing = gateway.app.close()
      const answer = await answering
      await within(closing, 'the close')
      assertAnswer(answer, { ...expected, http: 200, executed: true })
      assert.equal(await listener.closed(), 'ended')
      assert.deepEqual(listener.ends.map(({ invocationId, status, errorCode }) => [invocationId, status, errorCode]),
        [[answer.body.invocation.invocationId, 'cancelled', 'shutdown']])
    })

    it('before execution: 503, cancelled, shutdown', async (t) => {
      const asked = gate()
      const hooks = { beforeToolCall: () => { asked.open(); return never() } }
      const { gateway, runs, listener } = await start(t, { options: { hooks, shutdownGraceMs: 50 } })
      const answering = invoke(gateway, 'subject')
      await asked.reached('the hook to be asked')
      const closing = gateway.app.close()
      const answer = await answering
      await within(closing, 'the close')
      assertAnswer(answer, { ...expected, http: 503, executed: false })
      assert.equal(runs.count, 0)
      assert.equal(await listener.closed(), 'ended')
      assert.deepEqual(listener.ends.map(({ status, errorCode }) => [status, errorCode]), [['cancelled', 'shutdown']])
      await assert.rejects(send(gateway.url), 'the gateway is gone')
    })
  })
})
