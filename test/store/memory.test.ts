import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { createIdSource } from '../../src/ids.ts'
import { MemoryStore, type MemoryStoreOptions } from '../../src/store/memory.ts'
import { defaultRetention } from '../../src/store/retention.ts'
import type { StoredEvent } from '../../src/store/store.ts'
import { endOf, startOf } from '../conformance/calls.ts'
import { FakeClock } from '../conformance/fake-clock.ts'
import { storeConformance } from '../conformance/store.ts'

const ids = createIdSource()
const all = { events: 1000, bytes: Infinity }

storeConformance('memory', async ({ clock, limits }) => new MemoryStore({ epoch: ids.epoch(), now: () => clock.now(), ...limits }), {
  durable: 'nothing of it survives the process, by design'
})

function open (options: Partial<MemoryStoreOptions> = {}) {
  const clock = new FakeClock()
  const store = new MemoryStore({
    epoch: ids.epoch(), now: () => clock.now(), ...defaultRetention.memory, maxRecords: 100, maxEvents: 100, ...options
  })
  return { store, clock }
}

function run (store: MemoryStore, fields: Parameters<typeof startOf>[0] = {}, end = endOf()): string {
  const start = startOf(fields)
  store.begin(start)
  store.settle(start.invocationId, end)
  return start.invocationId
}

describe('event store (memory), beyond the port', () => {
  it('answers now: nothing it gives is a promise', () => {
    const { store } = open()
    const id = run(store)
    assert.equal(store.get(id)!.end!.status, 'succeeded')
    assert.deepEqual(store.unsettled(), [])
    assert.equal(store.readEvents(0, all).events.length, 2)
  })

  it('tells followers before the write returns', () => {
    const { store } = open()
    const heard: string[] = []
    store.follow((event) => heard.push(event.type))
    const start = startOf()
    store.begin(start)
    assert.deepEqual(heard, ['tool_execution_start'])
    store.settle(start.invocationId, endOf())
    assert.deepEqual(heard, ['tool_execution_start', 'tool_execution_end'])
  })

  it('an event heard is the event read, also once its call has ended', () => {
    const { store } = open()
    const heard: StoredEvent[] = []
    store.follow((event) => heard.push(event))
    const start = startOf()
    store.begin(start)
    store.progress(start.invocationId, '{"n":1}')
    store.settle(start.invocationId, endOf({ status: 'failed', errorCode: 'tool_error', isError: true }))
    assert.deepEqual(store.readEvents(0, all).events, heard)
  })

  it('of a running call the events may go, the record stays', () => {
    const { store } = open({ maxEvents: 4 })
    const running = startOf()
    store.begin(running)
    for (let call = 0; call < 4; call++) run(store)
    assert.ok(store.earliest > 1)
    assert.equal(store.get(running.invocationId)!.end, undefined)
    store.settle(running.invocationId, endOf())
    const last = store.readEvents(store.head - 1, all).events[0]!
    assert.equal(last.type, 'tool_execution_end')
    assert.equal(last.end!.status, 'succeeded')
  })

  it('one event and one record are the least it can be bounded to', () => {
    const { store } = open({ maxEvents: 1, maxRecords: 1 })
    const ids = [run(store), run(store), run(store)]
    assert.deepEqual(ids.map((id) => store.get(id) !== undefined), [false, false, true])
    const page = store.readEvents(0, all)
    assert.deepEqual([page.lost, page.through, page.events.map((event) => event.type)], [true, 6, ['tool_execution_end']])
  })

  it('counts down what it evicts: a long run never fills up', () => {
    const { store } = open({ maxRecordBytes: 20_000, maxEventBytes: 20_000, maxEvents: 1000, maxRecords: 1000 })
    for (let call = 0; call < 2000; call++) {
      const start = startOf({ input: JSON.stringify('x'.repeat(call % 700)) })
      store.begin(start)
      store.progress(start.invocationId, JSON.stringify('y'.repeat(call % 300)))
      store.settle(start.invocationId, endOf({ result: JSON.stringify('z'.repeat(call % 900)) }))
    }
    const kept = store.readEvents(0, all).events.length
    assert.ok(kept > 10 && kept < 50, `${kept} events kept at the end`)
  })

  it('an event over all the bytes there are is heard, and told as lost', () => {
    const { store } = open({ maxEventBytes: 1000 })
    const heard: number[] = []
    store.follow((event) => heard.push(event.sequence))
    const start = startOf()
    store.begin(start)
    store.progress(start.invocationId, JSON.stringify('x'.repeat(5000)))
    assert.deepEqual(heard, [1, 2])
    const page = store.readEvents(1, all)
    assert.deepEqual([page.lost, page.events.length, page.through], [true, 0, 2])
  })

  it('records go by the time they settled, not by their beginning', () => {
    const { store, clock } = open({ maxRecordAgeMs: 1000 })
    const slow = startOf()
    store.begin(slow)
    clock.advance(900)
    const quick = run(store)
    clock.advance(900)
    store.settle(slow.invocationId, endOf())
    clock.advance(200)
    assert.equal(store.get(quick), undefined)
    assert.ok(store.get(slow.invocationId) !== undefined)
  })
})
