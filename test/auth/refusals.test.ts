import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { FastifyRequest } from 'fastify'
import { Refusals } from '../../src/auth/refusals.ts'
import { createKey } from '../../src/auth/keys/key-text.ts'
import { unauthorized } from '../../src/auth/authentication.ts'
import { GatewayError } from '../../src/errors.ts'
import { FakeClock } from '../conformance/fake-clock.ts'

interface Line extends Record<string, unknown> { message: string }

interface Asked {
  principal?: string
  ip?: string
  id?: string
  headers?: Record<string, string>
  url?: string
}

function begin () {
  const lines: Line[] = []
  const clock = new FakeClock()
  const keep = (fields: object, message: string) => { lines.push({ ...fields, message }) }
  const silent = () => assert.fail('refusals are warnings')
  return { lines, clock, refusals: new Refusals({ debug: silent, info: silent, warn: keep, error: silent }, clock) }
}

function requestOf ({ principal, ip = '192.0.2.1', id, headers = {}, url = '/tools' }: Asked = {}): FastifyRequest {
  return {
    caller: principal === undefined ? null : { principal: { id: principal } },
    ip,
    socket: { remoteAddress: '198.51.100.9' },
    method: 'GET',
    url,
    headers,
    params: id === undefined ? undefined : { id },
    routeOptions: { url: '/tools/:id' }
  } as unknown as FastifyRequest
}

const forbidden = new GatewayError('forbidden', 'This needs more.', { refusedFor: 'scope' })

describe('refused attempts', () => {
  it('are logged with caller, reason, address and route', async () => {
    const { lines, refusals } = begin()
    refusals.note(forbidden, requestOf({ principal: 'ann', id: 'echo' }))
    refusals.note(unauthorized('The key is not valid.', 'unknown credentials'), requestOf())
    const common = { address: '192.0.2.1', method: 'GET', route: '/tools/:id', message: 'a request was refused' }
    await nextTurn()
    assert.deepEqual(lines, [
      { ...common, code: 'forbidden', reason: 'scope', principal: 'ann', about: 'echo' },
      { ...common, code: 'unauthorized', reason: 'unknown credentials', principal: undefined, about: undefined }
    ])
  })

  it('of one call among several are about that one', async () => {
    const { lines, refusals } = begin()
    refusals.note(forbidden, requestOf({ principal: 'ann' }), 'b_tool')
    await nextTurn()
    assert.equal(lines[0]!.about, 'b_tool')
  })

  it('other errors are none of them', async () => {
    const { lines, refusals } = begin()
    refusals.note(new GatewayError('invalid_request', 'No.'), requestOf())
    await nextTurn()
    assert.deepEqual(lines, [])
  })

  it('nothing of headers, of the query or of the message is in a line', async () => {
    const { lines, refusals } = begin()
    refusals.note(new GatewayError('forbidden', 'No s3cr3t.', { refusedFor: 'scope' }), requestOf({
      principal: 'ann', id: 'echo', headers: { authorization: 'Bearer s3cr3t', cookie: 's3cr3t' }, url: '/tools/echo?api_key=s3cr3t'
    }))
    await nextTurn()
    assert.equal(lines.length, 1)
    assert.doesNotMatch(JSON.stringify(lines), /s3cr3t/)
  })

  it('ids of others neither steer a terminal nor fill the log', async () => {
    const { lines, refusals } = begin()
    const bad = 'a\u001b[2Jb\r\nc\u009b31md\u2028e\u202ef\u0000\ud800'
    refusals.note(forbidden, requestOf({ principal: bad, id: bad }))
    refusals.note(forbidden, requestOf({ principal: 'x'.repeat(5000), id: 'é'.repeat(5000) }))
    await nextTurn()
    for (const text of [lines[0]!.principal, lines[0]!.about]) assert.equal(text, 'a\ufffd[2Jb\ufffd\ufffdc\ufffd31md\ufffde\ufffdf\ufffd\ufffd')
    for (const text of [lines[1]!.principal, lines[1]!.about]) assert.equal((text as string).length, 128)
  })

  it('an address that is none gives way to that of the connection', async () => {
    const { lines, refusals } = begin()
    for (const ip of ['2001:db8::1', 'unknown', '\u001b[2J', '1.2.3.4.5', '']) refusals.note(forbidden, requestOf({ ip }))
    await nextTurn()
    assert.deepEqual(lines.map(({ address }) => address), ['2001:db8::1', ...Array<string>(4).fill('198.51.100.9')])
  })

  it('fill no disk: so many lines a second, then how many more there were', async () => {
    const { lines, clock, refusals } = begin()
    for (let n = 0; n < 1000; n++) refusals.note(forbidden, requestOf())
    await nextTurn()
    assert.equal(lines.length, 50)
    clock.advance(1000)
    assert.deepEqual(lines.slice(50), [{ count: 950, message: 'more requests were refused than are logged' }])
    refusals.note(forbidden, requestOf())
    await nextTurn()
    assert.deepEqual([lines.length, lines.at(-1)!.code, clock.pending], [52, 'forbidden', 0])
  })

  it('of one caller hide none of another, whether it is known or not', async () => {
    const { lines, refusals } = begin()
    for (let n = 0; n < 1000; n++) {
      refusals.note(forbidden, requestOf())
      refusals.note(forbidden, requestOf({ principal: 'loud' }))
    }
    refusals.note(forbidden, requestOf({ principal: 'quiet' }))
    await nextTurn()
    const count = (principal: string | undefined) => lines.filter((line) => line.principal === principal).length
    assert.deepEqual([count(undefined), count('loud'), count('quiet')], [50, 20, 1])
  })

  it('of very many callers are bounded, too, and each has one before others have more', async () => {
    const { lines, refusals } = begin()
    for (let n = 0; n < 300; n++) refusals.note(forbidden, requestOf({ principal: `loud ${n % 10}` }))
    for (let n = 0; n < 2000; n++) refusals.note(forbidden, requestOf({ principal: `caller ${n}` }))
    refusals.note(forbidden, requestOf())
    await nextTurn()
    const count = (rule: RegExp) => lines.filter(({ principal }) => rule.test(String(principal))).length
    assert.deepEqual([count(/^loud/), count(/^caller/), count(/^undefined/)], [200, 800, 1])
  })

  it('credentials in a path are not told', async () => {
    const { lines, refusals } = begin()
    const { text } = createKey()
    for (const id of [text, `x${text}`, `tgt_${'a'.repeat(43)}`, 'eyJhbGciOiJub25lIn0.eyJzdWIiOiJhIn0.c2ln']) refusals.note(forbidden, requestOf({ id }))
    await nextTurn()
    assert.deepEqual(lines.map(({ about }) => about), ['[secret]', 'x[secret]', '[secret]', '[secret]'])
  })

  it('say what their caller has, where that is not enough', async () => {
    const { lines, refusals } = begin()
    const request = requestOf({ principal: 'ann' }) as any
    request.caller.principal.scopes = ['tools:read', 'events:read?own']
    refusals.note(forbidden, request)
    await nextTurn()
    assert.equal(lines[0]!.scopes, 'tools:read events:read?own')
  })
})
