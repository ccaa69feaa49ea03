import assert from 'node:assert/strict'
import { it, type TestContext } from 'node:test'
import fc from 'fast-check'
import { CallSight, type CallGrant } from '../../src/store/call-sight.ts'
import type { CallFilter, Store } from '../../src/store/store.ts'
import { endOf, startOf } from './calls.ts'

/** Opens a store of its own, or the same place again. It is closed when the test is over. */
export type Open = (t: TestContext, place?: string) => Promise<{ store: Store, place: string }>

async function listed (store: Store, filter: CallFilter, limit: number): Promise<string[]> {
  const ids: string[] = []
  let before: number | undefined
  do {
    const page = await store.list(filter, before, limit)
    ids.push(...page.calls.map((call) => call.start.invocationId))
    before = page.next
  } while (before !== undefined)
  return ids
}

/**
 * What every driver of the store promises to readers who may not see everything.
 * @param durable declares tests of drivers that keep their log
 */
export function rightsConformance (open: Open, durable: typeof it): void {
  it('lists the calls that a reader may see, whatever its rights, and no others', async (t) => {
    const { store } = await open(t)
    const tools = ['a_get', 'a_put', 'b_get', 'ab']
    const kinds = ['read', 'write']
    const people = ['me', 'you', 'key:x']
    const calls = Array.from({ length: 48 }, (_, n) => startOf({ toolId: tools[n % 4]!, kind: kinds[n % 2]!, principalId: people[n % 3]! }))
    for (const [n, start] of calls.entries()) {
      await store.begin(start)
      if (n % 5 !== 0) await store.settle(start.invocationId, endOf())
    }
    const grant: fc.Arbitrary<CallGrant> = fc.record({
      tools: fc.array(fc.array(fc.constantFrom('a_*', '*_get', 'ab', '*', 'b*', 'a_get', '*a*', 'nothing'), { minLength: 1, maxLength: 2 }), { maxLength: 2 }),
      kinds: fc.option(fc.subarray([...kinds, "r' OR 1=1 --"]), { nil: undefined }),
      principalId: fc.option(fc.constantFrom(...people), { nil: undefined })
    })
    await fc.assert(fc.asyncProperty(fc.array(grant, { maxLength: 3 }), fc.constantFrom(1, 7, 100), async (grants, limit) => {
      const sight = new CallSight(grants, 'me')
      const expected = calls.filter((start) => sight.sees(start)).map((start) => start.invocationId).reverse()
      assert.deepEqual(await listed(store, { sight }, limit), expected)
      assert.deepEqual(await listed(store, { sight, toolId: ['a_get', 'b_get'] }, limit), expected.filter((id) => calls.some((call) => call.invocationId === id && call.toolId.endsWith('_get'))))
    }), { numRuns: 60 })
  })

  it('lists the calls of a caller', async (t) => {
    const { store } = await open(t)
    const mine = startOf({ principalId: 'me' })
    for (const start of [startOf({ principalId: 'you' }), mine, startOf({ principalId: 'me too' })]) await store.begin(start)
    assert.deepEqual(await listed(store, { principalId: ['me', 'nobody'] }, 10), [mine.invocationId])
    assert.deepEqual(await listed(store, { principalId: [] }, 10), [])
  })

  it('a child call is on record with the tool that made it, wherever it is read', async (t) => {
    const { store } = await open(t)
    const parent = startOf({ toolId: 'maker', kind: 'a kind' })
    const child = startOf({ toolId: 'made', isChild: true, parentInvocationId: parent.invocationId, parentTool: { toolId: 'maker', kind: 'a kind' } })
    const claimed = startOf({ parentInvocationId: parent.invocationId })
    for (const start of [parent, child, claimed]) await store.begin(start)
    const seen = (start: object) => (start as typeof child).parentTool
    for (const round of ['running', 'settled']) {
      const { calls } = await store.list({}, undefined, 10)
      const { events } = await store.readEvents(0, { events: 100, bytes: Infinity })
      for (const [{ invocationId }, expected] of [[parent, undefined], [child, { toolId: 'maker', kind: 'a kind' }], [claimed, undefined]] as const) {
        assert.deepEqual(seen((await store.get(invocationId))!.start), expected, round)
        assert.deepEqual(seen(calls.find((call) => call.start.invocationId === invocationId)!.start), expected, round)
        for (const event of events.filter(({ start }) => start.invocationId === invocationId)) assert.deepEqual(seen(event.start), expected, `${round} ${event.type}`)
      }
      if (round === 'running') for (const { invocationId } of [child, parent, claimed]) await store.settle(invocationId, endOf())
    }
  })

  it('a sealed id names its place, and is the same for the same event', async (t) => {
    const { store } = await open(t)
    for (let call = 0; call < 3; call++) await store.begin(startOf())
    for (const place of [0, 1, 2, 3]) {
      assert.equal(store.locate(store.sealedId(place)), place)
      assert.equal(store.sealedId(place), store.sealedId(place))
      assert.equal(store.locate(store.sealedId(place, true)), place)
      assert.notEqual(store.sealedId(place, true), store.sealedId(place))
    }
    assert.equal(new Set(Array.from({ length: 20 }, () => store.sealedId(3, true))).size > 15, true, 'of a place it is another one each time')
  })

  it('a sealed id tells neither the place nor the log', async (t) => {
    const { store } = await open(t)
    for (let call = 0; call < 3; call++) await store.begin(startOf())
    const [epoch] = store.eventId(1).split('-')
    const sealed = [1, 2, 3].map((place) => store.sealedId(place))
    for (const id of sealed) {
      assert.match(id, /^[0-9a-f]{32}$/)
      assert.equal(id.includes(epoch!), false)
    }
    const differing = (one: string, other: string) => [...one].filter((digit, at) => digit !== other[at]).length
    assert.ok(differing(sealed[0]!, sealed[1]!) > 16, 'neighbours have nothing in common')
  })

  it('a sealed id of another log, of the future, or made up is no place', async (t) => {
    const { store } = await open(t)
    const { store: other } = await open(t)
    for (const one of [store, other]) await one.begin(startOf())
    const own = store.sealedId(1)
    for (const id of [other.sealedId(1), store.sealedId(store.head + 1), store.sealedId(store.head + 1, true), own.slice(1), `${own}0`, own.toUpperCase(), '0'.repeat(32), 'f'.repeat(32)]) {
      if (id !== own) assert.equal(store.locate(id), undefined, id)
    }
  })

  durable('keeps sealed ids over openings, and apart from those of a future that it has not had', async (t) => {
    const { store, place } = await open(t)
    await store.begin(startOf())
    const [kept, ahead] = [store.sealedId(1), store.sealedId(2)]
    await store.close()
    const { store: later } = await open(t, place)
    await later.begin(startOf())
    assert.equal(later.locate(kept), 1)
    assert.equal(later.sealedId(1), kept)
    assert.equal(later.locate(ahead), undefined)
  })

  durable('keeps which inputs are masked', async (t) => {
    const { store, place } = await open(t)
    const starts = [startOf({ isMasked: true }), startOf(), startOf({ isMasked: true, isChild: true })]
    for (const start of starts) await store.begin(start)
    await store.close()
    const { store: later } = await open(t, place)
    assert.deepEqual((await later.unsettled()).map(({ start }) => [start.isMasked === true, start.isChild]), [[true, false], [false, false], [true, true]])
  })
}
