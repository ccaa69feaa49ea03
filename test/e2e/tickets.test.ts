import assert from 'node:assert/strict'
import { describe, it, type TestContext } from 'node:test'
import { assertProblem, echo, invoke, send, startGateway, type RunningGateway } from './harness.ts'
import { openStream } from './sse-client.ts'
import { FakeClock } from '../conformance/fake-clock.ts'

const apiKey = 'correct-horse-battery-staple'
const key = { authorization: `Bearer ${apiKey}` }

const start = (t: TestContext, more: object = {}) => startGateway(t, { tools: [echo], apiKey, ...more })

async function ticketOf ({ url }: RunningGateway): Promise<string> {
  const { status, body, headers } = await send(`${url}/events/tickets`, { method: 'POST', headers: key })
  assert.deepEqual([status, Object.keys(body).sort(), headers.get('cache-control')], [201, ['expiresAtMs', 'ticket'], 'no-store'])
  return body.ticket
}

const withTicket = (ticket: string, more: Record<string, string> = {}) => `/events?${new URLSearchParams({ ticket, ...more })}`

describe('a ticket', () => {
  it('opens one stream, which resumes like any other', async (t) => {
    const gateway = await start(t)
    await invoke(gateway, 'echo', 1, { headers: key })
    const stream = await openStream(t, gateway.url, { path: withTicket(await ticketOf(gateway), { lastEventId: 'earliest', type: 'tool_execution_end' }) })
    assert.equal(stream.status, 200)
    await invoke(gateway, 'echo', 2, { headers: key })
    await stream.endOf((await invoke(gateway, 'echo', 3, { headers: key })).body.invocation.invocationId)
    assert.deepEqual(stream.ends.map(({ result }) => result.structuredContent), [1, 2, 3])
  })

  it('opens a page of events as well', async (t) => {
    const gateway = await start(t)
    const ticket = await ticketOf(gateway)
    assert.equal((await send(gateway.url + withTicket(ticket), { headers: { accept: 'application/json' } })).status, 200)
    assertProblem(await send(gateway.url + withTicket(ticket), { headers: { accept: 'application/json' } }), 401, 'unauthorized')
  })

  it('is used up by the first of many that come at once', async (t) => {
    const gateway = await start(t)
    for (let round = 0; round < 5; round++) {
      const path = withTicket(await ticketOf(gateway))
      const streams = await Promise.all(Array.from({ length: 5 }, () => openStream(t, gateway.url, { path })))
      assert.deepEqual(streams.map(({ status }) => status).sort(), [200, 401, 401, 401, 401])
    }
  })

  it('is refused once its time is over', async (t) => {
    const clock = new FakeClock()
    const gateway = await start(t, { clock, ticketLifeMs: 1000 })
    const [one, other] = [await ticketOf(gateway), await ticketOf(gateway)]
    clock.advance(999)
    assert.equal((await openStream(t, gateway.url, { path: withTicket(one) })).status, 200)
    clock.advance(1)
    const answer = await send(gateway.url + withTicket(other))
    assertProblem(answer, 401, 'unauthorized')
    assert.match(answer.headers.get('www-authenticate')!, /^Bearer .*error="invalid_token"/)
    assert.ok(!answer.text.includes(other))
  })

  it('is good nowhere else, nor as a key, and is not used up by trying', async (t) => {
    const gateway = await start(t)
    const { invocationId } = (await invoke(gateway, 'echo', 1, { headers: key })).body.invocation
    const ticket = await ticketOf(gateway)
    for (const [method, path] of [
      ['GET', '/tools'], ['GET', '/tools/echo'], ['POST', '/tools/echo/invoke'], ['POST', '/batch'], ['GET', '/invocations'], ['GET', `/invocations/${invocationId}`],
      ['GET', `/invocations/${invocationId}/events`], ['POST', `/invocations/${invocationId}/cancel`], ['GET', '/audit'], ['POST', '/events/tickets'], ['POST', '/events'], ['GET', '/nowhere']
    ]) assertProblem(await send(`${gateway.url}${path}?ticket=${ticket}`, { method: method! }), 401, 'unauthorized')
    assertProblem(await send(`${gateway.url}/tools`, { headers: { authorization: `Bearer ${ticket}` } }), 401, 'unauthorized')
    assert.equal((await openStream(t, gateway.url, { path: withTicket(ticket) })).status, 200)
  })

  it('beside a key is not looked at: the key decides, and the ticket stays', async (t) => {
    const gateway = await start(t)
    const ticket = await ticketOf(gateway)
    const path = withTicket(ticket)
    assert.equal((await openStream(t, gateway.url, { path, headers: key })).status, 200)
    assert.equal((await openStream(t, gateway.url, { path, headers: { authorization: 'Bearer wrong-horse-battery-staple' } })).status, 401)
    assert.equal((await openStream(t, gateway.url, { path: withTicket('tgt_none'), headers: key })).status, 200)
    assert.equal((await openStream(t, gateway.url, { path })).status, 200)
  })

  it('is given to who has a key, and to so many', async (t) => {
    const gateway = await start(t)
    assertProblem(await send(`${gateway.url}/events/tickets`, { method: 'POST' }), 401, 'unauthorized')
    for (let n = 0; n < 100; n++) await ticketOf(gateway)
    const answer = await send(`${gateway.url}/events/tickets`, { method: 'POST', headers: key })
    assertProblem(answer, 429, 'rate_limited')
    assert.match(answer.headers.get('retry-after')!, /^\d+$/)
  })
})

describe('keys in a query', () => {
  for (const name of ['api_key', 'apiKey', 'access_token', 'token', 'key', 'authorization', 'ticket']) {
    it(`?${name}= lets nobody in, and is in no log line and no answer`, async (t) => {
      const lines: string[] = []
      const keep = (...line: unknown[]) => { lines.push(JSON.stringify(line)) }
      const gateway = await start(t, { logger: { debug: keep, info: keep, warn: keep, error: keep } })
      for (const [method, path] of [['GET', '/events'], ['GET', '/tools'], ['POST', '/tools/echo/invoke'], ['GET', '/nowhere'], ['GET', '/%E0%A4%A']]) {
        const answer = await send(`${gateway.url}${path}?${name}=${apiKey}`, { method: method! })
        assert.equal(answer.status, path === '/%E0%A4%A' ? 400 : 401)
        assert.ok(!answer.text.includes(apiKey))
      }
      assert.equal(gateway.app.toolgate.store.head, 0)
      assert.equal(lines.filter((line) => line.includes('a request was refused')).length, 4, 'they were logged')
      assert.ok(lines.every((line) => !line.includes(apiKey)))
    })
  }
})
