import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { NotJsonError, stringifyJson } from '../../src/json/stringify.ts'

const DEPTH = 100

function refused (value: unknown, message: RegExp, path = ''): void {
  assert.throws(() => stringifyJson(value, DEPTH), (error) => {
    assert.ok(error instanceof NotJsonError)
    assert.match(error.message, message)
    assert.equal(error.path, path)
    return true
  })
}

function nest (depth: number): unknown {
  let value: unknown = 1
  for (let level = 0; level < depth; level++) value = level % 2 === 0 ? [value] : { a: value }
  return value
}

describe('stringifyJson', () => {
  it('is JSON.stringify for any JSON value', () => {
    fc.assert(fc.property(fc.jsonValue({ stringUnit: 'binary' }), (value) => {
      assert.equal(stringifyJson(value, DEPTH), JSON.stringify(value))
    }), { numRuns: 500 })
  })

  describe('numbers without a JSON form', () => {
    for (const number of [NaN, Infinity, -Infinity]) {
      it(`${number} is refused where it stands`, () => {
        refused(number, /has no JSON form/)
        refused({ a: [0, { b: number }] }, new RegExp(String(number)), '/a/1/b')
        refused([null, number], /has no JSON form/, '/1')
      })
    }

    it('are found at a path in JSON Pointer escapes', () => {
      refused({ 'a/b': { '~c': NaN } }, /NaN/, '/a~1b/~0c')
      refused({ '': NaN }, /NaN/, '/')
    })

    it('are found behind toJSON, and below a value that stands twice', () => {
      refused({ a: { toJSON: () => ({ b: NaN }) } }, /NaN/, '/a/b')
      const shared = { n: 1 as number }
      assert.equal(stringifyJson([null, shared, shared], DEPTH), '[null,{"n":1},{"n":1}]')
      refused([shared, { n: NaN }], /NaN/, '/1/n')
    })

    it('are not seen where there is only null, or the word', () => {
      assert.equal(stringifyJson({ a: null, b: 'null', null: [null] }, DEPTH), '{"a":null,"b":"null","null":[null]}')
    })
  })

  it('a BigInt is refused', () => {
    refused(1n, /BigInt/)
    refused({ a: [1n] }, /BigInt/)
  })

  it('a cycle is refused', () => {
    const cyclic: Record<string, unknown> = { a: {} }
    ;(cyclic.a as Record<string, unknown>).back = cyclic
    refused(cyclic, /cycle/)
    const list: unknown[] = []
    list.push(list)
    refused(list, /cycle/)
  })

  it('a getter or toJSON that throws is refused, its cause kept, its words not', () => {
    const cause = new Error('secret')
    for (const value of [
      { get a () { throw cause } },
      { a: { toJSON () { throw cause } } },
      new Proxy({}, { ownKeys () { throw cause } })
    ]) {
      assert.throws(() => stringifyJson(value, DEPTH), (error) => error instanceof NotJsonError && error.cause === cause && !error.message.includes('secret'))
    }
    const frozenUndefined = { get a () { throw undefined } } // eslint-disable-line no-throw-literal
    refused(frozenUndefined, /getter or toJSON/)
  })

  it('a value that is nothing in JSON is refused as a whole', () => {
    for (const value of [undefined, () => {}, Symbol('s'), { toJSON: () => undefined }]) refused(value, /has no JSON form/)
  })

  it('as a member, what is nothing is absent', () => {
    assert.equal(stringifyJson({ a: undefined, b: () => {}, c: Symbol('s'), d: 1 }, DEPTH), '{"d":1}')
  })

  it('a Date is its ISO string, and what has toJSON is what that returns', () => {
    assert.equal(stringifyJson({ at: new Date(0) }, DEPTH), '{"at":"1970-01-01T00:00:00.000Z"}')
    assert.equal(stringifyJson({ toJSON: () => [1] }, DEPTH), '[1]')
    assert.equal(stringifyJson(Object.assign(Object.create(null) as object, { a: 1 }), DEPTH), '{"a":1}')
  })

  it('lone surrogates come out escaped, pairs as they are: always valid UTF-8', () => {
    const text = stringifyJson({ a: '\ud800', '\udfff': '\ud83d\ude00' }, DEPTH)
    assert.equal(text, '{"a":"\\ud800","\\udfff":"😀"}')
    assert.equal(Buffer.from(text).toString(), text)
  })

  describe('depth', () => {
    it('at the limit is taken, one over is refused', () => {
      assert.equal(typeof stringifyJson(nest(DEPTH), DEPTH), 'string')
      refused(nest(DEPTH + 1), /nested 101 levels deep; the limit is 100/)
      assert.throws(() => stringifyJson([[]], 1), NotJsonError)
      assert.equal(stringifyJson([], 1), '[]')
    })

    it('of 500, 3,000 and 20,000 is refused, and the process lives', () => {
      for (const depth of [500, 3000, 20_000]) refused(nest(depth), /nested/)
    })

    it('of brackets in a string does not count', () => {
      assert.equal(stringifyJson('['.repeat(500), DEPTH).length, 502)
    })
  })
})
