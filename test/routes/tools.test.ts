import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Type } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { ToolDescriptor, ToolList } from '../../src/contract/tool.ts'
import { InvokeResponse } from '../../src/contract/invocation.ts'
import { Problem } from '../../src/contract/problem.ts'
import type { AnyTool } from '../../src/tools/registry.ts'
import { assertProblem, echo, invoke, send, startGateway, tool } from '../e2e/harness.ts'

const own = tool('own', () => ({ structuredContent: { n: 1 } }), {
  label: 'My own',
  description: 'Does it.',
  kind: 'write',
  parameters: Type.Object({ a: Type.Integer({ default: 1 }) }),
  outputSchema: Type.Object({ n: Type.Integer() }),
  errorSchema: { type: 'object' },
  executionMode: 'sequential',
  replay: 'safe',
  inputMode: 'coerce',
  timeoutMs: 1234,
  sensitive: false
})
const agents = { name: 'agents', label: "An agent's", description: 'As pi has it.', parameters: { type: 'object' }, execute: async () => ({ content: [], details: null }) } as AnyTool
const registrys: AnyTool = { id: 'registrys', kind: 'read', parseInput: () => ({}), execute: () => 1, parseOutput: (value) => value }
const tools = [own, agents, registrys, echo]

const assertValid = (schema: Parameters<typeof Value.Check>[0], value: unknown) =>
  assert.deepEqual([...Value.Errors(schema, value)].map(({ path, message }) => `${path}: ${message}`), [])

/** Keys that the contract names, and none beside. */
const descriptorKeys = Object.keys(ToolDescriptor.properties)

describe('GET /tools', () => {
  it('lists every tool in order of registration, each as the contract has it', async (t) => {
    const { url } = await startGateway(t, { tools })
    const { status, headers, body } = await send(`${url}/tools`)
    assert.equal(status, 200)
    assert.match(headers.get('content-type')!, /^application\/json/)
    assertValid(ToolList, body)
    assert.deepEqual(body.tools.map(({ id }: any) => id), ['own', 'agents', 'registrys', 'echo'])
    for (const descriptor of body.tools) assert.deepEqual(Object.keys(descriptor).filter((key) => !descriptorKeys.includes(key)), [])
  })

  it('without tools is an empty list', async (t) => {
    const { url } = await startGateway(t)
    assert.deepEqual((await send(`${url}/tools`)).body, { tools: [] })
  })

  it('HEAD has the headers alone', async (t) => {
    const { url } = await startGateway(t, { tools })
    const [get, head] = [await send(`${url}/tools`), await send(`${url}/tools`, { method: 'HEAD' })]
    assert.deepEqual([head.status, head.text], [200, ''])
    for (const name of ['etag', 'content-type', 'content-length']) assert.equal(head.headers.get(name), get.headers.get(name), name)
  })
})

describe('GET /tools/:id', () => {
  it('tells all that the author declared', async (t) => {
    const { url } = await startGateway(t, { tools })
    const { body } = await send(`${url}/tools/own`)
    assertValid(ToolDescriptor, body)
    assert.deepEqual(body, {
      id: 'own',
      label: 'My own',
      description: 'Does it.',
      kind: 'write',
      parameters: { type: 'object', properties: { a: { type: 'integer', default: 1 } }, required: ['a'] },
      outputSchema: { type: 'object', properties: { n: { type: 'integer' } }, required: ['n'] },
      errorSchema: { type: 'object' },
      executionMode: 'sequential',
      replay: 'safe',
      inputMode: 'coerce',
      timeoutMs: 1234,
      source: 'code'
    })
  })

  it('tells the defaults where the author said nothing', async (t) => {
    const { url } = await startGateway(t, { tools, timeoutMs: 777 })
    assert.deepEqual((await send(`${url}/tools/echo`)).body, {
      id: 'echo', label: 'echo', description: 'echo', kind: 'test', parameters: {}, executionMode: 'parallel', replay: 'never', inputMode: 'strict', timeoutMs: 777, source: 'code'
    })
  })

  it('an AgentTool goes by its name, is of kind tool and coerces', async (t) => {
    const { url } = await startGateway(t, { tools })
    const { id, label, kind, inputMode } = (await send(`${url}/tools/agents`)).body
    assert.deepEqual([id, label, kind, inputMode], ['agents', "An agent's", 'tool', 'coerce'])
  })

  it('a registry tool takes anything, as far as its description knows', async (t) => {
    const { url } = await startGateway(t, { tools })
    const { kind, description, parameters } = (await send(`${url}/tools/registrys`)).body
    assert.deepEqual([kind, description, parameters], ['read', '', {}])
  })

  it('is the same as in the list', async (t) => {
    const { url } = await startGateway(t, { tools })
    const { body } = await send(`${url}/tools`)
    for (const descriptor of body.tools) assert.deepEqual((await send(`${url}/tools/${descriptor.id}`)).body, descriptor)
  })

  it('of an unknown tool is a problem', async (t) => {
    const { url } = await startGateway(t, { tools })
    const answer = await send(`${url}/tools/nobody`)
    assertProblem(answer, 404, 'unknown_tool')
    assertValid(Problem, answer.body)
  })
})

describe('ETags', () => {
  for (const path of ['/tools', '/tools/own']) {
    it(`${path}: the one that it has is 304 without a body, in any form the standard allows`, async (t) => {
      const { url } = await startGateway(t, { tools })
      const etag = (await send(url + path)).headers.get('etag')!
      assert.match(etag, /^"[^"]+"$/)
      for (const ifNoneMatch of [etag, `W/${etag}`, `"other", ${etag}`, '*']) {
        const { status, text, headers } = await send(url + path, { headers: { 'if-none-match': ifNoneMatch } })
        assert.deepEqual([status, text, headers.get('etag')], [304, '', etag], ifNoneMatch)
      }
    })

    it(`${path}: any other is 200`, async (t) => {
      const { url } = await startGateway(t, { tools })
      assert.equal((await send(url + path, { headers: { 'if-none-match': '"other"' } })).status, 200)
    })
  }

  it('differ between tools, and change with what is told of one', async (t) => {
    const [one, other] = [await startGateway(t, { tools }), await startGateway(t, { tools: [{ ...own, description: 'Does more.' } as AnyTool, agents, registrys, echo] })]
    const etagOf = async ({ url }: { url: string }, path: string) => (await send(url + path)).headers.get('etag')
    assert.notEqual(await etagOf(one, '/tools/own'), await etagOf(one, '/tools/echo'))
    assert.notEqual(await etagOf(one, '/tools/own'), await etagOf(other, '/tools/own'))
    assert.notEqual(await etagOf(one, '/tools'), await etagOf(other, '/tools'))
    assert.equal(await etagOf(one, '/tools/echo'), await etagOf(other, '/tools/echo'))
  })
})

describe('POST /tools/:id/invoke', () => {
  it('answers as the contract has it, a failure as well', async (t) => {
    const { url } = await startGateway(t, { tools: [own, tool('fail', () => { throw new Error('no') })] })
    for (const [id, input] of [['own', { a: 1 }], ['own', {}], ['fail', {}]] as const) {
      const { body } = await invoke({ url }, id, input)
      assertValid(InvokeResponse, body)
    }
  })

  it("takes the caller's ids over into receipt and trace", async (t) => {
    const { url } = await startGateway(t, { tools })
    const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'
    const { body: { invocation } } = await invoke({ url }, 'echo', 1, { toolCallId: 'c1', runId: 'r1', parentInvocationId: 'p1', headers: { traceparent } })
    const { toolCallId, runId, parentInvocationId, traceId, parentSpanId, spanId } = invocation
    assert.deepEqual([toolCallId, runId, parentInvocationId], ['c1', 'r1', 'p1'])
    assert.deepEqual([traceId, parentSpanId], ['0af7651916cd43dd8448eb211c80319c', 'b7ad6b7169203331'])
    assert.match(spanId, /^[0-9a-f]{16}$/)
  })

  for (const traceparent of ['garbage', '00-00000000000000000000000000000000-b7ad6b7169203331-01', 'ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01']) {
    it(`a traceparent of ${traceparent} is as good as none`, async (t) => {
      const { url } = await startGateway(t, { tools })
      const { status, body: { invocation } } = await invoke({ url }, 'echo', 1, { headers: { traceparent } })
      assert.deepEqual([status, invocation.traceId, invocation.parentSpanId], [200, undefined, undefined])
    })
  }

  it('a call without ids of its own has its invocationId for one', async (t) => {
    const { url } = await startGateway(t, { tools })
    const { body: { invocation } } = await invoke({ url }, 'echo')
    assert.equal(invocation.toolCallId, invocation.invocationId)
    assert.equal('runId' in invocation, false)
  })

  for (const [accept, type] of [['*/*', 'application/json'], ['application/*', 'application/json'], ['application/json; charset=utf-8', 'application/json'], ['application/json, text/event-stream', 'application/json'], ['text/event-stream, application/json;q=0.5', 'text/event-stream'], ['text/*', 'text/event-stream']] as const) {
    it(`Accept: ${accept} is answered with ${type}`, async (t) => {
      const { url } = await startGateway(t, { tools })
      const { status, headers } = await invoke({ url }, 'echo', 1, { headers: { accept } })
      assert.deepEqual([status, headers.get('content-type')!.split(';')[0]], [200, type])
    })
  }

  it('a stream of a call that is refused before it runs is a start and an end', async (t) => {
    const { url } = await startGateway(t, { tools })
    const { status, text, headers } = await invoke({ url }, 'own', { a: 'x' }, { headers: { accept: 'text/event-stream' } })
    assert.equal(status, 200)
    assert.deepEqual(text.match(/^event: .*$/gm), ['event: tool_execution_start', 'event: tool_execution_end'])
    assert.match(text, /"errorCode":"invalid_input"/)
    assert.ok(text.includes(headers.get('toolgate-invocation-id')!))
  })
})
