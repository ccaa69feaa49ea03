import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { Access, fullAccess, type CallScope } from '../../src/auth/access.ts'
import { grantsOf, parseScope, scopeNames } from '../../src/auth/scopes.ts'
import { GatewayError } from '../../src/errors.ts'
import { startOf } from '../conformance/calls.ts'

const access = (scopes: string[], within?: string[]) => new Access(grantsOf(scopes.map(parseScope), 'me', within), 'me')
const codeOf = (error: GatewayError | undefined) => error?.code
const refusal = (run: () => void): [string, string, string | undefined] | undefined => {
  try {
    run()
  } catch (error) {
    assert.ok(error instanceof GatewayError)
    return [error.code, error.message, error.refusedFor]
  }
}

describe('access', () => {
  describe('to tools', () => {
    it('is there for the tools of its scope, of the kinds of its scope', () => {
      const some = access(['tools:invoke?tool=a_*&tool=b&kind=read'])
      const may = (id: string, kind: string) => some.mayTool('tools:invoke', id, kind)
      assert.deepEqual([may('a_1', 'read'), may('b', 'read'), may('a_1', 'write'), may('b_1', 'read'), may('xa_', 'read')], [true, true, false, false, false])
      assert.equal(some.mayTool('tools:read', 'a_1', 'read'), false)
    })

    it('scopes widen one another, and the tools of the key narrow them all', () => {
      const some = access(['tools:invoke?kind=read', 'tools:invoke?tool=put_*'], ['*_mine'])
      const may = (id: string, kind: string) => some.mayTool('tools:invoke', id, kind)
      assert.deepEqual([may('get_mine', 'read'), may('put_mine', 'write'), may('get_mine', 'write'), may('get', 'read'), may('put_', 'write')], [true, true, false, false, false])
    })

    it('is refused as forbidden for what one may see, and as unknown for what one may not', () => {
      const some = access(['tools:read?tool=a_*', 'tools:invoke?tool=b'])
      assert.equal(some.refusalOfTool('tools:read', 'a_1', 'read'), undefined)
      assert.equal(codeOf(some.refusalOfTool('tools:invoke', 'a_1', 'read')), 'forbidden')
      assert.equal(codeOf(some.refusalOfTool('tools:read', 'b', 'read')), 'forbidden')
      assert.equal(codeOf(some.refusalOfTool('tools:read', 'c', 'read')), 'unknown_tool')
    })

    it('a tool that is out of sight is refused in the words for one that is not there', () => {
      const some = access(['tools:invoke?tool=a_*'])
      const hidden = some.refusalOfTool('tools:invoke', 'b', 'read')!
      const absent = some.refusalOfTool('tools:invoke', 'b', undefined)!
      assert.deepEqual([hidden.code, hidden.message, hidden.headers], [absent.code, absent.message, absent.headers])
    })

    it('a scope over one\'s own calls shows no tools', () => {
      const some = access(['tools:invoke?tool=a_*', 'events:read?own', 'invocations:read?own', 'invocations:cancel?own'])
      assert.equal(codeOf(some.refusalOfTool('tools:invoke', 'b', 'read')), 'unknown_tool')
    })

    it('an id that no tool has is left to who looks for it, where its scope fits', () => {
      assert.equal(access(['tools:invoke?tool=a_*&kind=read']).refusalOfTool('tools:invoke', 'a_1', undefined), undefined)
    })

    it('costs who may call them all nothing', () => {
      assert.equal(fullAccess('me').refusalOfCall, undefined)
      assert.equal(access(['tools:invoke']).refusalOfCall, undefined)
      assert.equal(access(['tools:invoke?tool=*', 'tools:read?tool=a'], ['*', 'a']).refusalOfCall, undefined)
      for (const scopes of [['tools:invoke?tool=a*'], ['tools:invoke?kind=read'], ['tools:read'], []]) assert.notEqual(access(scopes).refusalOfCall, undefined)
    })
  })

  describe('to calls', () => {
    const mine = startOf({ principalId: 'me', toolId: 'a_1' })
    const other = startOf({ principalId: 'you', toolId: 'a_1' })

    it('of one\'s own is not to those of others', () => {
      const some = access(['invocations:read?own'])
      assert.equal(refusal(() => some.assertCall('invocations:read', mine)), undefined)
      assert.equal(refusal(() => some.assertCall('invocations:read', other))?.[0], 'unknown_invocation')
    })

    it('is refused as forbidden for what one may know of, and as unknown for what one may not', () => {
      const some = access(['invocations:read', 'invocations:cancel?own'])
      assert.equal(refusal(() => some.assertCall('invocations:cancel', mine)), undefined)
      assert.deepEqual(refusal(() => some.assertCall('invocations:cancel', other))?.[0], 'forbidden')
      assert.deepEqual(refusal(() => access(['invocations:cancel?tool=b']).assertCall('invocations:cancel', mine)),
        ['unknown_invocation', 'There is no record of this invocation.', 'call'])
    })

    it('has no bounds for who has a scope without any', () => {
      assert.equal(access(['events:read']).sight('events:read'), undefined)
      assert.notEqual(access(['events:read?own']).sight('events:read'), undefined)
      assert.equal(access(['events:read?own', 'events:read']).sight('events:read'), undefined)
    })

    it('without its scope, there is none to see', () => {
      assert.equal(access(['tools:invoke']).sight('events:read')!.sees(mine), false)
    })

    it('of different rights has different keys, and of the same the same', () => {
      const key = (scopes: string[], id = 'me') => new Access(grantsOf(scopes.map(parseScope), id), id).sight('events:read')!.key
      assert.equal(key(['events:read?tool=a']), key(['events:read?tool=a', 'tools:read']))
      const keys = [['events:read?tool=a'], ['events:read?tool=b'], ['events:read?kind=a'], ['events:read?own'], ['events:read?tool=a&own'], [], ['events:read?tool=a', 'events:read?tool=b']].map((scopes) => key(scopes))
      keys.push(key(['events:read?own'], 'you'), key(['events:read?tool=a'], 'you'))
      assert.equal(new Set(keys).size, keys.length)
    })
  })

  it('admin is all of it, also narrowed; of the whole is told who has it for everything', () => {
    const admin = access(['admin'])
    for (const scope of scopeNames) assert.equal(refusal(() => admin.assert(scope)), undefined)
    assert.equal(admin.isAdmin, true)
    const narrowed = access(['admin?tool=a_*'])
    assert.equal(narrowed.isAdmin, false)
    assert.equal(access(['admin'], ['a_*']).isAdmin, false)
    for (const scope of scopeNames) assert.equal(refusal(() => narrowed.assert(scope)), undefined)
    assert.equal(narrowed.sight('admin')!.sees(startOf({ toolId: 'b' })), false)
    assert.equal(codeOf(narrowed.refusalOfTool('tools:invoke', 'b', 'read')), 'unknown_tool')
  })

  it('without a scope says which one is missing, in words and in the challenge', () => {
    const none = access([])
    for (const scope of scopeNames) {
      assert.throws(() => none.assert(scope), (error: GatewayError) => error.code === 'forbidden' && error.message.includes(scope) &&
        error.headers!['www-authenticate'] === `Bearer realm="toolgate", error="insufficient_scope", scope="${scope}"`)
    }
  })

  it('sees by each scope exactly what one of its grants is about, whatever they are', () => {
    const ids = fc.constantFrom('a', 'b', 'ab')
    const kinds = fc.constantFrom('read', 'write')
    const people = fc.constantFrom('me', 'you')
    const scope = fc.record({ name: fc.constantFrom('events:read', 'invocations:read'), tool: fc.option(fc.constantFrom('a', 'a*', '*b', '*')), kind: fc.option(kinds), own: fc.boolean() })
    fc.assert(fc.property(fc.array(scope, { maxLength: 4 }), ids, kinds, people, (scopes, toolId, kind, principalId) => {
      const texts = scopes.map(({ name, tool, kind, own }) => {
        const parts = [tool === null ? [] : `tool=${tool}`, kind === null ? [] : `kind=${kind}`, own ? 'own' : []].flat()
        return parts.length === 0 ? name : `${name}?${parts.join('&')}`
      })
      const fits = (pattern: string | null) => pattern === null || new RegExp(`^${pattern.replaceAll('*', '.*')}$`).test(toolId)
      for (const name of ['events:read', 'invocations:read'] as CallScope[]) {
        const expected = scopes.some((one) => one.name === name && fits(one.tool) && (one.kind === null || one.kind === kind) && (!one.own || principalId === 'me'))
        assert.equal(access(texts).sight(name)?.sees({ toolId, kind, principalId }) ?? true, expected)
      }
    }))
  })
})
