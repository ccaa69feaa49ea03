import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { TextSearch } from '../../src/invocation/text-search.ts'

const found = (texts: string[], text: string, maxLength = 1000) => new TextSearch(texts, maxLength).find(text).map(({ start, end }) => text.slice(start, end))

/** Which characters of `text` one of the texts covers, found by trying them all. */
function coveredByTrying (texts: string[], text: string): boolean[] {
  const covered = new Array<boolean>(text.length).fill(false)
  for (const one of texts) {
    for (let at = text.indexOf(one); at !== -1; at = text.indexOf(one, at + 1)) covered.fill(true, at, at + one.length)
  }
  return covered
}

describe('a search for many texts', () => {
  it('finds each place of each of them, those within others and those that overlap', () => {
    const few = fc.string({ unit: fc.constantFrom('a', 'b', 'c'), minLength: 1, maxLength: 6 })
    fc.assert(fc.property(fc.array(few, { maxLength: 8 }), fc.string({ unit: fc.constantFrom('a', 'b', 'c'), maxLength: 60 }), (texts, text) => {
      const covered = new Array<boolean>(text.length).fill(false)
      let last = 0
      for (const { start, end } of new TextSearch(texts, 1000).find(text)) {
        assert.ok(start >= last && end > start, 'in order, and apart')
        covered.fill(true, start, last = end)
      }
      assert.deepEqual(covered, coveredByTrying(texts, text))
    }), { numRuns: 2000 })
  })

  it('gives those that overlap as one, those beside one another as two', () => {
    assert.deepEqual(found(['abab', 'bc'], 'xababcabab'), ['ababc', 'abab'])
  })

  it('finds the beginning of one before the dots of a cut, from four characters on', () => {
    assert.deepEqual(found(['secret word'], 'no secret w… no secr... no sec… secret.'), ['secret w', 'secr'])
  })

  it('of a long text finds the beginning, and takes all that follows for it', () => {
    const long = 'abc'.repeat(1000)
    assert.deepEqual(found([long, 'x'], `x ${long} y`, 10), ['x', `${long} y`])
    assert.deepEqual(found([long], `${long.slice(0, 9)}! ${long.slice(0, 10)}`, 10), [long.slice(0, 10)])
  })

  it('takes its time from the text alone', () => {
    const texts = Array.from({ length: 60 }, (_, n) => `${'a'.repeat(999)}${n}`)
    const text = 'a'.repeat(1_000_000)
    const began = performance.now()
    assert.deepEqual(found(texts, text), [])
    assert.ok(performance.now() - began < 5000)
  })
})
