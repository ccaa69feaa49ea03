import type { CallEnd, CallStart } from '../store.ts'
import type { Database } from './database.ts'
import type { Keys } from './keys.ts'
import type { RunningCall } from './operations.ts'
import { flagsOf, toColumn } from './rows.ts'

/** Running totals of the log, and of the keys. */
export interface Totals {
  /** The last place. */
  head: number
  /** Bytes of all events up to it. */
  logBytes: number
  /** Records settled up to it. */
  records: number
  /** Bytes of these records. */
  recordBytes: number
  /** Idempotency keys, with those that are over and still to be removed. */
  keys: number
  /** Bytes of the settled records that they hold. */
  keyBytes: number
}

const INSERT_CALL = `INSERT INTO calls (start_sequence, begun_at_ms, log_bytes, started_at_ms, timeout_ms, flags, attempts, invocation_id, tool_id,
  kind, principal_id, tool_call_id, run_id, trace_id, parent_span_id, parent_invocation_id, input) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
const UPDATE_ATTEMPTS = 'UPDATE calls SET attempts = ? WHERE start_sequence = ?'
const INSERT_UPDATE = 'INSERT INTO updates (sequence, start_sequence, at_ms, log_bytes, partial_result) VALUES (?, ?, ?, ?, ?)'
const INSERT_END = `INSERT INTO ends (end_sequence, start_sequence, settled_at_ms, log_bytes, record_number, record_bytes, status, error_code, is_error,
  executed, duration_ms, queued_ms, result) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`

/** What a row takes beside its texts, roughly, in bytes: its other columns, and its part of the indexes. */
const ROW_BYTES = 200

/** Appends to the log, inside of transactions that are its user's. */
export class Writer {
  readonly #database: Database
  readonly #keys: Keys
  readonly #now: () => number
  /** Of what is committed; while a transaction is open, of what it has written. */
  readonly totals: Totals
  #nowMs = 0

  constructor (database: Database, keys: Keys, totals: Totals, now: () => number) {
    this.#database = database
    this.#keys = keys
    this.totals = totals
    this.#now = now
  }

  /** Runs `work` as a transaction, in which the methods below may be used. Where it fails, it has written nothing. */
  transact (work: () => void): void {
    const before = { ...this.totals }
    this.#nowMs = this.#now()
    try {
      this.#database.transaction(work)
    } catch (error) {
      Object.assign(this.totals, before)
      throw error
    }
  }

  begin (call: RunningCall): void {
    const { start, attempts, key } = call
    const { invocationId, toolCallId } = start
    call.bytes = bytesOf(start)
    const sequence = this.#append(call.bytes)
    call.startSequence = sequence
    this.#database.statement(INSERT_CALL).run(sequence, this.#nowMs, this.totals.logBytes, start.startedAtMs, start.timeoutMs, flagsOf(start),
      attempts, invocationId, start.toolId, start.kind, start.principalId, toolCallId === invocationId ? null : toColumn(toolCallId), chosen(start.runId),
      start.traceId ?? null, start.parentSpanId ?? null, chosen(start.parentInvocationId), start.input ?? null)
    if (key !== undefined) this.#keys.insert(key, sequence)
  }

  mark (call: RunningCall): void {
    this.#database.statement(UPDATE_ATTEMPTS).run(call.attempts, call.startSequence)
  }

  progress (call: RunningCall, partialResult: string): number {
    const sequence = this.#append(ROW_BYTES + Buffer.byteLength(partialResult))
    this.#database.statement(INSERT_UPDATE).run(sequence, call.startSequence, this.#nowMs, this.totals.logBytes, partialResult)
    return sequence
  }

  settle (call: RunningCall, end: CallEnd): number {
    const { totals } = this
    const bytes = ROW_BYTES + Buffer.byteLength(end.result)
    const sequence = this.#append(bytes)
    totals.records++
    totals.recordBytes += call.bytes + bytes
    this.#database.statement(INSERT_END).run(sequence, call.startSequence, this.#nowMs, totals.logBytes, totals.records, totals.recordBytes, end.status,
      end.errorCode ?? null, end.isError ? 1 : 0, end.executed ? 1 : 0, end.durationMs, end.queuedMs ?? null, end.result)
    if (call.key !== undefined) this.#keys.settle(call.key, call.startSequence, end.executed, call.bytes + bytes)
    return sequence
  }

  #append (bytes: number): number {
    this.totals.logBytes += bytes
    return ++this.totals.head
  }
}

const chosen = (text: string | undefined) => text === undefined ? null : toColumn(text)

/** What a call's row takes, roughly. */
export function bytesOf ({ input, toolCallId, runId, parentInvocationId }: CallStart): number {
  return ROW_BYTES + (input === undefined ? 0 : Buffer.byteLength(input)) + toolCallId.length + (runId?.length ?? 0) + (parentInvocationId?.length ?? 0)
}
