import assert from 'node:assert/strict'
import { copyFileSync, renameSync, rmSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { backup, DatabaseSync } from 'node:sqlite'
import { describe, it } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { endOf, startOf } from '../../conformance/calls.ts'
import { FakeClock } from '../../conformance/fake-clock.ts'
import { until } from '../../conformance/until.ts'
import { all, openStore, placeOf, query, start, wholeCall } from './harness.ts'

const without = (ids: Set<string>, others: Set<string>) => [...ids].filter((id) => !others.has(id))
const integrity = (path: string) => query(path, 'PRAGMA integrity_check')

describe('a store whose process is killed', () => {
  it('has every write that was acknowledged, and nothing half, round after round', async (t) => {
    const { path } = placeOf(t)
    const said = { begun: new Set<string>(), marked: new Set<string>(), updated: new Set<string>(), settled: new Set<string>() }
    const ids = new Map<number, string>()
    for (let round = 0; round < 4; round++) {
      const { lines, child, ended } = start(t, './writer-process.ts', [path])
      const enough = 500 + 700 * round
      await until(() => lines.length > enough, 'writes', 20_000)
      child.kill('SIGKILL')
      await ended
      for (const [what, id] of lines.slice(1).map((line) => line.split(' '))) said[what as keyof typeof said].add(id!)

      const { store } = openStore(t, path)
      const { events } = store.readEvents(0, all)
      assert.deepEqual(events.map((event) => event.sequence), Array.from({ length: store.head }, (_, n) => n + 1))
      const of = (type: string) => new Set(events.filter((event) => event.type === type).map((event) => event.start.invocationId))
      const [begun, updated, settled] = ['tool_execution_start', 'tool_execution_update', 'tool_execution_end'].map(of) as [Set<string>, Set<string>, Set<string>]
      for (const [acknowledged, there] of [[said.begun, begun], [said.updated, updated], [said.settled, settled]] as const) {
        assert.deepEqual(without(acknowledged, there), [])
      }
      assert.equal(settled.size, events.filter((event) => event.type === 'tool_execution_end').length, 'each ended once')
      const unsettled = await store.unsettled()
      assert.deepEqual(unsettled.map((call) => call.start.invocationId), without(begun, settled))
      for (const call of unsettled) assert.equal(call.attempts >= (said.marked.has(call.start.invocationId) ? 1 : 0), true)
      for (const [sequence, id] of ids) assert.equal(store.locate(id), sequence, 'ids of before are honoured')
      for (const sequence of [1, store.head >> 1, store.head]) if (!ids.has(sequence)) ids.set(sequence, store.eventId(sequence))
      await store.close()
      assert.deepEqual(integrity(path), [{ integrity_check: 'ok' }])
    }
  })
})

describe('a backup', () => {
  it('taken while the store is written to is whole, and its ids are honoured; later ones are unknown, and new ones are others', async (t) => {
    const { folder, path } = placeOf(t)
    const { store } = openStore(t, path)
    for (let call = 0; call < 20; call++) await wholeCall(store)
    const ids = Array.from({ length: 41 }, (_, sequence) => store.eventId(sequence))
    const reader = new DatabaseSync(path, { readOnly: true })
    const copied = backup(reader, join(folder, 'backup.db'))
    const more = (async () => { for (let call = 0; call < 50; call++) await wholeCall(store) })()
    await copied
    reader.close()
    await more
    const later = Array.from({ length: 140 }, (_, n) => store.eventId(n + 1))
    await store.close()
    for (const rest of ['-wal', '-shm']) rmSync(path + rest, { force: true })
    renameSync(join(folder, 'backup.db'), path)

    const { store: restored } = openStore(t, path)
    const { head } = restored
    assert.ok(head >= 40 && head <= 140, `${head} events`)
    assert.deepEqual(ids.map((id) => restored.locate(id)), ids.map((_, sequence) => sequence))
    assert.deepEqual(later.map((id) => restored.locate(id)), later.map((_, n) => n + 1 <= head ? n + 1 : undefined))
    for (let call = 0; call < 60; call++) await wholeCall(restored)
    assert.ok(restored.head >= 140)
    for (let sequence = head + 1; sequence <= restored.head; sequence++) assert.ok(!later.includes(restored.eventId(sequence)))
    assert.deepEqual(later.slice(head).map((id) => restored.locate(id)), later.slice(head).map(() => undefined))
    await restored.close()
    assert.deepEqual(integrity(path), [{ integrity_check: 'ok' }])
  })

  it('of a closed store is the file', async (t) => {
    const { folder, path } = placeOf(t)
    const { store } = openStore(t, path)
    const id = await wholeCall(store)
    await store.close()
    copyFileSync(path, join(folder, 'copy.db'))
    const { store: copy } = openStore(t, join(folder, 'copy.db'))
    assert.equal(copy.get(id)!.end!.status, 'succeeded')
  })
})

describe('what is written', () => {
  it('is plain text, with nothing of what is withheld', async (t) => {
    const { path } = placeOf(t)
    const { store } = openStore(t, path)
    await wholeCall(store, { input: undefined, toolId: 'secret' })
    await wholeCall(store, { input: '{"a":"é"}', toolCallId: 'mine', runId: 'run', principalId: 'me', isChild: true })
    const rows = query(path, 'SELECT tool_id, tool_call_id, run_id, principal_id, flags, attempts, input, status FROM calls JOIN ends USING (start_sequence)')
    assert.deepEqual(rows, [
      { tool_id: 'secret', tool_call_id: null, run_id: null, principal_id: 'somebody', flags: 0, attempts: 1, input: null, status: 'succeeded' },
      { tool_id: 'echo', tool_call_id: 'mine', run_id: 'run', principal_id: 'me', flags: 1, attempts: 1, input: '{"a":"é"}', status: 'succeeded' }
    ])
  })

  it('in one turn is one transaction, and a call that is marked as it begins one row', async (t) => {
    const { path } = placeOf(t)
    const { store } = openStore(t, path)
    const frames = () => Math.floor(statSync(`${path}-wal`).size / (4096 + 24))
    const before = frames()
    await Promise.all(Array.from({ length: 10 }, () => wholeCall(store)))
    // Pages, not rows: two commits wrote each page once.
    assert.ok(frames() - before <= 2 * 8, `${frames() - before} frames`)
  })

  it('in one turn is several transactions where it is so much that it would fill the memory', async (t) => {
    const { path } = placeOf(t)
    const { store } = openStore(t, path)
    const call = startOf()
    const heard: number[] = []
    store.follow((event) => heard.push(event.sequence))
    await store.begin(call)
    const text = JSON.stringify('x'.repeat(2 ** 20))
    for (let n = 0; n < 40; n++) void store.progress(call.invocationId, text)
    assert.ok(store.head > 30, 'most of it is committed before the turn ends')
    await store.settle(call.invocationId, endOf())
    assert.deepEqual(heard, Array.from({ length: 42 }, (_, n) => n + 1))
  })

  it('with synchronous=full waits for the disk', async (t) => {
    const { path } = placeOf(t)
    const { store } = openStore(t, path, { synchronous: 'full' })
    const id = await wholeCall(store)
    assert.ok(store.get(id)!.end !== undefined)
  })

  it('before closing is committed by it', async (t) => {
    const { path } = placeOf(t)
    const { store } = openStore(t, path)
    const heard: string[] = []
    store.follow((event) => heard.push(event.type))
    const written = wholeCall(store).catch((error: Error) => error)
    await store.close()
    assert.deepEqual(heard, ['tool_execution_start'], 'the end came too late')
    assert.equal((await written as { code?: string }).code, 'store_closed')
    const { store: again } = openStore(t, path)
    assert.equal(again.head, 1)
    assert.equal((await again.unsettled())[0]!.attempts, 1)
  })
})

describe('what is read', () => {
  it('of an end leaves out the input of its call: a page of ends may have to do with many long ones', async (t) => {
    const { path } = placeOf(t)
    const { store } = openStore(t, path)
    const starts = Array.from({ length: 3 }, () => startOf({ input: '"long"' }))
    for (const call of starts) await store.begin(call)
    for (const { invocationId } of starts) await store.settle(invocationId, endOf())
    assert.deepEqual(store.readEvents(0, all).events.slice(0, 3).map((event) => event.start.input), ['"long"', '"long"', '"long"'])
    assert.deepEqual(store.readEvents(3, all).events.map(({ type, start: { input } }) => [type, input]), starts.map(() => ['tool_execution_end', undefined]))
  })

  it('for lists is a step of one a turn, however many look through the whole log', async (t) => {
    const { path } = placeOf(t)
    let looks = 0
    const clock = new FakeClock()
    const monotonic = clock.monotonic.bind(clock)
    clock.monotonic = () => {
      looks++
      return monotonic()
    }
    const { store } = openStore(t, path, { clock })
    const calls = Array.from({ length: 3000 }, () => startOf())
    for (const call of calls) void store.begin(call)
    for (const { invocationId } of calls) void store.settle(invocationId, endOf())
    await store.begin(startOf())
    const ended: unknown[] = []
    for (let list = 0; list < 20; list++) void Promise.resolve(store.list({ toolId: ['rare'] }, undefined, 10)).then((page) => ended.push(page))
    const looksATurn: number[] = []
    while (ended.length < 20) {
      const before = looks
      await nextTurn()
      looksATurn.push(looks - before)
    }
    assert.ok(looksATurn.length >= 20, `${looksATurn.length} turns`)
    // Each step looks at the clock when it begins and when it ends.
    assert.ok(Math.max(...looksATurn) <= 4, looksATurn.join())
  })
})
