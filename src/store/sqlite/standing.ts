import type { Database, Row } from './database.ts'
import type { Entry } from './floor.ts'
import type { Totals } from './writer.ts'

/** How far a log has come. */
export interface Standing {
  totals: Totals
  /** A place before which every call has settled. */
  settledBelow: number
  /** The last event that is gone, and the last end of a record that is. */
  eventsGone: Omit<Entry, 'atMs'>
  recordsGone: Omit<Entry, 'atMs'>
}

const SAVED = 'SELECT settled_below, events_gone, events_gone_bytes, records_gone, records_gone_number, records_gone_bytes FROM log'
const LAST_CALL = 'SELECT start_sequence, log_bytes FROM calls ORDER BY start_sequence DESC LIMIT 1'
const LAST_UPDATE = 'SELECT sequence, log_bytes FROM updates ORDER BY sequence DESC LIMIT 1'
const LAST_END = 'SELECT end_sequence, log_bytes, record_number, record_bytes FROM ends ORDER BY end_sequence DESC LIMIT 1'
const KEYS = 'SELECT count(*), total(record_bytes) FROM idempotency_keys'

/** Finds out how far the log has come: by its last rows, or where even these are gone, by what was written down then. */
export function readStanding (database: Database): Standing {
  const [settledBelow, eventsGone, eventsGoneBytes, recordsGone, recordsGoneNumber, recordsGoneBytes] = numbers(database.statement(SAVED).get())
  const lastEnd = numbers(database.statement(LAST_END).get())
  const [head, logBytes] = [[eventsGone!, eventsGoneBytes!], ...[LAST_CALL, LAST_UPDATE].map((sql) => numbers(database.statement(sql).get())), lastEnd]
    .reduce((one, other) => (other[0] ?? 0) > one[0]! ? other : one)
  const [, , records, recordBytes] = (lastEnd[0] ?? 0) > recordsGone! ? lastEnd : [0, 0, recordsGoneNumber, recordsGoneBytes]
  const [keys, keyBytes] = numbers(database.statement(KEYS).get())
  return {
    totals: { head: head!, logBytes: logBytes!, records: records!, recordBytes: recordBytes!, keys: keys!, keyBytes: keyBytes! },
    settledBelow: settledBelow!,
    eventsGone: { place: eventsGone!, count: eventsGone!, bytes: eventsGoneBytes! },
    recordsGone: { place: recordsGone!, count: recordsGoneNumber!, bytes: recordsGoneBytes! }
  }
}

function numbers (row: Row | undefined): number[] {
  return row === undefined ? [] : row as number[]
}
