import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Type } from '@sinclair/typebox'
import { ConnectionError, createClient, OutputError, ProblemError, ProtocolError, ToolError } from '../../../src/client.ts'
import { echo, startGateway, tool } from '../../e2e/harness.ts'
import { module, serve } from '../../e2e/served-folder.ts'
import { atOnce, clientOf, httpProxy, rejection, rejections, serverOf } from './servers.ts'

describe('what a client is made of', () => {
  for (const url of ['', '127.0.0.1:8080', '/below', 'ftp://a.b', 'http://user:secret@a.b', 'http://a.b/?key=secret']) {
    it(`"${url}" is no URL of a gateway`, () => {
      assert.throws(() => createClient({ url }), (error: Error) => error instanceof TypeError && !error.message.includes('secret'))
    })
  }

  it('the key is a text, or what gives it, asked before each request', async (t) => {
    const gateway = await startGateway(t, { apiKey: 'k-2', tools: [echo] })
    assert.equal((await clientOf(gateway, { auth: 'k-2' }).tools()).length, 1)
    let asked = 0
    const client = clientOf(gateway, { auth: async () => `k-${++asked}` })
    const refused = await rejection(client.tools())
    assert.ok(refused instanceof ProblemError)
    assert.deepEqual([refused.code, refused.status], ['unauthorized', 401])
    assert.equal((await client.tools()).length, 1)
    assert.equal(asked, 2, 'a refused key is not tried again')
  })

  it('a wrong key, or none, is refused and runs nothing', async (t) => {
    let runs = 0
    const gateway = await startGateway(t, { apiKey: 'right', tools: [tool('count', () => { runs++ })] })
    for (const auth of ['wrong', undefined, '']) {
      const client = clientOf(gateway, { auth })
      for (const error of await rejections([client.invoke('count'), client.invokeAsync('count'), client.batch([{ toolId: 'count' }]), client.invocation('x'), client.invoke('count', 1, { onUpdate: () => {} })])) {
        assert.equal(error.code, 'unauthorized')
      }
    }
    assert.equal(runs, 0)
  })

  it('a key that no header can carry is not told to anybody', async (t) => {
    const gateway = await startGateway(t)
    for (const auth of ['sec\nret', 'secжret', 'sec ret']) {
      const error = await rejection(clientOf(gateway, { auth }).tools())
      assert.ok(error instanceof TypeError)
      assert.doesNotMatch(String(error.stack) + String(error.cause), /ret/)
    }
  })

  it('a function that gives none is told so, and no word is sent in its place', async (t) => {
    const server = await serverOf(t, (_request, response) => response.end())
    for (const none of [undefined, null, 5]) assert.ok(await rejection(clientOf(server, { auth: () => none as unknown as string }).tools()) instanceof TypeError)
    assert.equal(server.seen.length, 0)
  })

  it('what its function throws rejects', async (t) => {
    const gateway = await startGateway(t)
    const reason = new Error('no key today')
    assert.equal(await rejection(clientOf(gateway, { auth: () => { throw reason } }).tools()), reason)
  })

  it('a gateway below a path', async (t) => {
    const gateway = await startGateway(t, { tools: [echo] })
    const proxy = await httpProxy(t, gateway.url, { prefix: '/some/where' })
    for (const url of [`${proxy.url}/some/where`, `${proxy.url}/some/where/`]) {
      const client = clientOf({ url })
      assert.equal(client.url, url)
      assert.equal((await client.tool('echo')).id, 'echo')
      const { invocation } = await client.invoke('echo', 1)
      assert.equal((await client.invoke('echo', 2, { onUpdate: () => {} })).structuredContent, 2)
      assert.equal((await client.wait(invocation.invocationId)).structuredContent, 1)
      assert.equal((await client.batch([{ toolId: 'echo' }])).results.length, 1)
      assert.equal((await client.invocations()).invocations.length % 3, 0)
    }
    const error = await rejection(clientOf(proxy).tools())
    assert.ok(error instanceof ProtocolError)
    assert.equal(error.status, 404)
  })

  it('another fetch', async (t) => {
    const gateway = await startGateway(t, { tools: [echo] })
    const asked: string[] = []
    const client = clientOf(gateway, { fetch: (input, init) => { asked.push(`${init!.method} ${new URL(String(input)).pathname}`); return fetch(input, init) } })
    await client.tools()
    await client.invoke('echo')
    assert.deepEqual(asked, ['GET /tools', 'POST /tools/echo/invoke'])
  })

  it('a redirect is not followed: nobody else is given the input, or the key', async (t) => {
    const other = await serverOf(t, (_request, response) => response.end('{}'))
    for (const status of [301, 302, 303, 307, 308]) {
      const proxy = await serverOf(t, (_request, response) => response.writeHead(status, { location: `${other.url}/tools` }).end())
      const client = clientOf(proxy, { auth: 'secret' })
      for (const error of await rejections([client.tools(), client.invoke('echo', 1), client.invoke('echo', 1, { onUpdate: () => {} })])) {
        assert.ok(error instanceof ProtocolError)
        assert.equal(error.status, status)
        assert.ok(error.message.includes(other.url), error.message)
      }
    }
    assert.equal(other.seen.length, 0)
  })
})

describe('what a call says', () => {
  const seen: any[] = []
  const spy = tool('spy', (toolCallId: string, input: unknown, _signal: unknown, _onUpdate: unknown, context: any) => {
    seen.push({ toolCallId, input, runId: context.runId })
    return { structuredContent: input ?? null }
  })
  const traceparent = '00-0123456789abcdef0123456789abcdef-0123456789abcdef-01'
  const options = { toolCallId: 'c 1', runId: 'r/1', parentInvocationId: 'p?1', timeoutMs: 5000, traceparent }

  it('every option arrives, in each way to call', async (t) => {
    const gateway = await startGateway(t, { tools: [spy] })
    const client = clientOf(gateway)
    const { signal } = new AbortController()
    const calls = [
      client.invoke('spy', { a: 1 }, options).then(({ invocation }) => invocation),
      client.invoke('spy', { a: 1 }, { ...options, onUpdate: () => {} }).then(({ invocation }) => invocation),
      client.invoke('spy', { a: 1 }, { ...options, idempotencyKey: 'k', signal }).then(({ invocation }) => invocation),
      client.invokeAsync('spy', { a: 1 }, options)
    ]
    for (const invocation of await Promise.all(calls)) {
      const { toolCallId, runId, parentInvocationId, traceId, parentSpanId } = invocation
      assert.deepEqual({ toolCallId, runId, parentInvocationId, traceId, parentSpanId }, {
        toolCallId: 'c 1', runId: 'r/1', parentInvocationId: 'p?1', traceId: '0123456789abcdef0123456789abcdef', parentSpanId: '0123456789abcdef'
      })
    }
    assert.deepEqual(seen.splice(0).slice(0, 3), Array(3).fill({ toolCallId: 'c 1', input: { a: 1 }, runId: 'r/1' }))
  })

  it('a batch has the run, the trace and the mode', async (t) => {
    const gateway = await startGateway(t, { tools: [spy] })
    const { results } = await clientOf(gateway).batch([{ toolId: 'spy', toolCallId: 'x', timeoutMs: 1000 }], { runId: 'r', traceparent, mode: 'sequential' })
    const { invocation } = results[0] as any
    assert.deepEqual([invocation.runId, invocation.traceId, invocation.toolCallId], ['r', '0123456789abcdef0123456789abcdef', 'x'])
  })

  it('timeoutMs ends the call at the gateway, also where it is a stream', async (t) => {
    const gateway = await startGateway(t, { tools: [tool('slow', () => new Promise(() => {}))] })
    for (const more of [{}, { onUpdate: () => {} }]) {
      const error = await rejection(clientOf(gateway).invoke('slow', undefined, { timeoutMs: 30, ...more }))
      assert.ok(error instanceof ToolError)
      assert.equal(error.code, 'timeout')
    }
  })

  it('a key makes it the same call', async (t) => {
    let runs = 0
    const gateway = await startGateway(t, { tools: [tool('count', () => ({ structuredContent: ++runs }))] })
    const client = clientOf(gateway)
    const { signal } = new AbortController()
    const answers = [
      await client.invoke('count', 1, { idempotencyKey: 'key' }),
      await client.invoke('count', 1, { idempotencyKey: 'key', signal }),
      await client.invoke('count', 1, { idempotencyKey: 'key', onUpdate: () => {} })
    ]
    assert.deepEqual(answers.map(({ structuredContent }) => structuredContent), [1, 1, 1])
    assert.equal((await client.invokeAsync('count', 1, { idempotencyKey: 'key' })).invocationId, answers[0]!.invocation.invocationId)
    assert.equal((await rejection(client.invoke('count', 2, { idempotencyKey: 'key' }))).code, 'idempotency_key_reused')
  })

  it('no input is {}', async (t) => {
    const gateway = await startGateway(t, { tools: [echo] })
    const client = clientOf(gateway)
    assert.deepEqual((await client.invoke('echo')).structuredContent, {})
    assert.equal((await client.invoke('echo', null)).structuredContent, null)
  })

  for (const [name, input] of [['NaN', { a: NaN }], ['an integer past 2^53', [2 ** 53 + 1]], ['a BigInt', 1n], ['a function', () => 1]] as const) {
    it(`${name} is refused before it is sent`, async (t) => {
      const server = await serverOf(t, (_request, response) => response.end())
      const client = clientOf(server)
      for (const error of await rejections([client.invoke('echo', input), client.invokeAsync('echo', input), client.batch([{ toolId: 'echo', input: input as any }])])) {
        assert.ok(error instanceof TypeError)
      }
      assert.equal(server.seen.length, 0)
    })
  }

  it('every JSON comes back as it was', async (t) => {
    const gateway = await startGateway(t, { tools: [echo] })
    const client = clientOf(gateway)
    const values = [null, 0, '', false, [], {}, 'e\u0301\u2028\ud83d\ude00\ud800', [[[1.5e300]]], { 'a/b': { '': [null] } }, 9007199254740991]
    for (const value of values) {
      assert.deepEqual((await client.invoke('echo', value)).structuredContent, value)
      assert.deepEqual((await client.invoke('echo', value, { onUpdate: () => {} })).structuredContent, value)
    }
  })

  it('ids with odd characters are one part of the path, and known to nobody', async (t) => {
    const gateway = await startGateway(t, { tools: [echo] })
    const client = clientOf(gateway)
    for (const id of ['echo/invoke', 'echo?x=1', 'echo#', 'é', '%2e%2e', 'a b', '\ud800', '...', 'constructor', '__proto__']) {
      for (const error of await rejections([client.invoke(id), client.tool(id), client.invokeAsync(id), client.invoke(id, 1, { onUpdate: () => {} })])) {
        assert.deepEqual([id, error.code], [id, 'unknown_tool'])
      }
      for (const error of await rejections([client.wait(id), client.invocation(id), client.cancel(id)])) assert.equal(error.code, 'unknown_invocation')
    }
    for (const id of ['', '.', '..']) {
      for (const error of await rejections([client.invoke(id), client.tool(id), client.invocation(id), client.cancel(id), client.wait(id)])) {
        assert.ok(error instanceof TypeError)
      }
    }
  })

  it('an idempotency key that no header can carry is refused before it is sent', async (t) => {
    const gateway = await startGateway(t, { tools: [echo] })
    assert.ok(await rejection(clientOf(gateway).invoke('echo', 1, { idempotencyKey: 'ключ' })) instanceof TypeError)
  })

  it('what the gateway refuses is its problem, with every fault', async (t) => {
    const gateway = await startGateway(t, { tools: [echo] })
    const client = clientOf(gateway)
    const error = await rejection(client.invoke('echo', 1, { timeoutMs: -1, runId: '' }))
    assert.ok(error instanceof ProblemError)
    assert.deepEqual([error.code, error.status, error.message], ['invalid_request', 400, error.problem.detail])
    assert.deepEqual(error.problem.errors?.map(({ path }) => path).sort(), ['/runId', '/timeoutMs'])
    assert.equal((await rejection(client.invoke('echo', 'x'.repeat(3_000_000)))).code, 'body_too_large')
  })
})

describe('a schema given as output', () => {
  it('that cannot be used is refused before anything is run', async (t) => {
    const server = await serverOf(t, (_request, response) => response.end())
    const client = clientOf(server)
    const bad: [string, object, RegExp][] = [
      ['a $ref that leads nowhere', { properties: { a: { $ref: '#/$defs/none' } } }, /\$ref/],
      ['a $ref to somewhere else', { $ref: 'http://a.b/c' }, /\$ref/],
      ['a reference to itself', { $ref: '#' }, /itself/],
      ['a pattern that is none', { pattern: '(' }, /regular expression/],
      ['a draft that is not known', { $schema: 'http://json-schema.org/draft-04/schema#' }, /draft-04/],
      ['a schema of another kind', { '~standard': { version: 1 } }, /no JSON Schema/],
      ['a type that there is not', { type: 'nope' }, /\/type must hold a JSON type/],
      ['a rule that would hold nothing', { required: true }, /\/required must hold/],
      ['a Transform', Type.Transform(Type.String()).Decode(Number).Encode(String), /Transform/],
      ['no schema at all', 5 as unknown as object, /JSON Schema object/]
    ]
    for (const [name, output, reason] of bad) {
      for (const error of await rejections([client.invoke('echo', 1, { output }), client.wait('x', { output }), client.invoke('echo', 1, { output, throwOnError: false })])) {
        assert.ok(error instanceof TypeError, name)
        assert.match(error.message, reason)
      }
    }
    assert.equal(server.seen.length, 0)
  })

  it('holds a success to it, in draft-07 as well, with formats', async (t) => {
    const gateway = await startGateway(t, { tools: [echo] })
    const client = clientOf(gateway)
    const tuple = { $schema: 'http://json-schema.org/draft-07/schema#', type: 'array', items: [{ type: 'number' }], additionalItems: false }
    assert.deepEqual((await client.invoke('echo', [1], { output: tuple })).structuredContent, [1])
    assert.ok(await rejection(client.invoke('echo', [1, 2], { output: tuple })) instanceof OutputError)
    assert.ok(await rejection(client.invoke('echo', 'nobody', { output: { type: 'string', format: 'email' } })) instanceof OutputError)
    assert.equal((await client.invoke('echo', 'a@b.cd', { output: { type: 'string', format: 'email' } })).structuredContent, 'a@b.cd')
  })
})

/** A client, and the status of each of its answers. */
function noting (gateway: { url: string }) {
  const statuses: number[] = []
  const client = clientOf(gateway, {
    fetch: async (input, init) => {
      const response = await fetch(input, init)
      statuses.push(response.status)
      return response
    }
  })
  return { client, statuses }
}

describe('tools', () => {
  it('are asked for again only where they have changed', async (t) => {
    const gateway = await startGateway(t, { tools: [echo] })
    const { client, statuses } = noting(gateway)
    const first = await client.tools()
    first[0]!.description = 'changed by its reader'
    const second = await client.tools()
    assert.equal(second[0]!.description, 'echo')
    assert.deepEqual(statuses, [200, 304])
    assert.deepEqual(await client.tool('echo'), second[0])
  })

  it('after a reload they are the new ones, and so is what a call runs', async (t) => {
    const gateway = await serve(t, { 'a.mjs': module('a', '1') })
    const { client, statuses } = noting(gateway)
    const ids = async () => (await client.tools()).map(({ id }) => id)
    assert.deepEqual([await ids(), await ids()], [['a'], ['a']])
    await gateway.write({ 'a.mjs': module('a', '2'), 'b.mjs': module('b', '3') })
    await gateway.app.reloadTools()
    assert.deepEqual([await ids(), await ids()], [['a', 'b'], ['a', 'b']])
    assert.deepEqual(statuses, [200, 304, 200, 304])
    assert.equal((await client.invoke('a')).structuredContent, 2)
  })

  it('are asked for with the mark of those that it has', async (t) => {
    let version = 1
    const server = await serverOf(t, ({ headers }, response) => {
      const etag = `"${version}"`
      if (headers['if-none-match'] === etag) return response.writeHead(304).end()
      const described = { id: `tool-${version}`, label: '', description: '', kind: 'x', parameters: {}, executionMode: 'parallel', replay: 'never', inputMode: 'strict', timeoutMs: 1, source: '' }
      response.writeHead(200, { 'content-type': 'application/json', etag }).end(JSON.stringify({ tools: [described] }))
    })
    const client = clientOf(server)
    const ids = async () => (await client.tools()).map(({ id }) => id)
    assert.deepEqual([await ids(), await ids()], [['tool-1'], ['tool-1']])
    version = 2
    assert.deepEqual([await ids(), await ids()], [['tool-2'], ['tool-2']])
    assert.deepEqual(server.seen.map(({ headers }) => headers['if-none-match']), [undefined, '"1"', '"1"', '"2"'])
  })
})

describe('nobody there', () => {
  it('is unreachable, after as many tries as are set', async () => {
    for (const retries of [0, 2]) {
      let tries = 0
      const client = createClient({ url: 'http://127.0.0.1:1', retry: { ...atOnce, retries }, fetch: (input, init) => { tries++; return fetch(input, init) } })
      // A port that browsers, and Node, do not ask.
      assert.equal((await rejection(client.tools())).code, 'unreachable')
      assert.equal(tries, retries + 1)
    }
    const error = await rejection(createClient({ url: 'http://nowhere.invalid', retry: { retries: 0 } }).invoke('echo'))
    assert.ok(error instanceof ConnectionError)
    assert.equal(error.code, 'unreachable')
    assert.match(error.message, /nowhere\.invalid cannot be reached \((ENOTFOUND|EAI_AGAIN)\)/)
  })
})
