import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { cut, pad, widthOf } from '../../src/cli/text-width.ts'

describe('the width of a text', () => {
  for (const [text, width] of [['', 0], ['abc', 3], ['漢字', 4], ['한국어', 6], ['カナ', 4], ['ｆｕｌｌ', 8], ['e\u0301', 1], ['é', 1], ['😀', 2], ['… – ·', 5], ['a\u200Db', 2]] as const) {
    it(`of ${JSON.stringify(text)} is ${width}`, () => assert.equal(widthOf(text), width))
  }
})

describe('a line that is cut', () => {
  for (const [text, columns, shown] of [
    ['abc', 3, 'abc'], ['abcd', 3, 'ab…'], ['abcd', 1, '…'], ['abcd', 0, ''], ['', 0, ''],
    ['漢字漢', 6, '漢字漢'], ['漢字漢', 5, '漢字…'], ['漢字漢', 4, '漢…'],
    ['e\u0301e\u0301e\u0301', 2, 'e\u0301…'], ['👩‍👩‍👧👩‍👩‍👧', 8, '👩‍👩‍👧…']
  ] as const) {
    it(`${JSON.stringify(text)} to ${columns} columns is ${JSON.stringify(shown)}`, () => assert.equal(cut(text, columns), shown))
  }

  it('takes no more columns than there are, and is whole where it fits', () => {
    fc.assert(fc.property(fc.string({ unit: 'grapheme' }), fc.nat(40), (text, columns) => {
      const shown = cut(text, columns)
      assert.ok(widthOf(shown) <= columns)
      assert.equal(shown === text, widthOf(text) <= columns)
      assert.ok(shown === '' || text.startsWith(shown.replace(/…$/, '')))
    }))
  })
})

describe('a line that is filled up', () => {
  it('has as many columns as asked for, or its own', () => {
    assert.deepEqual([pad('漢', 4), pad('abc', 2)], ['漢  ', 'abc'])
  })
})
