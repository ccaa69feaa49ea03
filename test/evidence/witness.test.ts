import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { describe, it } from 'node:test'
import { canary, isCanary } from './canary.ts'
import { places, Witness, type Secret } from './witness.ts'

const random = () => randomBytes(32).toString('base64url')
const part = (claims: object) => Buffer.from(JSON.stringify(claims)).toString('base64url')

const staticKey = 'a+static/key="of-these-tests"'
const key = `tgk_ab12cd_${random()}`
const ticket = `tgt_${random()}`
const signature = random()
const token = `${part({ alg: 'ES256', kid: 'one' })}.${part({ iss: 'https://id.example', sub: 'ada' })}.${signature}`
const base64 = (text: string) => Buffer.from(text).toString('base64')

/** Every way in which one of them may stand in a text. */
const planted: Record<string, [Secret, string]> = {
  'a static key': ['static key', staticKey],
  'one in a JSON text': ['static key', JSON.stringify(staticKey)],
  'one in a URL': ['static key', `/events?key=${encodeURIComponent(staticKey)}`],
  'one in Base64': ['static key', base64(staticKey)],
  'one with a name before it, in Base64': ['static key', `Basic ${base64(`ada:${staticKey}`)}`],
  'one with another name before it, in Base64': ['static key', `Basic ${base64(`grace:${staticKey}`)}`],
  'a key': ['key', key],
  'the secret part of a key in use': ['key', key.slice('tgk_ab12cd_'.length)],
  'any header with credentials': ['key', 'Authorization: Bearer wrong-horse-battery'],
  'a ticket': ['ticket', ticket],
  'the secret part of a ticket in use': ['ticket', ticket.slice('tgt_'.length)],
  'a URL with a ticket of any form': ['ticket', 'GET /events?view=receipt&ticket=abcdefgh'],
  'a token': ['token', token],
  'a token that nobody has used': ['token', `${part({ alg: 'none' })}.${part({ sub: 'eve' })}.`],
  'the claims of one': ['token', part({ sub: 'eve' })],
  'the signature of one in use': ['token', signature],
  'a masked field': ['masked field', canary()]
}

function witness (): Witness {
  const witness = new Witness()
  witness.lookFor(staticKey)
  for (const credentials of [staticKey, key, ticket, token]) witness.accepted(credentials)
  return witness
}

describe('the witness', () => {
  for (const [name, [secret, value]] of Object.entries(planted)) {
    it(`finds ${name}, wherever it stands`, () => {
      for (const place of places) {
        const watching = witness()
        watching.look(place, `{"level":30,"msg":"seen: ${value}, among others"}`)
        const { findings } = watching.report('')
        assert.ok(findings.some((finding) => finding.secret === secret && finding.place === place), place)
        assert.ok(!JSON.stringify(findings).includes(value), 'what it found is in the report')
      }
    })
  }

  it('takes nothing else for one', () => {
    const watching = witness()
    const harmless = [
      'Send the key as "Authorization: Bearer <key>".', 'tgk_ab12cd', 'tgk_…', 'GET /events?ticket=…', '/events/tickets', 'eyJ', 'a-canary-in-a-mine',
      `eyJ${'x'.repeat(40)}`, random(), JSON.stringify({ keyId: 'ab12cd', principal: 'api-key', traceId: 'a'.repeat(32) })
    ]
    for (const text of harmless) watching.look('log line', text)
    assert.deepEqual(watching.report('').findings, [])
    assert.equal(watching.report('').looked['log line'], harmless.length)
  })

  it('tells how many of each were in use, each counted once', () => {
    const watching = witness()
    for (const credentials of [key, `tgk_other_${random()}`, 'neither-of-these-keys']) watching.accepted(credentials)
    assert.deepEqual(watching.report('').inUse, { 'static key': 1, key: 2, ticket: 1, token: 1 })
  })

  it('knows a canary, which is another one each time', () => {
    assert.notEqual(canary(), canary())
    assert.ok(isCanary(canary()))
    for (const value of ['canary', 'canary-0', undefined]) assert.ok(!isCanary(value))
  })
})
