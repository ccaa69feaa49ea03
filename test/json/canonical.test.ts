import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { isDeepStrictEqual } from 'node:util'
import fc from 'fast-check'
import { canonicalJson } from '../../src/json/canonical.ts'

const json = fc.jsonValue({ maxDepth: 4, stringUnit: 'binary' })

/** The same value with the keys of each object the other way round. */
function turned (value: unknown): unknown {
  if (Array.isArray(value)) return value.map(turned)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).reverse().map(([key, member]) => [key, turned(member)]))
}

/** As it comes out of JSON text, in which -0 is 0. */
const parsed = (value: unknown): unknown => JSON.parse(JSON.stringify(value))

describe('canonical JSON', () => {
  it('is the same text whatever order the keys came in, at any depth', () => {
    fc.assert(fc.property(json, (value) => { assert.equal(canonicalJson(turned(value)), canonicalJson(value)) }))
  })

  it('is JSON text of the value', () => {
    fc.assert(fc.property(json, (value) => { assert.deepEqual(JSON.parse(canonicalJson(value)), parsed(value)) }))
  })

  it('of different values is different', () => {
    fc.assert(fc.property(json, json, (one, other) => {
      fc.pre(!isDeepStrictEqual(parsed(one), parsed(other)))
      assert.notEqual(canonicalJson(one), canonicalJson(other))
    }))
  })

  for (const [one, other] of [['1', '1.0'], ['1e2', '100'], ['-0', '0'], ['"\\u0061"', '"a"'], ['{"a":1,"b":2}', ' { "b" : 2, "a" : 1 } '], ['{"2":0,"10":0}', '{"10":0,"2":0}'], ['"\\ud800"', '"\ud800"']] as const) {
    it(`takes ${one} and ${other} for the same`, () => {
      assert.equal(canonicalJson(JSON.parse(one)), canonicalJson(JSON.parse(other)))
    })
  }

  for (const [one, other] of [['1', '"1"'], ['null', '"null"'], ['[]', '{}'], ['[1,2]', '[2,1]'], ['[[1],2]', '[1,[2]]'], ['{"a":null}', '{}'], ['{"a":{"b":1}}', '{"a":1,"b":1}'], ['"\\ud800"', '"\\ud801"'], ['{"__proto__":1}', '{}'], ['{"é":1}', '{"e\u0301":1}']] as const) {
    it(`tells ${one} from ${other}`, () => {
      assert.notEqual(canonicalJson(JSON.parse(one)), canonicalJson(JSON.parse(other)))
    })
  }
})
