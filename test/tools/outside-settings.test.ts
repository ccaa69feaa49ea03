import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Type } from '@sinclair/typebox'
import { createGateway } from '../../src/gateway.ts'
import { outsideSettings, unusedPatterns } from '../../src/tools/outside-settings.ts'

describe('settings from outside', () => {
  it('apply by id and by pattern: later wins field by field, the id wins over patterns', () => {
    const settingsFor = outsideSettings({
      pi_read: { timeoutMs: 1 },
      '*': { kind: 'tool', timeoutMs: 9 },
      'pi_*': { timeoutMs: 5, sensitive: true }
    })
    assert.deepEqual(settingsFor('other'), { kind: 'tool', timeoutMs: 9 })
    assert.deepEqual(settingsFor('pi_write'), { kind: 'tool', timeoutMs: 5, sensitive: true })
    assert.deepEqual(settingsFor('pi_read'), { kind: 'tool', timeoutMs: 1, sensitive: true })
  })

  it('take a pattern literally but for its stars, and know no inherited names', () => {
    const settingsFor = outsideSettings({ 'a.b*c': { kind: 'x' } })
    assert.deepEqual([settingsFor('a.b--c'), settingsFor('aXbc'), settingsFor('a.bcd'), settingsFor('constructor')], [{ kind: 'x' }, {}, {}, {}])
  })

  it('fit an id from its beginning to its end, with the parts between stars in order and beside one another', () => {
    const cases: [pattern: string, fitting: string[], others: string[]][] = [
      ['a*', ['a', 'ab'], ['ba', 'A']],
      ['*a', ['a', 'ba', 'aa'], ['ab']],
      ['a*a', ['aa', 'aba'], ['a', 'ab']],
      ['*b*', ['b', 'abc'], ['ac']],
      ['a*b*c', ['abc', 'a-bb-c', 'abcbc'], ['acb', 'ac', 'abcd']],
      ['*ab*ba*', ['abba', 'xabxbax'], ['aba', 'baab']],
      ['a**c', ['ac', 'abc'], ['a']],
      ['*', ['a'], []],
      ['a', ['a'], ['aa', 'b']]
    ]
    for (const [pattern, fitting, others] of cases) {
      const settingsFor = outsideSettings({ [pattern]: { kind: 'x' } })
      for (const id of fitting) assert.deepEqual([settingsFor(id), unusedPatterns([pattern], [id])], [{ kind: 'x' }, []], `${pattern} fits ${id}`)
      for (const id of others) assert.deepEqual([settingsFor(id), unusedPatterns([pattern], [id])], [{}, [pattern]], `${pattern} does not fit ${id}`)
    }
  })

  it('are found not to fit at once, however many stars there are', () => {
    const pattern = '*a*a*a*a*a*a*a*b'
    const id = 'a'.repeat(60)
    const beganMs = performance.now()
    assert.deepEqual([outsideSettings({ [pattern]: { kind: 'x' } })(id), unusedPatterns([pattern], [id])], [{}, [pattern]])
    assert.ok(performance.now() - beganMs < 1000)
  })

  it('that cannot be used are told all at once, by pattern and field', () => {
    assert.throws(() => outsideSettings({ a: { timeoutMs: 0 }, 'b*': { sensitve: true } as never }), (error: { code: string, message: string }) => {
      assert.equal(error.code, 'invalid_config')
      assert.match(error.message, /a\/timeoutMs: /)
      assert.match(error.message, /b\*\/sensitve: /)
      return true
    })
  })

  it('win over what a tool of any shape says itself', async (t) => {
    const app = createGateway({
      logger: false,
      toolSettings: { agent: { kind: 'read', inputMode: 'strict' }, own: { timeoutMs: 5 } },
      tools: [
        { name: 'agent', description: 'd', parameters: Type.Object({ n: Type.Integer() }), execute: async () => ({}) },
        { id: 'own', kind: 'k', description: 'd', parameters: {}, timeoutMs: 1000, execute: () => new Promise<never>(() => {}) }
      ]
    })
    t.after(() => app.close())
    await app.ready()
    const { body } = await app.inject('/tools/agent')
    assert.deepEqual([JSON.parse(body).kind, JSON.parse(body).inputMode], ['read', 'strict'])
    assert.equal((await app.invoke({ toolId: 'agent', input: { n: '1' } })).invocation.errorCode, 'invalid_input')
    assert.equal((await app.invoke({ toolId: 'own' })).invocation.errorCode, 'timeout')
  })
})
