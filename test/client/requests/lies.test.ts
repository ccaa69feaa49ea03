import assert from 'node:assert/strict'
import { describe, it, type TestContext } from 'node:test'
import { Type } from '@sinclair/typebox'
import { obj, num, str } from '@earendil-works/pi-schema'
import { ConnectionError, OutputError, ProtocolError, type Client } from '../../../src/client.ts'
import { answer, clientOf, receipt, rejection, sendJson, serverOf } from './servers.ts'

const outputSchema = {
  type: 'object', required: ['city', 'degrees'], additionalProperties: false, properties: { city: { type: 'string' }, degrees: { type: 'number' }, at: { type: 'string', format: 'date-time' } }
}
const descriptor = { id: 'weather', label: 'Weather', description: 'd', kind: 'read', parameters: {}, outputSchema, executionMode: 'parallel', replay: 'safe', inputMode: 'strict', timeoutMs: 1000, source: 'code' }

/** What the server says of a call: its answer, and what stands in the receipt. */
interface Lie { result?: object, about?: object, event?: object }

/** A gateway that declares a schema, and answers whatever it likes, in every way there is. */
async function lyingGateway (t: TestContext, { result = {}, about = {}, event = {} }: Lie): Promise<Client> {
  const { invocation, ...told } = answer(result, { toolId: 'weather', ...about })
  const server = await serverOf(t, ({ method, url, headers }, response) => {
    if (url === '/tools') return sendJson(response, { tools: [descriptor] })
    if (url === '/batch') return sendJson(response, { results: [{ ...told, invocation }], terminate: false })
    if (method === 'GET') return sendJson(response, { invocation, result: told })
    if (headers.accept !== 'text/event-stream') return sendJson(response, { ...told, invocation })
    const { invocationId, toolId } = receipt({ toolId: 'weather', ...about })
    const end = { type: 'tool_execution_end', toolName: toolId, ...invocation, result: told, isError: told.isError, ...event }
    response.writeHead(200, { 'content-type': 'text/event-stream', 'toolgate-invocation-id': invocationId })
      .end(`: connected\n\nid: e-1\nevent: tool_execution_end\ndata: ${JSON.stringify(end)}\n\n`)
  })
  return clientOf(server)
}

/** The ways in which an answer comes. */
const ways: [string, (client: Client, options: object) => Promise<any>][] = [
  ['an answer', (client, options) => client.invoke('weather', {}, options)],
  ['a stream', (client, options) => client.invoke('weather', {}, { onUpdate: () => {}, ...options })],
  ['a record', (client, options) => client.wait('i1', options)]
]

const pathsOf = (error: OutputError) => error.faults.map(({ path, keyword }) => `${path} ${keyword}`)

describe('a gateway that lies about its schema', () => {
  const lies: [string, object, string[]][] = [
    ['the wrong type', { structuredContent: { city: 'Oslo', degrees: '5' } }, ['/degrees type']],
    ['nothing', {}, [' required']],
    ['null', { structuredContent: null }, [' type']],
    ['a text of JSON', { structuredContent: '{"city":"Oslo","degrees":5}' }, [' type']],
    ['what is forbidden', { structuredContent: { city: 'Oslo', degrees: 5, secret: 1 } }, ['/secret additionalProperties']],
    ['less than is due', { structuredContent: {} }, ['/city required', '/degrees required']],
    ['a format that is not kept', { structuredContent: { city: 'Oslo', degrees: 5, at: 'today' } }, ['/at format']],
    ['several faults', { structuredContent: { city: 1, degrees: null, at: 2 } }, ['/city type', '/degrees type', '/at type']]
  ]
  for (const [name, result, paths] of lies) {
    for (const [way, ask] of ways) {
      it(`${name}, in ${way}, is caught, with every fault`, async (t) => {
        const client = await lyingGateway(t, { result })
        const [declared] = await client.tools()
        const error = await rejection(ask(client, { output: declared!.outputSchema }))
        assert.ok(error instanceof OutputError)
        assert.deepEqual(pathsOf(error), paths)
        assert.equal(error.code, 'unexpected_output')
        assert.equal(error.response.invocation.invocationId, 'i1')
        for (const { path } of error.faults) assert.ok(error.message.includes(path))
        // Not thrown as a failure, so not given back as one either.
        assert.ok(await rejection(ask(client, { output: outputSchema, throwOnError: false })) instanceof OutputError)
        // Whoever holds it to nothing gets what came.
        assert.deepEqual((await ask(client, {})).structuredContent, (result as any).structuredContent)
      })
    }
  }

  const schemas: [string, object][] = [
    ['TypeBox', Type.Object({ city: Type.String(), degrees: Type.Number() })],
    ["pi-schema's builders", obj({ city: str(), degrees: num() })],
    ['draft-07', { ...outputSchema, $schema: 'http://json-schema.org/draft-07/schema#' }],
    ['2020-12', { ...outputSchema, $schema: 'https://json-schema.org/draft/2020-12/schema' }]
  ]
  for (const [name, output] of schemas) {
    it(`is caught with a schema of ${name}`, async (t) => {
      const bad = await lyingGateway(t, { result: { structuredContent: { city: 'Oslo', degrees: 'warm' } } })
      const good = await lyingGateway(t, { result: { structuredContent: { city: 'Oslo', degrees: 5 } } })
      for (const [, ask] of ways) {
        assert.deepEqual(pathsOf(await rejection(ask(bad, { output }))), ['/degrees type'])
        assert.deepEqual((await ask(good, { output })).structuredContent, { city: 'Oslo', degrees: 5 })
      }
    })
  }

  it('a failure is held to nothing, and is never a success', async (t) => {
    const client = await lyingGateway(t, { result: { isError: true, structuredContent: { city: 'Oslo', degrees: 5 } }, about: { status: 'failed', errorCode: 'tool_error' } })
    for (const [, ask] of ways) {
      const error = await rejection(ask(client, { output: outputSchema }))
      assert.equal(error.name, 'ToolError')
      assert.deepEqual(error.response.structuredContent, { city: 'Oslo', degrees: 5 })
    }
  })
})

describe('a gateway that contradicts itself', () => {
  const lies: [string, Lie][] = [
    ['a success that failed', { about: { status: 'failed', errorCode: 'tool_error' } }],
    ['a success that was cancelled', { about: { status: 'cancelled', errorCode: 'cancelled' } }],
    ['a failure that succeeded', { result: { isError: true } }],
    ['an end of a call that runs', { about: { status: 'running' } }]
  ]
  for (const [name, lie] of lies) {
    for (const [way, ask] of [...ways, ['a batch', (client: Client) => client.batch([{ toolId: 'weather' }])] as (typeof ways)[number]]) {
      it(`${name}, in ${way}`, async (t) => {
        const client = await lyingGateway(t, lie)
        for (const throwOnError of [true, false]) assert.ok(await rejection(ask(client, { throwOnError })) instanceof ProtocolError)
      })
    }
  }

  it('an event that says other than its result', async (t) => {
    const client = await lyingGateway(t, { event: { isError: true } })
    assert.ok(await rejection(ways[1]![1](client, {})) instanceof ProtocolError)
    const other = await lyingGateway(t, { event: { isError: true, status: 'failed' } })
    assert.ok(await rejection(ways[1]![1](other, {})) instanceof ProtocolError)
  })
})

describe('a gateway that nests values without end', () => {
  for (const [way, ask] of ways) {
    it(`${way} is not taken for what a recursive schema says`, async (t) => {
      const server = await serverOf(t, ({ method, headers }, response) => {
        const { invocation, ...result } = answer({ structuredContent: 'HERE' }, { toolId: 'weather' })
        const deep = (body: unknown) => JSON.stringify(body).replace('"HERE"', '['.repeat(50_000) + ']'.repeat(50_000))
        if (method === 'GET') return sendJson(response, deep({ invocation, result }))
        if (headers.accept !== 'text/event-stream') return sendJson(response, deep({ ...result, invocation }))
        response.writeHead(200, { 'content-type': 'text/event-stream' })
          .end(`id: e-1\nevent: tool_execution_end\ndata: ${deep({ type: 'tool_execution_end', toolName: 'weather', ...invocation, result, isError: false })}\n\n`)
      })
      const error = await rejection(ask(clientOf(server), { output: { type: 'array', items: { $ref: '#' } } }))
      assert.ok(error instanceof OutputError)
      assert.deepEqual(pathsOf(error), [' depth'])
    })
  }
})

describe('a gateway that tells of something else', () => {
  it('another tool', async (t) => {
    const client = await lyingGateway(t, { about: { toolId: 'climate' } })
    const asked = [
      client.invoke('weather'), client.invoke('weather', 1, { onUpdate: () => {} }), client.invokeAsync('weather'), client.batch([{ toolId: 'weather' }])
    ]
    for (const error of await Promise.all(asked.map(rejection))) {
      assert.ok(error instanceof ProtocolError)
      assert.match(error.message, /told of toolId "climate", not of "weather"/)
    }
  })

  it('another tool, in the record of a call whose answer is not there', async (t) => {
    const about = receipt({ toolId: 'weather' })
    const end = { type: 'tool_execution_end', toolName: 'weather', ...about, isError: false, omitted: ['result'] }
    for (const isWhole of [true, false]) {
      const server = await serverOf(t, ({ method, headers, url }, response) => {
        if (url.endsWith('/events')) return response.writeHead(404).end()
        if (method === 'GET') return sendJson(response, { invocation: receipt({ toolId: 'climate' }), result: { content: [], details: null, isError: false } })
        if (headers.accept !== 'text/event-stream') return response.writeHead(200, { 'content-type': 'application/json', 'content-length': '9', 'toolgate-invocation-id': about.invocationId }).write('{', () => response.destroy())
        response.writeHead(200, { 'content-type': 'text/event-stream', 'toolgate-invocation-id': about.invocationId })
          .end(isWhole ? `id: e-1\nevent: tool_execution_end\ndata: ${JSON.stringify(end)}\n\n` : ': connected\n\n')
      })
      for (const options of [{}, { onUpdate: () => {} }]) {
        const error = await rejection(clientOf(server).invoke('weather', 1, options))
        assert.ok(error instanceof ProtocolError)
        assert.match(error.message, /told of toolId "climate", not of "weather"/)
      }
    }
  })

  it('another page, in the place of events and record of a call that began: the call may have run', async (t) => {
    const server = await serverOf(t, ({ method }, response) => {
      if (method === 'GET') return response.writeHead(404, { 'content-type': 'text/html' }).end('<html>')
      response.writeHead(200, { 'content-type': 'text/event-stream', 'toolgate-invocation-id': 'i1' }).end(': connected\n\n')
    })
    const error = await rejection(clientOf(server).invoke('weather', 1, { onUpdate: () => {} }))
    assert.ok(error instanceof ConnectionError)
    assert.deepEqual([error.code, error.invocationId], ['interrupted', 'i1'])
  })

  it('another call', async (t) => {
    const client = await lyingGateway(t, { about: { invocationId: 'i2' } })
    for (const error of await Promise.all([client.wait('i1'), client.invocation('i1')].map(rejection))) {
      assert.ok(error instanceof ProtocolError)
      assert.match(error.message, /told of invocationId "i2", not of "i1"/)
    }
    const stream = await lyingGateway(t, { event: { invocationId: 'i2' } })
    assert.ok(await rejection(stream.invoke('weather', 1, { onUpdate: () => {} })) instanceof ProtocolError)
    const cancelled = await serverOf(t, (_request, response) => sendJson(response, { invocation: receipt({ invocationId: 'i2' }) }, 202))
    assert.ok(await rejection(clientOf(cancelled).cancel('i1')) instanceof ProtocolError)
  })

  it('another description', async (t) => {
    const server = await serverOf(t, (_request, response) => sendJson(response, descriptor))
    assert.equal((await clientOf(server).tool('weather')).id, 'weather')
    assert.ok(await rejection(clientOf(server).tool('climate')) instanceof ProtocolError)
  })

  it('a batch of more or fewer results than calls, or in another order', async (t) => {
    const one = (toolId: string) => answer({}, { toolId })
    const server = await serverOf(t, (_request, response) => sendJson(response, { results: [one('a'), one('b')], terminate: false }))
    const client = clientOf(server)
    assert.equal((await client.batch([{ toolId: 'a' }, { toolId: 'b' }])).results.length, 2)
    for (const ids of [['a'], ['a', 'b', 'c'], ['b', 'a']]) {
      assert.ok(await rejection(client.batch(ids.map((toolId) => ({ toolId })))) instanceof ProtocolError)
    }
  })
})
