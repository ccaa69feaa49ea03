import { spawn, type ChildProcess } from 'node:child_process'
import { mkdtempSync, readFileSync, readdirSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import type { TestContext } from 'node:test'
import { fileURLToPath } from 'node:url'
import type { Clock } from '../../../src/clock.ts'
import { createIdSource } from '../../../src/ids.ts'
import { defaultRetention } from '../../../src/store/retention.ts'
import { SqliteStore, type SqliteStoreOptions } from '../../../src/store/sqlite/sqlite-store.ts'
import { endOf, startOf } from '../../conformance/calls.ts'
import { FakeClock } from '../../conformance/fake-clock.ts'

const ids = createIdSource()

export const all = { events: 1_000_000, bytes: Infinity }

/** What ends with a test, the last to come first: a folder goes once what is in it is closed. */
const endings = new WeakMap<TestContext, (() => unknown)[]>()

function atEnd (t: TestContext, end: () => unknown): void {
  const ends = endings.get(t) ?? []
  if (ends.length === 0) {
    endings.set(t, ends)
    t.after(async () => { for (const one of ends) await one() })
  }
  ends.unshift(end)
}

/** A folder of its own, and the path that a store in it has. */
export function placeOf (t: TestContext): { folder: string, path: string } {
  const folder = mkdtempSync(join(tmpdir(), 'toolgate-store-'))
  atEnd(t, () => rmSync(folder, { recursive: true, force: true }))
  return { folder, path: join(folder, 'toolgate.db') }
}

/** Opens a store that is closed with the test. */
export function openStore (t: TestContext, path: string, options: Partial<SqliteStoreOptions> = {}): { store: SqliteStore, clock: FakeClock } {
  const clock = (options.clock ?? new FakeClock()) as Clock as FakeClock
  const store = SqliteStore.open({ ...defaultRetention.sqlite, path, epoch: ids.epoch(), clock, synchronous: 'normal', ...options })
  atEnd(t, () => store.close())
  return { store, clock }
}

/** One call, begun and settled. @returns its id */
export async function wholeCall (store: SqliteStore, fields: Parameters<typeof startOf>[0] = {}, end = endOf()): Promise<string> {
  const start = startOf(fields)
  const begun = store.begin(start)
  store.mark(start.invocationId)
  await begun
  await store.settle(start.invocationId, end)
  return start.invocationId
}

/** Looks into a file with a connection of its own. */
export function query (path: string, sql: string): Record<string, unknown>[] {
  const connection = new DatabaseSync(path, { readOnly: true, timeout: 1000 })
  try {
    return connection.prepare(sql).all().map((row) => ({ ...row }))
  } finally {
    connection.close()
  }
}

/** Every file of a folder with its content, to see that nothing changed. */
export function contentOf (folder: string): Record<string, string> {
  return Object.fromEntries(readdirSync(folder).sort().map((name) => {
    const path = join(folder, name)
    return [name, statSync(path).isDirectory() ? 'a folder' : readFileSync(path, 'base64')]
  }))
}

/** Runs a script of this folder as a process of its own, which ends with the test. */
export function start (t: TestContext, script: string, args: string[] = []): { child: ChildProcess, lines: string[], ended: Promise<number | null> } {
  const child = spawn(process.execPath, [fileURLToPath(new URL(script, import.meta.url)), ...args], { stdio: ['pipe', 'pipe', 'inherit'] })
  const lines: string[] = []
  let rest = ''
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    const parts = (rest + text).split('\n')
    rest = parts.pop()!
    lines.push(...parts)
  })
  const ended = new Promise<number | null>((resolve) => child.once('close', resolve))
  atEnd(t, async () => {
    child.kill('SIGKILL')
    await ended
  })
  return { child, lines, ended }
}
