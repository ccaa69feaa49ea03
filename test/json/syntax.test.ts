import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { placeOf, syntaxFault } from '../../src/json/syntax.ts'

const isJson = (text: string): boolean => {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}

describe('syntax of JSON', () => {
  it('agrees with the engine on what is JSON', () => {
    const pieces = fc.constantFrom('{', '}', '[', ']', ',', ':', '"a"', '"', '\\', '\\u00e9', '\\x', '0', '01', '-', '-1', '1.', '1.5', '.5', '1e3', '1e', 'true', 'tru', 'null', 'nulll', 'false', ' ', '\n', '\t', '\u0000', 'é', '\u00a0')
    const made = fc.array(pieces, { maxLength: 12 }).map((parts) => parts.join(''))
    const edited = fc.tuple(fc.json(), fc.nat(), fc.nat(3), pieces).map(([text, at, cut, piece]) => {
      const from = at % (text.length + 1)
      return text.slice(0, from) + piece + text.slice(from + cut)
    })
    fc.assert(fc.property(fc.oneof(made, edited, fc.json()), (text) => {
      assert.equal(syntaxFault(text) === undefined, isJson(text), text)
    }), { numRuns: 5000 })
  })

  it('a text that only lacks its end is at fault at its length', () => {
    for (const text of ['', ' ', '{', '[1,', '{"a"', '{"a":', '{"a":[1', '{"a":1,']) assert.equal(syntaxFault(text), text.length, text)
  })

  const faults: [text: string, at: number][] = [
    ['{"a":1,}', 7], ['[1,]', 3], ['[1 2]', 3], ["{'a':1}", 1], ['{a:1}', 1], ['1 1', 2], ['{"a" 1}', 5], ['{"a":tru}', 5], ['[01]', 1], ['{"a":"b\n"}', 5], ['[}', 1], ['{"a":1]', 6]
  ]
  for (const [text, at] of faults) {
    it(`${JSON.stringify(text)} is at fault at ${at}`, () => assert.equal(syntaxFault(text), at))
  }

  it('places are told by line and column', () => {
    const text = 'ab\ncd\r\ne'
    assert.deepEqual([0, 1, 3, 4, 7, 8].map((offset) => Object.values(placeOf(text, offset))), [[1, 1], [1, 2], [2, 1], [2, 2], [3, 1], [3, 2]])
  })
})
