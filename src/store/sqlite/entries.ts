import type { Database, Row } from './database.ts'
import type { Entries, Entry } from './floor.ts'
import type { Totals } from './writer.ts'

const eventsBetween = (condition: string) => `SELECT start_sequence, begun_at_ms, start_sequence, log_bytes FROM calls WHERE start_sequence ${condition}
  UNION ALL SELECT sequence, at_ms, sequence, log_bytes FROM updates WHERE sequence ${condition}
  UNION ALL SELECT end_sequence, settled_at_ms, end_sequence, log_bytes FROM ends WHERE end_sequence ${condition}
  ORDER BY 1`
const EVENTS = eventsBetween('BETWEEN ?1 AND ?2')
const EVENT = eventsBetween('= ?1')
const RECORDS = 'SELECT end_sequence, settled_at_ms, record_number, record_bytes FROM ends WHERE end_sequence > ? ORDER BY end_sequence LIMIT ?'
const RECORD = 'SELECT end_sequence, settled_at_ms, record_number, record_bytes FROM ends WHERE end_sequence <= ? ORDER BY end_sequence DESC LIMIT 1'

function toEntry (row: Row): Entry {
  return { place: row[0] as number, atMs: row[1] as number, count: row[2] as number, bytes: row[3] as number }
}

/** The events, for their floor. */
export function eventEntries (database: Database, totals: Totals): Entries {
  return {
    after: (place, limit) => database.statement(EVENTS).all(place + 1, place + limit).map(toEntry),
    upTo (place) {
      const row = database.statement(EVENT).get(place)
      return row && toEntry(row)
    },
    get total () {
      return { place: totals.head, count: totals.head, bytes: totals.logBytes }
    }
  }
}

/** The records of settled calls in the order in which they settled, for their floor. */
export function recordEntries (database: Database, totals: Totals): Entries {
  return {
    after: (place, limit) => database.statement(RECORDS).all(place, limit).map(toEntry),
    upTo (place) {
      const row = database.statement(RECORD).get(place)
      return row && toEntry(row)
    },
    get total () {
      return { place: totals.head, count: totals.records, bytes: totals.recordBytes }
    }
  }
}
