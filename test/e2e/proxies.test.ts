import assert from 'node:assert/strict'
import { describe, it, type TestContext } from 'node:test'
import { createGateway } from '../../src/gateway.ts'
import { assertProblem, echo, exchange, invoke, parseResponse, send, startGateway } from './harness.ts'

const apiKey = 'correct-horse-battery-staple'
const key = { authorization: `Bearer ${apiKey}` }

/** Where the refusal of a request without a key is logged to be from. */
async function addressLogged (t: TestContext, trustProxy: string[] | undefined, ...headers: string[]): Promise<string> {
  const lines: any[] = []
  const pass = () => {}
  const gateway = await startGateway(t, { tools: [echo], apiKey, ...trustProxy && { trustProxy }, logger: { debug: pass, info: pass, error: pass, warn: (line) => { lines.push(line) } } })
  const text = await exchange(gateway.port, ['GET /tools HTTP/1.1', 'Host: localhost', ...headers, 'Connection: close', '', ''].join('\r\n'))
  assert.equal(parseResponse(text).status, 401)
  assert.equal(lines.length, 1)
  return lines[0].address
}

describe('what proxies say of a request', () => {
  const client = '203.0.113.7'
  const socket = '127.0.0.1'
  const cases: [what: string, trustProxy: string[] | undefined, headers: string[], address: string][] = [
    ['is nothing to us where nobody is trusted', undefined, [`X-Forwarded-For: ${client}`, `X-Real-IP: ${client}`, `Forwarded: for=${client}`], socket],
    ['is nothing where it comes from somebody else', ['10.0.0.0/8'], [`X-Forwarded-For: ${client}`], socket],
    ['is where the client is, from one that is trusted', ['127.0.0.1'], [`X-Forwarded-For: ${client}`], client],
    ['also from a range', ['127.0.0.0/8'], ['X-Forwarded-For: 2001:db8::7'], '2001:db8::7'],
    ['also by the name of ranges', ['loopback', 'uniquelocal'], [`X-Forwarded-For: ${client}, 10.1.2.3`], client],
    ['counts from the last hop on, so that nobody makes an address up', ['loopback'], [`X-Forwarded-For: 198.51.100.1, ${client}`], client],
    ['in several lines is one list', ['loopback', '10.0.0.0/8'], [`X-Forwarded-For: ${client}`, 'X-Forwarded-For: 10.0.0.1'], client],
    ['that is no address is passed over', ['loopback'], ['X-Forwarded-For: unknown'], socket],
    ['that is garbage is passed over', ['loopback'], [`X-Forwarded-For: ${client}, ,,\t"x",<y> , \u009b31m`], socket],
    ['that is empty is passed over', ['loopback'], ['X-Forwarded-For: '], socket],
    ['that is very long is passed over', ['loopback'], [`X-Forwarded-For: ${'9'.repeat(10_000)}`], socket],
    ['in other headers is nothing in any case', ['loopback'], [`X-Real-IP: ${client}`, `Forwarded: for=${client}`], socket]
  ]
  for (const [what, trustProxy, headers, address] of cases) {
    it(what, async (t) => assert.equal(await addressLogged(t, trustProxy, ...headers), address))
  }

  it('changes nothing else: Location, the Host that is looked at, who may call', async (t) => {
    const forwarded = { 'x-forwarded-host': 'evil.example', 'x-forwarded-proto': 'https', 'x-forwarded-port': '1', 'x-forwarded-prefix': '/evil', 'x-forwarded-for': '127.0.0.1' }
    const gateway = await startGateway(t, { tools: [echo], apiKey, trustProxy: ['loopback'], allowedHosts: ['gateway.example'] })
    const accepted = await invoke(gateway, 'echo', 1, { headers: { ...key, ...forwarded, prefer: 'respond-async' } })
    assert.deepEqual([accepted.status, accepted.headers.get('location')], [202, `/invocations/${accepted.body.invocation.invocationId}`])
    assertProblem(await send(`${gateway.url}/tools`, { headers: forwarded }), 401, 'unauthorized')
    const lied = await exchange(gateway.port, `GET /tools HTTP/1.1\r\nHost: evil.example\r\nX-Forwarded-Host: gateway.example\r\nAuthorization: Bearer ${apiKey}\r\nConnection: close\r\n\r\n`)
    assertProblem(parseResponse(lied), 403, 'forbidden')
  })

  it('is not taken from everybody by mistake: an empty list is none', async (t) => {
    const app = createGateway({ logger: false, trustProxy: [] })
    t.after(() => app.close())
    app.get('/ip', { config: { open: true } }, async (request) => ({ ip: request.ip }))
    assert.deepEqual((await app.inject({ url: '/ip', headers: { 'x-forwarded-for': client } })).json(), { ip: socket })
  })
})
