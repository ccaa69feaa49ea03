import { mkdtempSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { setImmediate as nextTurn, setTimeout as delay } from 'node:timers/promises'
import { systemClock } from '../../src/clock.ts'
import { createIdSource } from '../../src/ids.ts'
import { defaultRetention, type Retention } from '../../src/store/retention.ts'
import { SqliteStore } from '../../src/store/sqlite/sqlite-store.ts'
import type { CallEnd, CallStart } from '../../src/store/store.ts'

/**
 * Measures the SQLite store by itself, tells the figures, and ends.
 *
 *   node store-work.ts written <events> | size <calls> | sweep <events> | checkpoints <MiB>
 */
const [what, amount] = [process.argv[2]!, Number(process.argv[3])]
const folder = mkdtempSync(join(tmpdir(), 'toolgate-bench-'))
const path = join(folder, 'store.db')
const ids = createIdSource()
const open = (retention: Partial<Retention> = {}) =>
  SqliteStore.open({ path, epoch: ids.epoch(), clock: systemClock, synchronous: 'normal', ...defaultRetention.sqlite, ...retention })

const BURST = 100
/** What an event of about 590 bytes on the wire has of its own. */
const partialResult = JSON.stringify({ content: [{ type: 'text', text: 'x'.repeat(208) }], details: null, isError: false })

function startOf (): CallStart {
  const startedAtMs = Date.now()
  const invocationId = ids.invocationId(startedAtMs)
  return {
    invocationId, toolId: 'add', toolCallId: invocationId, kind: 'read', startedAtMs, runId: undefined, traceId: undefined, parentSpanId: undefined,
    parentInvocationId: undefined, isChild: false, principalId: 'bench', timeoutMs: 60_000, input: '{"a":19,"b":23}'
  }
}

const end: CallEnd = {
  status: 'succeeded', errorCode: undefined, isError: false, executed: true, durationMs: 0.125, queuedMs: undefined,
  result: '{"content":[{"type":"text","text":"19 + 23 = 42"}],"details":null,"structuredContent":{"sum":42},"isError":false}'
}

/** Calls as they come under load: so many of them in a turn, each begun and marked, then settled. */
async function call (store: SqliteStore, calls: number): Promise<void> {
  for (let done = 0; done < calls; done += BURST) {
    const starts = Array.from({ length: BURST }, startOf)
    for (const start of starts) {
      void store.begin(start)
      void store.mark(start.invocationId)
    }
    await nextTurn()
    for (const { invocationId } of starts) void store.settle(invocationId, end)
    await nextTurn()
  }
}

/** The longest time, in milliseconds, that a timer of one millisecond was late while `work` went on. */
async function longestStall (work: () => Promise<unknown>): Promise<number> {
  let longest = 0
  let before = performance.now()
  const timer = setInterval(() => {
    const now = performance.now()
    longest = Math.max(longest, now - before - 1)
    before = now
  }, 1)
  await work()
  clearInterval(timer)
  return longest
}

const measures: Record<string, () => Promise<Record<string, number>>> = {
  async written () {
    const bare = new DatabaseSync(join(folder, 'bare.db'))
    bare.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; CREATE TABLE events (sequence INTEGER PRIMARY KEY, text TEXT)')
    const insert = bare.prepare('INSERT INTO events VALUES (?, ?)')
    const bareMs = await timeOf(async () => {
      for (let sequence = 1; sequence <= amount;) {
        bare.exec('BEGIN')
        for (let number = 0; number < BURST; number++) insert.run(sequence++, partialResult)
        bare.exec('COMMIT')
        await nextTurn()
      }
    })
    bare.close()
    const store = open()
    const start = startOf()
    await store.begin(start)
    const storeMs = await timeOf(async () => {
      for (let sent = 0; sent < amount; sent += BURST) {
        let written: unknown
        for (let number = 0; number < BURST; number++) written = store.progress(start.invocationId, partialResult)
        await written
      }
      await store.settle(start.invocationId, end)
    })
    await store.close()
    return { bare: amount / (bareMs / 1000), store: amount / (storeMs / 1000) }
  },

  async size () {
    const store = open()
    await call(store, amount)
    await store.close()
    return { text: startOf().input!.length + end.result.length, store: statSync(path).size / amount }
  },

  async sweep () {
    const filling = open()
    await call(filling, amount / 2)
    await filling.close()
    const idle = await longestStall(() => delay(1000))
    const store = open({ maxRecords: 1000, maxEvents: 2000 })
    // What is gone is out of the file once it has been said so there; the first step comes after a while.
    const reader = new DatabaseSync(path, { readOnly: true })
    const left = () => reader.prepare('SELECT count(*) AS calls FROM calls').get()!.calls as number
    let longest = 0
    while (left() > 1000) longest = Math.max(longest, await longestStall(() => delay(2000)))
    reader.close()
    await store.close()
    return { idle, store: longest }
  },

  async checkpoints () {
    const idle = await longestStall(() => delay(1000))
    const store = open()
    const start = startOf()
    await store.begin(start)
    const text = JSON.stringify({ content: [{ type: 'text', text: 'x'.repeat(2000) }], details: null, isError: false })
    const longest = await longestStall(async () => {
      for (let bytes = 0; bytes < amount * 2 ** 20; bytes += 10 * text.length) {
        let written: unknown
        for (let number = 0; number < 10; number++) written = store.progress(start.invocationId, text)
        await written
      }
      await store.settle(start.invocationId, end)
    })
    await store.close()
    return { idle, store: longest }
  }
}

async function timeOf (work: () => Promise<unknown>): Promise<number> {
  const before = performance.now()
  await work()
  return performance.now() - before
}

try {
  const measured = await measures[what]!()
  process.send!({ type: 'measured', ...measured }, () => process.disconnect())
} finally {
  rmSync(folder, { recursive: true, force: true })
}
