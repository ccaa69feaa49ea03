import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { assertProblem, echo, exchange, invoke, parseResponse, send, startGateway, tool } from './harness.ts'
import { openStream } from './sse-client.ts'

const apiKey = 'correct-horse-battery-staple'
const key = { authorization: `Bearer ${apiKey}` }
const origin = 'https://app.example'
const json = { 'content-type': 'application/json' }

const routes: [method: string, path: string][] = [
  ['GET', '/tools'], ['HEAD', '/tools'], ['GET', '/tools/echo'], ['GET', '/tools/nobody'], ['POST', '/tools/echo/invoke'], ['POST', '/tools/nobody/invoke'],
  ['GET', '/events'], ['HEAD', '/events'], ['GET', '/nowhere'], ['POST', '/nowhere'], ['DELETE', '/tools'], ['OPTIONS', '/tools'], ['GET', '/'], ['PUT', '/livez']
]

describe('the key', () => {
  for (const [method, path] of routes) {
    it(`${method} ${path} without it: 401 with a challenge, and nothing runs`, async (t) => {
      const gateway = await startGateway(t, { tools: [echo], apiKey })
      for (const headers of [{}, { authorization: 'Bearer wrong-horse-battery-staple' }, { authorization: `Basic ${apiKey}` }, { authorization: apiKey }, { authorization: `Bearer ${apiKey} ${apiKey}` }, { authorization: 'Bearer ' }]) {
        const answer = await send(gateway.url + path, { method, headers: { ...json, ...headers }, ...(method === 'POST' ? { body: '{}' } : {}) })
        assert.match(answer.headers.get('www-authenticate') ?? 'none', /^Bearer/)
        if (method === 'HEAD') assert.equal(answer.status, 401)
        else assertProblem(answer, 401, 'unauthorized')
        assert.doesNotMatch(answer.text, /horse/)
      }
      assert.equal(gateway.app.toolgate.store.head, 0)
    })
  }

  for (const path of ['/livez', '/readyz']) {
    it(`${path} is open to all`, async (t) => {
      const gateway = await startGateway(t, { tools: [echo], apiKey })
      for (const method of ['GET', 'HEAD']) assert.equal((await send(gateway.url + path, { method })).status, 200)
      assert.equal((await send(gateway.url + path, { headers: { authorization: 'Bearer wrong' } })).status, 200)
    })
  }

  it('the right one opens all of it', async (t) => {
    const gateway = await startGateway(t, { tools: [echo], apiKey })
    assert.equal((await send(`${gateway.url}/tools`, { headers: key })).status, 200)
    assert.equal((await invoke(gateway, 'echo', 1, { headers: key })).status, 200)
    assert.equal((await invoke(gateway, 'echo', 1, { headers: { authorization: `bearer  ${apiKey}` } })).status, 200)
    assert.equal((await openStream(t, gateway.url, { headers: key })).status, 200)
    assertProblem(await send(`${gateway.url}/nowhere`, { headers: key }), 404, 'not_found')
  })

  it('tools and hooks are told who calls', async (t) => {
    const seen: string[] = []
    const whoami = tool('whoami', (...args) => ({ structuredContent: args[4].principal.id }))
    const hooks = { beforeToolCall: ({ principal }: any) => { seen.push(principal.id) } }
    const guarded = await startGateway(t, { tools: [whoami], hooks, apiKey })
    const open = await startGateway(t, { tools: [whoami], hooks })
    assert.equal((await invoke(guarded, 'whoami', 1, { headers: key })).body.structuredContent, 'api-key')
    assert.equal((await invoke(open, 'whoami')).body.structuredContent, 'anonymous')
    assert.deepEqual(seen, ['api-key', 'anonymous'])
  })
})

describe('trap 12: other origins', () => {
  const start = (t: any, more: object = {}) => startGateway(t, { tools: [echo, tool('subject', () => ({})), tool('blocked', () => ({}))], apiKey, corsOrigins: [origin], maxBodyBytes: 1000, ...more })
  const allowed = (headers: Headers | Record<string, unknown>) => headers instanceof Headers ? headers.get('access-control-allow-origin') : headers['access-control-allow-origin']

  for (const path of ['/tools', '/tools/echo/invoke', '/events', '/events/tickets', '/invocations', '/audit', '/batch', '/nowhere']) {
    it(`a preflight of ${path} without a key is allowed`, async (t) => {
      const gateway = await start(t)
      const headers = { origin, 'access-control-request-method': 'POST', 'access-control-request-headers': 'authorization,content-type,last-event-id' }
      const answer = await send(gateway.url + path, { method: 'OPTIONS', headers })
      assert.equal(answer.status, 204)
      assert.equal(allowed(answer.headers), origin)
      assert.match(answer.headers.get('access-control-allow-methods')!, /POST/)
      for (const name of ['authorization', 'content-type', 'last-event-id']) assert.ok(answer.headers.get('access-control-allow-headers')!.includes(name), name)
    })
  }

  it('an OPTIONS that is no preflight is a problem, not plain text', async (t) => {
    const gateway = await start(t)
    const answer = await send(`${gateway.url}/tools`, { method: 'OPTIONS', headers: { origin } })
    assert.equal(allowed(answer.headers), origin)
    if (answer.status >= 400) assertProblem(answer, answer.status, answer.body?.code)
  })

  it('a preflight that asks for a private network gets no word of it: that is between a browser and its user', async (t) => {
    const headers = { origin, 'access-control-request-method': 'POST', 'access-control-request-private-network': 'true' }
    const answer = await send(`${(await start(t)).url}/tools`, { method: 'OPTIONS', headers })
    assert.deepEqual([answer.status, allowed(answer.headers), [...answer.headers.keys()].filter((name) => name.includes('network'))], [204, origin, []])
  })

  it('the stream carries the headers', async (t) => {
    const stream = await openStream(t, (await start(t)).url, { headers: { origin, ...key } })
    assert.deepEqual([stream.status, allowed(stream.headers)], [200, origin])
    assert.match(String(stream.headers.vary), /origin/i)
  })

  it('so does one that a ticket opened, and its refusal', async (t) => {
    const { url } = await start(t)
    const { ticket } = (await send(`${url}/events/tickets`, { method: 'POST', headers: { origin, ...key } })).body
    for (const status of [200, 401]) {
      const stream = await openStream(t, url, { path: `/events?ticket=${ticket}`, headers: { origin } })
      assert.deepEqual([stream.status, allowed(stream.headers)], [status, origin])
    }
  })

  it('so does the stream of a call, and HEAD /events, which ends', async (t) => {
    const gateway = await start(t)
    const own = await openStream(t, gateway.url, { path: '/tools/echo/invoke', method: 'POST', body: '{}', headers: { origin, ...key, accept: 'text/event-stream' } })
    assert.deepEqual([await own.closed(), allowed(own.headers)], ['ended', origin])
    const head = await send(`${gateway.url}/events`, { method: 'HEAD', headers: { origin, ...key } })
    assert.deepEqual([head.status, allowed(head.headers)], [200, origin])
  })

  const answers: Record<string, { path: string, init: RequestInit, status: number }> = {
    'a success': { path: '/tools/echo/invoke', init: { method: 'POST', headers: { ...json, ...key }, body: '{}' }, status: 200 },
    'a ticket': { path: '/events/tickets', init: { method: 'POST', headers: key }, status: 201 },
    'the audit list': { path: '/audit', init: { headers: key }, status: 200 },
    'a 304': { path: '/tools', init: { headers: { ...key, 'if-none-match': '*' } }, status: 304 },
    'a 401': { path: '/tools', init: {}, status: 401 },
    'a 401 of the stream': { path: '/events', init: {}, status: 401 },
    'a 401 of a ticket': { path: '/events/tickets', init: { method: 'POST' }, status: 401 },
    'a 401 of the audit list': { path: '/audit', init: {}, status: 401 },
    'a 403': { path: '/tools/blocked/invoke', init: { method: 'POST', headers: { ...json, ...key }, body: '{}' }, status: 403 },
    'a 404 of a route': { path: '/nowhere', init: { headers: key }, status: 404 },
    'a 404 of a tool': { path: '/tools/nobody/invoke', init: { method: 'POST', headers: { ...json, ...key }, body: '{}' }, status: 404 },
    'a 406': { path: '/events', init: { headers: { ...key, accept: 'text/html' } }, status: 406 },
    'a 413': { path: '/tools/echo/invoke', init: { method: 'POST', headers: { ...json, ...key }, body: `{"input":"${'x'.repeat(1000)}"}` }, status: 413 },
    'a 415': { path: '/tools/echo/invoke', init: { method: 'POST', headers: { ...key, 'content-type': 'text/plain' }, body: '{}' }, status: 415 },
    'a 500': { path: '/tools/subject/invoke', init: { method: 'POST', headers: { ...json, ...key }, body: '{}' }, status: 500 }
  }
  for (const [name, { path, init, status }] of Object.entries(answers)) {
    it(`${name} carries the headers`, async (t) => {
      const gateway = await start(t, {
        hooks: {
          beforeToolCall: ({ tool }: any) => {
            if (tool.id === 'subject') throw new Error('down')
            return tool.id === 'blocked' ? { block: true } : undefined
          }
        }
      })
      const answer = await send(gateway.url + path, { ...init, headers: { ...init.headers as Record<string, string>, origin } })
      assert.equal(answer.status, status)
      assert.equal(allowed(answer.headers), origin)
      for (const exposed of ['Toolgate-Invocation-Id', 'Toolgate-Status', 'Toolgate-Error-Code', 'Retry-After', 'ETag', 'WWW-Authenticate']) {
        assert.ok(answer.headers.get('access-control-expose-headers')!.includes(exposed), exposed)
      }
    })
  }

  it('a URL that cannot be read, and a name that is not ours, carry them as well', async (t) => {
    const gateway = await start(t, { allowedHosts: ['gateway.example'] })
    const bad = await send(`${gateway.url}/%E0%A4%A`, { headers: { origin } })
    assert.deepEqual([bad.status, allowed(bad.headers), bad.headers.get('vary')], [400, origin, 'Origin'])
    const other = await exchange(gateway.port, `GET /tools HTTP/1.1\r\nHost: evil.example\r\nOrigin: ${origin}\r\nConnection: close\r\n\r\n`)
    const { status, headers } = parseResponse(other)
    assert.deepEqual([status, allowed(headers)], [403, origin])
  })

  it('an origin that is not listed is not allowed', async (t) => {
    const gateway = await start(t)
    for (const other of ['https://evil.example', `${origin}.evil.example`, 'null']) {
      for (const path of ['/tools', '/%E0%A4%A']) assert.equal(allowed((await send(gateway.url + path, { headers: { ...key, origin: other } })).headers), null, other)
    }
  })

  it('* allows any origin', async (t) => {
    const gateway = await start(t, { corsOrigins: ['*'] })
    assert.equal(allowed((await send(`${gateway.url}/tools`, { headers: { ...key, origin: 'https://any.example' } })).headers), '*')
  })

  it('without origins configured nothing is allowed', async (t) => {
    const gateway = await start(t, { corsOrigins: [] })
    assert.equal(allowed((await send(`${gateway.url}/tools`, { headers: { ...key, origin } })).headers), null)
    assert.equal((await send(`${gateway.url}/tools`, { method: 'OPTIONS', headers: { origin, 'access-control-request-method': 'POST' } })).status, 401)
  })
})
