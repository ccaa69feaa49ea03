import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { KeyRing } from '../../../src/auth/keys/key-ring.ts'
import { FakeClock } from '../../conformance/fake-clock.ts'
import { makeKey, type MadeKey } from './keys.ts'

const clock = new FakeClock(Date.parse('2026-06-01T00:00:00Z'))

function ringOf (...keys: MadeKey[]): KeyRing {
  const ring = new KeyRing(clock)
  ring.use(keys.map(({ entry }) => entry))
  return ring
}

const refusalOf = (ring: KeyRing, { text }: MadeKey) => {
  try {
    return ring.find(text)
  } catch (error) {
    const { code, message, refusedFor } = error as { code: string, message: string, refusedFor: string }
    return { code, message, refusedFor }
  }
}

describe('keys in force', () => {
  it('are found by their text alone', () => {
    const [a, b] = [makeKey('a'), makeKey('b')]
    const ring = ringOf(a, b)
    assert.equal(ring.find(a.text)!.principal.id, 'key:a')
    assert.equal(ring.find(b.text)!.principal.id, 'key:b')
    for (const token of [makeKey('a').text, a.entry.hash, a.entry.id, '', a.text.slice(0, -1), a.text.slice(0, 17) + b.text.slice(17)]) assert.equal(ring.find(token), undefined)
  })

  it('give what their scopes say, narrowed to their tools', () => {
    const key = makeKey('ci', { scopes: ['tools:read', 'tools:invoke?tool=*_status'], tools: ['get_*'] })
    const { principal, access } = ringOf(key).find(key.text)!
    assert.deepEqual(principal.scopes, key.entry.scopes)
    const may = (scope: 'tools:read' | 'tools:invoke', id: string) => access.mayTool(scope, id, 'read')
    assert.deepEqual([may('tools:read', 'get_time'), may('tools:read', 'set_status'), may('tools:invoke', 'get_status'), may('tools:invoke', 'get_time'), may('tools:invoke', 'set_status')], [true, false, true, false, false])
    assert.deepEqual([access.has('events:read'), access.isAdmin], [false, false])
  })

  it('of one name are one caller, whose own calls are those made with either', () => {
    const [old, next] = [makeKey('ci', { scopes: ['invocations:read?own'] }), makeKey('ci', { scopes: ['invocations:read?own'] })]
    const ring = ringOf(old, next)
    const call = { toolId: 't', kind: 'k', principalId: ring.find(old.text)!.principal.id, isChild: false, parentTool: undefined }
    assert.equal(ring.find(next.text)!.access.sight('invocations:read')!.sees(call), true)
    assert.equal(ring.find(next.text)!.access.sight('invocations:read')!.sees({ ...call, principalId: 'key:other' }), false)
  })

  it('that were revoked or have expired are refused, and the reason names the key', () => {
    const [gone, late] = [makeKey('ci', { revokedAt: '2026-05-01' }), makeKey('ci', { expiresAt: '2026-06-01' })]
    const ring = ringOf(gone, late)
    assert.deepEqual(refusalOf(ring, gone), { code: 'unauthorized', message: 'The key was revoked.', refusedFor: `revoked key ${gone.entry.id} (ci)` })
    assert.deepEqual(refusalOf(ring, late), { code: 'unauthorized', message: 'The key has expired.', refusedFor: `expired key ${late.entry.id} (ci)` })
  })

  it('expire when their time comes, and not before', () => {
    const key = makeKey('ci', { expiresAt: new Date(clock.now() + 1000).toISOString() })
    const ring = ringOf(key)
    const caller = ring.find(key.text)!
    clock.advance(999)
    assert.deepEqual([ring.find(key.text), caller.isCurrent()], [caller, true])
    clock.advance(1)
    assert.equal(caller.isCurrent(), false)
    assert.match((refusalOf(ring, key) as { message: string }).message, /expired/)
  })
})

describe('keys that change', () => {
  it('that are still the same keep their caller, wherever they stand', () => {
    const [a, b, c] = [makeKey('a'), makeKey('b'), makeKey('c')]
    const ring = ringOf(a, b)
    const caller = ring.find(a.text)!
    assert.deepEqual(ring.use([c.entry, b.entry, structuredClone(a.entry)]), { added: [{ id: c.entry.id, name: 'c' }], changed: [], removed: [] })
    assert.deepEqual([ring.find(a.text) === caller, caller.isCurrent(), ring.size], [true, true, 3])
  })

  const changes: [what: string, more: object][] = [
    ['were revoked', { revokedAt: '2026-05-01' }],
    ['have other scopes', { scopes: ['tools:read'] }],
    ['have other tools', { tools: ['get_*'] }],
    ['expire another time', { expiresAt: '2030-01-01' }],
    ['have another name', { name: 'other' }]
  ]
  for (const [what, more] of changes) {
    it(`that ${what} are not those from before`, () => {
      const key = makeKey('ci')
      const ring = ringOf(key)
      const caller = ring.find(key.text)!
      const { changed } = ring.use([{ ...key.entry, ...more }])
      assert.deepEqual([changed.map(({ id }) => id), caller.isCurrent()], [[key.entry.id], false])
      assert.notEqual(refusalOf(ring, key), caller)
    })
  }

  it('that are gone are unknown', () => {
    const key = makeKey('ci')
    const ring = ringOf(key)
    const caller = ring.find(key.text)!
    assert.deepEqual(ring.use([]).removed, [{ id: key.entry.id, name: 'ci' }])
    assert.deepEqual([ring.find(key.text), caller.isCurrent()], [undefined, false])
  })

  it('that come back as they were are current again for who comes anew', () => {
    const key = makeKey('ci')
    const ring = ringOf(key)
    const caller = ring.find(key.text)!
    ring.use([])
    ring.use([key.entry])
    assert.deepEqual([ring.find(key.text)!.isCurrent(), caller.isCurrent()], [true, false])
  })
})
