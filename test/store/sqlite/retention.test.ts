import assert from 'node:assert/strict'
import { describe, it, type TestContext } from 'node:test'
import type { SqliteStoreOptions } from '../../../src/store/sqlite/sqlite-store.ts'
import { STEP_ROWS } from '../../../src/store/sqlite/sweeper.ts'
import { endOf, startOf } from '../../conformance/calls.ts'
import { until } from '../../conformance/until.ts'
import { all, openStore, placeOf, query, wholeCall } from './harness.ts'

const DAY_MS = 86_400_000

interface Rows { calls: number, updates: number, ends: number, keys: number }

const rowsOf = (path: string) => query(path, `SELECT (SELECT count(*) FROM calls) AS calls, (SELECT count(*) FROM updates) AS updates,
  (SELECT count(*) FROM ends) AS ends, (SELECT count(*) FROM idempotency_keys) AS keys`)[0] as unknown as Rows

function open (t: TestContext, options: Partial<SqliteStoreOptions> = {}) {
  const { path } = placeOf(t)
  return { path, ...openStore(t, path, options) }
}

/** Calls, one after the other. */
async function fill (store: ReturnType<typeof open>['store'], calls: number, fields: Parameters<typeof startOf>[0] = {}): Promise<string[]> {
  const ids: string[] = []
  for (let call = 0; call < calls; call++) ids.push(await wholeCall(store, fields))
  return ids
}

describe('what is gone from a store in a file', () => {
  it('leaves the file in small steps with time between them, until no more is there than is kept', async (t) => {
    const { store, clock, path } = open(t, { maxRecords: 100, maxEvents: 200 })
    await fill(store, 3000)
    assert.equal(store.readEvents(0, all).events.length, 200, 'it is gone at once for who reads')
    assert.equal(rowsOf(path).calls, 3000, 'and is in the file for a while')
    let before = rowsOf(path)
    let steps = 0
    for (clock.advance(5000); ; clock.advance(10)) {
      const { calls, ends } = rowsOf(path)
      assert.ok(before.calls - calls <= STEP_ROWS && before.ends - ends <= STEP_ROWS, `${before.calls - calls} rows at once`)
      if (calls === before.calls) break
      before = { ...before, calls, ends }
      steps++
    }
    assert.deepEqual(rowsOf(path), { calls: 100, updates: 0, ends: 100, keys: 0 })
    assert.equal(steps, Math.ceil(2900 / STEP_ROWS))
    assert.deepEqual(query(path, 'PRAGMA integrity_check'), [{ integrity_check: 'ok' }])
  })

  it('leaves the file as fast as more is written', async (t) => {
    const { store, clock, path } = open(t, { maxRecords: 10, maxEvents: 20 })
    const start = startOf()
    await store.begin(start)
    const write = async (updates: number) => {
      for (let n = 1; n < updates; n++) void store.progress(start.invocationId, `${n}`)
      await store.progress(start.invocationId, 'last')
    }
    await write(1000)
    clock.advance(5000)
    for (let round = 0; round < 10; round++) {
      await write(2000)
      clock.advance(10)
    }
    assert.ok(rowsOf(path).updates < 2500, `${rowsOf(path).updates} rows`)
  })

  it('leaves a step early where texts are long', async (t) => {
    const { store, clock, path } = open(t, { maxRecords: 1, maxEvents: 1 })
    for (let call = 0; call < 5; call++) await fill(store, 4, { input: JSON.stringify('x'.repeat(2 ** 20)) })
    clock.advance(5000)
    assert.equal(rowsOf(path).calls, 16)
    clock.advance(10)
    assert.equal(rowsOf(path).calls, 12)
    clock.advance(1000)
    assert.equal(rowsOf(path).calls, 1)
  })

  it('is a record or its events: rows stay while either is kept', async (t) => {
    for (const limits of [{ maxRecords: 10 }, { maxEvents: 20 }]) {
      const { store, clock, path } = open(t, limits)
      const ids = await fill(store, 50)
      clock.advance(20_000)
      assert.equal(rowsOf(path).calls, 50)
      assert.equal(store.readEvents(0, all).events.length, 'maxEvents' in limits ? 20 : 100)
      assert.equal(ids.filter((id) => store.get(id) !== undefined).length, 'maxRecords' in limits ? 10 : 50)
      await store.close()
    }
  })

  it('updates go with their events, also of a call that runs', async (t) => {
    const { store, clock, path } = open(t, { maxEvents: 10 })
    const start = startOf()
    await store.begin(start)
    for (let n = 0; n < 600; n++) void store.progress(start.invocationId, `${n}`)
    await store.progress(start.invocationId, 'last')
    clock.advance(5000)
    assert.equal(rowsOf(path).updates, 601 - STEP_ROWS)
    clock.advance(20)
    assert.deepEqual(rowsOf(path), { calls: 1, updates: 10, ends: 0, keys: 0 })
    assert.equal(await store.settle(start.invocationId, endOf()), true)
    assert.equal(store.readEvents(0, all).events.at(-1)!.start.invocationId, start.invocationId)
  })

  it('is not the call of a key, until its key is over; then both go', async (t) => {
    const { store, clock, path } = open(t, { maxRecords: 5, maxEvents: 10 })
    const claim = (scope: string) => ({ scope, fingerprint: 'input', untilMs: clock.now() + DAY_MS })
    const held = ['a', 'b', 'c'].map((scope) => {
      const start = startOf()
      void store.begin(start, claim(scope))
      void store.settle(start.invocationId, endOf())
      return start.invocationId
    })
    await fill(store, 100)
    clock.advance(20_000)
    assert.deepEqual(rowsOf(path), { calls: 8, updates: 0, ends: 8, keys: 3 })
    assert.ok(held.every((id) => store.get(id) !== undefined))
    clock.advance(DAY_MS)
    assert.deepEqual(rowsOf(path), { calls: 5, updates: 0, ends: 5, keys: 0 })
  })

  it('goes with its key also where that is claimed again first', async (t) => {
    const { store, clock, path } = open(t, { maxRecords: 5, maxEvents: 10 })
    const claim = () => ({ scope: 'a', fingerprint: 'input', untilMs: clock.now() + 1000 })
    const [first, second] = [startOf(), startOf()]
    await store.begin(first, claim())
    await store.settle(first.invocationId, endOf())
    await fill(store, 20)
    // The clock stands between a look and the expiry.
    clock.advance(999)
    assert.ok(store.get(first.invocationId) !== undefined)
    clock.advance(1)
    assert.equal(await store.begin(second, claim()), undefined)
    clock.advance(20_000)
    assert.deepEqual(rowsOf(path), { calls: 6, updates: 0, ends: 5, keys: 0 })
    assert.deepEqual((await store.unsettled()).map((call) => call.start.invocationId), [second.invocationId])
  })

  it('goes on leaving the file after the next opening', async (t) => {
    const { store, path } = open(t, { maxRecords: 10, maxEvents: 20 })
    await fill(store, 1000)
    await store.close()
    assert.equal(rowsOf(path).calls, 1000)
    const { store: again, clock } = openStore(t, path, { maxRecords: 10, maxEvents: 20 })
    clock.advance(10_000)
    assert.deepEqual(rowsOf(path), { calls: 10, updates: 0, ends: 10, keys: 0 })
    await fill(again, 5)
    assert.equal(again.head, 2010)
  })

  it('makes room that is used again', async (t) => {
    const { store, clock, path } = open(t, { maxRecords: 500, maxEvents: 1000 })
    const pages: number[] = []
    for (let round = 0; round < 6; round++) {
      await fill(store, 1000)
      clock.advance(10_000)
      pages.push(query(path, 'PRAGMA page_count')[0]!.page_count as number)
    }
    assert.ok(pages.at(-1)! < pages[1]! * 1.3, pages.join())
  })

  it('by bytes and by age is the same, far over the bound as well as by a little', async (t) => {
    const { path } = placeOf(t)
    const { store: first } = openStore(t, path)
    await fill(first, 3000, { input: JSON.stringify('x'.repeat(100)) })
    await first.close()
    const { store, clock } = openStore(t, path, { maxRecordBytes: 100_000, maxEventBytes: 50_000, maxRecordAgeMs: 10_000, maxEventAgeMs: 20_000 })
    const { calls } = await store.list({}, undefined, 10_000)
    const { events } = store.readEvents(0, all)
    assert.ok(calls.length > 150 && calls.length < 200, `${calls.length} records`)
    assert.ok(events.length > 150 && events.length < 200, `${events.length} events`)
    clock.advance(10_001)
    const late = await wholeCall(store)
    assert.deepEqual((await store.list({}, undefined, 10)).calls.map((call) => call.start.invocationId), [late])
    assert.ok(store.readEvents(0, all).events.length > 100, 'events are kept for longer')
    clock.advance(10_001)
    assert.equal(store.readEvents(0, all).events.length, 2)
    await until(() => { clock.advance(10); return rowsOf(path).calls === 1 }, 'the file to follow')
  })
})
