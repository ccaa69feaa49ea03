import { writeSync } from 'node:fs'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { systemClock } from '../../../src/clock.ts'
import { createIdSource } from '../../../src/ids.ts'
import { defaultRetention } from '../../../src/store/retention.ts'
import { SqliteStore } from '../../../src/store/sqlite/sqlite-store.ts'
import { endOf, startOf } from '../../conformance/calls.ts'

/**
 * Writes calls to the store at its first argument until it is killed, eight at a time. Says of each write that was
 * acknowledged what it was: a line is out before the next write begins.
 */
const ids = createIdSource()
const store = SqliteStore.open({ ...defaultRetention.sqlite, path: process.argv[2]!, epoch: ids.epoch(), clock: systemClock, synchronous: 'normal' })
const say = (line: string) => { writeSync(1, `${line}\n`) }
say('open')

async function write (writer: number): Promise<void> {
  for (let call = 0; ; call++) {
    const start = startOf({ invocationId: ids.invocationId(Date.now()), toolCallId: `${writer}-${call}`, input: JSON.stringify('x'.repeat(call % 3000)) })
    try {
      await store.begin(start)
      say(`begun ${start.invocationId}`)
      await store.mark(start.invocationId)
      say(`marked ${start.invocationId}`)
      await store.progress(start.invocationId, `{"n":${call}}`)
      say(`updated ${start.invocationId}`)
      await store.settle(start.invocationId, endOf())
      say(`settled ${start.invocationId}`)
    } catch (error) {
      say(`refused ${(error as { code: string }).code} ${store.fault ?? 'no fault'}`)
      await nextTurn()
    }
  }
}

for (let writer = 0; writer < 8; writer++) void write(writer)
