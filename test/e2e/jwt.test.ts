import assert from 'node:assert/strict'
import { createHmac, KeyObject, sign } from 'node:crypto'
import { describe, it } from 'node:test'
import { exportSPKI, importJWK, type CryptoKey } from 'jose'
import type { GatewayOptions } from '../../src/gateway.ts'
import { silentLog } from '../../src/tools/tool.ts'
import { audience, base64url, signingKey, startIssuer, type Behaviour, type Claims, type Issuer, type SigningKey } from '../auth/issuer.ts'
import { FakeClock } from '../conformance/fake-clock.ts'
import { directoryOf, sleeper, startCli } from './cli.ts'
import { assertProblem, echo, invoke, send, startGateway, tool, waitFor, type Answer, type RunningGateway, type Scope } from './harness.ts'
import { openStream } from './sse-client.ts'

const bearer = (token: string) => ({ authorization: `Bearer ${token}` })
const whoami = tool('whoami', (...args) => ({ structuredContent: args[4].principal }))

interface Setup { key?: SigningKey, behaviour?: Behaviour, options?: GatewayOptions }

/** A gateway that lets in the tokens of an issuer, whose keys it has got where that can be. */
async function start (t: Scope, { key, behaviour = 'up', options = {} }: Setup = {}) {
  const clock = new FakeClock()
  const issuer = await startIssuer(t, clock, key)
  issuer.behaviour = behaviour
  const lines: any[] = []
  const note = (fields: object, msg: string) => { lines.push({ ...fields, msg }) }
  const gateway = await startGateway(t, { tools: [echo, whoami], clock, jwtSkewMs: 0, logger: { ...silentLog, info: note, warn: note, error: note }, ...issuer.settings, ...options })
  const list = async (token: string): Promise<Answer> => await send(`${gateway.url}/tools`, { headers: bearer(token) })
  if (behaviour === 'up') assert.equal((await list(await issuer.sign())).status, 200)
  return { clock, issuer, gateway, lines, list }
}

function assertRefused (answer: Answer, token: string, lines: any[]): void {
  assertProblem(answer, 401, 'unauthorized')
  assert.equal(answer.headers.get('www-authenticate'), 'Bearer realm="toolgate", error="invalid_token"')
  const told = answer.text + JSON.stringify(lines)
  for (const part of token.split('.').filter((one) => one.length > 8)) assert.ok(!told.includes(part), 'the token is told')
  const { code, reason } = lines.findLast(({ msg }) => msg === 'a request was refused')
  assert.equal(code, 'unauthorized')
  assert.match(reason, /^token: ERR_/)
}

describe('a JWT over HTTP', () => {
  it('is let in, and tools are told whose it is', async (t) => {
    const { issuer, gateway } = await start(t)
    const { body } = await invoke(gateway, 'whoami', undefined, { headers: bearer(await issuer.sign({ scope: 'openid tools:invoke', team: 'blue' })) })
    const { id, scopes, claims } = body.structuredContent
    assert.deepEqual([id, scopes, claims.team, claims.aud], ['jwt:alice', ['tools:invoke'], 'blue', audience])
  })

  it('may do what its scopes say, and nothing without any', async (t) => {
    const { issuer, gateway, list } = await start(t)
    const reader = await issuer.sign({ scope: 'tools:read?tool=echo' })
    const { body } = await list(reader)
    assert.deepEqual(body.tools.map(({ id }: { id: string }) => id), ['echo'])
    assertProblem(await invoke(gateway, 'echo', 1, { headers: bearer(reader) }), 403, 'forbidden')
    assertProblem(await list(await issuer.sign({ scope: 'openid profile' })), 403, 'forbidden')
  })

  it('works beside the key, whose holder it cannot be', async (t) => {
    const apiKey = 'correct-horse-battery-staple'
    const { issuer, gateway } = await start(t, { options: { apiKey } })
    const { headers } = await invoke(gateway, 'echo', 1, { headers: bearer(apiKey) })
    const id = headers.get('toolgate-invocation-id')!
    const read = async (token: string) => await send(`${gateway.url}/invocations/${id}`, { headers: bearer(token) })
    assert.equal((await read(apiKey)).status, 200)
    assert.equal((await read(await issuer.sign({ scope: 'invocations:read' }))).status, 200)
    for (const sub of ['api-key', 'key:x', 'anonymous']) {
      const own = await issuer.sign({ sub, scope: 'tools:invoke invocations:read?own' })
      assertProblem(await read(own), 404, 'unknown_invocation')
      assert.equal((await invoke(gateway, 'whoami', undefined, { headers: bearer(own) })).body.structuredContent.id, `jwt:${sub}`)
    }
  })
})

describe('a JWT that is refused over HTTP', () => {
  const crafted = (issuer: Issuer, header: object, signature: (input: string) => string) => {
    const input = `${base64url(header)}.${base64url({ iss: issuer.name, aud: audience, sub: 'alice', scope: 'admin', exp: issuer.now() + 600 })}`
    return `${input}.${signature(input)}`
  }
  const withClaims = (claims: (now: number) => Claims) => (issuer: Issuer) => issuer.sign(claims(issuer.now()))
  const tokens: Record<string, (issuer: Issuer) => string | Promise<string>> = {
    'alg none': (issuer) => crafted(issuer, { alg: 'none', kid: 'first' }, () => ''),
    'HS256 with the public key as its secret': async (issuer) => {
      const pem = await exportSPKI(await importJWK(issuer.key.jwk, issuer.key.alg) as CryptoKey)
      return crafted(issuer, { alg: 'HS256', kid: 'first' }, (input) => createHmac('sha256', pem).update(input).digest('base64url'))
    },
    'an alg that is not listed': (issuer) => crafted(issuer, { alg: 'RS512', kid: 'first' }, (input) => sign('sha512', Buffer.from(input), KeyObject.from(issuer.key.privateKey)).toString('base64url')),
    'a key of somebody else': async (issuer) => await issuer.sign({}, { key: await signingKey('first', 'RS256') }),
    'a key that nobody knows': async (issuer) => await issuer.sign({}, { key: await signingKey('nobody', 'RS256') }),
    'another audience': withClaims(() => ({ aud: 'https://other.example' })),
    'another issuer': withClaims(() => ({ iss: 'https://other.example' })),
    expired: withClaims((now) => ({ exp: now })),
    'a nbf in the future': withClaims((now) => ({ nbf: now + 1 })),
    'an iat in the future': withClaims((now) => ({ iat: now + 1 })),
    'without exp': withClaims(() => ({ exp: undefined })),
    'without sub': withClaims(() => ({ sub: undefined })),
    'the shape of one, and nothing else': () => 'not.a.token'
  }
  for (const [name, token] of Object.entries(tokens)) {
    it(name, async (t) => {
      const { issuer, gateway, lines, list } = await start(t, { key: await signingKey('first', 'RS256') })
      const bad = await token(issuer)
      assertRefused(await list(bad), bad, lines)
      assertRefused(await invoke(gateway, 'echo', 1, { headers: bearer(bad) }), bad, lines)
      assert.equal(gateway.app.toolgate.store.head, 0)
    })
  }
})

describe('the keys of an issuer, over HTTP', () => {
  it('200 tokens at once with keys that nobody knows: one further fetch, and the others are served', async (t) => {
    const { clock, issuer, list } = await start(t)
    const stranger = await signingKey('stranger')
    const good = await issuer.sign()
    const storm = async () => {
      const tokens = await Promise.all(Array.from({ length: 200 }, (_, i) => issuer.sign({}, { key: { ...stranger, kid: `nobody ${i}` } })))
      const [served, ...refused] = await Promise.all([good, ...tokens].map(list))
      assert.deepEqual([served!.status, new Set(refused.map(({ status }) => status))], [200, new Set([401])])
    }
    await storm()
    assert.equal(issuer.fetches, 2)
    await storm()
    assert.equal(issuer.fetches, 2)
    clock.advance(30_000)
    await storm()
    assert.equal(issuer.fetches, 3)
  })

  it('are rotated: the new one is let in after one fetch, the old one is refused once it is gone', async (t) => {
    const { clock, issuer, list } = await start(t)
    const second = await signingKey('second')
    const old = await issuer.sign({ exp: issuer.now() + 3600 })
    const fresh = await issuer.sign({ exp: issuer.now() + 3600 }, { key: second })
    issuer.published = [issuer.key.jwk, second.jwk]
    for (let i = 0; i < 3; i++) assert.deepEqual([(await list(fresh)).status, (await list(old)).status, issuer.fetches], [200, 200, 2])
    issuer.published = [second.jwk]
    clock.advance(600_000)
    await waitFor(async () => (await list(old)).status === 401, 'the old key to be refused')
    assert.equal((await list(fresh)).status, 200)
  })

  for (const behaviour of ['down', (response) => response.end('garbage')] satisfies Behaviour[]) {
    it(`whose endpoint ${behaviour === 'down' ? 'is down' : 'answers garbage'}: those that are held go on`, async (t) => {
      const { clock, issuer, list } = await start(t)
      const token = await issuer.sign({ exp: issuer.now() + 86_400 })
      issuer.behaviour = behaviour
      for (const ms of [600_000, 30_000, 3_600_000]) {
        const { fetches } = issuer
        clock.advance(ms)
        await list(await issuer.sign({}, { key: await signingKey('nobody') })) // waits for the fetch
        assert.ok(issuer.fetches > fetches)
        assert.deepEqual([(await list(token)).status, (await list(await issuer.sign({ sub: `${ms}` }))).status], [200, 200])
      }
    })

    it(`whose endpoint ${behaviour === 'down' ? 'is down' : 'answers garbage'} from the start: 503 until they can be had`, async (t) => {
      const { clock, issuer, gateway, lines, list } = await start(t, { behaviour })
      const token = await issuer.sign()
      const answer = await list(token)
      assertProblem(answer, 503, 'auth_unavailable')
      assert.equal(answer.headers.get('retry-after'), '2')
      assertProblem(await invoke(gateway, 'echo', 1, { headers: bearer(token) }), 503, 'auth_unavailable')
      assertProblem(await send(`${gateway.url}/tools`), 401, 'unauthorized')
      assert.equal((await send(`${gateway.url}/livez`)).status, 200)
      issuer.behaviour = 'up'
      clock.advance(2000)
      assert.equal((await list(token)).status, 200)
      assert.equal(lines.filter(({ msg }) => msg === 'the keys for JWTs could not be fetched').length, 1)
    })
  }
})

describe('a stream of a JWT', () => {
  const openFor = async (t: Scope, { url }: RunningGateway, token: string) => {
    const stream = await openStream(t, url, { headers: bearer(token) })
    assert.equal(stream.status, 200)
    return stream
  }

  it('ends when its token expires, and others go on', async (t) => {
    const { clock, issuer, gateway } = await start(t)
    const short = await openFor(t, gateway, await issuer.sign({ exp: issuer.now() + 60, scope: 'events:read' }))
    const long = await openFor(t, gateway, await issuer.sign({ scope: 'events:read' }))
    clock.advance(59_000)
    await invoke(gateway, 'echo', 1, { headers: bearer(await issuer.sign()) })
    for (const stream of [short, long]) await waitFor(() => stream.ends.length === 1, 'the event')
    clock.advance(2000)
    assert.equal(await short.closed(), 'ended')
    await invoke(gateway, 'echo', 2, { headers: bearer(await issuer.sign()) })
    await waitFor(() => long.ends.length === 2, 'the other event')
    assert.deepEqual([short.ends.length, long.how], [1, undefined])
  })

  it('ends when its issuer has taken back the key that signed it', async (t) => {
    const { clock, issuer, gateway } = await start(t)
    const stream = await openFor(t, gateway, await issuer.sign({ exp: issuer.now() + 86_400 }))
    issuer.published = [(await signingKey('second')).jwk]
    clock.advance(600_000)
    await waitFor(() => {
      clock.advance(1000)
      return stream.how !== undefined
    }, 'the end of the stream')
    assert.equal(stream.how, 'ended')
  })
})

describe('toolgate serve with JWTs', () => {
  it('starts beyond loopback without a key, and without the issuer', async (t) => {
    const settings = { TOOLGATE_JWKS_URL: 'http://127.0.0.1:9/keys', TOOLGATE_JWT_ISSUER: 'https://issuer.example', TOOLGATE_JWT_AUDIENCE: audience }
    const program = await startCli(t, ['--host', '0.0.0.0', '--tools', await directoryOf(t, { 'sleep.js': sleeper })], settings)
    assert.equal(program.log.find(({ msg }) => msg === 'toolgate is ready').authentication, 'JWTs')
    assert.ok(!program.log.some(({ msg }) => /everyone who can reach/.test(msg)))
    assertProblem(await send(`http://127.0.0.1:${program.port}/tools`), 401, 'unauthorized')
  })
})
