import assert from 'node:assert/strict'
import { createHmac } from 'node:crypto'
import { describe, it } from 'node:test'
import { exportSPKI, importJWK, type CryptoKey } from 'jose'
import type { Caller } from '../../src/auth/caller.ts'
import { openCredentials } from '../../src/auth/credentials.ts'
import { Jwts, type JwtOptions } from '../../src/auth/jwt.ts'
import { defaultConfig } from '../../src/config/settings.ts'
import { silentLog } from '../../src/tools/tool.ts'
import { FakeClock } from '../conformance/fake-clock.ts'
import type { Scope } from '../e2e/harness.ts'
import { audience, base64url, signingKey, startIssuer, type Claims, type Issuer, type SigningKey } from './issuer.ts'

const SKEW_S = 30

async function start (t: Scope, more: Partial<JwtOptions> = {}, key?: SigningKey) {
  const clock = new FakeClock()
  const issuer = await startIssuer(t, clock, key)
  const { jwtAlgorithms, jwtSkewMs, jwtScopeClaim } = defaultConfig()
  const debugLines: any[] = []
  const log = { ...silentLog, debug: (fields: object, msg: string) => { debugLines.push({ ...fields, msg }) } }
  const jwts = new Jwts({ ...issuer.settings, jwtAlgorithms, jwtSkewMs, jwtScopeClaim, clock, log, ...more })
  t.after(() => jwts.close())
  const callerOf = async (claims: Claims = {}) => await jwts.find(await issuer.sign(claims)) as Caller
  return { clock, issuer, jwts, callerOf, debugLines }
}

async function refusalOf (jwts: Jwts, token: string): Promise<[message: string, reason: string | undefined]> {
  try {
    await jwts.find(token)
  } catch (error: any) {
    assert.equal(error.code, 'unauthorized')
    assert.match(error.headers['www-authenticate'], /error="invalid_token"/)
    assert.ok(!JSON.stringify([error.message, error.refusedFor]).includes('alice'), 'quotes a claim')
    return [error.message, error.refusedFor]
  }
  return assert.fail('was let in')
}

describe('a JWT', () => {
  it('gives its subject as a caller, with its scopes and its claims', async (t) => {
    const { callerOf } = await start(t)
    const caller = await callerOf({ scope: 'openid tools:read?tool=get_* profile events:read?own', team: { name: 'blue' } })
    const { id, scopes, claims } = caller.principal
    assert.deepEqual([id, scopes, claims!.team], ['jwt:alice', ['tools:read?tool=get_*', 'events:read?own'], { name: 'blue' }])
    assert.throws(() => { (claims as any).team.name = 'red' }, TypeError)
    assert.deepEqual([caller.access.mayTool('tools:read', 'get_x', 'read'), caller.access.mayTool('tools:read', 'set_x', 'read'), caller.access.has('tools:invoke')], [true, false, false])
  })

  for (const [name, claims, scopes] of [
    ['a list', { scope: ['tools:read', 5, null, 'admin'] }, ['tools:read', 'admin']],
    ['none that is known', { scope: 'openid profile' }, []],
    ['none at all', { scope: undefined }, []],
    ['no text', { scope: { admin: true } }, []],
    ['one that begins like ours', { scope: 'administrator admin:all' }, []]
  ] satisfies [string, Claims, string[]][]) {
    it(`with ${name} for scopes has ${scopes.join(', ') || 'no rights'}`, async (t) => {
      const { principal, access } = await (await start(t)).callerOf(claims)
      assert.deepEqual(principal.scopes, scopes)
      assert.equal(access.has('tools:read'), scopes.length > 0)
    })
  }

  it('with a scope of ours that cannot be read has its others, and one line tells', async (t) => {
    const { callerOf, debugLines } = await start(t)
    assert.deepEqual((await callerOf({ scope: 'tools:read?own tools:invoke' })).principal.scopes, ['tools:invoke'])
    assert.deepEqual(debugLines.map(({ principal, msg }) => [principal, msg]), [['jwt:alice', 'a scope of a token was passed over']])
  })

  it('has its scopes in the claim that is configured, which is its own', async (t) => {
    const { callerOf } = await start(t, { jwtScopeClaim: 'scp' })
    assert.deepEqual((await callerOf({ scp: 'tools:read' })).principal.scopes, ['tools:read'])
    const inherited = await start(t, { jwtScopeClaim: 'constructor' })
    assert.deepEqual((await inherited.callerOf()).principal.scopes, [])
  })

  it('can never be a caller of another kind', async (t) => {
    const { callerOf } = await start(t)
    for (const sub of ['api-key', 'key:x', 'anonymous', 'in-process', 'jwt:alice']) assert.equal((await callerOf({ sub })).principal.id, `jwt:${sub}`)
  })

  for (const alg of ['RS256', 'PS256', 'ES256', 'EdDSA']) {
    it(`signed with ${alg} is let in`, async (t) => {
      const { callerOf } = await start(t, {}, await signingKey('first', alg))
      assert.equal((await callerOf()).principal.id, 'jwt:alice')
    })
  }

  it('without a key id is tried with each key that fits', async (t) => {
    const { issuer, jwts } = await start(t)
    const more = await Promise.all(['a', 'b', 'c'].map((kid) => signingKey(kid)))
    issuer.published = [issuer.key, ...more].map(({ jwk }) => jwk)
    const key = { ...more[1]!, kid: undefined }
    await jwts.find(await issuer.sign({}, { key: more[2]! }))
    assert.equal((await jwts.find(await issuer.sign({}, { key })) as Caller).principal.id, 'jwt:alice')
    assert.equal((await refusalOf(jwts, await issuer.sign({ exp: 1 }, { key })))[0], 'The token has expired.')
    const foreign = { ...await signingKey('a'), kid: undefined }
    assert.deepEqual(await refusalOf(jwts, await issuer.sign({}, { key: foreign })), ['The token is not valid.', 'token: ERR_JWS_SIGNATURE_VERIFICATION_FAILED'])
  })
})

describe('a JWT that is refused', () => {
  const claimFault = 'token: ERR_JWT_CLAIM_VALIDATION_FAILED'
  const cases: Record<string, [claims: (now: number) => Claims, message: string, reason: string]> = {
    'has expired': [(now) => ({ exp: now - SKEW_S }), 'The token has expired.', 'token: ERR_JWT_EXPIRED exp'],
    'never expires': [() => ({ exp: undefined }), 'The token has no claim exp.', `${claimFault} exp`],
    'expires at no time': [() => ({ exp: 'never' }), 'The token is not valid.', `${claimFault} exp`],
    'is for another audience': [() => ({ aud: 'https://other.example' }), 'The token is not for this audience.', `${claimFault} aud`],
    'is for no audience': [() => ({ aud: undefined }), 'The token has no claim aud.', `${claimFault} aud`],
    'is of another issuer': [() => ({ iss: 'https://other.example' }), 'The token is not from an issuer that is trusted here.', `${claimFault} iss`],
    'is of no issuer': [() => ({ iss: undefined }), 'The token has no claim iss.', `${claimFault} iss`],
    'is not valid yet': [(now) => ({ nbf: now + SKEW_S + 1 }), 'The token is not valid yet.', `${claimFault} nbf`],
    'was issued in the future': [(now) => ({ iat: now + SKEW_S + 1 }), 'The token was issued in the future.', `${claimFault} iat`],
    'has no subject': [() => ({ sub: undefined }), 'The token has no claim sub.', `${claimFault} sub`],
    'has an empty subject': [() => ({ sub: '' }), 'The token does not say whose it is.', `${claimFault} sub`],
    'has a subject that is too long': [() => ({ sub: 'x'.repeat(257) }), 'The token does not say whose it is.', `${claimFault} sub`],
    'has half a character in its subject': [() => ({ sub: 'a\ud800' }), 'The token does not say whose it is.', `${claimFault} sub`],
    'has a subject that is no text': [() => ({ sub: 5 }), 'The token does not say whose it is.', `${claimFault} sub`]
  }
  for (const [name, [claims, message, reason]] of Object.entries(cases)) {
    it(name, async (t) => {
      const { issuer, jwts } = await start(t)
      assert.deepEqual(await refusalOf(jwts, await issuer.sign(claims(issuer.now()))), [message, reason])
    })
  }

  it('is of another type than those that let anybody in', async (t) => {
    const { issuer, jwts } = await start(t)
    for (const typ of ['logout+jwt', 'secevent+jwt', 'dpop+jwt', 'jwt+at', '']) {
      assert.deepEqual(await refusalOf(jwts, await issuer.sign({}, { header: { typ } })), ['The token is none by which one is let in.', `${claimFault} typ`], typ)
    }
    for (const typ of ['JWT', 'at+jwt', 'application/at+JWT', undefined]) assert.notEqual(await jwts.find(await issuer.sign({}, { header: { typ } })), undefined)
  })

  it('is one that is off by more than the skew, not one that is off by as much', async (t) => {
    const { issuer, callerOf } = await start(t)
    const now = issuer.now()
    for (const claims of [{ exp: now - SKEW_S + 1 }, { nbf: now + SKEW_S }, { iat: now + SKEW_S }, { sub: 'x'.repeat(256) }, { aud: ['https://other.example', audience] }]) {
      assert.equal((await callerOf(claims)).isCurrent(), true, JSON.stringify(claims))
    }
  })

  /** A token put together by hand: what no library signs. */
  const crafted = (issuer: Issuer, header: object, sign: (input: string) => string) => {
    const input = `${base64url(header)}.${base64url({ iss: issuer.name, aud: audience, sub: 'alice', exp: issuer.now() + 600 })}`
    return `${input}.${sign(input)}`
  }

  it('has the algorithm none, with and without a signature', async (t) => {
    const { issuer, jwts } = await start(t)
    for (const alg of ['none', 'None', 'NONE', '', undefined]) {
      for (const signature of ['', 'eA']) assert.match((await refusalOf(jwts, crafted(issuer, { alg, kid: issuer.key.kid }, () => signature)))[1]!, /ERR_J(OSE_ALG_NOT_ALLOWED|WS_INVALID)/)
    }
  })

  it('has HS256 and the public key, in any form, for its secret', async (t) => {
    const { issuer, jwts } = await start(t, {}, await signingKey('first', 'RS256'))
    const pem = await exportSPKI(await importJWK(issuer.key.jwk, 'RS256') as CryptoKey)
    for (const secret of [pem, pem.trim(), JSON.stringify(issuer.key.jwk), issuer.key.jwk.n!, Buffer.from(issuer.key.jwk.n!, 'base64url')]) {
      const token = crafted(issuer, { alg: 'HS256', kid: issuer.key.kid }, (input) => createHmac('sha256', secret).update(input).digest('base64url'))
      assert.deepEqual(await refusalOf(jwts, token), ['The token is not valid.', 'token: ERR_JOSE_ALG_NOT_ALLOWED'])
    }
  })

  it('has HS256 and a secret that the set holds', async (t) => {
    const secret = 's'.repeat(32)
    const { issuer, jwts } = await start(t, {}, await signingKey('first', 'ES256'))
    issuer.published.push({ kty: 'oct', kid: 'shared', alg: 'HS256', use: 'sig', k: base64url(secret) })
    for (const kid of ['shared', undefined]) {
      await refusalOf(jwts, crafted(issuer, { alg: 'HS256', kid }, (input) => createHmac('sha256', secret).update(input).digest('base64url')))
    }
  })

  it('has an algorithm that is not listed', async (t) => {
    const { issuer, jwts } = await start(t, { jwtAlgorithms: ['RS256'] })
    assert.deepEqual(await refusalOf(jwts, await issuer.sign()), ['The token is not valid.', 'token: ERR_JOSE_ALG_NOT_ALLOWED'])
  })

  it('brings its own key, or was changed on its way', async (t) => {
    const { issuer, jwts } = await start(t)
    const own = await signingKey('first')
    for (const header of [{ jwk: own.jwk }, { jku: issuer.url }, {}]) assert.match((await refusalOf(jwts, await issuer.sign({}, { key: own, header })))[1]!, /SIGNATURE/)
    const [head, , signature] = (await issuer.sign()).split('.')
    assert.match((await refusalOf(jwts, `${head}.${base64url({ sub: 'admin', exp: 9e9 })}.${signature}`))[1]!, /SIGNATURE/)
    await refusalOf(jwts, 'a.b.c')
  })
})

describe('a JWT that is known', () => {
  it('is found at once, until it expires', async (t) => {
    const { clock, issuer, jwts } = await start(t)
    const token = await issuer.sign()
    const caller = await jwts.find(token) as Caller
    assert.equal(jwts.find(token), caller)
    clock.advance(600_000 + SKEW_S * 1000 - 1)
    assert.deepEqual([jwts.find(token), caller.isCurrent()], [caller, true])
    clock.advance(1)
    assert.equal(caller.isCurrent(), false)
    assert.equal((await refusalOf(jwts, token))[0], 'The token has expired.')
  })

  it('goes with the key that signed it, and those of other keys stay', async (t) => {
    const { clock, issuer, jwts } = await start(t)
    const second = await signingKey('second')
    issuer.published.push(second.jwk)
    const hour = issuer.now() + 3600
    const tokens = [await issuer.sign({ exp: hour }), await issuer.sign({ exp: hour }, { key: second })] as const
    const [first, other] = await Promise.all(tokens.map((token) => jwts.find(token))) as [Caller, Caller]
    issuer.published = [second.jwk]
    clock.advance(600_000)
    await refusalOf(jwts, await issuer.sign({}, { key: await signingKey('nobody') })) // waits for the fetch
    assert.deepEqual([first.isCurrent(), other.isCurrent(), jwts.find(tokens[1])], [false, true, other])
    assert.deepEqual(await refusalOf(jwts, tokens[0]), ['The token is not valid.', 'token: ERR_JWKS_NO_MATCHING_KEY'])
  })

  it('is one of the last thousand', async (t) => {
    const { issuer, jwts } = await start(t)
    const tokens = await Promise.all(Array.from({ length: 1001 }, (_, i) => issuer.sign({ sub: `user ${i}` })))
    for (const token of tokens) await jwts.find(token)
    assert.ok(jwts.find(tokens[1]!) instanceof Promise === false)
    const again = jwts.find(tokens[0]!)
    assert.ok(again instanceof Promise)
    assert.equal((await again).principal.id, 'jwt:user 0')
  })
})

describe('credentials by JWT', () => {
  it('pass over what has not the shape of one', async (t) => {
    const { jwts } = await start(t)
    for (const token of ['key', 'a.b', 'a.b.c.d', 'a.b.!', '.b.c']) assert.equal(jwts.find(token), undefined, token)
  })

  const clock = new FakeClock()
  const settings = { ...defaultConfig(), apiKey: undefined, clock, log: silentLog }
  const faulty: Record<string, Partial<JwtOptions>> = {
    'without an issuer': { jwtIssuer: [] },
    'without an audience': { jwtAudience: [] },
    'with a shared secret': { jwtAlgorithms: ['RS256', 'HS256'] },
    'with none': { jwtAlgorithms: ['none'] },
    'with no algorithm': { jwtAlgorithms: [] },
    'with keys that anybody can change on their way': { jwksUrl: 'http://issuer.example/' }
  }
  for (const [name, options] of Object.entries(faulty)) {
    it(`are refused ${name}`, async () => {
      await assert.rejects(openCredentials({ ...settings, jwksUrl: 'https://issuer.example/', jwtIssuer: ['i'], jwtAudience: ['a'], ...options }), { code: 'invalid_config' })
    })
  }

  it('are refused without keys, and are not there where nothing is said', async () => {
    for (const options of [{ jwtIssuer: ['i'] }, { jwtAudience: ['a'] }]) await assert.rejects(openCredentials({ ...settings, ...options, jwksUrl: undefined }), { code: 'invalid_config' })
    assert.deepEqual((await openCredentials({ ...settings, jwksUrl: undefined })).sources, [])
  })
})
