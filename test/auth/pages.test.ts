import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { FastifyRequest } from 'fastify'
import { createPageCheck, type PageRules } from '../../src/auth/pages.ts'

interface Arrival {
  host?: string
  origin?: string
  /** Of this end of its connection. */
  at?: string | undefined
  destroyed?: boolean
}

/** Whether a request may come in. */
function passes (rules: Partial<PageRules>, { at, destroyed = false, ...headers }: Arrival): boolean {
  const check = createPageCheck({ corsOrigins: [], allowedHosts: [], isOpen: true, ...rules })
  try {
    check({ headers, raw: { socket: { localAddress: at, destroyed } } } as unknown as FastifyRequest)
    return true
  } catch (error) {
    assert.deepEqual([(error as { code: string }).code], ['forbidden'])
    return false
  }
}

const loopback = '127.0.0.1'
const outside = '192.0.2.7'

describe('the Host of a request, where nobody is asked for credentials', () => {
  const names: [host: string, isOurs: boolean][] = [
    ['localhost', true], ['localhost:8080', true], ['LocalHost:8080', true], ['localhost.:8080', true], ['app.localhost:8080', true], ['a.b-c.localhost', true],
    ['127.0.0.1', true], ['127.0.0.1:8080', true], ['127.254.3.4:1', true], ['[::1]', true], ['[::1]:8080', true],
    ['evil.example', false], ['evil.example:8080', false], ['', false], ['localhost.evil.example', false], ['evillocalhost', false], ['.localhost', false],
    ['127.0.0.1.evil.example', false], ['127.evil.example', false], ['[::2]', false], ['0.0.0.0:8080', false], ['192.0.2.7', false], ['localhost:8080@evil.example', false],
    ['evil.example\tlocalhost', false], ['localhost:', false]
  ]
  for (const [host, isOurs] of names) {
    it(`${JSON.stringify(host)} on loopback ${isOurs ? 'names this machine' : 'is refused'}`, () => {
      for (const at of [loopback, '127.8.8.8', '::1', '::ffff:127.0.0.1']) assert.equal(passes({}, { host, at }), isOurs, at)
    })
  }

  it('beyond loopback it may be any, unless names are set', () => {
    for (const at of [outside, '2001:db8::7', '::ffff:192.0.2.7', undefined]) {
      assert.ok(passes({}, { host: 'evil.example', at }), at)
      assert.ok(!passes({ allowedHosts: ['gateway.example'] }, { host: 'evil.example', at }), at)
    }
  })

  it('a request whose connection is gone already is held to it', () => assert.ok(!passes({}, { host: 'evil.example', at: undefined, destroyed: true })))

  it('none at all is not refused here', () => {
    assert.ok(passes({}, { at: loopback }))
    assert.ok(passes({ allowedHosts: ['gateway.example'] }, { at: outside }))
  })

  it('that of an origin that may call is a name of the gateway, with its port', () => {
    const rules = { corsOrigins: ['*', 'https://app.example', 'http://dev.example:3000'] }
    for (const host of ['app.example', 'APP.example', 'dev.example:3000']) assert.ok(passes(rules, { host, at: loopback }), host)
    for (const host of ['app.example:8080', 'dev.example', 'other.example']) assert.ok(!passes(rules, { host, at: loopback }), host)
  })
})

describe('names that are set', () => {
  const allowedHosts = ['Gateway.example', 'other.example:8443', '[2001:db8::7]']
  for (const isOpen of [true, false]) {
    it(`hold for every connection, ${isOpen ? 'without' : 'with'} credentials`, () => {
      for (const at of [loopback, outside]) {
        for (const host of ['gateway.example', 'GATEWAY.example:8080', 'other.example:8443', '[2001:db8::7]', '[2001:db8::7]:80', 'localhost:8080']) assert.ok(passes({ allowedHosts, isOpen }, { host, at }), `${host} at ${at}`)
        for (const host of ['other.example', 'other.example:8080', 'a.gateway.example', 'gateway.example.evil.example', '192.0.2.7', '']) assert.ok(!passes({ allowedHosts, isOpen }, { host, at }), `${host} at ${at}`)
      }
    })
  }

  it('without any, credentials decide', () => assert.ok(passes({ isOpen: false }, { host: 'evil.example', origin: 'http://evil.example', at: loopback })))
})

describe('the Origin of a request, where nobody is asked for credentials', () => {
  const host = 'localhost:8080'
  it('is the gateway\'s own, or one that is configured', () => {
    const rules = { corsOrigins: ['https://app.example'] }
    for (const origin of ['http://localhost:8080', 'https://app.example']) assert.ok(passes(rules, { host, origin, at: outside }), origin)
    for (const origin of ['https://evil.example', 'http://localhost:3000', 'http://app.example', 'https://app.example.evil.example', 'null', '']) {
      assert.ok(!passes(rules, { host, origin, at: outside }), origin)
    }
    assert.ok(passes({ corsOrigins: ['*'] }, { host, origin: 'https://evil.example', at: loopback }))
  })
})
