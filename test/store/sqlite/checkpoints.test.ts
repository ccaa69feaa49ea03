import assert from 'node:assert/strict'
import { existsSync, readdirSync, readlinkSync, statSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import { describe, it } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import { startOf } from '../../conformance/calls.ts'
import { until } from '../../conformance/until.ts'
import { all, openStore, placeOf, query, start, wholeCall } from './harness.ts'

const input = JSON.stringify('x'.repeat(100_000))
const MiB = 2 ** 20
const logOf = (path: string) => statSync(`${path}-wal`).size

describe('the write-ahead log of a store', () => {
  it('is moved into the file and begins anew, while writing goes on; nothing is lost and the order is kept', async (t) => {
    const { path } = placeOf(t)
    const { store } = openStore(t, path)
    const heard: number[] = []
    store.follow((event) => heard.push(event.sequence))
    let calls = 0
    let longest = 0
    let hasBegunAnew = false
    // However fast this machine writes, and however slowly it moves: 2 GB at most.
    const writers = Array.from({ length: 4 }, async () => {
      while (!hasBegunAnew && calls < 20_000) {
        calls++
        await wholeCall(store, { input })
        const bytes = logOf(path)
        hasBegunAnew ||= bytes < longest
        longest = Math.max(longest, bytes)
      }
    })
    await Promise.all(writers)
    assert.ok(hasBegunAnew, `it grew to ${longest} bytes`)
    assert.deepEqual(heard, Array.from({ length: calls * 2 }, (_, n) => n + 1))
    await store.close()
    assert.deepEqual(query(path, 'SELECT count(*) AS calls FROM ends'), [{ calls }])
  })

  it('is moved by a thread: the loop turns meanwhile', async (t) => {
    const { path } = placeOf(t)
    const { store } = openStore(t, path)
    for (let call = 0; call < 200; call++) void wholeCall(store, { input })
    let turns = 0
    await until(() => { turns++; return store.head === 400 && statSync(path).size > 15 * MiB }, 'the log to be moved')
    assert.ok(turns > 10, `${turns} turns`)
  })

  it('grows where a reader keeps it from beginning anew, and is moved once the reader is gone', async (t) => {
    const { path } = placeOf(t)
    const { store } = openStore(t, path)
    await wholeCall(store)
    const reader = new DatabaseSync(path, { readOnly: true })
    reader.exec('BEGIN')
    reader.prepare('SELECT count(*) FROM calls').get()
    for (let call = 0; call < 150; call++) await wholeCall(store, { input })
    assert.ok(logOf(path) > 14 * MiB)
    reader.close()
    let calls = 151
    await until(async () => {
      await wholeCall(store, { input })
      calls++
      return logOf(path) < 9 * MiB
    }, 'the log to begin anew', 20_000)
    assert.equal(store.readEvents(0, all).events.length, calls * 2)
  })

  const descriptors = '/proc/self/fd'
  it('is let go of by closing, however much the last turn wrote', { skip: !existsSync(descriptors) }, async (t) => {
    const { path } = placeOf(t)
    const { store } = openStore(t, path)
    for (let call = 0; call < 250; call++) void store.begin(startOf({ input }))
    await store.close()
    const isOpen = (descriptor: string) => {
      try {
        return readlinkSync(`${descriptors}/${descriptor}`).startsWith(path)
      } catch {
        return false
      }
    }
    for (let look = 0; look < 30; look++) {
      assert.equal(readdirSync(descriptors).filter(isOpen).length, 0)
      await delay(10)
    }
  })

  it('keeps no process alive that is done', async (t) => {
    const { path } = placeOf(t)
    const { ended } = start(t, './fleeting-process.ts', [path])
    assert.equal(await ended, 0)
    const { store } = openStore(t, path)
    assert.equal(store.head, 240)
  })
})
