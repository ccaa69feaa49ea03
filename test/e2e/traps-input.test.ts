import assert from 'node:assert/strict'
import { describe, it, type TestContext } from 'node:test'
import { ToolRegistry } from '../../src/tools/registry.ts'
import { startCli } from './cli.ts'
import { assertProblem, echo, exchange, invoke, parseResponse, send, startGateway, tool, type RunningGateway } from './harness.ts'
import { openStream, type EventClient } from './sse-client.ts'

const json = { 'content-type': 'application/json' }
const taking = (parameters: object, more: object = {}) => tool('subject', (_id: string, input: unknown) => ({ structuredContent: input }), { parameters, ...more })

async function start (t: TestContext, parameters: object, more: object = {}) {
  return await startGateway(t, { tools: [taking(parameters, more), echo] })
}

/** A gateway with a listener, and a way to assert that up to now no call began. */
async function startWatched (t: TestContext, options: object = {}) {
  const gateway = await startGateway(t, { tools: [echo], ...options })
  const listener = await openStream(t, gateway.url)
  return { gateway, listener, assertNoCall: () => assertNoCall(gateway, listener) }
}

async function assertNoCall (gateway: RunningGateway, listener: EventClient): Promise<void> {
  const { body } = await invoke(gateway, 'echo', 'marker')
  await listener.endOf(body.invocation.invocationId)
  assert.deepEqual(listener.events.filter(({ data }) => data.invocationId !== body.invocation.invocationId), [])
}

const post = (gateway: RunningGateway, body: string | undefined, headers: Record<string, string> = json, id = 'echo') =>
  send(`${gateway.url}/tools/${id}/invoke`, { method: 'POST', headers, ...(body === undefined ? {} : { body }) })

const faultPaths = (answer: { body: any }) => answer.body.details.errors.map(({ path }: any) => path)
const nested = (depth: number, inner = '1') => '['.repeat(depth) + inner + ']'.repeat(depth)

describe('trap 1: input is checked, never rewritten', () => {
  const parameters = {
    type: 'object',
    additionalProperties: false,
    properties: {
      offset: { anyOf: [{ type: 'null' }, { type: 'number' }] },
      dryRun: { anyOf: [{ type: 'null' }, { type: 'boolean' }] },
      limit: { type: 'integer' },
      owner: { type: 'string' }
    }
  }
  for (const input of [{ offset: 0, dryRun: false }, { offset: null, dryRun: null }, { limit: 3 }, {}]) {
    it(`${JSON.stringify(input)} arrives as sent`, async (t) => {
      const { body } = await invoke(await start(t, parameters), 'subject', input)
      assert.deepEqual(body.structuredContent, input)
    })
  }
  it('3.0 is an integer', async (t) => {
    const answer = await post(await start(t, parameters), '{"input":{"limit":3.0}}', json, 'subject')
    assert.deepEqual([answer.status, answer.body.structuredContent], [200, { limit: 3 }])
  })
  for (const [input, path] of [[{ limit: '7' }, '/limit'], [{ limit: true }, '/limit'], [{ limit: null }, '/limit'], [{ owner: 5 }, '/owner'], [{ other: 1 }, '']] as const) {
    it(`${JSON.stringify(input)} is refused at ${path === '' ? 'the root' : path}`, async (t) => {
      const answer = await invoke(await start(t, parameters), 'subject', input)
      assert.deepEqual([answer.status, answer.body.invocation.errorCode], [422, 'invalid_input'])
      // Where an extra key stands is a matter of taste; that its object is named is not.
      assert.ok(faultPaths(answer).every((found: string) => path === '' ? /^(\/other)?$/.test(found) : found === path), faultPaths(answer))
    })
  }
  it('a default fills nothing in', async (t) => {
    const { body } = await invoke(await start(t, { type: 'object', properties: { a: { type: 'integer', default: 5 } } }), 'subject', {})
    assert.deepEqual(body.structuredContent, {})
  })
})

describe('trap 3: references in schemas', () => {
  const branch = { type: 'object', properties: { name: { type: 'string' }, kids: { type: 'array', items: { $ref: '#/$defs/Branch' } } }, required: ['name'] }
  const recursive = { type: 'object', properties: { root: { $ref: '#/$defs/Branch' } }, $defs: { Branch: branch } }
  const tree = (leaf: unknown) => ({ root: { name: 'a', kids: [{ name: 'b', kids: [leaf] }] } })
  const works: Record<string, { parameters: object, good: unknown, bad: unknown, path: string }> = {
    'recursive $defs': { parameters: recursive, good: tree({ name: 'c' }), bad: tree({ name: 1 }), path: '/root/kids/0/kids/0/name' },
    definitions: {
      parameters: { $schema: 'http://json-schema.org/draft-07/schema#', type: 'object', properties: { a: { $ref: '#/definitions/A' } }, definitions: { A: { type: 'integer' } } },
      good: { a: 1 }, bad: { a: 'x' }, path: '/a'
    },
    'a neighbour by pointer': { parameters: { type: 'object', properties: { a: { type: 'integer' }, b: { $ref: '#/properties/a' } } }, good: { b: 1 }, bad: { b: 'x' }, path: '/b' },
    'the root itself': { parameters: { type: 'object', properties: { next: { $ref: '#' } }, additionalProperties: false }, good: { next: { next: {} } }, bad: { next: { next: 1 } }, path: '/next/next' }
  }
  for (const [name, { parameters, good, bad, path }] of Object.entries(works)) {
    it(`${name}: listed, enforced in input, with the fault's path`, async (t) => {
      const gateway = await start(t, parameters)
      const { body } = await send(`${gateway.url}/tools`)
      assert.deepEqual(body.tools[0].parameters, parameters)
      assert.deepEqual((await invoke(gateway, 'subject', good)).body.structuredContent, good)
      const answer = await invoke(gateway, 'subject', bad)
      assert.equal(answer.status, 422)
      assert.deepEqual(faultPaths(answer), [path])
    })
    it(`${name}: enforced in output`, async (t) => {
      const gateway = await start(t, {}, { outputSchema: parameters })
      assert.deepEqual((await invoke(gateway, 'subject', good)).body.structuredContent, good)
      const answer = await invoke(gateway, 'subject', bad)
      assert.equal(answer.body.invocation.errorCode, 'invalid_output')
      assert.deepEqual(faultPaths(answer), [path])
    })
  }
  it('a fault of a whole branch deep inside is told with the path of that branch', async (t) => {
    const answer = await invoke(await start(t, recursive), 'subject', tree('leaf'))
    assert.deepEqual(faultPaths(answer), ['/root/kids/0/kids/0'])
  })
  for (const [name, $ref] of [['dangling', '#/$defs/Nowhere'], ['remote', 'https://schemas.invalid/tool.json']] as const) {
    it(`a ${name} reference refuses that tool, with its id, and fetches nothing`, async (t) => {
      const fetched = t.mock.method(globalThis, 'fetch')
      for (const place of [{ parameters: { $ref } }, { outputSchema: { properties: { a: { $ref } } } }]) {
        assert.throws(() => new ToolRegistry().register(tool('subject', () => ({}), place)), { code: 'invalid_tool', message: /subject/ })
      }
      assert.equal(fetched.mock.callCount(), 0)
    })
  }
})

describe('trap 4: depth of input', () => {
  for (const depth of [101, 500, 3000, 20_000]) {
    it(`${depth} levels are refused with the limit named, and no call begins`, async (t) => {
      const { gateway, assertNoCall } = await startWatched(t)
      const answer = await post(gateway, `{"input":${nested(depth)}}`)
      assertProblem(answer, 400, 'too_deep')
      assert.match(answer.body.detail, /\b10[01]\b/)
      await assertNoCall()
    })
  }
  it('100 levels go the whole way', async (t) => {
    const { gateway, listener } = await startWatched(t)
    for (const input of [nested(100), '{"a":'.repeat(100) + '1' + '}'.repeat(100)]) {
      const { body } = await post(gateway, `{"input":${input}}`)
      assert.equal(JSON.stringify(body.structuredContent), input)
      assert.equal(JSON.stringify((await listener.endOf(body.invocation.invocationId)).result.structuredContent), input)
    }
  })
  it('brackets in strings are no depth', async (t) => {
    const { gateway } = await startWatched(t)
    assert.equal((await invoke(gateway, 'echo', '[{'.repeat(5000))).status, 200)
  })
})

describe('trap 5: dialects', () => {
  const newer = { prefixItems: [{ type: 'string' }, { type: 'integer' }], items: false }
  const older = { items: [{ type: 'string' }, { type: 'integer' }], additionalItems: false }
  const in2020 = { $schema: 'https://json-schema.org/draft/2020-12/schema' }
  const in07 = { $schema: 'http://json-schema.org/draft-07/schema#' }
  const schemas = { newer, older, 'newer as 2020-12': { ...in2020, ...newer }, 'older as draft-07': { ...in07, ...older }, 'newer as draft-07': { ...in07, ...newer }, 'older as 2020-12': { ...in2020, ...older } }
  const enforced = new Set(['newer', 'newer as 2020-12', 'older as draft-07'])
  for (const [name, schema] of Object.entries(schemas)) {
    it(`a tuple written ${name} is enforced or refused, never ignored`, async (t) => {
      const parameters = { ...schema, type: 'array' }
      const registered = (() => {
        try {
          return new ToolRegistry().register(taking(parameters))
        } catch (error) {
          assert.equal((error as { code: string }).code, 'invalid_tool')
          return undefined
        }
      })()
      if (enforced.has(name)) assert.ok(registered, 'its own dialect must be taken')
      if (registered === undefined) return
      const gateway = await startGateway(t, { tools: registered })
      assert.equal((await invoke(gateway, 'subject', ['a', 1])).status, 200)
      for (const input of [[1, 'a'], ['a', 1, 2]]) assert.equal((await invoke(gateway, 'subject', input)).status, 422, JSON.stringify(input))
    })
  }
})

describe('trap 13: odd ids in the path', () => {
  const ids = { constructor: 'constructor', __proto__: '__proto__', 'an empty id': '', '%': '%', '%00': '%00', traversal: '..%2f..%2fevents', 'a bad escape': '%E0%A4%A', spaces: '%20', '5,000 characters': 'x'.repeat(5000) }
  for (const [name, id] of Object.entries(ids).concat([['__proto__', '__proto__']])) {
    it(`${name} is a problem of the caller, and no event`, async (t) => {
      const { gateway, assertNoCall } = await startWatched(t)
      for (const [method, path] of [['POST', `/tools/${id}/invoke`], ['GET', `/tools/${id}`]] as const) {
        if (id === '' && method === 'GET') continue // the list
        const body = method === 'POST' ? '{}' : ''
        const text = await exchange(gateway.port, `${method} ${path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`)
        const answer = parseResponse(text)
        assert.ok(answer.status >= 400 && answer.status < 500, `${method} ${path.slice(0, 50)}: ${answer.status}`)
        assertProblem(answer, answer.status, JSON.parse(answer.body).code)
      }
      await assertNoCall()
    })
  }
  it('a required member named constructor is missing from {}', async (t) => {
    const gateway = await start(t, { type: 'object', required: ['constructor'] })
    assert.equal((await invoke(gateway, 'subject', {})).status, 422)
    assert.equal((await invoke(gateway, 'subject', { constructor: 'Acme' })).status, 200)
  })
})

describe('trap 15: the size limit', () => {
  const maxBodyBytes = 2000
  const bodyOf = (bytes: number) => `{"input":"${'x'.repeat(bytes - 12)}"}`
  const send15 = (port: number, body: string, chunked: boolean) => exchange(port, 'POST /tools/echo/invoke HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n' +
    (chunked ? `Transfer-Encoding: chunked\r\n\r\n${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n` : `Content-Length: ${body.length}\r\n\r\n${body}`))
  for (const chunked of [false, true]) {
    it(`${chunked ? 'chunked' : 'with Content-Length'}: at the limit it runs, one byte over is 413 with the limit in it, and no call begins`, async (t) => {
      const { gateway, listener, assertNoCall } = await startWatched(t, { maxBodyBytes })
      assert.equal(bodyOf(maxBodyBytes).length, maxBodyBytes)
      assertProblem(parseResponse(await send15(gateway.port, bodyOf(maxBodyBytes + 1), chunked)), 413, 'body_too_large')
      assert.match(await send15(gateway.port, bodyOf(maxBodyBytes + 1), chunked), /limit of 2000 bytes/)
      await assertNoCall()
      assert.equal(parseResponse(await send15(gateway.port, bodyOf(maxBodyBytes), chunked)).status, 200)
      assert.equal(listener.of('tool_execution_start').length, 2)
    })
  }
  it('the default is 1 MiB, to the byte', async (t) => {
    const { gateway } = await startWatched(t)
    assert.equal((await post(gateway, bodyOf(1024 * 1024))).status, 200)
    assertProblem(await post(gateway, bodyOf(1024 * 1024 + 1)), 413, 'body_too_large')
  })
  for (const chunked of [false, true]) {
    it(`who is still sending is told, too, and is not cut off before it hears (${chunked ? 'chunked' : 'with Content-Length'})`, async (t) => {
      const gateway = await startCli(t, ['--tools', 'tools'], {}, process.cwd())
      const bytes = Buffer.alloc(16 * 1024 * 1024, 32)
      for (let round = 0; round < 5; round++) {
        const init = chunked ? { body: new Blob([bytes]).stream(), duplex: 'half' } : { body: bytes }
        const answer = await send(`${gateway.url}/tools/get_status/invoke`, { method: 'POST', headers: json, ...init } as RequestInit)
        assertProblem(answer, 413, 'body_too_large')
      }
    })
  }
})

describe('trap 16: no body', () => {
  const runs: Record<string, [body: string | undefined, headers: Record<string, string>]> = {
    'no body': [undefined, {}], 'an empty body called JSON': ['', json], '{}': ['{}', json], '{"input":{}}': ['{"input":{}}', json]
  }
  for (const [name, [body, headers]] of Object.entries(runs)) {
    it(`${name} runs with {}`, async (t) => {
      const { gateway } = await startWatched(t)
      const answer = await post(gateway, body, headers)
      assert.deepEqual([answer.status, answer.body.structuredContent], [200, {}])
    })
  }
  for (const body of ['null', '[]', '"x"', '0', ' ', '{"input":1,"extra":1}', '{"timeoutMs":0}', '{"timeoutMs":"5"}', '{"toolCallId":""}', '{"runId":7}']) {
    it(`${JSON.stringify(body)} is 400, and no call begins`, async (t) => {
      const { gateway, assertNoCall } = await startWatched(t)
      const answer = await post(gateway, body)
      assertProblem(answer, 400, body === ' ' ? 'malformed_json' : 'invalid_request')
      await assertNoCall()
    })
  }
  it('input null is null, not {}', async (t) => {
    const { gateway } = await startWatched(t)
    assert.equal((await post(gateway, '{"input":null}')).body.structuredContent, null)
  })
})

describe('trap 17: poisoned keys', () => {
  const poisoned = [
    '{"input":{"__proto__":{"isAdmin":true}}}', '{"input":{"a":[{"__proto__":{"isAdmin":true}}]}}', '{"input":{"constructor":{"prototype":{"x":1}}}}',
    '{"__proto__":{"input":1}}', String.raw`{"input":{"\u005f_proto__":{"isAdmin":true}}}`, '{"input":{"__proto__":null}}'
  ]
  for (const body of poisoned) {
    it(`${body} is 400, and no call begins`, async (t) => {
      const { gateway, assertNoCall } = await startWatched(t)
      assertProblem(await post(gateway, body), 400, 'forbidden_key')
      assert.equal(({} as any).isAdmin, undefined)
      await assertNoCall()
    })
  }
  for (const input of ['__proto__', { constructor: 'Acme' }, { prototype: 1 }, ['constructor', 'prototype'], { constructor: { name: 'x' } }]) {
    it(`${JSON.stringify(input)} is fine`, async (t) => {
      const { gateway } = await startWatched(t)
      assert.deepEqual((await invoke(gateway, 'echo', input)).body.structuredContent, input)
    })
  }
})

describe('numbers that JSON cannot carry exactly', () => {
  for (const number of ['9007199254740993', '-9007199254740993', '12345678901234567890', '1e400', '-1e400', '1e-400']) {
    it(`${number} is 400, and no call begins`, async (t) => {
      const { gateway, assertNoCall } = await startWatched(t)
      assertProblem(await post(gateway, `{"input":{"n":[${number}]}}`), 400, 'number_not_exact')
      await assertNoCall()
    })
  }
  for (const number of ['9007199254740991', '0.1', '1e21', '-0', '1.7976931348623157e308', '3.141592653589793']) {
    it(`${number} is fine`, async (t) => {
      const { gateway } = await startWatched(t)
      const { body } = await post(gateway, `{"input":{"n":${number}}}`)
      assert.equal(body.structuredContent.n, Number(number) + 0)
    })
  }
  it('digits in a string are fine', async (t) => {
    const { gateway } = await startWatched(t)
    assert.equal((await invoke(gateway, 'echo', '12345678901234567890')).body.structuredContent, '12345678901234567890')
  })
})
