import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { CallIndex } from '../../src/store/call-index.ts'

interface Item { key: string, number: number }

/** The hash of the index, to make keys that meet in one bucket. */
function bucketOf (key: string, buckets: number): number {
  let hash = 0x811c9dc5
  for (let at = 0; at < key.length; at++) hash = Math.imul(hash ^ key.charCodeAt(at), 0x01000193)
  return (hash ^ (hash >>> 15)) & (buckets - 1)
}

function collidingKeys (count: number, buckets: number): string[] {
  const keys: string[] = []
  for (let number = 0; keys.length < count; number++) if (bucketOf(`k${number}`, buckets) === 0) keys.push(`k${number}`)
  return keys
}

/** The same in the plainest way there is: a Map, evicted from its front. */
class Model {
  readonly items = new Map<string, Item>()
  get oldest (): Item | undefined { return this.items.values().next().value }
  evict (): void { this.items.delete(this.oldest!.key) }
}

function compare (capacity: number, keys: readonly string[], steps: readonly number[]): void {
  const index = new CallIndex<Item>(capacity, (item) => item.key)
  const model = new Model()
  let number = 0
  for (const step of steps) {
    if (step < 0) {
      if (model.items.size > 0) {
        index.evict()
        model.evict()
      }
    } else {
      const key = keys[step % keys.length]!
      if (!model.items.has(key)) {
        if (index.full) {
          index.evict()
          model.evict()
        }
        const item = { key, number: number++ }
        index.add(item)
        model.items.set(key, item)
      }
    }
    assert.equal(index.size, model.items.size)
    assert.equal(index.full, model.items.size === capacity)
    assert.equal(index.oldest, model.oldest)
    for (const key of keys) assert.equal(index.get(key), model.items.get(key), key)
  }
}

const steps = fc.array(fc.integer({ min: -20, max: 60 }), { maxLength: 120 })

describe('call index', () => {
  it('is a Map evicted from its front, for any sequence of adding and evicting', () => {
    const keys = Array.from({ length: 30 }, (_, number) => `call-${number}`)
    fc.assert(fc.property(fc.integer({ min: 1, max: 12 }), steps, (capacity, some) => compare(capacity, keys, some)))
  })

  it('is that also where all keys meet in one bucket', () => {
    // A capacity of 5 to 8 makes 16 buckets.
    const keys = collidingKeys(20, 16)
    fc.assert(fc.property(fc.integer({ min: 5, max: 8 }), steps, (capacity, some) => compare(capacity, keys, some)))
  })

  it('is that for keys of any text', () => {
    fc.assert(fc.property(
      fc.uniqueArray(fc.string({ unit: 'binary', maxLength: 8 }), { minLength: 1, maxLength: 12 }), fc.integer({ min: 1, max: 6 }), steps,
      (keys, capacity, some) => compare(capacity, keys, some)
    ))
  })

  it('goes round many times', () => {
    const index = new CallIndex<Item>(7, (item) => item.key)
    for (let number = 0; number < 10_000; number++) {
      if (index.full) index.evict()
      index.add({ key: String(number), number })
      assert.equal(index.get(String(number))!.number, number)
      assert.equal(index.get(String(number - 7)), undefined)
    }
    assert.equal(index.size, 7)
  })

  it('empty, has no oldest', () => {
    const index = new CallIndex<Item>(3, (item) => item.key)
    assert.deepEqual([index.size, index.full, index.oldest, index.get('x')], [0, false, undefined, undefined])
  })

  it('lets go of what it evicts', () => {
    const index = new CallIndex<Item>(2, (item) => item.key)
    index.add({ key: 'constructor', number: 1 })
    index.evict()
    assert.equal(index.get('constructor'), undefined)
    assert.equal(index.oldest, undefined)
  })
})
