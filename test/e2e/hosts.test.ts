import assert from 'node:assert/strict'
import type { AddressInfo } from 'node:net'
import { describe, it, type TestContext } from 'node:test'
import { createGateway, type GatewayOptions } from '../../src/gateway.ts'
import { assertProblem, echo, exchange, parseResponse, startGateway } from './harness.ts'

const apiKey = 'correct-horse-battery-staple'
const ask = (request: string, ...headers: string[]) => [`${request} HTTP/1.1`, ...headers, 'Content-Length: 0', 'Connection: close', '', ''].join('\r\n')
const answered = async (port: number, bytes: string) => parseResponse(await exchange(port, bytes))

describe('pages of other origins, on loopback without a key', () => {
  const start = (t: TestContext, more: GatewayOptions = {}) => startGateway(t, { tools: [echo], corsOrigins: ['https://app.example'], ...more })
  const cases: Record<string, [headers: string[], status: number]> = {
    'no page at all': [['Host: 127.0.0.1'], 200],
    'the gateway\'s own': [['Host: localhost:8080', 'Origin: http://localhost:8080'], 200],
    'another one, even without a body': [['Host: localhost:8080', 'Origin: https://evil.example'], 403],
    'one that is configured': [['Host: localhost:8080', 'Origin: https://app.example'], 200],
    'one whose name resolves here': [['Host: evil.example:8080', 'Origin: http://evil.example:8080'], 403],
    'the same without an origin': [['Host: evil.example:8080'], 403],
    'no browser, by a name of its own for us': [['Host: gateway.internal', 'User-Agent: curl/8'], 403],
    'a proxy that says who was asked': [['Host: evil.example', 'X-Forwarded-Host: localhost', 'Forwarded: host=localhost'], 403]
  }
  for (const [name, [headers, status]] of Object.entries(cases)) {
    it(`${name}: ${status}`, async (t) => {
      const gateway = await start(t, { trustProxy: ['loopback'] })
      for (const request of ['POST /tools/echo/invoke', 'GET /tools', 'GET /events?lastEventId=earliest', 'POST /events/tickets', 'GET /audit']) {
        const text = await exchange(gateway.port, ask(request, ...headers), (so) => so.includes(': connected'))
        const answer = parseResponse(text)
        if (status === 403) assertProblem(answer, 403, 'forbidden')
        else assert.ok([200, 201].includes(answer.status), `${request}: ${answer.status}`)
      }
      assert.equal(gateway.app.toolgate.store.head > 0, status === 200, 'a tool was run, or none')
    })
  }

  it('a refusal says which setting would let it in', async (t) => {
    const gateway = await start(t)
    assert.match((await answered(gateway.port, ask('GET /tools', 'Host: gateway.internal'))).body, /TOOLGATE_ALLOWED_HOSTS/)
    assert.match((await answered(gateway.port, ask('GET /tools', 'Host: localhost', 'Origin: https://evil.example'))).body, /TOOLGATE_CORS_ORIGINS/)
  })

  it('HTTP/1.0 may come without a Host, HTTP/1.1 may not', async (t) => {
    const { port } = await start(t)
    assert.equal((await answered(port, 'GET /tools HTTP/1.0\r\n\r\n')).status, 200)
    assertProblem(await answered(port, ask('GET /tools')), 400, 'malformed_http')
    for (const origin of ['null', 'foo', 'https://evil.example']) assertProblem(await answered(port, `GET /tools HTTP/1.0\r\nOrigin: ${origin}\r\n\r\n`), 403, 'forbidden')
  })

  it('an IPv4 connection to a socket of both families is on loopback as well', async (t) => {
    const app = createGateway({ logger: false })
    t.after(() => app.close())
    await app.listen({ port: 0, host: '::' })
    const { port, address } = app.server.address() as AddressInfo
    if (address !== '::') return t.skip('no IPv6 here')
    assertProblem(await answered(port, ask('GET /tools', 'Host: evil.example')), 403, 'forbidden')
    assert.equal((await answered(port, ask('GET /tools', 'Host: localhost'))).status, 200)
  })

  it('probes answer by any name, but tell of tools only by one of ours', async (t) => {
    const { port } = await start(t)
    for (const path of ['/livez', '/readyz']) assert.equal((await answered(port, ask(`GET ${path}`, 'Host: 10.1.2.3:8080'))).status, 200)
    assert.doesNotMatch((await answered(port, ask('GET /readyz', 'Host: evil.example'))).body, /tools/)
    assert.doesNotMatch((await answered(port, ask('GET /readyz', 'Host: localhost', 'Origin: https://evil.example'))).body, /tools/)
    assert.match((await answered(port, ask('GET /readyz', 'Host: localhost'))).body, /"tools":\{"count":1/)
  })
})

describe('names that are set', () => {
  const key = `Authorization: Bearer ${apiKey}`

  it('hold with a key as well, before it is looked at; probes answer by any name', async (t) => {
    const { port } = await startGateway(t, { tools: [echo], apiKey, allowedHosts: ['gateway.example'] })
    assert.equal((await answered(port, ask('GET /tools', 'Host: gateway.example', key))).status, 200)
    for (const headers of [[key], []]) assertProblem(await answered(port, ask('GET /tools', 'Host: evil.example', 'X-Forwarded-Host: gateway.example', ...headers)), 403, 'forbidden')
    assertProblem(await answered(port, ask('GET /tools', 'Host: gateway.example')), 401, 'unauthorized')
    for (const path of ['/livez', '/readyz']) assert.equal((await answered(port, ask(`GET ${path}`, 'Host: 10.1.2.3'))).status, 200)
    assert.doesNotMatch((await answered(port, ask('GET /readyz', 'Host: 10.1.2.3', key))).body, /tools/)
  })

  it('let a proxy on this machine pass its own name on, without a key', async (t) => {
    const { port } = await startGateway(t, { tools: [echo], allowedHosts: ['gateway.example'] })
    assert.equal((await answered(port, ask('POST /tools/echo/invoke', 'Host: gateway.example', 'Origin: https://gateway.example'))).status, 200)
    assertProblem(await answered(port, ask('POST /tools/echo/invoke', 'Host: gateway.example', 'Origin: https://evil.example')), 403, 'forbidden')
  })

  it('with a key and no names, the key decides', async (t) => {
    const { port } = await startGateway(t, { tools: [echo], apiKey })
    assert.equal((await answered(port, ask('POST /tools/echo/invoke', 'Host: evil.example', 'Origin: https://evil.example', key))).status, 200)
  })
})
