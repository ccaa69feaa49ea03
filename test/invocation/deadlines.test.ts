import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { Deadlines, type Dated } from '../../src/invocation/deadlines.ts'
import { FakeClock } from '../conformance/fake-clock.ts'

interface Item extends Dated<Item> { name: string }

const itemOf = (name: string, deadline: number): Item => ({ name, deadline, previous: undefined, next: undefined })

function setUp (expire: (item: Item) => void = () => {}) {
  const clock = new FakeClock()
  const expired: string[] = []
  const deadlines = new Deadlines<Item>(clock, (item) => {
    expired.push(item.name)
    expire(item)
  })
  const add = (name: string, inMs: number) => {
    const item = itemOf(name, clock.monotonic() + inMs)
    deadlines.add(item)
    return item
  }
  return { clock, expired, deadlines, add }
}

describe('deadlines', () => {
  it('an item expires at its deadline, not before, and once', () => {
    const { clock, expired, add } = setUp()
    add('a', 100)
    clock.advance(99)
    assert.deepEqual(expired, [])
    clock.advance(1)
    assert.deepEqual(expired, ['a'])
    add('b', 5000)
    clock.advance(10_000)
    assert.deepEqual(expired, ['a', 'b'])
    assert.equal(clock.pending, 0)
  })

  it('an item that has expired stays until it is deleted', () => {
    const { clock, deadlines, add } = setUp()
    const item = add('a', 100)
    clock.advance(100)
    assert.deepEqual([[...deadlines], item.deadline], [[item], Infinity])
    deadlines.delete(item)
    assert.equal(deadlines.size, 0)
  })

  it('many are swept together, each at most some milliseconds late', () => {
    const { clock, expired, deadlines, add } = setUp()
    const count = 10_000
    for (let item = 1; item <= count; item++) add(String(item), item)
    let sweeps = 0
    const { after } = FakeClock.prototype
    clock.after = (delayMs, run) => after.call(clock, delayMs, () => { sweeps++; run() })
    const mostLateMs = count / 1000
    for (let passed = 0; passed < 100; passed++) {
      clock.advance(1)
      assert.ok(expired.length >= passed + 1 - mostLateMs && expired.length <= passed + 1, `${expired.length} after ${passed + 1} ms`)
    }
    assert.ok(sweeps >= 9 && sweeps <= 11, `${sweeps} sweeps`)
    clock.advance(count)
    assert.equal(expired.length, count)
    assert.equal(deadlines.size, count)
  })

  it('each expires at its own, in whatever order they came', () => {
    const { clock, expired, add } = setUp()
    add('late', 300)
    add('early', 100)
    add('middle', 200)
    clock.advance(100)
    assert.deepEqual(expired, ['early'])
    clock.advance(100)
    assert.deepEqual(expired, ['early', 'middle'])
    clock.advance(100)
    assert.deepEqual(expired, ['early', 'middle', 'late'])
  })

  it('a deleted item never does, and the others do', () => {
    const { clock, expired, deadlines, add } = setUp()
    const gone = add('gone', 100)
    add('stays', 200)
    deadlines.delete(gone)
    clock.advance(150)
    assert.deepEqual(expired, [])
    clock.advance(50)
    assert.deepEqual(expired, ['stays'])
  })

  it('an item added while another is waited for still expires', () => {
    const { clock, expired, add, deadlines } = setUp()
    const first = add('first', 100)
    deadlines.delete(first)
    add('second', 1000)
    clock.advance(100)
    clock.advance(900)
    assert.deepEqual(expired, ['second'])
  })

  it('a deadline that has passed already expires on the next occasion', () => {
    const { clock, expired, add } = setUp()
    add('past', -50)
    assert.deepEqual(expired, [])
    clock.advance(0)
    assert.deepEqual(expired, ['past'])
  })

  it('a fraction of a millisecond is not too early', () => {
    const { clock, expired, add } = setUp()
    add('a', 0.5)
    clock.advance(0)
    assert.deepEqual(expired, [])
    clock.advance(1)
    assert.deepEqual(expired, ['a'])
  })

  it('one timer stands, however many items', () => {
    const { clock, add } = setUp()
    for (let n = 0; n < 100; n++) add(`${n}`, 1000 - n)
    assert.equal(clock.pending, 1)
    clock.advance(950)
    assert.equal(clock.pending, 1)
  })

  it('what expires may delete others and add new ones', () => {
    const late: Item[] = []
    const { clock, expired, deadlines, add } = setUp((item) => {
      if (item.name !== 'first') return
      deadlines.delete(late[0]!)
      deadlines.add(itemOf('new', clock.monotonic() + 50))
    })
    add('first', 100)
    late.push(add('deleted', 200))
    add('last', 300)
    clock.advance(100)
    clock.advance(50)
    assert.deepEqual(expired, ['first', 'new'])
    clock.advance(150)
    assert.deepEqual(expired, ['first', 'new', 'last'])
  })

  it('an item that expires together with one that deletes it expires once at most', () => {
    const items: Item[] = []
    const { clock, expired, deadlines, add } = setUp(() => { for (const item of items) deadlines.delete(item) })
    items.push(add('a', 100), add('b', 100))
    clock.advance(200)
    assert.deepEqual(expired.filter((name) => name === 'a'), ['a'])
    assert.ok(expired.filter((name) => name === 'b').length <= 1)
    assert.equal(deadlines.size, 0)
  })

  it('are iterated oldest first', () => {
    const { deadlines, add } = setUp()
    add('a', 300)
    add('b', 100)
    assert.deepEqual([...deadlines].map(({ name }) => name), ['a', 'b'])
  })

  it('of any items, deleted at any time: each that is left expires at its time, exactly', () => {
    fc.assert(fc.property(
      fc.array(fc.record({ wait: fc.nat({ max: 50 }), inMs: fc.integer({ min: 1, max: 300 }), deleteAfter: fc.option(fc.nat({ max: 300 })) }), { maxLength: 30 }),
      (steps) => {
        const clock = new FakeClock()
        const expired = new Map<string, number>()
        const deadlines = new Deadlines<Item>(clock, ({ name }) => expired.set(name, clock.monotonic()))
        const expected = new Map<string, number>()
        let deleted = 0
        steps.forEach(({ wait, inMs, deleteAfter }, n) => {
          clock.advance(wait)
          const item = itemOf(String(n), clock.monotonic() + inMs)
          deadlines.add(item)
          if (deleteAfter !== null && deleteAfter < inMs) clock.after(deleteAfter, () => { deadlines.delete(item); deleted++ })
          else expected.set(item.name, item.deadline)
        })
        clock.advance(1000)
        assert.deepEqual(new Map([...expired].sort()), new Map([...expected].sort()))
        assert.equal(deadlines.size, steps.length - deleted)
      }
    ))
  })
})
