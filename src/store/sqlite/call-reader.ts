import type { StoredCall } from '../store.ts'
import type { Database, Row } from './database.ts'
import { RunningCall } from './operations.ts'
import { attemptsOf, endColumns, startColumns, START_WIDTH, toEnd, toStart } from './rows.ts'
import { bytesOf } from './writer.ts'

const CALL = `SELECT ${startColumns}, ${endColumns}, e.end_sequence FROM calls c LEFT JOIN ends e ON e.start_sequence = c.start_sequence`
const BY_ID = `${CALL} WHERE c.invocation_id = ?`
const BY_PLACE = `${CALL} WHERE c.start_sequence = ?`
const END_SEQUENCE = START_WIDTH + 7
const HOLDS_KEY = 'SELECT 1 FROM idempotency_keys WHERE start_sequence = ? AND expires_at_ms > ?'
const UNSETTLED = `SELECT ${startColumns}, k.scope, k.fingerprint, k.expires_at_ms
  FROM calls c LEFT JOIN ends e ON e.start_sequence = c.start_sequence LEFT JOIN idempotency_keys k ON k.start_sequence = c.start_sequence
  WHERE c.start_sequence >= ? AND e.end_sequence IS NULL ORDER BY c.start_sequence`

function toCall (row: Row): StoredCall {
  return {
    start: toStart(row),
    startSequence: row[0] as number,
    attempts: attemptsOf(row),
    end: toEnd(row, START_WIDTH),
    endSequence: row[END_SEQUENCE] as number | null ?? undefined
  }
}

/**
 * The record of a call: one that runs, that is not gone yet, or that holds a key.
 * @param gone records whose ends stand up to there are gone
 */
export function readCall (database: Database, invocationId: string, gone: number, nowMs: number): StoredCall | undefined {
  const row = database.statement(BY_ID).get(invocationId)
  if (row === undefined) return undefined
  const endSequence = row[END_SEQUENCE] as number | null
  const isKept = endSequence === null || endSequence > gone || database.statement(HOLDS_KEY).get(row[0]!, nowMs) !== undefined
  return isKept ? toCall(row) : undefined
}

/** The record of the call that begins at a place; it has to be there. */
export function readCallAt (database: Database, startSequence: number): StoredCall {
  return toCall(database.statement(BY_PLACE).get(startSequence)!)
}

/**
 * The calls without an end, oldest first.
 * @param from a place before which every call has settled
 */
export function readRunning (database: Database, from: number): RunningCall[] {
  return database.statement(UNSETTLED).all(from).map((row) => {
    const [scope, fingerprint, untilMs] = row.slice(START_WIDTH) as [string | null, string, number]
    const call = new RunningCall(toStart(row), scope === null ? undefined : { scope, fingerprint, untilMs })
    call.startSequence = row[0] as number
    call.attempts = attemptsOf(row)
    call.bytes = bytesOf(call.start)
    return call
  })
}
