import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { describe, it, type TestContext } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import fc from 'fast-check'
import { compileCallFilter } from '../../src/store/call-filter.ts'
import { defaultRetention, type Retention } from '../../src/store/retention.ts'
import type { CallEnd, CallFilter, EventPage, Store, StoredEvent } from '../../src/store/store.ts'
import { receiptText } from '../../src/store/wire.ts'
import { endOf, startOf } from './calls.ts'
import { FakeClock } from './fake-clock.ts'
import { rightsConformance } from './store-rights.ts'
import { until } from './until.ts'

export interface OpenOptions {
  clock: FakeClock
  limits: Retention
  /** Openings of the same place are openings of the same log, for drivers that keep one. */
  place: string
}

/** What a driver may lack, if it says why. */
export type Ability = 'durable' | 'bounded by count' | 'bounded by bytes' | 'bounded by age'

const roomy: Retention = defaultRetention.memory
const all = { events: 100_000, bytes: Infinity }

const notPromised = (async () => {}) as unknown as typeof it

/**
 * What every driver of the store promises.
 *
 * @param open gives a store on `place`; the suite closes it
 * @param lacks abilities that the driver does not have, with the reason
 */
export function storeConformance (name: string, open: (options: OpenOptions) => Promise<Store>, lacks: Partial<Record<Ability, string>> = {}): void {
  // What a driver does not promise is no test of it; why, stands where it calls the suite.
  const promising = (ability: Ability): typeof it => lacks[ability] === undefined ? it : notPromised

  async function opened (t: TestContext, limits: Partial<Retention> = {}, place: string = randomUUID()) {
    const clock = new FakeClock()
    const store = await open({ clock, limits: { ...roomy, ...limits }, place })
    t.after(() => store.close())
    return { store, clock, place }
  }

  /** One call, begun and settled, with `updates` between. */
  async function wholeCall (store: Store, updates: string[] = [], fields: Parameters<typeof startOf>[0] = {}) {
    const start = startOf(fields)
    await store.begin(start)
    for (const update of updates) await store.progress(start.invocationId, update)
    const end = endOf()
    assert.equal(await store.settle(start.invocationId, end), true)
    return { start, end }
  }

  const shape = (event: StoredEvent) => `${event.type} ${event.start.invocationId}`

  describe(`event store (${name})`, () => {
    describe('a call', () => {
      it('is a start, its updates in order, and one end', async (t) => {
        const { store } = await opened(t)
        const { start, end } = await wholeCall(store, ['{"n":1}', '{"n":2}'], { input: '{"a":1}', runId: 'run', toolCallId: 'mine' })
        const { events } = await store.readEvents(0, all)
        assert.deepEqual(events.map((event) => [event.sequence, event.type]), [
          [1, 'tool_execution_start'], [2, 'tool_execution_update'], [3, 'tool_execution_update'], [4, 'tool_execution_end']
        ])
        for (const event of events) assert.deepEqual({ ...event.start }, { ...start })
        assert.deepEqual(events.map((event) => event.partialResult), [undefined, '{"n":1}', '{"n":2}', undefined])
        assert.deepEqual(events.map((event) => event.end && { ...event.end }), [undefined, undefined, undefined, { ...end }])
      })

      it('read again after it settled, its start event still has no end', async (t) => {
        const { store } = await opened(t)
        await wholeCall(store)
        const { events } = await store.readEvents(0, { events: 1, bytes: 1 })
        assert.equal(events[0]!.type, 'tool_execution_start')
        assert.equal(events[0]!.end, undefined)
      })

      it('settles once: the second time tells false and changes nothing', async (t) => {
        const { store } = await opened(t)
        const { start, end } = await wholeCall(store)
        const head = store.head
        assert.equal(await store.settle(start.invocationId, endOf({ status: 'cancelled', errorCode: 'cancelled', isError: true })), false)
        assert.equal(store.head, head)
        assert.deepEqual({ ...(await store.get(start.invocationId))!.end }, { ...end })
        assert.equal((await store.readEvents(0, all)).events.filter((event) => event.type === 'tool_execution_end').length, 1)
      })

      it('raced to its end by many settles, is settled by exactly one', async (t) => {
        const { store } = await opened(t)
        const start = startOf()
        await store.begin(start)
        const ends = [1, 2, 3, 4].map((durationMs) => endOf({ durationMs }))
        const won = await Promise.all(ends.map(async (end) => store.settle(start.invocationId, end)))
        assert.equal(won.filter(Boolean).length, 1)
        assert.equal((await store.get(start.invocationId))!.end!.durationMs, ends[won.indexOf(true)]!.durationMs)
        assert.equal(store.head, 2)
      })

      it('unknown to the store cannot be settled', async (t) => {
        const { store } = await opened(t)
        assert.equal(await store.settle('nobody', endOf()), false)
        assert.equal(store.head, 0)
      })

      it('makes no more progress once it has settled', async (t) => {
        const { store } = await opened(t)
        const { start } = await wholeCall(store)
        await store.progress(start.invocationId, '{"late":true}')
        await store.progress('nobody', '{}')
        assert.equal(store.head, 2)
        assert.equal((await store.readEvents(2, all)).events.length, 0)
      })

      it('is on record from its beginning', async (t) => {
        const { store } = await opened(t)
        const start = startOf({ input: undefined, traceId: 'a'.repeat(32), parentSpanId: 'b'.repeat(16), parentInvocationId: 'p' })
        await store.begin(start)
        const call = await store.get(start.invocationId)
        assert.deepEqual({ ...call!.start }, { ...start })
        assert.equal(call!.attempts, 0)
        assert.equal(call!.startSequence, 1)
        assert.equal(call!.end, undefined)
      })

      it('says how often it was marked as about to execute', async (t) => {
        const { store } = await opened(t)
        const [marked, unmarked] = [startOf(), startOf()]
        await store.begin(marked)
        await store.begin(unmarked)
        await store.mark(marked.invocationId)
        await store.mark('nobody')
        assert.equal((await store.get(marked.invocationId))!.attempts, 1)
        assert.equal((await store.get(unmarked.invocationId))!.attempts, 0)
        await store.mark(marked.invocationId)
        await store.settle(marked.invocationId, endOf())
        await store.mark(marked.invocationId)
        assert.equal((await store.get(marked.invocationId))!.attempts, 2)
        assert.equal(store.head, 3, 'a mark is no event')
      })

      it('that never was is not found', async (t) => {
        const { store } = await opened(t)
        for (const id of ['nobody', '', 'constructor', '__proto__']) assert.equal(await store.get(id), undefined)
      })

      it('keeps its texts as they are, whatever they hold', async (t) => {
        for (const chosen of ['q"\\\u0000\n\u2028\ud83d\ude00é', 'half of a pair: \ud800', '\u0000', '\u0000"quoted"', '\ufeff']) {
          const { store } = await opened(t)
          const start = startOf({ toolCallId: chosen, runId: chosen, parentInvocationId: chosen, kind: chosen.toWellFormed(), input: JSON.stringify(chosen) })
          const end = endOf({ result: JSON.stringify({ content: [], details: chosen, isError: false }), queuedMs: 3.25, durationMs: 0.001 })
          await store.begin(start)
          await store.progress(start.invocationId, JSON.stringify(chosen))
          await store.settle(start.invocationId, end)
          const { events } = await store.readEvents(0, all)
          assert.deepEqual({ ...events[2]!.start }, { ...start })
          assert.deepEqual({ ...events[2]!.end }, { ...end })
          assert.equal(events[1]!.partialResult, JSON.stringify(chosen))
          const { calls } = await store.list({ runId: [chosen] }, undefined, 10)
          assert.deepEqual(calls.map((call) => call.start.toolCallId), [chosen])
        }
      })
    })

    describe('an idempotency key', () => {
      const DAY_MS = 86_400_000
      const claimAt = (clock: FakeClock, scope = 'scope', fingerprint = 'input') => ({ scope, fingerprint, untilMs: clock.now() + DAY_MS })

      it('is claimed once: who comes later is given the call that holds it, and nothing is recorded', async (t) => {
        const { store, clock } = await opened(t)
        const [first, second] = [startOf(), startOf()]
        assert.equal(await store.begin(first, claimAt(clock)), undefined)
        const earlier = await store.begin(second, claimAt(clock, 'scope', 'another input'))
        assert.equal(earlier!.call.start.invocationId, first.invocationId)
        assert.equal(earlier!.fingerprint, 'input')
        assert.equal(earlier!.call.end, undefined)
        assert.equal((await store.holder('scope'))!.call.start.invocationId, first.invocationId)
        assert.equal(await store.holder('another'), undefined)
        assert.equal(await store.get(second.invocationId), undefined)
        assert.equal(store.head, 1)
      })

      it('claimed by many at once is given to exactly one', async (t) => {
        const { store, clock } = await opened(t)
        const starts = Array.from({ length: 5 }, () => startOf())
        const begun = await Promise.all(starts.map(async (start) => store.begin(start, claimAt(clock))))
        assert.equal(begun.filter((earlier) => earlier === undefined).length, 1)
        const winner = starts[begun.indexOf(undefined)]!.invocationId
        for (const earlier of begun) if (earlier !== undefined) assert.equal(earlier.call.start.invocationId, winner)
        assert.equal(store.head, 1)
      })

      it('goes on to hold a call that executed, with how it ended', async (t) => {
        const { store, clock } = await opened(t)
        const start = startOf()
        await store.begin(start, claimAt(clock))
        await store.mark(start.invocationId)
        const end = endOf({ result: '{"content":[],"details":1,"isError":false}' })
        await store.settle(start.invocationId, end)
        const earlier = await store.begin(startOf(), claimAt(clock))
        assert.deepEqual({ ...earlier!.call.end }, { ...end })
        assert.deepEqual({ ...earlier!.call.start }, { ...start })
      })

      it('is let go by a call that ends without having executed', async (t) => {
        const { store, clock } = await opened(t)
        const start = startOf()
        await store.begin(start, claimAt(clock))
        await store.settle(start.invocationId, endOf({ status: 'failed', errorCode: 'blocked', isError: true, executed: false }))
        assert.equal(await store.holder('scope'), undefined)
        assert.equal(await store.begin(startOf(), claimAt(clock)), undefined)
      })

      it('is another in another scope', async (t) => {
        const { store, clock } = await opened(t)
        for (const scope of ['one', 'other', '']) assert.equal(await store.begin(startOf(), claimAt(clock, scope)), undefined)
      })

      it('is free again once its time is over, also where its call still runs', async (t) => {
        const { store, clock } = await opened(t, { maxRecordAgeMs: 1e12 })
        const [settled, running] = [startOf(), startOf()]
        await store.begin(settled, claimAt(clock, 'settled'))
        await store.begin(running, claimAt(clock, 'running'))
        await store.settle(settled.invocationId, endOf())
        clock.advance(DAY_MS - 1)
        for (const scope of ['settled', 'running']) assert.notEqual(await store.begin(startOf(), claimAt(clock, scope)), undefined, scope)
        clock.advance(1)
        for (const scope of ['settled', 'running']) assert.equal(await store.begin(startOf(), claimAt(clock, scope)), undefined, scope)
        assert.equal(await store.settle(running.invocationId, endOf()), true)
        assert.equal((await store.begin(startOf(), claimAt(clock, 'running')))!.call.end, undefined, 'held by the later call')
      })

      promising('bounded by count')('keeps the record of its call, whatever the bounds, and no longer than itself', async (t) => {
        const { store, clock } = await opened(t, { maxRecords: 3, maxRecordAgeMs: 1000 })
        const start = startOf()
        await store.begin(start, claimAt(clock))
        await store.settle(start.invocationId, endOf())
        for (let call = 0; call < 10; call++) await wholeCall(store)
        clock.advance(DAY_MS - 1)
        await wholeCall(store)
        assert.equal((await store.get(start.invocationId))!.end!.status, 'succeeded')
        assert.equal((await store.begin(startOf(), claimAt(clock)))!.call.start.invocationId, start.invocationId)
        assert.ok((await store.list({}, undefined, 100)).calls.some((call) => call.start.invocationId === start.invocationId))
        clock.advance(1)
        await wholeCall(store)
        assert.equal(await store.get(start.invocationId), undefined)
      })

      promising('bounded by count')('is refused where as many are held as may be: none is let go before its time', async (t) => {
        const { store, clock } = await opened(t, { maxRecords: 3 })
        for (let call = 0; call < 3; call++) assert.equal(await store.begin(startOf(), claimAt(clock, `${call}`)), undefined)
        await assert.rejects(async () => store.begin(startOf(), claimAt(clock, 'more')), { name: 'GatewayError', code: 'overloaded' })
        assert.equal(store.head, 3)
        await store.begin(startOf())
        assert.notEqual(await store.begin(startOf(), claimAt(clock, '0')), undefined)
      })

      promising('bounded by count')('let go in the very turn in which it was claimed counts no more', async (t) => {
        const { store, clock } = await opened(t, { maxRecords: 3 })
        const held = startOf()
        for (const scope of ['one', 'two']) await store.begin(scope === 'one' ? held : startOf(), claimAt(clock, scope))
        const answers = ['three', 'three', 'three'].map((scope) => {
          const start = startOf()
          const begun = store.begin(start, claimAt(clock, scope))
          void store.settle(start.invocationId, endOf({ executed: false }))
          return begun
        })
        assert.deepEqual(await Promise.all(answers), [undefined, undefined, undefined])
        void store.settle(held.invocationId, endOf({ executed: false }))
        assert.deepEqual(await Promise.all(['one', 'three'].map((scope) => store.begin(startOf(), claimAt(clock, scope)))), [undefined, undefined])
        await assert.rejects(async () => store.begin(startOf(), claimAt(clock, 'more')), { name: 'GatewayError', code: 'overloaded' })
      })

      promising('durable')('is held by the next opening, too', async (t) => {
        const { store, clock, place } = await opened(t)
        const [settled, running, blocked] = [startOf(), startOf(), startOf()]
        await store.begin(settled, claimAt(clock, 'settled', 'its input'))
        await store.begin(running, claimAt(clock, 'running'))
        await store.begin(blocked, claimAt(clock, 'blocked'))
        await store.settle(settled.invocationId, endOf())
        await store.settle(blocked.invocationId, endOf({ executed: false }))
        await store.close()
        const { store: again } = await opened(t, {}, place)
        const earlier = await again.begin(startOf(), claimAt(clock, 'settled'))
        assert.deepEqual([earlier!.call.start.invocationId, earlier!.fingerprint, earlier!.call.end!.status], [settled.invocationId, 'its input', 'succeeded'])
        assert.equal((await again.begin(startOf(), claimAt(clock, 'running')))!.call.start.invocationId, running.invocationId)
        assert.equal(await again.begin(startOf(), claimAt(clock, 'blocked')), undefined)
      })
    })

    describe('listing', () => {
      async function listed (store: Store, filter: CallFilter, limit: number): Promise<string[][]> {
        const pages: string[][] = []
        let before: number | undefined
        do {
          const page = await store.list(filter, before, limit)
          pages.push(page.calls.map((call) => call.start.invocationId))
          before = page.next
        } while (before !== undefined)
        return pages
      }

      it('is newest first, in pages that end with the oldest', async (t) => {
        const { store } = await opened(t)
        const ids: string[] = []
        for (let call = 0; call < 5; call++) ids.unshift((await wholeCall(store)).start.invocationId)
        for (const limit of [1, 2, 4]) assert.deepEqual((await listed(store, {}, limit)).flat(), ids)
        assert.deepEqual(await listed(store, {}, 5), [ids], 'no empty page at the end')
        assert.deepEqual((await listed(store, {}, 2)).map((page) => page.length), [2, 2, 1])
      })

      it('of nothing is one empty page', async (t) => {
        const { store } = await opened(t)
        assert.deepEqual(await store.list({}, undefined, 10), { calls: [], next: undefined })
      })

      it('has running calls and settled ones in the order of their arrival, with how they ended', async (t) => {
        const { store } = await opened(t)
        const [long, short] = [startOf({ runId: 'run' }), startOf()]
        await store.begin(long)
        await store.begin(short)
        await store.settle(short.invocationId, endOf({ status: 'failed', errorCode: 'tool_error', isError: true, durationMs: 2.5, queuedMs: 1 }))
        const { calls } = await store.list({}, undefined, 10)
        assert.deepEqual(calls.map((call) => [call.start.invocationId, call.end?.status]), [[short.invocationId, 'failed'], [long.invocationId, undefined]])
        assert.equal(receiptText(calls[0]!.start, calls[0]!.end), receiptText(short, endOf({ status: 'failed', errorCode: 'tool_error', durationMs: 2.5, queuedMs: 1 })))
        assert.equal(calls[1]!.start.runId, 'run')
        await store.settle(long.invocationId, endOf())
        assert.equal((await store.list({}, undefined, 10)).calls[1]!.start.invocationId, long.invocationId)
      })

      it('goes on from where it was, whatever arrives, settles and is asked for meanwhile', async (t) => {
        const { store } = await opened(t)
        const starts = Array.from({ length: 6 }, () => startOf())
        for (const start of starts) await store.begin(start)
        const first = await store.list({}, undefined, 2)
        await wholeCall(store)
        await store.settle(starts[0]!.invocationId, endOf())
        await store.settle(starts[3]!.invocationId, endOf())
        const second = await store.list({}, first.next, 2)
        await wholeCall(store)
        const third = await store.list({}, second.next, 2)
        assert.deepEqual([...first.calls, ...second.calls, ...third.calls].map((call) => call.start.invocationId), starts.map((start) => start.invocationId).reverse())
        assert.equal(third.next, undefined)
      })

      it('is narrowed by different names and widened by more of the same', async (t) => {
        const { store } = await opened(t)
        const toolIds = ['a', 'b', 'c']
        const kinds = ['read', 'write']
        const calls = Array.from({ length: 60 }, (_, n) => startOf({
          toolId: toolIds[n % 3]!, kind: kinds[n % 2]!, runId: n % 5 === 0 ? undefined : `run-${n % 4}`, startedAtMs: 1000 + n
        }))
        const ends = new Map<string, CallEnd>()
        for (const [n, start] of calls.entries()) {
          await store.begin(start)
          if (n % 4 === 3) continue
          const end = endOf({ status: (['succeeded', 'failed', 'cancelled'] as const)[n % 4]! })
          ends.set(start.invocationId, end)
          await store.settle(start.invocationId, end)
        }
        const filters: CallFilter[] = [
          { toolId: ['a'] }, { toolId: ['a', 'c'], kind: ['write'] }, { status: ['running'] }, { status: ['failed', 'running'], toolId: ['b'] },
          { runId: ['run-1'] }, { runId: ['run-1', 'run-2'], status: ['cancelled'] }, { from: 1010, to: 1020 }, { from: 1059 }, { to: 1001 }, { to: 1000 },
          { toolId: [] }, { toolId: ['constructor'] }, { kind: ["read' OR 1=1 --"] }
        ]
        for (const filter of filters) {
          const matches = compileCallFilter(filter)
          const expected = calls.filter((start) => matches(start, ends.get(start.invocationId))).map((start) => start.invocationId).reverse()
          for (const limit of [1000, 7, 1]) assert.deepEqual((await listed(store, filter, limit)).flat(), expected, JSON.stringify(filter))
        }
      })

      promising('bounded by count')('has no more than what is kept', async (t) => {
        const { store } = await opened(t, { maxRecords: 4 })
        const running = startOf()
        await store.begin(running)
        for (let call = 0; call < 10; call++) await wholeCall(store)
        const ids = (await listed(store, {}, 3)).flat()
        assert.equal(ids.length, 5)
        assert.equal(ids.at(-1), running.invocationId)
      })
    })

    describe('unsettled', () => {
      it('names the calls begun and not settled, oldest first', async (t) => {
        const { store } = await opened(t)
        const starts = [startOf(), startOf(), startOf(), startOf()]
        for (const start of starts) await store.begin(start)
        await store.settle(starts[1]!.invocationId, endOf())
        assert.deepEqual((await store.unsettled()).map((call) => call.start.invocationId), [0, 2, 3].map((at) => starts[at]!.invocationId))
      })

      it('does not change under the reader', async (t) => {
        const { store } = await opened(t)
        const start = startOf()
        await store.begin(start)
        const before = await store.unsettled()
        await store.settle(start.invocationId, endOf())
        assert.equal(before.length, 1)
        assert.equal((await store.unsettled()).length, 0)
      })
    })

    describe('order', () => {
      it('of any interleaving of calls: places rise without gaps, and each call is whole', async (t) => {
        await fc.assert(fc.asyncProperty(
          fc.array(fc.record({ call: fc.nat({ max: 4 }), act: fc.constantFrom('progress', 'settle', 'mark') }), { maxLength: 40 }),
          async (steps) => {
            const { store } = await opened(t)
            const starts = new Map<number, ReturnType<typeof startOf>>()
            const expected: string[] = []
            const settled = new Set<number>()
            for (const { call, act } of steps) {
              let start = starts.get(call)
              if (start === undefined) {
                start = startOf()
                starts.set(call, start)
                await store.begin(start)
                expected.push(`tool_execution_start ${start.invocationId}`)
              } else if (act === 'progress') {
                await store.progress(start.invocationId, '{}')
                if (!settled.has(call)) expected.push(`tool_execution_update ${start.invocationId}`)
              } else if (act === 'mark') {
                await store.mark(start.invocationId)
              } else {
                assert.equal(await store.settle(start.invocationId, endOf()), !settled.has(call))
                if (!settled.has(call)) expected.push(`tool_execution_end ${start.invocationId}`)
                settled.add(call)
              }
            }
            const { events, through, lost } = await store.readEvents(0, all)
            assert.deepEqual(events.map(shape), expected)
            assert.deepEqual(events.map((event) => event.sequence), expected.map((_, index) => index + 1))
            assert.deepEqual([through, lost, store.head], [expected.length, false, expected.length])
            assert.equal((await store.unsettled()).length, starts.size - settled.size)
            await store.close()
          }
        ), { numRuns: 40 })
      })

      it('of writes that do not wait for one another is the order in which they were made', async (t) => {
        const { store } = await opened(t)
        const start = startOf()
        await Promise.all([
          (async () => store.begin(start))(),
          ...Array.from({ length: 20 }, async (_, n) => store.progress(start.invocationId, String(n))),
          (async () => store.settle(start.invocationId, endOf()))()
        ])
        const { events } = await store.readEvents(0, all)
        assert.deepEqual(events.map((event) => event.partialResult), [undefined, ...Array.from({ length: 20 }, (_, n) => String(n)), undefined])
      })
    })

    describe('concurrent appends', () => {
      it('take rising places without gaps, each call whole, in the order in which its writes were made', async (t) => {
        const { store } = await opened(t)
        await Promise.all(Array.from({ length: 50 }, async (_, writer) => {
          for (let turn = 0; turn < writer % 5; turn++) await nextTurn()
          const start = startOf({ toolCallId: `writer-${writer}` })
          await store.begin(start)
          const writes = [store.mark(start.invocationId), store.progress(start.invocationId, '1'), store.progress(start.invocationId, '2')]
          if (writer % 2 === 0) await Promise.all(writes)
          await store.settle(start.invocationId, endOf())
        }))
        const { events } = await store.readEvents(0, all)
        assert.deepEqual(events.map((event) => event.sequence), Array.from({ length: 200 }, (_, n) => n + 1))
        const byCall = Map.groupBy(events, (event) => event.start.invocationId)
        assert.equal(byCall.size, 50)
        for (const own of byCall.values()) {
          assert.deepEqual(own.map((event) => event.partialResult ?? event.type), ['tool_execution_start', '1', '2', 'tool_execution_end'])
        }
      })

      it('a call that begins, is marked and settles in one turn is on record with all of it', async (t) => {
        const { store, clock } = await opened(t)
        const start = startOf()
        const key = { scope: 'scope', fingerprint: 'input', untilMs: clock.now() + 1000 }
        const writes = [store.begin(start, key), store.mark(start.invocationId), store.settle(start.invocationId, endOf())]
        const late = [store.settle(start.invocationId, endOf()), store.begin(startOf(), key)]
        assert.deepEqual(await Promise.all(writes), [undefined, undefined, true])
        const [again, earlier] = await Promise.all(late) as [boolean, { call: { start: { invocationId: string } } }]
        assert.equal(again, false)
        assert.equal(earlier.call.start.invocationId, start.invocationId)
        const call = await store.get(start.invocationId)
        assert.deepEqual([call!.attempts, call!.startSequence, call!.end!.status, store.head], [1, 1, 'succeeded', 2])
      })

      it('a key let go in a turn is free for what comes later in it', async (t) => {
        const { store, clock } = await opened(t)
        const key = { scope: 'scope', fingerprint: 'input', untilMs: clock.now() + 1000 }
        const [first, second] = [startOf(), startOf()]
        await store.begin(first, key)
        const writes = [store.settle(first.invocationId, endOf({ executed: false })), store.begin(second, key)]
        assert.deepEqual(await Promise.all(writes), [true, undefined])
        const earlier = await store.begin(startOf(), key)
        assert.equal(earlier!.call.start.invocationId, second.invocationId)
      })
    })

    describe('reading', () => {
      it('pages give each event once, in order, whatever their size, and end with an empty one', async (t) => {
        const { store } = await opened(t)
        for (let call = 0; call < 8; call++) await wholeCall(store, ['{"some":"progress"}'])
        const whole = (await store.readEvents(0, all)).events.map(shape)
        assert.equal(whole.length, 24)
        for (const limits of [{ events: 1, bytes: Infinity }, { events: 7, bytes: Infinity }, { events: 24, bytes: Infinity }, { events: 1000, bytes: 1 }, { events: 1000, bytes: 1500 }]) {
          const read: string[] = []
          let after = 0
          let page: EventPage
          do {
            page = await store.readEvents(after, limits)
            assert.ok(page.events.length <= limits.events)
            assert.equal(page.lost, false)
            assert.equal(page.through, page.events.at(-1)?.sequence ?? after)
            after = page.through
            read.push(...page.events.map(shape))
          } while (page.events.length > 0)
          assert.deepEqual(read, whole, JSON.stringify(limits))
        }
      })

      it('a page ends after its bytes, and holds one event at least', async (t) => {
        const { store } = await opened(t)
        await wholeCall(store, ['x'.repeat(5000), 'y'.repeat(5000), 'z'.repeat(5000)])
        assert.equal((await store.readEvents(1, { events: 100, bytes: 1 })).events.length, 1)
        const page = await store.readEvents(0, { events: 100, bytes: 8000 })
        assert.ok(page.events.length >= 2 && page.events.length <= 3, `${page.events.length} events`)
      })

      it('an empty log gives an empty page', async (t) => {
        const { store } = await opened(t)
        const { events, through, lost } = await store.readEvents(0, all)
        assert.deepEqual([events.length, through, lost], [0, 0, false])
        assert.deepEqual([store.head, store.earliest], [0, 1])
      })

      it('at the end gives an empty page that stays there', async (t) => {
        const { store } = await opened(t)
        await wholeCall(store)
        const { events, through, lost } = await store.readEvents(store.head, all)
        assert.deepEqual([events.length, through, lost], [0, 2, false])
      })
    })

    describe('resume', () => {
      it('an id names its place, and a place its id', async (t) => {
        const { store } = await opened(t)
        await wholeCall(store)
        for (const place of [0, 1, 2]) assert.equal(store.locate(store.eventId(place)), place)
        assert.match(store.eventId(1), /^[0-9a-f]{16}-1$/)
      })

      it('the id before the first event is a place to resume from', async (t) => {
        const { store } = await opened(t)
        assert.equal(store.locate(store.eventId(0)), 0)
      })

      it('an id past the end is none of this log', async (t) => {
        const { store } = await opened(t)
        await wholeCall(store)
        assert.equal(store.locate(store.eventId(store.head + 1)), undefined)
      })

      it('an id of another log is none of this one', async (t) => {
        const { store } = await opened(t)
        const { store: other } = await opened(t)
        await wholeCall(store)
        await wholeCall(other)
        assert.equal(store.locate(other.eventId(1)), undefined)
        assert.equal(store.locate(`${'0'.repeat(16)}-1`), undefined)
      })

      it('what is no id is no place', async (t) => {
        const { store } = await opened(t)
        await wholeCall(store)
        const epoch = store.eventId(0).split('-')[0]!
        const malformed = [
          '', 'earliest', '1', `${epoch}`, `${epoch}-`, `${epoch}-01`, `${epoch}--1`, `${epoch}-+1`, `${epoch}-1.0`, `${epoch}-1e0`, `${epoch}-0x1`,
          `${epoch}-1 `, ` ${epoch}-1`, `${epoch}-1\n`, `${epoch.toUpperCase()}X-1`, `${epoch}0-1`, `${epoch}-99999999999999999999`, `${epoch}-1-1`, '__proto__'
        ]
        for (const id of malformed) assert.equal(store.locate(id), undefined, JSON.stringify(id))
      })

      promising('bounded by count')('a cursor older than what is kept is told, not skipped', async (t) => {
        const { store } = await opened(t, { maxEvents: 10 })
        for (let call = 0; call < 20; call++) await wholeCall(store)
        assert.ok(store.earliest > 1)
        const page = await store.readEvents(0, all)
        assert.equal(page.lost, true)
        assert.equal(page.events[0]!.sequence, store.earliest)
        assert.deepEqual(page.events.map((event) => event.sequence), Array.from({ length: store.head - store.earliest + 1 }, (_, n) => store.earliest + n))
      })

      promising('bounded by count')('a cursor just before the oldest kept has lost nothing', async (t) => {
        const { store } = await opened(t, { maxEvents: 10 })
        for (let call = 0; call < 20; call++) await wholeCall(store)
        const { earliest } = store
        assert.equal((await store.readEvents(earliest - 1, all)).lost, false)
        assert.equal((await store.readEvents(earliest - 2, all)).lost, true)
        assert.equal(store.locate(store.eventId(1)), 1, 'an id whose events are gone is still a place')
      })
    })

    describe('follow', () => {
      it('tells each event once, in log order', async (t) => {
        const { store } = await opened(t)
        const heard: StoredEvent[] = []
        store.follow((event) => heard.push(event))
        for (let call = 0; call < 5; call++) await wholeCall(store, ['{}'])
        await until(() => heard.length >= 15, '15 events')
        const { events } = await store.readEvents(0, all)
        assert.deepEqual(heard.map((event) => [event.sequence, shape(event)]), events.map((event) => [event.sequence, shape(event)]))
        assert.deepEqual({ ...heard[2]!.end }, { ...events[2]!.end })
      })

      it('tells only of what can be read already', async (t) => {
        const { store } = await opened(t)
        const reads: Promise<boolean>[] = []
        store.follow((event) => {
          assert.ok(store.head >= event.sequence)
          reads.push((async () => (await store.readEvents(event.sequence - 1, all)).events[0]?.sequence === event.sequence)())
        })
        await wholeCall(store, ['{}', '{}'])
        await until(() => reads.length === 4, '4 events')
        assert.deepEqual(await Promise.all(reads), [true, true, true, true])
      })

      it('tells every listener, and none that has stopped', async (t) => {
        const { store } = await opened(t)
        const heard = { first: 0, second: 0 }
        const stop = store.follow(() => { heard.first++ })
        store.follow(() => { heard.second++ })
        await wholeCall(store)
        await until(() => heard.second === 2 && heard.first === 2, 'both to hear two events')
        stop()
        stop()
        await wholeCall(store)
        await until(() => heard.second === 4, 'the second to hear four')
        assert.equal(heard.first, 2)
      })

      it('tells a new listener nothing of what was before', async (t) => {
        const { store } = await opened(t)
        await wholeCall(store)
        const heard: number[] = []
        store.follow((event) => heard.push(event.sequence))
        await wholeCall(store)
        await until(() => heard.length >= 2, 'two events')
        assert.deepEqual(heard, [3, 4])
      })
    })

    describe('the joint between replay and live', () => {
      it('gives each event once, in order, while others append', async (t) => {
        await fc.assert(fc.asyncProperty(
          fc.array(fc.nat({ max: 3 }), { minLength: 1, maxLength: 25 }),
          fc.integer({ min: 1, max: 6 }),
          fc.nat({ max: 10 }),
          async (bursts, pageSize, joinAfterTurns) => {
            const { store } = await opened(t)
            const writing = (async () => {
              for (const burst of bursts) {
                await Promise.all(Array.from({ length: burst }, async () => wholeCall(store, ['{}'])))
                await nextTurn()
              }
            })()
            for (let turn = 0; turn < joinAfterTurns; turn++) await nextTurn()

            // What a subscriber does: listen first, then read up to what was heard, then go on from there.
            const given: number[] = []
            const held: number[] = []
            let live = false
            let cursor = 0
            let heard = store.head
            store.follow((event) => {
              heard = event.sequence
              if (!live) held.push(event.sequence)
              else if (event.sequence > cursor) given.push(cursor = event.sequence)
            })
            while (!live) {
              const page = await store.readEvents(cursor, { events: pageSize, bytes: Infinity })
              assert.equal(page.lost, false)
              given.push(...page.events.map((event) => event.sequence))
              cursor = page.through
              if (cursor >= heard) live = true
            }
            assert.ok(held.every((sequence) => sequence <= cursor), 'what was held back had been read by the time of joining')

            await writing
            await until(() => given.length >= store.head, 'every event')
            assert.deepEqual(given, Array.from({ length: store.head }, (_, n) => n + 1))
            await store.close()
          }
        ), { numRuns: 25 })
      })
    })

    describe('retention', () => {
      promising('bounded by count')('by count keeps the newest records', async (t) => {
        const { store } = await opened(t, { maxRecords: 5 })
        const calls = []
        for (let call = 0; call < 12; call++) calls.push((await wholeCall(store)).start.invocationId)
        assert.equal(await store.get(calls[0]!), undefined)
        assert.equal(await store.get(calls[6]!), undefined)
        for (const id of calls.slice(7)) assert.ok(await store.get(id) !== undefined)
      })

      promising('bounded by count')('by count keeps the newest events', async (t) => {
        const { store } = await opened(t, { maxEvents: 6 })
        for (let call = 0; call < 10; call++) await wholeCall(store)
        const { events } = await store.readEvents(0, all)
        assert.deepEqual(events.map((event) => event.sequence), [15, 16, 17, 18, 19, 20])
        assert.equal(store.earliest, 15)
      })

      promising('bounded by bytes')('by bytes keeps no more text than it may, and the newest of it', async (t) => {
        const { store } = await opened(t, { maxEventBytes: 40_000 })
        const start = startOf()
        await store.begin(start)
        for (let n = 0; n < 100; n++) await store.progress(start.invocationId, JSON.stringify('x'.repeat(2000)))
        const { events, lost } = await store.readEvents(0, all)
        assert.equal(lost, true)
        assert.ok(events.length > 5 && events.length <= 20, `${events.length} events of 2,000 bytes`)
        assert.equal(events.at(-1)!.sequence, store.head)
      })

      promising('bounded by bytes')('by bytes bounds records, too', async (t) => {
        const { store } = await opened(t, { maxRecordBytes: 40_000 })
        const ids = []
        for (let n = 0; n < 50; n++) ids.push((await wholeCall(store, [], { input: JSON.stringify('x'.repeat(2000)) })).start.invocationId)
        const kept = (await Promise.all(ids.map(async (id) => store.get(id)))).filter((call) => call !== undefined)
        assert.ok(kept.length > 5 && kept.length <= 20, `${kept.length} records of 2,000 bytes`)
        assert.ok(await store.get(ids.at(-1)!) !== undefined)
      })

      promising('bounded by age')('by age lets records and events go', async (t) => {
        const { store, clock } = await opened(t, { maxRecordAgeMs: 1000, maxEventAgeMs: 1000 })
        const { start: old } = await wholeCall(store)
        clock.advance(800)
        const { start: young } = await wholeCall(store)
        clock.advance(300)
        assert.equal(await store.get(old.invocationId), undefined)
        assert.ok(await store.get(young.invocationId) !== undefined)
        const page = await store.readEvents(0, all)
        assert.deepEqual([page.lost, page.events.map((event) => event.sequence)], [true, [3, 4]])
        assert.equal(store.earliest, 3)
      })

      promising('bounded by age')('by age can empty the log; its places go on', async (t) => {
        const { store, clock } = await opened(t, { maxRecordAgeMs: 1000, maxEventAgeMs: 1000 })
        await wholeCall(store)
        clock.advance(5000)
        const page = await store.readEvents(1, all)
        assert.deepEqual([page.events.length, page.through, page.lost], [0, 2, true])
        assert.deepEqual([store.head, store.earliest], [2, 3])
        await wholeCall(store)
        assert.equal(store.head, 4)
        assert.equal((await store.readEvents(2, all)).lost, false)
      })

      it('never takes a running call, however old and many its successors', async (t) => {
        const { store, clock } = await opened(t, {
          maxRecords: 3, maxRecordBytes: 10_000, maxRecordAgeMs: 1000, maxEvents: 6, maxEventBytes: 10_000, maxEventAgeMs: 1000
        })
        const running = startOf({ input: JSON.stringify('x'.repeat(3000)) })
        await store.begin(running)
        for (let call = 0; call < 20; call++) await wholeCall(store)
        clock.advance(10_000)
        assert.deepEqual({ ...(await store.get(running.invocationId))!.start }, { ...running })
        assert.deepEqual((await store.unsettled()).map((call) => call.start.invocationId), [running.invocationId])
        await store.progress(running.invocationId, '{"still":"here"}')
        assert.equal(await store.settle(running.invocationId, endOf()), true)
        assert.equal((await store.get(running.invocationId))!.end!.status, 'succeeded')
        const last = (await store.readEvents(store.head - 1, all)).events[0]!
        assert.deepEqual([last.type, last.start.invocationId], ['tool_execution_end', running.invocationId])
      })
    })

    describe('closing', () => {
      it('makes every use an error with a code', async (t) => {
        const { store } = await opened(t)
        const start = startOf()
        await store.begin(start)
        await store.close()
        const uses: Record<string, () => unknown> = {
          begin: () => store.begin(startOf()),
          mark: () => store.mark(start.invocationId),
          progress: () => store.progress(start.invocationId, '{}'),
          settle: () => store.settle(start.invocationId, endOf()),
          get: () => store.get(start.invocationId),
          unsettled: () => store.unsettled(),
          list: () => store.list({}, undefined, 10),
          holder: () => store.holder('scope'),
          readEvents: () => store.readEvents(0, all),
          follow: () => store.follow(() => {})
        }
        for (const [method, use] of Object.entries(uses)) await assert.rejects(async () => use(), { name: 'GatewayError', code: 'store_closed' }, method)
      })

      it('twice is the same as once', async (t) => {
        const { store } = await opened(t)
        await store.close()
        await store.close()
      })

      it('ends following', async (t) => {
        const { store } = await opened(t)
        const stop = store.follow(() => assert.fail('told after close'))
        await store.close()
        stop()
      })
    })

    describe('readers of different rights', () => {
      rightsConformance((t, place) => opened(t, {}, place), promising('durable'))
    })

    describe('opening again', () => {
      promising('durable')('keeps records, events, running calls and the ids given out', async (t) => {
        const { store, place } = await opened(t)
        const { start } = await wholeCall(store, ['{}'])
        const running = startOf()
        await store.begin(running)
        await store.mark(running.invocationId)
        const ids = [0, 1, 2, 3, 4].map((sequence) => store.eventId(sequence))
        await store.close()

        const { store: again } = await opened(t, {}, place)
        assert.deepEqual(ids.map((id) => again.locate(id)), [0, 1, 2, 3, 4])
        assert.equal((await again.get(start.invocationId))!.end!.status, 'succeeded')
        assert.deepEqual((await again.unsettled()).map((call) => [call.start.invocationId, call.attempts]), [[running.invocationId, 1]])
        assert.equal((await again.readEvents(0, all)).events.length, 4)
        assert.equal(await again.settle(running.invocationId, endOf()), true)
        assert.equal(again.head, 5)
        assert.notEqual(again.eventId(5).split('-')[0], ids[0]!.split('-')[0], 'each opening has its own epoch')
      })

      promising('durable')('twice and thrice, keeps every id it gave out apart from those of other openings', async (t) => {
        const { store: first, place } = await opened(t)
        const { store: other } = await opened(t)
        await wholeCall(other)
        const ids = new Map([[first.eventId(0), 0]])
        const note = (store: Store) => { for (let at = 1; at <= store.head; at++) if (![...ids.values()].includes(at)) ids.set(store.eventId(at), at) }
        await wholeCall(first)
        note(first)
        await first.close()
        const { store: idle } = await opened(t, {}, place)
        const unused = idle.eventId(idle.head + 1)
        await idle.close()
        const { store: third } = await opened(t, {}, place)
        await wholeCall(third)
        note(third)
        await third.close()
        const { store } = await opened(t, {}, place)
        for (const [id, at] of ids) {
          assert.equal(store.locate(id), at, id)
          assert.equal(store.eventId(at), id)
        }
        assert.equal(ids.size, 5)
        assert.equal(store.locate(unused), undefined, 'of an opening in which nothing was written')
        assert.equal(store.locate(store.eventId(store.head + 1)), undefined, 'of the future')
        assert.equal(store.locate(other.eventId(1)), undefined, 'of another log')
      })

      promising('durable')('goes on from ids whose events are gone: told, not skipped', async (t) => {
        const { store, place } = await opened(t, { maxEvents: 6 })
        const early = store.eventId(1)
        for (let call = 0; call < 10; call++) await wholeCall(store)
        const late = store.eventId(16)
        await store.close()
        const { store: again } = await opened(t, { maxEvents: 6 }, place)
        assert.equal(again.earliest, 15)
        assert.deepEqual((await again.readEvents(again.locate(late)!, all)).events.map((event) => event.sequence), [17, 18, 19, 20])
        const page = await again.readEvents(again.locate(early) ?? 0, all)
        assert.deepEqual([page.lost, page.events[0]!.sequence], [true, 15])
      })

      promising('durable')('keeps what is gone gone, and places going on, also where nothing is left', async (t) => {
        const limits = { maxRecords: 4, maxEvents: 6, maxRecordAgeMs: 1000, maxEventAgeMs: 1000 }
        const { store, clock, place } = await opened(t, limits)
        const ids: string[] = []
        for (let call = 0; call < 8; call++) ids.push((await wholeCall(store)).start.invocationId)
        clock.advance(500)
        await store.close()
        const { store: again, clock: later } = await opened(t, limits, place)
        assert.deepEqual(await Promise.all(ids.map(async (id) => await again.get(id) !== undefined)), ids.map((_, n) => n >= 4))
        assert.equal((await again.list({}, undefined, 100)).calls.length, 4)
        later.advance(60_000)
        assert.deepEqual([(await again.readEvents(0, all)).events.length, (await again.list({}, undefined, 100)).calls.length], [0, 0])
        await again.close()
        const { store: empty } = await opened(t, limits, place)
        assert.deepEqual([empty.head, empty.earliest], [16, 17])
        await wholeCall(empty)
        assert.equal(empty.head, 18)
      })

      promising('durable')('with narrower bounds lets go of what is over them, at once', async (t) => {
        const { store, place } = await opened(t)
        for (let call = 0; call < 2000; call++) void wholeCall(store)
        await until(() => store.head === 4000, '4,000 events')
        await store.close()
        const { store: again } = await opened(t, { maxRecords: 10, maxEvents: 20 }, place)
        assert.equal(again.earliest, 3981)
        assert.equal((await again.list({}, undefined, 100)).calls.length, 10)
        assert.equal((await again.readEvents(0, all)).events.length, 20)
      })

      promising('durable')('recognises ids of a future that the log has not had', async (t) => {
        const { store, place } = await opened(t)
        await wholeCall(store)
        const ahead = store.eventId(store.head + 1)
        await store.close()
        const { store: again } = await opened(t, {}, place)
        await wholeCall(again)
        assert.equal(again.locate(ahead), undefined)
      })

      const forgetting = lacks.durable === undefined ? notPromised : it
      forgetting('without durability makes ids of before unknown', async (t) => {
        const { store, place } = await opened(t)
        const { start } = await wholeCall(store)
        const ids = [store.eventId(0), store.eventId(1)]
        await store.close()
        const { store: again } = await opened(t, {}, place)
        await wholeCall(again)
        assert.deepEqual(ids.map((id) => again.locate(id)), [undefined, undefined])
        assert.equal(await again.get(start.invocationId), undefined)
      })
    })
  })
}
