import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { parseKeys, statusOf } from '../../../src/auth/keys/key-file.ts'
import { createKey, hashOf, isKeyText } from '../../../src/auth/keys/key-text.ts'
import type { GatewayError } from '../../../src/errors.ts'
import { makeKey } from './keys.ts'

const { text: key, entry } = makeKey('ci', { scopes: ['tools:read', 'events:read?own'], tools: ['get_*'], expiresAt: '2027-01-31', revokedAt: '2026-02-01T10:00:00+02:00' })
const bytesOf = (content: unknown) => Buffer.from(typeof content === 'string' ? content : JSON.stringify(content))

/** What a file is refused with: messages by JSON Pointer. */
function faultsOf (content: unknown): Record<string, string> {
  try {
    parseKeys(bytesOf(content), 'keys.json')
  } catch (error) {
    const { code, errors = [], message } = error as GatewayError
    assert.equal(code, 'invalid_config')
    assert.match(message, /^The keys file keys\.json/)
    for (const fault of errors) assert.ok(message.includes(fault.message))
    return errors.length === 0 ? { '': message } : Object.fromEntries(errors.map(({ path, message }) => [path, message]))
  }
  return {}
}

describe('the text of a key', () => {
  it('has its id in front, and 256 random bits', () => {
    const { id, text } = createKey()
    assert.match(text, new RegExp(`^tgk_${id}_[A-Za-z0-9_-]{43}$`))
    assert.ok(isKeyText(text))
    assert.notEqual(text, createKey().text)
  })

  it('is not what somebody thought up', () => {
    for (const text of ['', 'tgk_', 'correct-horse-battery-staple', key.slice(1), key.slice(0, -1), `${key}A`, key.toUpperCase()]) assert.equal(isKeyText(text), false, text)
  })

  it('is kept as a digest of all of it', () => {
    assert.match(hashOf(key), /^sha256:[0-9a-f]{64}$/)
    assert.notEqual(hashOf(key), hashOf(key.replace('tgk_', 'tgk-')))
  })
})

describe('the file of keys', () => {
  it('gives its entries as they are', () => {
    assert.deepEqual(parseKeys(bytesOf({ keys: [entry] }), 'keys.json'), [entry])
    assert.deepEqual(parseKeys(bytesOf('\uFEFF{"keys":[]}'), 'keys.json'), [])
  })

  const with_ = (more: object) => ({ keys: [{ ...entry, ...more }] })
  const refused: [what: string, content: unknown, pointer: string, message: RegExp][] = [
    ['a list', [], '', /must be an object/],
    ['an object without keys', {}, '/keys', /list of keys/],
    ['keys that are no list', { keys: {} }, '/keys', /list of keys/],
    ['another member', { keys: [], more: 1 }, '/more', /no such member/],
    ['a key that is no object', { keys: ['x'] }, '/keys/0', /must be an object/],
    ['a member of a key that there is not', with_({ expires: '2027-01-01' }), '/keys/0/expires', /no such member/],
    ['__proto__', `{"keys":[{"__proto__":1,${JSON.stringify(entry).slice(1)}]}`, '/keys/0/__proto__', /no such member/],
    ['an id with capitals', with_({ id: 'ABCDEFABCDEF' }), '/keys/0/id', /12 digits/],
    ['a name with a space', with_({ name: 'a b' }), '/keys/0/name', /1 to 64 letters/],
    ['a name that is too long', with_({ name: 'a'.repeat(65) }), '/keys/0/name', /1 to 64 letters/],
    ['a hash of another kind', with_({ hash: 'md5:0' }), '/keys/0/hash', /sha256:/],
    ['the key in place of its hash', with_({ hash: key }), '/keys/0/hash', /sha256:/],
    ['no scopes', with_({ scopes: undefined }), '/keys/0/scopes', /list of scopes/],
    ['an empty list of scopes', with_({ scopes: [] }), '/keys/0/scopes', /at least one/],
    ['a scope that there is not', with_({ scopes: ['tools:read', 'tools:write'] }), '/keys/0/scopes/1', /no scope; there are tools:read/],
    ['a scope that cannot be narrowed so', with_({ scopes: ['tools:read?own'] }), '/keys/0/scopes/0', /cannot be narrowed/],
    ['a list of no tools', with_({ tools: [] }), '/keys/0/tools', /at least one/],
    ['a pattern that no id fits', with_({ tools: ['*', 'a b'] }), '/keys/0/tools/1', /no tool can have/],
    ['a time without its offset', with_({ createdAt: '2026-01-01T00:00:00' }), '/keys/0/createdAt', /a time as in/],
    ['a day that there is not', with_({ expiresAt: '2027-02-29' }), '/keys/0/expiresAt', /a time as in/],
    ['a number for a time', with_({ revokedAt: 5 }), '/keys/0/revokedAt', /a time as in/],
    ['two keys of one id', { keys: [entry, { ...makeKey('ci').entry, id: entry.id }] }, '/keys/1/id', /another key/],
    ['two keys of one hash', { keys: [entry, { ...makeKey('ci').entry, hash: entry.hash }] }, '/keys/1/hash', /another key/],
    ['an empty file', '', '', /is not JSON/],
    ['half a file', JSON.stringify({ keys: [entry] }, undefined, 2).slice(0, 120), '', /is not JSON/]
  ]
  for (const [what, content, pointer, message] of refused) {
    it(`${what} is refused at ${pointer || 'the file itself'}`, () => {
      const faults = faultsOf(content)
      assert.deepEqual(Object.keys(faults), [pointer])
      assert.match(faults[pointer]!, message)
    })
  }

  it('bytes that are no UTF-8 are refused', () => {
    assert.throws(() => parseKeys(Uint8Array.of(0x7B, 0xFF, 0x7D), 'keys.json'), { code: 'invalid_config', message: /not UTF-8/ })
  })

  it('every fault is told at once, the first twenty by name', () => {
    assert.deepEqual(Object.keys(faultsOf({ keys: [{ ...entry, id: 1, name: '' }, { ...entry, hash: '' }] })), ['/keys/0/id', '/keys/0/name', '/keys/1/hash'])
    assert.throws(() => parseKeys(bytesOf({ keys: Array.from({ length: 25 }, () => 1) }), 'keys.json'), { message: /\/keys\/19: .*\n {2}and 5 more$/ })
  })

  it('refusals quote neither hashes nor keys', () => {
    const broken = JSON.stringify({ keys: [entry] })
    for (const content of [{ keys: [entry, entry] }, with_({ hash: `${entry.hash}0` }), with_({ [key]: 1 }), { [key]: 1 }, broken.replace('"hash":', '"hash"'), broken.replace('","scopes', 'x')]) {
      const told = JSON.stringify(faultsOf(content))
      assert.notEqual(told, '{}')
      assert.ok(!told.includes(entry.hash.slice(7, 27)) && !told.includes(key.slice(-20)), told)
    }
  })
})

describe('how a key stands', () => {
  const now = Date.parse('2026-06-01T00:00:00Z')
  const cases: [string, object][] = [
    ['active', {}],
    ['active', { expiresAt: '2026-06-01T00:00:00.001Z' }],
    ['active', { expiresAt: '2026-06-02' }],
    ['expired', { expiresAt: '2026-06-01T00:00:00Z' }],
    ['expired', { expiresAt: '2026-06-01' }],
    ['expired', { expiresAt: '2026-06-01T01:30+02:00' }],
    ['revoked', { revokedAt: '2026-05-01' }],
    ['revoked', { revokedAt: '2030-01-01', expiresAt: '2026-01-01' }]
  ]
  for (const [status, more] of cases) it(`${JSON.stringify(more)} is ${status}`, () => assert.equal(statusOf({ ...makeKey('a').entry, ...more }, now), status))
})
