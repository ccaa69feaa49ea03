import assert from 'node:assert/strict'
import { request } from 'node:http'
import { describe, it, type TestContext } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { runAgentLoop, type AgentEvent, type AgentTool } from '@earendil-works/pi-agent-core'
import { createFauxCore, fauxAssistantMessage, fauxToolCall } from '@earendil-works/pi-ai/providers/faux'
import { Type } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { BatchResponse } from '../../src/contract/batch.ts'
import type { GatewayOptions } from '../../src/gateway.ts'
import type { AnyTool } from '../../src/tools/registry.ts'
import { assertProblem, echo, gate, send, startGateway, tool, waitFor, within, type Answer, type RunningGateway } from './harness.ts'
import { openStream } from './sse-client.ts'

const json = { 'content-type': 'application/json' }

function post ({ url }: { url: string }, body: unknown, headers: Record<string, string> = {}, path = '/batch'): Promise<Answer> {
  return send(url + path, { method: 'POST', headers: { ...json, ...headers }, body: typeof body === 'string' ? body : JSON.stringify(body) })
}

/** A batch that is answered: held to its schema. */
async function batch (gateway: { url: string }, calls: object[], more: object = {}, headers: Record<string, string> = {}) {
  const answer = await post(gateway, { calls, ...more }, headers)
  assert.equal(answer.status, 200, answer.text)
  assert.match(answer.headers.get('content-type')!, /^application\/json/)
  assert.deepEqual([...Value.Errors(BatchResponse, answer.body)].map(({ path, message }) => `${path} ${message}`), [])
  assert.equal(answer.body.results.length, calls.length)
  return answer.body as { results: any[], terminate: boolean }
}

/** Tools that write down when they begin and when they end. */
function tracing () {
  const trace: string[] = []
  const traced = (id: string, more: object = {}, work: (input: any, signal: AbortSignal) => unknown = async () => { for (let turn = 0; turn < 3; turn++) await nextTurn() }) =>
    tool(id, async (_id: string, input: any, signal: AbortSignal) => {
      trace.push(`begin ${input.n}`)
      await work(input, signal)
      trace.push(`end ${input.n}`)
      return { structuredContent: input.n }
    }, more)
  return { trace, traced }
}

const failing = tool('failing', () => { throw new Error('it broke') })
const calls = (toolIds: string[]) => toolIds.map((toolId, n) => ({ toolId, input: { n } }))
const inSequence = (count: number) => Array.from({ length: count }, (_, n) => [`begin ${n}`, `end ${n}`]).flat()

describe('POST /batch', () => {
  describe('in parallel', () => {
    it('runs all at once; ends come as calls end, results in the order of the calls', async (t) => {
      const ended = [gate(), gate(), gate()]
      const { trace, traced } = tracing()
      // Each waits for the one after it.
      const gateway = await startGateway(t, { tools: [traced('chained', {}, async ({ n }) => { if (n < 2) await ended[n + 1]!.promise; setImmediate(() => ended[n]!.open()) })] })
      const listener = await openStream(t, gateway.url)
      const { results } = await batch(gateway, calls(['chained', 'chained', 'chained']))
      assert.deepEqual(trace, ['begin 0', 'begin 1', 'begin 2', 'end 2', 'end 1', 'end 0'])
      assert.deepEqual(results.map(({ structuredContent }) => structuredContent), [0, 1, 2])
      const ids = results.map(({ invocation }) => invocation.invocationId)
      await waitFor(() => listener.ends.length === 3, 'the end events')
      assert.deepEqual(listener.of('tool_execution_start').map(({ data }) => data.invocationId), ids)
      assert.deepEqual(listener.ends.map(({ invocationId }) => invocationId), ids.toReversed())
    })

    it('gives each call what it would have had alone: its receipt, its failure, its status', async (t) => {
      const picky = tool('picky', () => ({}), { parameters: Type.Object({ a: Type.Integer() }) })
      const gateway = await startGateway(t, { tools: [echo, failing, picky, tool('slow', () => new Promise(() => {}))] })
      const { results, terminate } = await batch(gateway, [
        { toolId: 'echo', input: null }, { toolId: 'failing' }, { toolId: 'picky', input: { a: 'x' } }, { toolId: 'slow', timeoutMs: 20 }, { toolId: 'echo' }
      ])
      assert.deepEqual(results.map(({ invocation, isError }) => [invocation.toolId, invocation.status, invocation.errorCode, isError]), [
        ['echo', 'succeeded', undefined, false], ['failing', 'failed', 'tool_error', true], ['picky', 'failed', 'invalid_input', true],
        ['slow', 'failed', 'timeout', true], ['echo', 'succeeded', undefined, false]
      ])
      assert.deepEqual([results[0].structuredContent, results[4].structuredContent, results[1].content[0].text, terminate], [null, {}, 'it broke', false])
      assert.equal(results[2].details.errors[0].path, '/a')
    })

    it('gives a call that gets no invocation its problem, in its place, and records nothing of it', async (t) => {
      const open = gate()
      const one = tool('one', async () => { await open.promise; return { structuredContent: 'ran' } }, { maxConcurrent: 1 })
      const gateway = await startGateway(t, { tools: [echo, one], maxWaitingCalls: 1 })
      const answering = batch(gateway, [{ toolId: 'one' }, { toolId: 'nobody' }, { toolId: 'one' }, { toolId: 'one' }, { toolId: 'echo', input: 1 }, { toolId: 'constructor' }])
      await waitFor(() => gateway.app.toolgate.store.head >= 4, 'the calls to begin')
      open.open()
      const { results, terminate } = await answering
      assert.deepEqual(results.map(({ problem, structuredContent }) => problem === undefined ? structuredContent : [problem.status, problem.code]), [
        'ran', [404, 'unknown_tool'], 'ran', [503, 'overloaded'], 1, [404, 'unknown_tool']
      ])
      for (const result of results) if ('problem' in result) assert.deepEqual(Object.keys(result), ['problem'])
      assert.deepEqual([gateway.app.toolgate.store.head, terminate, gateway.app.toolgate.invoker.counters.overloaded], [6, false, 1])
    })

    it('holds to the limits of its tools', async (t) => {
      const { trace, traced } = tracing()
      const gateway = await startGateway(t, { tools: [traced('one', { maxConcurrent: 1 })] })
      const { results } = await batch(gateway, calls(Array<string>(10).fill('one')))
      assert.deepEqual(trace, inSequence(10))
      assert.deepEqual(results.map(({ invocation }) => 'queuedMs' in invocation), [false, ...Array<boolean>(9).fill(true)])
    })
  })

  describe('in sequence', () => {
    for (const [how, mode, toolIds] of [
      ['where it asks to', { mode: 'sequential' }, ['a', 'b', 'a', 'b']],
      ['where one of its tools is sequential, whatever it asks', { mode: 'parallel' }, ['a', 'b', 'seq', 'a', 'b']],
      ['where the last one is sequential, and it asks nothing', {}, ['a', 'b', 'b', 'seq']]
    ] as const) {
      it(`${how}: a call begins once the one before it has ended`, async (t) => {
        const { trace, traced } = tracing()
        const gateway = await startGateway(t, { tools: [traced('a'), traced('b'), traced('seq', { executionMode: 'sequential' })] })
        const { results } = await batch(gateway, calls([...toolIds]), mode)
        assert.deepEqual(trace, inSequence(toolIds.length))
        assert.deepEqual(results.map(({ structuredContent }) => structuredContent), toolIds.map((_, n) => n))
        const { events } = await gateway.app.toolgate.store.readEvents(0, { events: 100, bytes: Infinity })
        assert.deepEqual(events.map(({ type }) => type), toolIds.flatMap(() => ['tool_execution_start', 'tool_execution_end']), 'not even recorded before')
      })
    }

    it('goes on after failures and problems', async (t) => {
      const { trace, traced } = tracing()
      const gateway = await startGateway(t, { tools: [traced('a'), failing] })
      const { results } = await batch(gateway, calls(['failing', 'a', 'nobody', 'a']), { mode: 'sequential' })
      assert.deepEqual(trace, ['begin 1', 'end 1', 'begin 3', 'end 3'])
      assert.deepEqual(results.map((result) => result.problem?.code ?? result.invocation.errorCode), ['tool_error', undefined, 'unknown_tool', undefined])
    })
  })

  describe('a caller that hangs up', () => {
    async function hangUp (t: TestContext, toolIds: string[], mode: string) {
      const { trace, traced } = tracing()
      const begun = gate()
      const stays = traced('stays', {}, (_input, signal) => { begun.open(); return new Promise((_resolve, reject) => signal.addEventListener('abort', () => { trace.push('aborted'); reject(signal.reason) })) })
      const gateway = await startGateway(t, { tools: [stays, traced('quick')] })
      const { invoker, store } = gateway.app.toolgate
      const call = request({ port: gateway.port, host: '127.0.0.1', path: '/batch', method: 'POST', agent: false, headers: json })
      call.on('error', () => {})
      call.end(JSON.stringify({ calls: calls(toolIds), mode }))
      await begun.reached('the batch to begin')
      await waitFor(() => invoker.running === (mode === 'parallel' ? toolIds.filter((id) => id === 'stays').length : 1), 'the quick ones to end')
      call.destroy()
      await waitFor(() => invoker.running === 0, 'the calls to end')
      for (let turn = 0; turn < 20; turn++) await nextTurn()
      const { events } = await store.readEvents(0, { events: 100, bytes: Infinity })
      assert.deepEqual(invoker.slots(), { taken: 0, pending: 0 })
      return { trace, ends: events.flatMap(({ end }) => end === undefined ? [] : [end.errorCode]), starts: events.filter(({ type }) => type === 'tool_execution_start').length }
    }

    it('from a parallel batch: all calls that run are cancelled', async (t) => {
      const { trace, ends, starts } = await hangUp(t, ['stays', 'quick', 'stays', 'stays'], 'parallel')
      assert.deepEqual([starts, ends.filter((code) => code === 'cancelled').length, trace.filter((line) => line === 'aborted').length], [4, 3, 3])
    })

    it('from a sequential batch: the call that runs is cancelled, and no more begins', async (t) => {
      const { trace, ends, starts } = await hangUp(t, ['quick', 'stays', 'quick', 'stays'], 'sequential')
      assert.deepEqual([starts, ends, trace], [2, [undefined, 'cancelled'], ['begin 0', 'end 0', 'begin 1', 'aborted']])
    })
  })

  it('on a gateway that stops ends what runs with `shutdown`, and the rest of a sequence gets problems', async (t) => {
    const begun = gate()
    const gateway = await startGateway(t, { tools: [tool('stays', () => { begun.open(); return new Promise(() => {}) }), echo], shutdownGraceMs: 50 })
    const answering = batch(gateway, [{ toolId: 'stays' }, { toolId: 'echo' }], { mode: 'sequential' })
    await begun.reached('the batch to begin')
    const closing = gateway.app.close()
    const { results } = await within(answering, 'the answer')
    await within(closing, 'the close')
    assert.deepEqual([results[0].invocation.errorCode, results[1].problem.code], ['shutdown', 'shutting_down'])
  })

  it('hands on toolCallId, runId and traceparent to answers and events', async (t) => {
    const gateway = await startGateway(t, { tools: [echo] })
    const listener = await openStream(t, gateway.url, { path: '/events?runId=run-7' })
    const traceparent = `00-${'a'.repeat(32)}-${'b'.repeat(16)}-01`
    const { results } = await batch(gateway, [{ toolId: 'echo', input: 1, toolCallId: 'first' }, { toolId: 'echo', input: 2 }], { runId: 'run-7' }, { traceparent })
    await waitFor(() => listener.ends.length === 2, 'the end events')
    const own = results[1].invocation.invocationId
    for (const [index, toolCallId] of ['first', own].entries()) {
      const { invocation } = results[index]
      for (const one of [invocation, ...listener.about(invocation.invocationId)]) {
        assert.deepEqual([one.toolCallId, one.runId, one.traceId, one.parentSpanId, one.parentInvocationId], [toolCallId, 'run-7', 'a'.repeat(32), 'b'.repeat(16), undefined])
      }
      assert.equal(listener.about(invocation.invocationId).length, 2)
    }
  })

  it('with a sensitive tool: the caller gets its result, the events do not', async (t) => {
    const secret = tool('secret', (_id: string, input: unknown) => ({ structuredContent: input, terminate: true }), { sensitive: true })
    const gateway = await startGateway(t, { tools: [secret] })
    const listener = await openStream(t, gateway.url)
    const { results, terminate } = await batch(gateway, [{ toolId: 'secret', input: { pin: 'hunter2' } }])
    assert.deepEqual([results[0].structuredContent, terminate], [{ pin: 'hunter2' }, true])
    const end = await listener.endOf(results[0].invocation.invocationId)
    assert.deepEqual([end.result.redacted, listener.text.includes('hunter2')], [true, false])
  })

  it('passes JSON through as it is', async (t) => {
    const gateway = await startGateway(t, { tools: [echo] })
    const values = [null, 0, false, '', [], [1, [2]], { b: 1, a: { constructor: 'Acme' } }, '\u2028\ud83d\ude00 "quoted" \\', 1e300]
    const { results } = await batch(gateway, values.map((input) => ({ toolId: 'echo', input })))
    assert.deepEqual(results.map(({ structuredContent }) => structuredContent), values)
  })

  it('gives large results whole', async (t) => {
    const gateway = await startGateway(t, { tools: [tool('big', () => ({ structuredContent: 'é'.repeat(1_000_000) }))] })
    const { results } = await batch(gateway, calls(Array<string>(4).fill('big')))
    assert.ok(results.every(({ structuredContent }) => structuredContent.length === 1_000_000))
  })
})

describe('POST /batch refuses, and nothing runs', () => {
  const one = [{ toolId: 'echo' }]
  const many = (count: number) => Array.from({ length: count }, () => one[0])
  const invalid: [what: string, body: unknown, path: string][] = [
    ['no calls', { calls: [] }, '/calls'],
    ['65 calls', { calls: many(65) }, '/calls'],
    ['no list of calls', {}, '/calls'],
    ['calls that are no list', { calls: one[0] }, '/calls'],
    ['a call that is none', { calls: ['echo'] }, '/calls/0'],
    ['a call without its tool', { calls: [{ input: 1 }] }, '/calls/0/toolId'],
    ['an unknown field', { calls: one, parallel: true }, '/parallel'],
    ['an unknown field of a call', { calls: [...one, { toolId: 'echo', arguments: {} }] }, '/calls/1/arguments'],
    ['the run of a single call', { calls: [{ toolId: 'echo', runId: 'r' }] }, '/calls/0/runId'],
    ['a mode that there is not', { calls: one, mode: 'serial' }, '/mode'],
    ['a null mode', { calls: one, mode: null }, '/mode'],
    ['a timeout that is none', { calls: [{ toolId: 'echo', timeoutMs: 0 }] }, '/calls/0/timeoutMs'],
    ['a run that is no text', { calls: one, runId: 5 }, '/runId']
  ]
  for (const [what, body, path] of invalid) {
    it(`${what}: 400, naming ${path}`, async (t) => {
      const gateway = await startGateway(t, { tools: [echo] })
      const answer = await post(gateway, body)
      assertProblem(answer, 400, 'invalid_request')
      assert.ok(answer.body.errors.some((fault: any) => fault.path === path), JSON.stringify(answer.body.errors))
      assert.match(answer.body.detail, new RegExp(path))
      assert.equal(gateway.app.toolgate.store.head, 0)
    })
  }

  const refusals: Record<string, { send: (gateway: RunningGateway) => Promise<Answer>, status: number, code: string, options?: GatewayOptions, check?: (answer: Answer) => void }> = {
    'an Idempotency-Key': { send: (gateway) => post(gateway, { calls: one }, { 'idempotency-key': 'k' }), status: 400, code: 'not_supported', check: ({ body }) => assert.match(body.detail, /batch/) },
    'a query': { send: (gateway) => post(gateway, { calls: one }, {}, '/batch?mode=sequential'), status: 400, code: 'invalid_request' },
    'an Accept that JSON does not meet': { send: (gateway) => post(gateway, { calls: one }, { accept: 'text/event-stream' }), status: 406, code: 'not_acceptable' },
    'JSON that is called plain text': { send: (gateway) => post(gateway, { calls: one }, { 'content-type': 'text/plain' }), status: 415, code: 'unsupported_media_type' },
    'a body over the limit': { send: (gateway) => post(gateway, { calls: [{ toolId: 'echo', input: 'x'.repeat(2000) }] }), status: 413, code: 'body_too_large', options: { maxBodyBytes: 1000 }, check: ({ body }) => assert.match(body.detail, /1000/) },
    'a body that is not JSON': { send: (gateway) => post(gateway, '{"calls":['), status: 400, code: 'malformed_json' },
    'a null body': { send: (gateway) => post(gateway, 'null'), status: 400, code: 'invalid_request' },
    'no body at all': { send: ({ url }) => send(`${url}/batch`, { method: 'POST' }), status: 400, code: 'invalid_request' },
    'a poisoned key': { send: (gateway) => post(gateway, '{"calls":[{"toolId":"echo","input":{"__proto__":{"a":1}}}]}'), status: 400, code: 'forbidden_key' },
    'a number that JSON cannot carry': { send: (gateway) => post(gateway, '{"calls":[{"toolId":"echo","input":9007199254740993}]}'), status: 400, code: 'number_not_exact' },
    'a GET': { send: ({ url }) => send(`${url}/batch`), status: 405, code: 'method_not_allowed', check: ({ headers }) => assert.equal(headers.get('allow'), 'POST') },
    'a DELETE': { send: ({ url }) => send(`${url}/batch`, { method: 'DELETE' }), status: 405, code: 'method_not_allowed' },
    'a route below it': { send: (gateway) => post(gateway, { calls: one }, {}, '/batch/1'), status: 404, code: 'not_found' },
    'no key where one is asked for': { send: (gateway) => post(gateway, { calls: one }), status: 401, code: 'unauthorized', options: { apiKey: 'k'.repeat(16) } }
  }
  for (const [what, { send: ask, status, code, options, check }] of Object.entries(refusals)) {
    it(`${what}: ${status} ${code}`, async (t) => {
      const gateway = await startGateway(t, { tools: [echo], ...options })
      const answer = await ask(gateway)
      assertProblem(answer, status, code)
      check?.(answer)
      assert.equal(gateway.app.toolgate.store.head, 0)
    })
  }

  it('64 calls are fine, and as many as the setting says', async (t) => {
    const gateway = await startGateway(t, { tools: [echo] })
    assert.equal((await batch(gateway, calls(Array<string>(64).fill('echo')))).results.length, 64)
    const small = await startGateway(t, { tools: [echo], maxBatchCalls: 2 })
    await batch(small, calls(['echo', 'echo']))
    const answer = await post(small, { calls: many(3) })
    assertProblem(answer, 400, 'invalid_request')
    assert.match(answer.body.detail, /2 calls/)
  })

  it('input may be as deep as on invoke, and no deeper', async (t) => {
    const gateway = await startGateway(t, { tools: [echo], maxJsonDepth: 10 })
    const nested = (depth: number) => `${'['.repeat(depth)}${']'.repeat(depth)}`
    const invokeOf = (input: string) => post(gateway, `{"input":${input}}`, {}, '/tools/echo/invoke')
    const batchOf = (input: string) => post(gateway, `{"calls":[{"toolId":"echo"},{"toolId":"echo","input":${input}}]}`)
    for (const ask of [invokeOf, batchOf]) {
      assert.equal((await ask(nested(10))).status, 200)
      assertProblem(await ask(nested(11)), 400, 'too_deep')
    }
    const { body } = await batchOf(nested(10))
    assert.deepEqual(body.results[1].structuredContent, JSON.parse(nested(10)))
  })
})

/** One batch by pi's own loop and by the gateway: the same tools, calls and hooks. */
interface Script {
  calls: string[]
  /** What each tool gives beside its text; `throws` fails. */
  tools: Record<string, { terminate?: boolean, isError?: boolean, throws?: boolean, sequential?: boolean, strict?: boolean }>
  mode?: 'parallel' | 'sequential'
  before?: Record<string, { block: true, reason: string, terminate?: boolean }>
  after?: Record<string, { terminate?: boolean, isError?: boolean }>
  terminate: boolean
  sequential?: boolean
}

const yes = { terminate: true }
const scripts: Record<string, Script> = {
  'all say terminate': { calls: ['a', 'b', 'a'], tools: { a: yes, b: yes }, terminate: true },
  'one alone says terminate': { calls: ['a'], tools: { a: yes }, terminate: true },
  'one says false': { calls: ['a', 'b'], tools: { a: yes, b: { terminate: false } }, terminate: false },
  'one says nothing': { calls: ['b', 'a'], tools: { a: yes, b: {} }, terminate: false },
  'none says anything': { calls: ['a', 'a'], tools: { a: {} }, terminate: false },
  'one tool is unknown': { calls: ['a', 'nobody'], tools: { a: yes }, terminate: false },
  'one throws': { calls: ['a', 'b', 'a'], tools: { a: yes, b: { throws: true } }, terminate: false },
  'one fails, and says terminate': { calls: ['a', 'b'], tools: { a: yes, b: { isError: true, terminate: true } }, terminate: true },
  'one has bad input': { calls: ['a', 'b'], tools: { a: yes, b: { terminate: true, strict: true } }, terminate: false },
  'an after-hook says it for all': { calls: ['a', 'b'], tools: { a: {}, b: { terminate: false } }, after: { a: yes, b: yes }, terminate: true },
  'an after-hook takes it back for one': { calls: ['a', 'b'], tools: { a: yes, b: yes }, after: { b: { terminate: false } }, terminate: false },
  'an after-hook says it for one that throws': { calls: ['a', 'b'], tools: { a: yes, b: { throws: true } }, after: { b: yes }, terminate: true },
  'an after-hook makes a failure of one': { calls: ['a', 'b'], tools: { a: yes, b: yes }, after: { b: { isError: true } }, terminate: true },
  'a before-hook blocks one and says terminate': { calls: ['a', 'b'], tools: { a: yes, b: {} }, before: { b: { block: true, reason: 'no', terminate: true } }, terminate: true },
  'a before-hook blocks one and says nothing': { calls: ['a', 'b'], tools: { a: yes, b: yes }, before: { b: { block: true, reason: 'no' } }, terminate: false },
  'in sequence': { calls: ['a', 'b', 'a'], tools: { a: yes, b: yes }, mode: 'sequential', sequential: true, terminate: true },
  'in sequence, with a failure in the middle': { calls: ['a', 'b', 'a'], tools: { a: yes, b: { throws: true } }, mode: 'sequential', sequential: true, terminate: false },
  'with a sequential tool at the end': { calls: ['a', 'a', 'b'], tools: { a: yes, b: { sequential: true } }, sequential: true, terminate: false },
  'with a sequential tool that is blocked': { calls: ['a', 'b', 'a'], tools: { a: yes, b: { sequential: true } }, before: { b: { block: true, reason: 'no', terminate: true } }, sequential: true, terminate: true },
  'with a sequential tool that is not called': { calls: ['a', 'a'], tools: { a: yes, b: { sequential: true } }, terminate: true }
}

interface Ran { terminate: boolean, results: { isError: boolean, text: string | undefined }[], trace: string[] }

function agentTools ({ tools }: Script, trace: string[]): AgentTool<any>[] {
  return Object.entries(tools).map(([name, { throws = false, sequential = false, strict = false, ...more }]) => ({
    name,
    label: name,
    description: name,
    parameters: strict ? Type.Object({ missing: Type.String() }) : Type.Object({}),
    ...(sequential ? { executionMode: 'sequential' as const } : {}),
    async execute () {
      trace.push(`begin ${name}`)
      for (let turn = 0; turn < 3; turn++) await nextTurn()
      trace.push(`end ${name}`)
      if (throws) throw new Error(`${name} broke`)
      return { content: [{ type: 'text' as const, text: `${name} says` }], details: null, ...more }
    }
  }))
}

const hooksOf = ({ before, after }: Script) => ({
  beforeToolCall: async ({ toolCall }: { toolCall: { name: string } }) => before?.[toolCall.name],
  afterToolCall: async ({ toolCall }: { toolCall: { name: string } }) => after?.[toolCall.name]
})

/** What pi makes of it: it asks its model again unless the batch said to stop. */
async function runByPi (script: Script): Promise<Ran> {
  const trace: string[] = []
  const faux = createFauxCore({})
  faux.setResponses([
    fauxAssistantMessage(script.calls.map((name, index) => fauxToolCall(name, {}, { id: `call-${index}` })), { stopReason: 'toolUse' }),
    fauxAssistantMessage('done')
  ])
  const events: AgentEvent[] = []
  await runAgentLoop(
    [{ role: 'user', content: 'go', timestamp: 0 }],
    { messages: [], tools: agentTools(script, trace) },
    { model: faux.getModel(), convertToLlm: (messages) => messages as any, toolExecution: script.mode ?? 'parallel', ...hooksOf(script) },
    (event) => { events.push(event) },
    undefined,
    faux.streamSimple
  )
  const turn = events.find((event) => event.type === 'turn_end')!
  assert.deepEqual(turn.toolResults.map(({ toolCallId }) => toolCallId), script.calls.map((_, index) => `call-${index}`))
  return {
    terminate: faux.state.callCount === 1,
    results: turn.toolResults.map(({ isError, content }) => ({ isError, text: (content[0] as { text?: string }).text })),
    trace
  }
}

async function runByGateway (t: TestContext, script: Script): Promise<Ran> {
  const trace: string[] = []
  const gateway = await startGateway(t, { tools: agentTools(script, trace) as unknown as AnyTool[], hooks: hooksOf(script) })
  const { results, terminate } = await batch(gateway, script.calls.map((toolId) => ({ toolId })), script.mode === undefined ? {} : { mode: script.mode })
  return { terminate, trace, results: results.map(({ problem, isError, content }) => problem === undefined ? { isError, text: content[0].text } : { isError: true, text: undefined }) }
}

describe("a batch by the gateway and by pi's agent loop", () => {
  for (const [name, script] of Object.entries(scripts)) {
    it(`${name}: terminate ${script.terminate}${script.sequential === true ? ', in sequence' : ''}, and the same results`, async (t) => {
      const [pi, own] = [await runByPi(script), await runByGateway(t, script)]
      assert.deepEqual([own.terminate, pi.terminate], [script.terminate, script.terminate])
      assert.deepEqual(own.results.map(({ isError }) => isError), pi.results.map(({ isError }) => isError))
      // What is not of the tool's own making is worded differently.
      const worded = (toolId: string) => toolId in script.tools && script.tools[toolId]!.strict !== true
      const texts = (ran: Ran) => ran.results.map(({ text }, index) => worded(script.calls[index]!) ? text : undefined)
      assert.deepEqual(texts(own), texts(pi))
      assert.deepEqual(own.trace, pi.trace)
      const begun = own.trace.filter((line) => line.startsWith('begin')).length
      if (begun > 1) assert.equal(own.trace[1]!.startsWith('end'), script.sequential === true)
    })
  }
})
