import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { gzipSync } from 'node:zlib'
import { Jwks } from '../../src/auth/jwks.ts'
import { silentLog } from '../../src/tools/tool.ts'
import { FakeClock } from '../conformance/fake-clock.ts'
import { turns, until } from '../conformance/until.ts'
import type { Scope } from '../e2e/harness.ts'
import { signingKey, startIssuer, type Behaviour, type SigningKey } from './issuer.ts'

const MINUTE_MS = 60_000

async function start (t: Scope, behaviour: Behaviour = 'up') {
  const clock = new FakeClock()
  const issuer = await startIssuer(t, clock)
  issuer.behaviour = behaviour
  const lines: any[] = []
  const note = (fields: object, msg: string) => { lines.push({ ...fields, msg }) }
  const jwks = new Jwks({ jwksUrl: issuer.url, clock, log: { ...silentLog, info: note, warn: note } })
  t.after(() => jwks.close())
  const find = async ({ alg, kid }: { alg: string, kid?: string | undefined }) => await jwks.candidates({ alg, ...(kid === undefined ? {} : { kid }) })
  /** Waits for the fetch that is under way: who asks for a key that is not held does. */
  const settled = async () => { await find({ alg: 'ES256', kid: 'nobody' }).catch(() => {}) }
  return { clock, issuer, jwks, find, settled, lines, failures: () => lines.filter(({ msg }) => /could not/.test(msg)).map(({ reason }) => reason) }
}

describe('the keys of an issuer', () => {
  it('are fetched once, asked for as JSON, before anybody needs them', async (t) => {
    const { issuer, find } = await start(t)
    await until(() => issuer.fetches === 1, 'the first fetch')
    for (let i = 0; i < 5; i++) assert.equal((await find(issuer.key)).length, 1)
    assert.deepEqual([issuer.fetches, issuer.headers.accept], [1, 'application/json'])
  })

  it('are waited for while the first fetch is under way', async (t) => {
    let answer = () => {}
    const { issuer, find } = await start(t, (response) => { answer = () => response.writeHead(200).end(JSON.stringify({ keys: issuer.published })) })
    const waiting = find(issuer.key)
    await until(() => issuer.fetches === 1, 'the first fetch')
    answer()
    assert.equal((await waiting).length, 1)
  })

  it('are fetched anew when they are ten minutes old', async (t) => {
    const { clock, issuer, find, settled } = await start(t)
    await find(issuer.key)
    clock.advance(10 * MINUTE_MS - 1)
    await turns()
    assert.equal(issuer.fetches, 1)
    clock.advance(1)
    await settled()
    assert.equal(issuer.fetches, 2)
  })

  it('of which one appears and one goes: the one is found, the other is not', async (t) => {
    const { clock, issuer, find, settled } = await start(t)
    await find(issuer.key)
    const second = await signingKey('second')
    issuer.published = [second.jwk]
    clock.advance(10 * MINUTE_MS)
    await settled()
    assert.deepEqual([(await find(second)).length, (await find(issuer.key)).length, issuer.fetches], [1, 0, 3])
  })

  for (const [name, behaviour, reason] of [
    ['is down', 'down', 'UND_ERR_SOCKET'],
    ['answers with an error', (response) => response.writeHead(500).end('secret'), 'status 500'],
    ['sends elsewhere', (response) => response.writeHead(302, { location: 'http://127.0.0.1:1/' }).end(), 'status 302; redirects are not followed'],
    ['answers with no JSON', (response) => response.end('<p>secret'), 'not JSON'],
    ['answers with other JSON', (response) => response.end('{"keys":{}}'), 'not a key set'],
    ['answers with null', (response) => response.end('null'), 'not a key set'],
    ['answers without an end', (response) => response.end(JSON.stringify({ keys: [], x: 'x'.repeat(256 * 1024) })), 'more than 262144 bytes'],
    ['packs it', (response) => response.writeHead(200, { 'content-encoding': 'gzip' }).end(gzipSync('x'.repeat(9_000_000))), 'more than 262144 bytes']
  ] satisfies [string, Behaviour, string][]) {
    it(`where the endpoint ${name}: nobody gets in at first, and keys that are held go on`, async (t) => {
      const { clock, issuer, find, settled, lines, failures } = await start(t, behaviour)
      await assert.rejects(find(issuer.key), { code: 'auth_unavailable' })
      for (let i = 1; i <= 3; i++) {
        clock.advance(2000)
        await settled()
        assert.equal(issuer.fetches, i + 1)
      }
      assert.deepEqual(failures(), [reason])

      issuer.behaviour = 'up'
      clock.advance(2000)
      assert.equal((await find(issuer.key)).length, 1)
      issuer.behaviour = behaviour
      for (let i = 1; i <= 3; i++) {
        clock.advance(i === 1 ? 10 * MINUTE_MS : MINUTE_MS / 2)
        await settled()
        assert.equal((await find(issuer.key)).length, 1)
        assert.equal(issuer.fetches, i + 5)
      }
      assert.deepEqual(failures(), [reason, reason])
      assert.doesNotMatch(JSON.stringify(lines), /secret|http:/)
    })
  }

  for (const behaviour of ['hanging', 'hanging in the body'] satisfies Behaviour[]) {
    it(`are given up after five seconds where the endpoint is ${behaviour}`, async (t) => {
      const { clock, issuer, find, failures } = await start(t, behaviour)
      await until(() => issuer.fetches === 1, 'the first fetch')
      const waiting = assert.rejects(find(issuer.key), { code: 'auth_unavailable' })
      clock.advance(4999)
      await turns()
      assert.deepEqual(failures(), [])
      clock.advance(1)
      await waiting
      assert.deepEqual(failures(), ['no whole answer within 5000 ms'])
    })
  }

  it('closing ends a fetch that hangs, and none follows', async (t) => {
    const { clock, issuer, jwks, find, failures } = await start(t, 'hanging')
    await until(() => issuer.fetches === 1, 'the first fetch')
    await jwks.close()
    await assert.rejects(find(issuer.key), { code: 'auth_unavailable' })
    assert.deepEqual([clock.pending, failures()], [0, []])
  })
})

describe('a key that nobody knows', () => {
  it('is asked for once by 200 at once, and not again for 30 seconds', async (t) => {
    const { clock, issuer, find } = await start(t)
    await find(issuer.key)
    const askMany = async () => await Promise.all(Array.from({ length: 200 }, (_, i) => find({ alg: 'ES256', kid: `nobody's ${i}` })))
    assert.ok((await askMany()).every((keys) => keys.length === 0))
    assert.equal(issuer.fetches, 2)
    await askMany()
    clock.advance(29_999)
    await askMany()
    assert.equal(issuer.fetches, 2)
    clock.advance(1)
    await askMany()
    assert.equal(issuer.fetches, 3)
    assert.equal((await find(issuer.key)).length, 1)
  })

  it('is found where the issuer has begun to sign with it', async (t) => {
    const { issuer, find } = await start(t)
    await find(issuer.key)
    const second = await signingKey('second')
    issuer.published.push(second.jwk)
    assert.equal((await find(second)).length, 1)
    assert.equal((await find(issuer.key)).length, 1)
    assert.equal(issuer.fetches, 2)
  })

  it('changes nothing where the endpoint is down', async (t) => {
    const { issuer, find } = await start(t)
    await find(issuer.key)
    issuer.behaviour = 'down'
    assert.deepEqual(await find({ alg: 'ES256', kid: 'nobody' }), [])
    assert.equal((await find(issuer.key)).length, 1)
  })
})

describe('keys of a set', () => {
  it('that are not for checking signatures are passed over', async (t) => {
    const { clock, issuer, find, settled } = await start(t, 'down')
    const good = await signingKey('good')
    const others: SigningKey[] = [
      await signingKey('encryption', 'ES256', { use: 'enc' }),
      await signingKey('private', 'ES256', { d: 'A'.repeat(43) }),
      await signingKey('secret', 'ES256', { kty: 'oct', k: 'c2VjcmV0' }),
      await signingKey('wrapping', 'ES256', { key_ops: ['wrapKey'] }),
      await signingKey('broken', 'ES256', { x: '!' }),
      await signingKey('weak', 'RS256', { n: Buffer.alloc(128, 255).toString('base64url') })
    ]
    issuer.published = [good.jwk, ...others.map(({ jwk }) => jwk), null, 'x', 5] as any
    await settled()
    issuer.behaviour = 'up'
    clock.advance(2000)
    assert.equal((await find(good)).length, 1)
    for (const { alg, kid } of others) assert.deepEqual(await find({ alg, kid }), [], kid)
  })

  it('that a header does not tell apart are all given, up to a bound', async (t) => {
    const { issuer, find } = await start(t)
    const more = await Promise.all(Array.from({ length: 20 }, (_, i) => signingKey(`more ${i}`)))
    issuer.published = [issuer.key, ...more].map(({ jwk }) => jwk)
    assert.equal((await find(more[19]!)).length, 1)
    assert.equal((await find({ alg: 'ES256' })).length, 16)
  })

  it('where there are none left, none are held', async (t) => {
    const { clock, issuer, find, settled, lines } = await start(t)
    await find(issuer.key)
    issuer.published = []
    clock.advance(10 * MINUTE_MS)
    await settled()
    assert.deepEqual(await find(issuer.key), [])
    assert.ok(lines.some(({ msg }) => /every JWT is refused/.test(msg)))
  })
})

describe('the URL of the keys', () => {
  for (const jwksUrl of ['http://issuer.example/keys', 'http://localhost.example/keys', 'https://user:secret@issuer.example/', 'http://user@localhost/', 'file:///keys', 'keys', 'https://issuer.example:port/']) {
    it(`${jwksUrl} is refused`, () => {
      assert.throws(() => new Jwks({ jwksUrl, clock: new FakeClock(), log: silentLog }), (error: any) => error.code === 'invalid_config' && !error.message.includes('secret'))
    })
  }
})
