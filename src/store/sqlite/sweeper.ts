import type { Clock } from '../../clock.ts'
import type { Database } from './database.ts'
import type { Floor } from './floor.ts'
import type { Keys } from './keys.ts'
import type { Totals } from './writer.ts'

export interface SweeperOptions {
  database: Database
  /** Runs `work` as a transaction on the file. */
  transact: (work: () => void) => void
  totals: Totals
  keys: Keys
  events: Floor
  records: Floor
  clock: Clock
  /** A place before which every call has settled, as far as it is committed. */
  settledBelow: () => number
  /** Whether nothing may be written for the moment. */
  isHeld: () => boolean
  onFailed: (error: unknown) => void
}

/** Rows of a kind that a step removes at most, where little is written meanwhile. */
export const STEP_ROWS = 256
/** Bytes of text after which such a step ends: long texts lie on many pages, each of which is freed singly. */
const STEP_BYTES = 4 * 2 ** 20
/**
 * Else it is so many times what was written since the step before: the file would grow for as long as more is written than
 * is removed. Who can wait for the writing can wait for this.
 */
const PACE = 2
/** Between looks where there is nothing to do, and between steps where there is, milliseconds. */
const IDLE_MS = 5000
const PAUSE_MS = 10

const OLD_UPDATES = 'SELECT sequence, octet_length(partial_result) FROM updates WHERE sequence <= ? ORDER BY sequence LIMIT ?'
const DELETE_UPDATES = 'DELETE FROM updates WHERE sequence <= ?'
const OLD_ENDS = `SELECT e.end_sequence, e.start_sequence, octet_length(e.result) + ifnull(octet_length(c.input), 0), k.scope IS NOT NULL
  FROM ends e JOIN calls c ON c.start_sequence = e.start_sequence LEFT JOIN idempotency_keys k ON k.start_sequence = e.start_sequence
  WHERE e.end_sequence > ? AND e.end_sequence <= ? ORDER BY e.end_sequence LIMIT ?`
const END_OF = 'SELECT end_sequence FROM ends WHERE start_sequence = ?'
const DELETE_END = 'DELETE FROM ends WHERE end_sequence = ?'
const DELETE_CALL = 'DELETE FROM calls WHERE start_sequence = ?'
const SAVE = 'UPDATE log SET settled_below = ?, events_gone = ?, events_gone_bytes = ?, records_gone = ?, records_gone_number = ?, records_gone_bytes = ?'

/**
 * Takes out of the file what is gone: updates with their event, a call once its record and its events are gone and no key
 * holds it. In small steps, so that nothing waits for it for long.
 */
export class Sweeper {
  readonly #options: SweeperOptions
  /** The end up to which calls are out of the file, but for those that hold a key. */
  #sweptThrough = 0
  #saved = ''
  /** How far the log had come at the step before. */
  #seen: { head: number, logBytes: number }
  /** Whether the step before left something to do. */
  #isBehind = false
  #rows = STEP_ROWS
  #bytes = STEP_BYTES
  #callOff: () => void

  constructor (options: SweeperOptions) {
    this.#options = options
    this.#seen = { ...options.totals }
    options.keys.onOver = (startSequence) => this.#letGo(startSequence)
    this.#callOff = options.clock.after(IDLE_MS, this.#look)
  }

  close (): void {
    this.#callOff()
  }

  readonly #look = (): void => {
    const { clock, isHeld, onFailed } = this.#options
    let isMore = true
    try {
      if (!isHeld()) isMore = this.step()
    } catch (error) {
      isMore = false
      onFailed(error)
    }
    this.#isBehind = isMore
    this.#callOff = clock.after(isMore ? PAUSE_MS : IDLE_MS, this.#look)
  }

  /** One step. @returns whether there is more to do */
  step (): boolean {
    const { transact, keys, events, records, clock } = this.#options
    const nowMs = clock.now()
    this.#setPace()
    events.advance(nowMs)
    records.advance(nowMs)
    const before = this.#sweptThrough
    let isMore = false
    try {
      transact(() => {
        const isMoreOfUpdates = this.#sweepUpdates(events.gone.place)
        isMore = this.#sweepCalls(Math.min(events.gone.place, records.gone.place)) || isMoreOfUpdates
        if (keys.hasExpired(nowMs)) keys.expire(nowMs, STEP_ROWS)
        this.save()
      })
    } catch (error) {
      this.#sweptThrough = before
      this.#saved = ''
      throw error
    }
    return isMore || keys.hasExpired(nowMs)
  }

  #setPace (): void {
    const { head, logBytes } = this.#options.totals
    this.#rows = this.#isBehind ? Math.max(STEP_ROWS, PACE * (head - this.#seen.head)) : STEP_ROWS
    this.#bytes = this.#isBehind ? Math.max(STEP_BYTES, PACE * (logBytes - this.#seen.logBytes)) : STEP_BYTES
    this.#seen = { head, logBytes }
  }

  /** Writes down how far the log has come, so that the next opening need not find it out. */
  save (): void {
    const { database, events, records, settledBelow } = this.#options
    const values = [settledBelow(), events.gone.place, events.gone.bytes, records.gone.place, records.gone.count, records.gone.bytes]
    const state = values.join()
    if (state !== this.#saved) database.statement(SAVE).run(...values)
    this.#saved = state
  }

  #sweepUpdates (gone: number): boolean {
    const { database } = this.#options
    const rows = database.statement(OLD_UPDATES).all(gone, this.#rows)
    let last: number | undefined
    let bytes = 0
    for (const row of rows) {
      last = row[0] as number
      bytes += row[1] as number
      if (bytes >= this.#bytes) break
    }
    if (last !== undefined) database.statement(DELETE_UPDATES).run(last)
    // Also where it was all: where that was much, there will be more.
    return rows.length >= STEP_ROWS || bytes >= this.#bytes
  }

  #sweepCalls (gone: number): boolean {
    const rows = this.#options.database.statement(OLD_ENDS).all(this.#sweptThrough, gone, this.#rows)
    let bytes = 0
    for (const row of rows) {
      this.#sweptThrough = row[0] as number
      if (row[3] === 0) this.#delete(row[1] as number, this.#sweptThrough)
      bytes += row[2] as number
      if (bytes >= this.#bytes) return true
    }
    return rows.length >= STEP_ROWS
  }

  /** A call whose key is over: passed by before, it goes now. */
  #letGo (startSequence: number): void {
    const end = this.#options.database.statement(END_OF).get(startSequence)?.[0] as number | undefined
    if (end !== undefined && end <= this.#sweptThrough) this.#delete(startSequence, end)
  }

  #delete (startSequence: number, endSequence: number): void {
    const { database } = this.#options
    database.statement(DELETE_END).run(endSequence)
    database.statement(DELETE_CALL).run(startSequence)
  }
}
