import { keysExhausted } from '../held-keys.ts'
import type { Retention } from '../retention.ts'
import type { KeyClaim } from '../store.ts'
import type { Database } from './database.ts'
import type { RunningCall } from './operations.ts'
import type { Totals } from './writer.ts'

/** What holds a key. */
export interface Holder {
  readonly fingerprint: string
  /** The call's place; 0 until it is written. */
  readonly call: { readonly startSequence: number }
  /** Whether it is of this turn, and so may still fail. */
  readonly isNew: boolean
}

const HOLDER = 'SELECT start_sequence, fingerprint FROM idempotency_keys WHERE scope = ? AND expires_at_ms > ?'
const INSERT = 'INSERT INTO idempotency_keys (scope, start_sequence, expires_at_ms, record_bytes, fingerprint) VALUES (?, ?, ?, 0, ?)'
const SETTLE = 'UPDATE idempotency_keys SET record_bytes = ? WHERE scope = ? AND start_sequence = ?'
const RELEASE = 'DELETE FROM idempotency_keys WHERE scope = ? AND start_sequence = ? RETURNING start_sequence, record_bytes'
const REPLACE = 'DELETE FROM idempotency_keys WHERE scope = ? RETURNING start_sequence, record_bytes'
const EXPIRED = 'SELECT record_bytes FROM idempotency_keys WHERE expires_at_ms <= ? ORDER BY expires_at_ms'
const NEXT = 'SELECT min(expires_at_ms) FROM idempotency_keys'
const EXPIRE = `DELETE FROM idempotency_keys WHERE rowid IN (SELECT rowid FROM idempotency_keys WHERE expires_at_ms <= ? ORDER BY expires_at_ms LIMIT ?)
  RETURNING start_sequence, record_bytes`

/**
 * The idempotency keys. They stand in the file; in memory is what this turn has done to them and is not written yet.
 */
export class Keys {
  readonly #database: Database
  readonly #totals: Totals
  readonly #bounds: Pick<Retention, 'maxRecords' | 'maxRecordBytes'>
  /** Who holds a key by the writes of this turn; undefined where it is free by them. */
  readonly #unwritten = new Map<string, RunningCall | undefined>()
  /** How many more it holds by them; fewer, where more were let go. */
  #claims = 0
  /** When the first of them is over. */
  #nextExpiryMs: number
  /** Called with the place of a call whose key is over, in the transaction that ends it. */
  onOver: (startSequence: number) => void = () => {}

  constructor (database: Database, totals: Totals, bounds: Pick<Retention, 'maxRecords' | 'maxRecordBytes'>) {
    this.#database = database
    this.#totals = totals
    this.#bounds = bounds
    this.#nextExpiryMs = this.#readNextExpiry()
  }

  holder (scope: string, nowMs: number): Holder | undefined {
    if (this.#unwritten.has(scope)) {
      const call = this.#unwritten.get(scope)
      return call !== undefined && call.key!.untilMs > nowMs ? { fingerprint: call.key!.fingerprint, call, isNew: true } : undefined
    }
    const row = this.#database.statement(HOLDER).get(scope, nowMs)
    return row && { fingerprint: row[1] as string, call: { startSequence: row[0] as number }, isNew: false }
  }

  /** @throws {GatewayError} `overloaded` */
  claim (call: RunningCall, nowMs: number): void {
    if (this.#isFull(nowMs)) throw keysExhausted()
    this.#unwritten.set(call.key!.scope, call)
    this.#claims++
  }

  /** For a call that ends without having executed. It may have run for longer than its key was held. */
  release (call: RunningCall, nowMs: number): void {
    const holder = this.holder(call.key!.scope, nowMs)?.call
    if (holder !== call && (holder === undefined || holder.startSequence !== call.startSequence)) return
    this.#unwritten.set(call.key!.scope, undefined)
    this.#claims--
  }

  /** From here on the file says it, whether writing succeeds or not. */
  written (): void {
    this.#unwritten.clear()
    this.#claims = 0
  }

  insert ({ scope, untilMs, fingerprint }: KeyClaim, startSequence: number): void {
    const replaced = this.#database.statement(REPLACE).get(scope)
    if (replaced !== undefined) this.#over(replaced[0] as number, replaced[1] as number)
    this.#database.statement(INSERT).run(scope, startSequence, untilMs, fingerprint)
    this.#totals.keys++
    this.#nextExpiryMs = Math.min(this.#nextExpiryMs, untilMs)
  }

  /** A key is kept by calls that executed alone. */
  settle ({ scope }: KeyClaim, startSequence: number, hasExecuted: boolean, recordBytes: number): void {
    if (hasExecuted) {
      if (this.#database.statement(SETTLE).run(recordBytes, scope, startSequence).changes !== 0) this.#totals.keyBytes += recordBytes
    } else if (this.#database.statement(RELEASE).get(scope, startSequence) !== undefined) {
      this.#totals.keys--
    }
  }

  /** Whether there are some whose time is over. */
  hasExpired (nowMs: number): boolean {
    return this.#nextExpiryMs <= nowMs
  }

  /** Lets go of at most `limit` of them. */
  expire (nowMs: number, limit: number): void {
    for (const row of this.#database.statement(EXPIRE).all(nowMs, limit)) this.#over(row[0] as number, row[1] as number)
    this.#nextExpiryMs = this.#readNextExpiry()
  }

  #over (startSequence: number, recordBytes: number): void {
    this.#totals.keys--
    this.#totals.keyBytes -= recordBytes
    this.onOver(startSequence)
  }

  #isFull (nowMs: number): boolean {
    let count = this.#totals.keys + this.#claims
    let bytes = this.#totals.keyBytes
    const isOver = () => count >= this.#bounds.maxRecords || bytes > this.#bounds.maxRecordBytes
    if (!isOver()) return false
    for (const row of this.#database.statement(EXPIRED).iterate(nowMs)) {
      count--
      bytes -= row[0] as number
      if (!isOver()) return false
    }
    return true
  }

  #readNextExpiry (): number {
    return this.#database.statement(NEXT).get()![0] as number | null ?? Infinity
  }
}
