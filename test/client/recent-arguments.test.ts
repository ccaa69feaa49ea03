import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { RecentArguments } from '../../src/client/recent-arguments.ts'

const kept = (known: RecentArguments, ids: string) => [...ids].filter((id) => known.has(id)).join('')

describe('the arguments of recent calls', () => {
  it('are bounded by their number', () => {
    const known = new RecentArguments({ calls: 2, length: 1000 })
    for (const id of 'abc') known.set(id, id)
    assert.equal(kept(known, 'abc'), 'bc')
    known.delete('b')
    known.set('d', 'd')
    assert.equal(kept(known, 'abcd'), 'cd')
    assert.equal(known.get('d'), 'd')
  })

  it('are bounded by their size, but for the last', () => {
    const known = new RecentArguments({ calls: 100, length: 20 })
    known.set('a', 'x'.repeat(8))
    known.set('b', 'x'.repeat(8))
    assert.equal(kept(known, 'ab'), 'ab')
    known.set('c', 'x')
    assert.equal(kept(known, 'abc'), 'bc')
    known.set('d', 'x'.repeat(100))
    assert.equal(kept(known, 'abcd'), 'd')
    known.set('e', 1)
    assert.equal(kept(known, 'abcde'), 'e')
  })

  it('count no more once they are forgotten or replaced', () => {
    const known = new RecentArguments({ calls: 100, length: 20 })
    for (let n = 0; n < 50; n++) { known.set('a', 'x'.repeat(15)); known.set('b', 'y'); known.delete('b') }
    known.delete('unknown')
    assert.equal(kept(known, 'ab'), 'a')
  })

  it('that are not to be had are known as such', () => {
    const known = new RecentArguments()
    known.set('a', undefined)
    assert.deepEqual([known.has('a'), known.get('a'), known.has('b')], [true, undefined, false])
  })
})
