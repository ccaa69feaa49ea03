import assert from 'node:assert/strict'
import { describe, it, type TestContext } from 'node:test'
import fc from 'fast-check'
import { MemoryStore } from '../../../src/store/memory.ts'
import { defaultRetention } from '../../../src/store/retention.ts'
import type { CallFilter, CallPage, CallStart, EventPage, Maybe, Store } from '../../../src/store/store.ts'
import { receiptText } from '../../../src/store/wire.ts'
import { endOf, startOf } from '../../conformance/calls.ts'
import { FakeClock } from '../../conformance/fake-clock.ts'
import { all, openStore, placeOf, query } from './harness.ts'

const HELD_MS = 5000

type Act =
  | { act: 'begin', call: number, scope: number | undefined }
  | { act: 'mark', call: number }
  | { act: 'progress', call: number }
  | { act: 'settle', call: number, executed: boolean }

type Step = { turn: Act[] } | { waitMs: number } | { reopen: true }

const call = fc.nat({ max: 7 })
const act: fc.Arbitrary<Act> = fc.oneof(
  fc.record({ act: fc.constant('begin' as const), call, scope: fc.option(fc.nat({ max: 2 }), { nil: undefined }) }),
  fc.record({ act: fc.constant('mark' as const), call }),
  fc.record({ act: fc.constant('progress' as const), call }),
  fc.record({ act: fc.constant('settle' as const), call, executed: fc.boolean() })
)
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 8, arbitrary: fc.record({ turn: fc.array(act, { minLength: 1, maxLength: 6 }) }) },
  { weight: 2, arbitrary: fc.record({ waitMs: fc.constantFrom(10, 400, 3000, 30_000) }) },
  { weight: 1, arbitrary: fc.constant({ reopen: true } as const) }
)

const filters: CallFilter[] = [{}, { status: ['running'] }, { status: ['succeeded', 'running'] }, { toolId: ['b'] }, { runId: ['odd'], kind: ['read'] }]

/** Does the same to a store as to the model, and sees the same in both. */
class Pair {
  readonly #t: TestContext
  readonly #path: string
  readonly #clock = new FakeClock()
  readonly #limits: Partial<typeof defaultRetention.memory>
  readonly #model: MemoryStore
  #store: Store
  readonly #starts: CallStart[] = []

  constructor (t: TestContext, limits: object) {
    this.#t = t
    this.#path = placeOf(t).path
    this.#limits = { ...defaultRetention.memory, ...limits }
    this.#model = new MemoryStore({ ...defaultRetention.memory, ...limits, epoch: '0'.repeat(16), now: () => this.#clock.now() })
    this.#store = this.#open()
  }

  #open (): Store {
    return openStore(this.#t, this.#path, { ...this.#limits, clock: this.#clock }).store
  }

  async run (step: Step): Promise<void> {
    if ('waitMs' in step) {
      this.#clock.advance(step.waitMs)
    } else if ('reopen' in step) {
      await this.#store.close()
      this.#store = this.#open()
    } else {
      // All of a turn is written before any of it is waited for.
      const writes = step.turn.map((one) => this.#write(one))
      const outcome = async (answer: () => unknown) => {
        try {
          return tell(await answer())
        } catch (error) {
          return (error as { code: string }).code
        }
      }
      const [expected, found] = await Promise.all([0, 1].map((which) => Promise.all(writes.map((write) => outcome(write[which]!)))))
      assert.deepEqual(found, expected)
    }
    await this.#compare()
  }

  /** The write's answers, of the model and of the store. Both are asked at once. */
  #write (one: Act): (() => unknown)[] {
    if (one.act === 'begin') {
      const n = this.#starts.length
      const start = startOf({ toolId: n % 3 === 0 ? 'b' : 'a', runId: n % 2 === 1 ? 'odd' : undefined, input: n % 5 === 0 ? undefined : `"${n}"` })
      this.#starts.push(start)
      const key = one.scope === undefined ? undefined : { scope: `scope ${one.scope}`, fingerprint: `${n}`, untilMs: this.#clock.now() + HELD_MS }
      return this.#both((store) => store.begin(start, key))
    }
    const id = this.#starts.at(-1 - one.call)?.invocationId ?? 'nobody'
    if (one.act === 'mark') return this.#both((store) => store.mark(id))
    if (one.act === 'progress') return this.#both((store) => store.progress(id, `"${this.#starts.length}"`))
    return this.#both((store) => store.settle(id, endOf({ executed: one.executed, ...(one.executed ? {} : { status: 'failed', errorCode: 'blocked' }) })))
  }

  #both (write: (store: Store) => unknown): (() => unknown)[] {
    return [this.#model, this.#store].map((store) => {
      try {
        const answer = write(store)
        return () => answer
      } catch (error) {
        return () => { throw error }
      }
    })
  }

  async #compare (): Promise<void> {
    const [model, store] = [this.#model, this.#store]
    const plain = (value: unknown): unknown => JSON.parse(JSON.stringify(value))
    const receipts = ({ calls, next }: CallPage) => [next, ...calls.map((call) => receiptText(call.start, call.end))]
    // The input is told of by start events alone.
    const told = (page: Maybe<EventPage>) => {
      const { events, ...rest } = page as EventPage
      return plain({ ...rest, events: events.map((event) => event.type === 'tool_execution_start' ? event : { ...event, start: { ...event.start, input: undefined } }) })
    }
    assert.deepEqual(told(store.readEvents(0, all)), told(model.readEvents(0, all)))
    assert.deepEqual(told(store.readEvents(store.head >> 1, { events: 3, bytes: Infinity })), told(model.readEvents(store.head >> 1, { events: 3, bytes: Infinity })))
    assert.deepEqual([store.head, store.earliest], [model.head, model.earliest])
    for (const { invocationId } of this.#starts) assert.deepEqual(tell(await store.get(invocationId)), tell(model.get(invocationId)))
    for (const filter of filters) {
      for (const limit of [2, 100]) assert.deepEqual(receipts(await store.list(filter, undefined, limit)), receipts(model.list(filter, undefined, limit)))
    }
    assert.deepEqual((await store.unsettled()).map(tell), model.unsettled().map(tell))
  }

  async end (): Promise<void> {
    await this.#store.close()
    assert.deepEqual(query(this.#path, 'PRAGMA integrity_check'), [{ integrity_check: 'ok' }])
  }
}

/** An answer without what is no part of it; of a key's holder, which call it is. */
function tell (answer: unknown): unknown {
  if (typeof answer !== 'object' || answer === null) return answer
  if ('fingerprint' in answer) {
    const { call, fingerprint } = answer as unknown as { call: { start: CallStart }, fingerprint: string }
    return { id: call.start.invocationId, fingerprint }
  }
  const { start, startSequence, attempts, end } = answer as { start: CallStart, startSequence: number, attempts: number, end: unknown }
  return JSON.parse(JSON.stringify({ start, startSequence, attempts, end }))
}

describe('a store in a file', () => {
  it('does and shows what one in memory would, whatever it is bounded to, and over openings', async (t) => {
    await fc.assert(fc.asyncProperty(
      fc.array(step, { minLength: 1, maxLength: 25 }),
      fc.constantFrom<object>({}, { maxRecords: 4, maxEvents: 7 }, { maxRecords: 3 }, { maxEvents: 5, maxRecordAgeMs: 3500 }, { maxRecordAgeMs: 1000, maxEventAgeMs: 3500 }),
      async (steps, limits) => {
        const pair = new Pair(t, limits)
        for (const one of steps) await pair.run(one)
        await pair.end()
      }
    ), { numRuns: 60 })
  })
})
