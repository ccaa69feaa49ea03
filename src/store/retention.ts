/**
 * How much a store keeps. Records of settled calls and events are bounded apart, each by count, by bytes of text and by
 * age, whichever comes first; the oldest go first.
 */
export interface Retention {
  /** Settled records kept at most. */
  readonly maxRecords: number
  /** Bytes of JSON text of settled records kept at most. */
  readonly maxRecordBytes: number
  /** How long settled records are kept, milliseconds. */
  readonly maxRecordAgeMs: number
  /** Events kept at most. */
  readonly maxEvents: number
  /** Bytes of JSON text of events kept at most. */
  readonly maxEventBytes: number
  /** How long events are kept, milliseconds. */
  readonly maxEventAgeMs: number
}

const MiB = 2 ** 20
const GiB = 2 ** 30
const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS

/** What each driver keeps where nothing else is said. */
export const defaultRetention = {
  memory: {
    maxRecords: 10_000, maxRecordBytes: 64 * MiB, maxRecordAgeMs: HOUR_MS, maxEvents: 30_000, maxEventBytes: 64 * MiB, maxEventAgeMs: HOUR_MS
  },
  sqlite: {
    maxRecords: 1_000_000, maxRecordBytes: 4 * GiB, maxRecordAgeMs: 30 * DAY_MS, maxEvents: 3_000_000, maxEventBytes: 4 * GiB, maxEventAgeMs: 7 * DAY_MS
  }
} as const satisfies Record<string, Retention>
