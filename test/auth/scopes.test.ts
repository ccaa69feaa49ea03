import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { grantsOf, parseScope, scopeNames } from '../../src/auth/scopes.ts'

describe('a scope', () => {
  for (const name of scopeNames) {
    it(`${name} alone is about everything`, () => {
      assert.deepEqual(parseScope(name), { name, tools: undefined, kinds: undefined, isOwn: false })
    })
  }

  it('is narrowed by tools, kinds, and one\'s own calls', () => {
    assert.deepEqual(parseScope('events:read?tool=get_*&kind=read&tool=list&own'), { name: 'events:read', tools: ['get_*', 'list'], kinds: ['read'], isOwn: true })
    assert.deepEqual(parseScope('tools:invoke?kind=a%20b%26'), { name: 'tools:invoke', tools: undefined, kinds: ['a b&'], isOwn: false })
    assert.deepEqual(parseScope('admin?tool=*'), { name: 'admin', tools: ['*'], kinds: undefined, isOwn: false })
  })

  const bad: [text: string, why: RegExp][] = [
    ['', /"" is no scope; there are tools:read/], ['tools', /no scope/], ['Tools:read', /no scope/], ['tools:read ', /no scope/], ['constructor', /no scope/],
    ['tools:read?', /cannot be narrowed by ""/], ['tools:read?own', /cannot be narrowed by "own"/], ['tools:invoke?own', /"own"/], ['admin?own', /"own"/],
    ['events:read?own=1', /"own=1"/], ['events:read?tool', /"tool"/], ['events:read?tool=', /no tool can have an id that fits ""/],
    ['events:read?tool=a b', /no tool/], ['events:read?tool=-', /no tool/], ['events:read?kind=', /"kind="/], ['events:read?toolId=a', /"toolId=a"/],
    ['events:read?tool=%', /not encoded/], ['events:read?own&&own', /by ""/], [`events:read?${'tool=a&'.repeat(400)}own`, /2048 characters/]
  ]
  for (const [text, why] of bad) {
    it(`is not ${JSON.stringify(text.slice(0, 40))}`, () => {
      assert.throws(() => parseScope(text), (error: Error) => error instanceof SyntaxError && why.test(error.message) && error.message.length < 300)
    })
  }
})

describe('what a caller has by its scopes', () => {
  it('is narrowed by the tools of its key as well', () => {
    assert.deepEqual(grantsOf([parseScope('events:read?tool=get_*&own'), parseScope('tools:read')], 'me', ['a_*']), [
      { scope: 'events:read', tools: [['a_*'], ['get_*']], kinds: undefined, principalId: 'me' },
      { scope: 'tools:read', tools: [['a_*']], kinds: undefined, principalId: undefined }
    ])
  })
})
