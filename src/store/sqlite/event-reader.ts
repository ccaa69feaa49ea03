import type { CallStart, ReadLimits, StoredEvent } from '../store.ts'
import type { Database, Row } from './database.ts'
import { endColumns, identityColumns, startColumns, toEnd, toIdentity, toStart } from './rows.ts'

const CALLS = `SELECT ${startColumns} FROM calls c WHERE c.start_sequence BETWEEN ? AND ? ORDER BY c.start_sequence`
const CALL = `SELECT ${identityColumns} FROM calls c WHERE c.start_sequence = ?`
const UPDATES = 'SELECT sequence, start_sequence, partial_result FROM updates WHERE sequence BETWEEN ? AND ? ORDER BY sequence'
const ENDS = `SELECT e.end_sequence, e.start_sequence, ${endColumns} FROM ends e WHERE e.end_sequence BETWEEN ? AND ? ORDER BY e.end_sequence`

/** What an event counts beside its text, in bytes. */
const OVERHEAD_BYTES = 400

/** The rows of one table in a range of places, one at a time. */
class Cursor {
  readonly #rows: Iterator<Row>
  /** The row that is next; undefined after the last. */
  row: Row | undefined

  constructor (rows: Iterator<Row>) {
    this.#rows = rows
    this.advance()
  }

  advance (): void {
    const { value, done } = this.#rows.next()
    this.row = done === true ? undefined : value
  }

  close (): void {
    this.#rows.return?.()
  }
}

/**
 * Reads events `first` to `last`, or fewer where the limits are reached. Each place stands in one of three tables, so a page
 * is a merge of three cursors, and nothing past its end is read but the next row of each.
 */
export function readEvents (database: Database, first: number, last: number, limits: ReadLimits): StoredEvent[] {
  const end = Math.min(last, first + limits.events - 1)
  const events: StoredEvent[] = []
  if (first > end) return events
  const starts = new Map<number, CallStart>()
  // Without its input: that may be long, a page may have to do with many calls, and only their start events tell of it.
  const startAt = (place: number): CallStart => {
    let start = starts.get(place)
    if (start === undefined) starts.set(place, start = { ...toIdentity(database.statement(CALL).get(place)!), input: undefined })
    return start
  }
  const calls = new Cursor(database.statement(CALLS).iterate(first, end))
  const updates = new Cursor(database.statement(UPDATES).iterate(first, end))
  const ends = new Cursor(database.statement(ENDS).iterate(first, end))
  try {
    let bytes = 0
    for (let sequence = first; sequence <= end && bytes < limits.bytes; sequence++) {
      bytes += OVERHEAD_BYTES
      if (calls.row?.[0] === sequence) {
        const start = toStart(calls.row)
        starts.set(sequence, start)
        events.push({ sequence, type: 'tool_execution_start', start, partialResult: undefined, end: undefined })
        bytes += start.input?.length ?? 0
        calls.advance()
      } else if (updates.row?.[0] === sequence) {
        const partialResult = updates.row[2] as string
        events.push({ sequence, type: 'tool_execution_update', start: startAt(updates.row[1] as number), partialResult, end: undefined })
        bytes += partialResult.length
        updates.advance()
      } else {
        const callEnd = toEnd(ends.row!, 2)!
        events.push({ sequence, type: 'tool_execution_end', start: startAt(ends.row![1] as number), partialResult: undefined, end: callEnd })
        bytes += callEnd.result.length
        ends.advance()
      }
    }
  } finally {
    for (const cursor of [calls, updates, ends]) cursor.close()
  }
  return events
}
