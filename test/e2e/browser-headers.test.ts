import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import { describe, it, type TestContext } from 'node:test'
import { createGateway, type GatewayOptions } from '../../src/gateway.ts'
import { browserHeaders } from '../../src/http/browser-headers.ts'
import { echo, exchange, invoke, parseResponse, send, startGateway, tool } from './harness.ts'
import { invokeAsStream, openStream } from './sse-client.ts'

const apiKey = 'correct-horse-battery-staple'
const key = { authorization: `Bearer ${apiKey}` }
const origin = 'https://app.example'
const json = { 'content-type': 'application/json' }

function assertHeaders (headers: Headers | NodeJS.Dict<string | string[]>): void {
  const has = headers instanceof Headers ? Object.fromEntries(headers) : headers
  assert.deepEqual(Object.fromEntries(Object.keys(browserHeaders).map((name) => [name, has[name]])), { ...browserHeaders })
  // In the clear it would be passed over; behind a proxy it would be a word about the proxy's name.
  assert.equal(has['strict-transport-security'], undefined)
}

describe('what browsers are told with every answer', () => {
  const start = (t: TestContext) => startGateway(t, {
    tools: [echo, tool('subject', () => ({}))],
    hooks: { beforeToolCall: ({ tool }) => { if (tool.id === 'subject') throw new Error('down') } },
    apiKey,
    corsOrigins: [origin],
    maxBodyBytes: 1000
  })
  const answers: Record<string, { path: string, init?: RequestInit, status: number }> = {
    'a list': { path: '/tools', init: { headers: key }, status: 200 },
    'a HEAD': { path: '/tools', init: { method: 'HEAD', headers: key }, status: 200 },
    'a probe': { path: '/livez', status: 200 },
    'a result': { path: '/tools/echo/invoke', init: { method: 'POST', headers: { ...json, ...key }, body: '{}' }, status: 200 },
    'a ticket': { path: '/events/tickets', init: { method: 'POST', headers: key }, status: 201 },
    'a 202': { path: '/tools/echo/invoke', init: { method: 'POST', headers: { ...json, ...key, prefer: 'respond-async' }, body: '{}' }, status: 202 },
    'a preflight': { path: '/tools', init: { method: 'OPTIONS', headers: { origin, 'access-control-request-method': 'POST' } }, status: 204 },
    'a 304': { path: '/tools', init: { headers: { ...key, 'if-none-match': '*' } }, status: 304 },
    'a URL that cannot be read': { path: '/%E0%A4%A', status: 400 },
    'a 401': { path: '/events', status: 401 },
    'a 404 of a route': { path: '/nowhere', init: { headers: key }, status: 404 },
    'a 404 of a tool': { path: '/tools/nobody', init: { headers: key }, status: 404 },
    'a 405': { path: '/tools', init: { method: 'DELETE', headers: key }, status: 405 },
    'a 413': { path: '/tools/echo/invoke', init: { method: 'POST', headers: { ...json, ...key }, body: `{"input":"${'x'.repeat(1000)}"}` }, status: 413 },
    'a 415': { path: '/tools/echo/invoke', init: { method: 'POST', headers: { ...key, 'content-type': 'text/plain' }, body: '{}' }, status: 415 },
    'a 500': { path: '/tools/subject/invoke', init: { method: 'POST', headers: { ...json, ...key }, body: '{}' }, status: 500 }
  }
  for (const [name, { path, init, status }] of Object.entries(answers)) {
    it(`${name}: ${status}`, async (t) => {
      const answer = await send((await start(t)).url + path, init)
      assert.equal(answer.status, status)
      assertHeaders(answer.headers)
    })
  }

  it('streams, whole and of one call', async (t) => {
    const { url } = await startGateway(t, { tools: [echo] })
    const [all, one] = [await openStream(t, url), await invokeAsStream(t, url, 'echo')]
    for (const { status, headers } of [all, one]) {
      assert.deepEqual([status, headers['content-type']], [200, 'text/event-stream'])
      assertHeaders(headers)
    }
  })

  for (const [name, bytes, status] of [
    ['bytes that are no request', 'hello\r\n\r\n', 400],
    ['headers over the limit', `GET /tools HTTP/1.1\r\nHost: localhost\r\nCookie: ${'x'.repeat(20_000)}\r\n\r\n`, 431],
    ['an expectation that nobody meets', 'GET /tools HTTP/1.1\r\nHost: localhost\r\nExpect: miracles\r\nConnection: close\r\n\r\n', 417]
  ] as const) {
    it(`${name}: ${status}`, async (t) => {
      const answer = parseResponse(await exchange((await startGateway(t)).port, bytes))
      assert.equal(answer.status, status)
      assertHeaders(answer.headers)
    })
  }

  it('a route that serves pages can say otherwise for itself', async (t) => {
    const policy = "default-src 'self'"
    const app = createGateway({ logger: false })
    t.after(() => app.close())
    app.get('/page', { config: { open: true } }, (_request, reply) => reply.header('content-security-policy', policy).type('text/html').send('<p>'))
    const { headers } = await app.inject('/page')
    assert.deepEqual([headers['content-security-policy'], headers['x-content-type-options']], [policy, 'nosniff'])
    assertHeaders((await app.inject('/livez')).headers as Record<string, string>)
  })
})

describe('no answer says what serves it', () => {
  const versionOf = (name: string): string => JSON.parse(readFileSync(new URL(`../../${name}/package.json`, import.meta.url), 'utf8')).version
  const versions = [versionOf('.'), versionOf('node_modules/fastify'), process.versions.node, process.versions.llhttp!]
  function assertSilent (head: string, what: string): void {
    assert.match(head, /content-length|transfer-encoding|connection/i, 'there are headers to look at')
    assert.doesNotMatch(head, /^(server|x-powered-by|via|x-.*version):/im, what)
    assert.doesNotMatch(head, /fastify|node\.?js|llhttp/i, what)
    for (const version of versions) assert.ok(!head.includes(version), `${what} has ${version}`)
  }

  async function withRoutes (t: TestContext, options: GatewayOptions): Promise<{ port: number, routes: string[] }> {
    const routes: string[] = []
    const app = createGateway({ logger: false, tools: [echo], ...options })
    app.addHook('onRoute', ({ method, url }) => { for (const each of [method].flat()) routes.push(`${each} ${url.replace(/:\w+/g, 'echo')}`) })
    t.after(() => {
      app.server.closeAllConnections()
      return app.close()
    })
    await app.listen({ port: 0, host: '127.0.0.1' })
    return { port: (app.server.address() as AddressInfo).port, routes }
  }

  for (const [name, options] of [['with a key', { apiKey }], ['without one', {}], ['with CORS', { corsOrigins: [origin] }]] as [string, GatewayOptions][]) {
    it(`routes, ${name}`, async (t) => {
      const { port, routes } = await withRoutes(t, options)
      assert.ok(routes.length > 10, routes.join())
      for (const route of [...routes, 'GET /nowhere', 'TRACE /tools', 'GET /%', 'GET /events?x=1']) {
        const text = await exchange(port, `${route} HTTP/1.1\r\nHost: localhost\r\nOrigin: ${origin}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n`, (so) => so.includes('\r\n\r\n'))
        assertSilent(text, route)
      }
    })
  }

  for (const bytes of [
    'hello\r\n\r\n', 'GET /tools HTTP/1.1\r\nConnection: close\r\n\r\n', 'GET / HTTP/9.9\r\n\r\n', 'FROBNICATE / HTTP/1.1\r\nHost: localhost\r\n\r\n', 'GET / HTTP/1.1\r\nHost: localhost\r\nno colon\r\n\r\n',
    'GET /livez HTTP/1.0\r\n\r\n', `GET / HTTP/1.1\r\nHost: localhost\r\nCookie: ${'x'.repeat(20_000)}\r\n\r\n`, '\u0016\u0003\u0001\u0002\u0000', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n',
    'GET / HTTP/1.1\r\nHost: localhost\r\nExpect: miracles\r\nConnection: close\r\n\r\n', 'GET / HTTP/1.1\r\nHost: localhost\r\nConnection: upgrade, close\r\nUpgrade: h2c\r\n\r\n'
  ]) {
    it(`bytes: ${JSON.stringify(bytes.slice(0, 60))}`, async (t) => {
      assertSilent(await exchange((await startGateway(t)).port, bytes), 'the answer')
    })
  }

  it('bodies: probes, problems, lists', async (t) => {
    const gateway = await startGateway(t, { tools: [echo] })
    const texts = [await send(`${gateway.url}/readyz`), await send(`${gateway.url}/tools`), await send(`${gateway.url}/nowhere`), await invoke(gateway, 'none')].map(({ text }) => text)
    for (const version of versions) assert.ok(texts.every((text) => text.length > 10 && !text.includes(`"${version}"`)), version)
  })
})
