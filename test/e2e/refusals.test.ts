import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { assertProblem, echo, exchange, parseResponse, send, startGateway, type RunningGateway } from './harness.ts'
import { openStream } from './sse-client.ts'

const json = { 'content-type': 'application/json' }
const post = (headers: Record<string, string>, body: string | Buffer): RequestInit => ({ method: 'POST', headers, body })

/** Everything here is refused without an invocation, so nobody must hear of it. */
const refusals: Record<string, { path: string, init?: RequestInit, status: number, code: string, check?: (headers: Headers) => void }> = {
  'an unknown tool': { path: '/tools/nobody/invoke', init: post(json, '{}'), status: 404, code: 'unknown_tool' },
  'the description of an unknown tool': { path: '/tools/nobody', status: 404, code: 'unknown_tool' },
  'an unknown route': { path: '/nowhere', status: 404, code: 'not_found' },
  'a body for an unknown route': { path: '/nowhere', init: post(json, '{}'), status: 404, code: 'not_found' },
  'a method that a route does not take': {
    path: '/tools/echo/invoke', init: { method: 'GET' }, status: 405, code: 'method_not_allowed', check: (headers) => assert.equal(headers.get('allow'), 'POST')
  },
  'a POST to the list of tools': { path: '/tools', init: post(json, '{}'), status: 405, code: 'method_not_allowed', check: (headers) => assert.equal(headers.get('allow'), 'GET, HEAD') },
  'a DELETE of the stream': { path: '/events', init: { method: 'DELETE' }, status: 405, code: 'method_not_allowed' },
  'an Accept that neither answer meets': { path: '/tools/echo/invoke', init: post({ ...json, accept: 'text/html' }, '{}'), status: 406, code: 'not_acceptable' },
  'an Accept that the stream does not meet': { path: '/events', init: { headers: { accept: 'text/html' } }, status: 406, code: 'not_acceptable' },
  'a URL over the limit': { path: `/tools?${'x'.repeat(5000)}`, status: 414, code: 'url_too_long' },
  'JSON that is called plain text': { path: '/tools/echo/invoke', init: post({ 'content-type': 'text/plain' }, '{}'), status: 415, code: 'unsupported_media_type' },
  'JSON that is called a form': { path: '/tools/echo/invoke', init: post({ 'content-type': 'application/x-www-form-urlencoded' }, '{}'), status: 415, code: 'unsupported_media_type' },
  'JSON that is called nothing': { path: '/tools/echo/invoke', init: { method: 'POST', body: new Blob(['{}']) }, status: 415, code: 'unsupported_media_type' },
  'a body that is not JSON': { path: '/tools/echo/invoke', init: post(json, '{"input":'), status: 400, code: 'malformed_json' },
  'a body that is not UTF-8': { path: '/tools/echo/invoke', init: post(json, Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d])), status: 400, code: 'malformed_json' },
  'an empty key for idempotency': {
    path: '/tools/echo/invoke', init: post({ ...json, 'idempotency-key': '' }, '{}'), status: 400, code: 'invalid_request'
  },
  'an unknown filter': { path: '/events?tool=echo', status: 400, code: 'invalid_request' },
  'a filter by a type that there is not': { path: '/events?type=tool_end', status: 400, code: 'invalid_request' },
  'a view that there is not': { path: '/events?view=tiny', status: 400, code: 'invalid_request' },
  'a bad escape in the URL': { path: '/%E0%A4%A', status: 400, code: 'invalid_request' }
}

describe('refusals are problems', () => {
  for (const [name, { path, init, status, code, check }] of Object.entries(refusals)) {
    it(`${name}: ${status} ${code}`, async (t) => {
      const gateway = await startGateway(t, { tools: [echo] })
      const listener = await openStream(t, `${gateway.url}`)
      const answer = await send(gateway.url + path, init)
      assertProblem(answer, status, code)
      check?.(answer.headers)
      assert.equal(gateway.app.toolgate.store.head, 0, 'nothing on record')
      listener.destroy()
    })
  }

  it('the detail of an invalid body names each fault by its pointer', async (t) => {
    const gateway = await startGateway(t, { tools: [echo] })
    const { body } = await send(`${gateway.url}/tools/echo/invoke`, post(json, '{"timeoutMs":-1,"runId":5}'))
    assert.deepEqual(body.errors.map(({ path }: any) => path).sort(), ['/runId', '/timeoutMs'])
  })

  it('as many subscribers as there may be, and one more: 429 with Retry-After, and a place again once one has left', async (t) => {
    const gateway = await startGateway(t, { tools: [echo], maxSubscribers: 1 })
    const first = await openStream(t, gateway.url)
    const answer = await send(`${gateway.url}/events`)
    assertProblem(answer, 429, 'too_many_subscribers')
    assert.match(answer.headers.get('retry-after')!, /^\d+$/)
    first.destroy()
    await first.closed()
    while (gateway.app.toolgate.hub.size > 0) await new Promise(setImmediate)
    assert.equal((await openStream(t, gateway.url)).status, 200)
  })
})

describe('bytes that are hardly a request', () => {
  const cases: Record<string, { bytes: string, status: number, code?: string }> = {
    'no HTTP at all': { bytes: 'hello\r\n\r\n', status: 400, code: 'malformed_http' },
    'a header that is none': { bytes: 'GET /tools HTTP/1.1\r\nHost: localhost\r\nno colon here\r\n\r\n', status: 400, code: 'malformed_http' },
    'two ways to tell the length': { bytes: 'POST /tools/echo/invoke HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n{}', status: 400, code: 'malformed_http' },
    'a chunk without a size': {
      bytes: 'POST /tools/echo/invoke HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n', status: 400, code: 'malformed_http'
    },
    'a method that nobody knows': { bytes: 'FROBNICATE /tools HTTP/1.1\r\nHost: localhost\r\n\r\n', status: 400, code: 'malformed_http' },
    'headers over the limit': { bytes: `GET /tools HTTP/1.1\r\nHost: localhost\r\nCookie: ${'x'.repeat(20_000)}\r\n\r\n`, status: 431, code: 'headers_too_large' },
    'no Host': { bytes: 'GET /tools HTTP/1.1\r\nConnection: close\r\n\r\n', status: 400, code: 'malformed_http' },
    'a method that HTTP knows and we do not': { bytes: 'PURGE /tools HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n', status: 405, code: 'method_not_allowed' },
    'the same for a route that is not there': { bytes: 'PURGE /nowhere HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n', status: 404, code: 'not_found' },
    'an expectation that nobody meets': { bytes: 'GET /tools HTTP/1.1\r\nHost: localhost\r\nExpect: miracles\r\nConnection: close\r\n\r\n', status: 417 }
  }
  for (const [name, { bytes, status, code }] of Object.entries(cases)) {
    it(`${name}: ${status}${code === undefined ? '' : ` ${code}`}`, async (t) => {
      const gateway = await startGateway(t, { tools: [echo] })
      const answer = parseResponse(await exchange(gateway.port, bytes))
      assert.match(answer.headers['content-type'] ?? 'no content type', /^application\/problem\+json/)
      assertProblem(answer, status, code ?? JSON.parse(answer.body).code)
      await assertAlive(gateway)
    })
  }
})

async function assertAlive (gateway: RunningGateway): Promise<void> {
  const { status } = await send(`${gateway.url}/tools/echo/invoke`, post(json, '{}'))
  assert.equal(status, 200)
}
