import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { send, waitFor } from '../e2e/harness.ts'
import { Follower, type Message } from './follower.ts'
import type { Target } from './target.ts'

const READERS = 8

/** A line that a tool wrote when it began to run, or when it ended. */
export interface RunLine {
  readonly toolId: string
  readonly what: 'begin' | 'end'
  readonly invocationId: string
  readonly attempt: number
  readonly life: number
}

/** What the file says of a call beside its record. */
export interface Row {
  readonly attempts: number
  readonly executed: boolean
}

/** What the gateway tells in the end, when nothing runs any more. */
export interface Testimony {
  /** The whole log as a stream, and in pages. */
  readonly replay: readonly Message[]
  readonly pages: readonly Message[]
  /** The ids of all that is listed. */
  readonly listed: readonly string[]
  /** By id: the record, or undefined where there is none. */
  readonly records: ReadonlyMap<string, any>
}

/** Asks for everything there is. */
export async function hear (target: Target, known: Iterable<string>): Promise<Testimony> {
  // What runs on all the same is found on record.
  await waitFor(async () => (await get(target, '/invocations?status=running&limit=1')).invocations.length === 0, 'nothing to run', 20_000).catch(() => {})
  const pages = await readPages(target)
  const [replay, listed] = await Promise.all([replayOf(target, '/events?lastEventId=earliest', pages.length), readList(target)])
  const ids = new Set([...listed, ...pages.map(({ data }) => JSON.parse(data).invocationId), ...known])
  const records = new Map<string, any>()
  const remaining = ids.values()
  await Promise.all(Array.from({ length: READERS }, async () => {
    for (const id of remaining) {
      const answer = await send(`${target.url}/invocations/${id}`)
      records.set(id, answer.status === 200 ? answer.body : undefined)
    }
  }))
  return { replay, pages, listed, records }
}

/** Replays a path until as many messages came, or no more do. */
export async function replayOf (target: Target, path: string, count: number): Promise<readonly Message[]> {
  const follower = new Follower(target, path)
  const following = follower.run()
  await waitFor(() => follower.messages.length >= count, `${count} events of ${path}`, 20_000).catch(() => {})
  follower.stop()
  await following
  return follower.messages
}

async function readPages (target: Target): Promise<Message[]> {
  const messages: Message[] = []
  let after = 'earliest'
  for (;;) {
    const { events, next } = await get(target, `/events?lastEventId=${after}`)
    if (events.length === 0) return messages
    for (const { id, event } of events) messages.push({ id, event: event.type, data: JSON.stringify(event) })
    after = next
  }
}

async function readList (target: Target): Promise<string[]> {
  const listed: string[] = []
  let next = ''
  do {
    const { invocations, nextCursor } = await get(target, `/invocations?limit=500${next}`)
    listed.push(...invocations.map(({ invocationId }: { invocationId: string }) => invocationId))
    next = nextCursor === undefined ? '' : `&cursor=${nextCursor}`
  } while (next !== '')
  return listed
}

async function get (target: Target, path: string): Promise<any> {
  const { status, body, text } = await send(target.url + path, { headers: { accept: 'application/json' } })
  if (status !== 200) throw new Error(`GET ${path}: ${status} ${text}`)
  return body
}

/** What the tools wrote, in the order in which each did. */
export function readRuns (folder: string): RunLine[] {
  return readdirSync(folder).filter((name) => name.endsWith('.runs')).flatMap((name) => readFileSync(join(folder, name), 'utf8').trimEnd().split('\n')
    .map((line) => ({ toolId: name.slice(0, -'.runs'.length), ...JSON.parse(line) }) as RunLine))
}

/** How the file of the store looks once its gateway has ended. */
export interface FileState {
  /** `ok`, or what is wrong. */
  readonly integrity: string
  readonly rows: ReadonlyMap<string, Row>
  readonly settled: number
}

export function readFileState (path: string): FileState {
  const database = new DatabaseSync(path, { readOnly: true })
  try {
    const { integrity_check: integrity } = database.prepare('PRAGMA integrity_check').get() as { integrity_check: string }
    const { settled } = database.prepare('SELECT count(*) AS settled FROM ends').get() as { settled: number }
    const rows = database.prepare('SELECT invocation_id, attempts, executed FROM calls LEFT JOIN ends USING (start_sequence)').all()
    return { integrity, settled, rows: new Map(rows.map((row) => [row.invocation_id as string, { attempts: row.attempts as number, executed: row.executed === 1 }])) }
  } finally {
    database.close()
  }
}
