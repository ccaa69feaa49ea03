import type { FinalStatus, OutcomeCode } from '../../contract/invocation.ts'
import type { CallEnd, CallIdentity, CallStart, CallVerdict } from '../store.ts'
import type { Row } from './database.ts'

/** Columns of a call without its input, in the order that {@link toIdentity} reads them. */
export const identityColumns = 'c.start_sequence, c.invocation_id, c.tool_id, c.tool_call_id, c.kind, c.started_at_ms, c.run_id, c.trace_id, ' +
  'c.parent_span_id, c.parent_invocation_id, c.is_child, c.principal_id, c.timeout_ms, c.attempts'

/** The same with its input, for {@link toStart}. */
export const startColumns = `${identityColumns}, c.input`
export const START_WIDTH = 15
const INPUT = START_WIDTH - 1

/** Columns of an end without its result, for {@link toVerdict}. */
export const verdictColumns = 'e.status, e.error_code, e.duration_ms, e.queued_ms'

/** The same with its result, for {@link toEnd}. */
export const endColumns = `${verdictColumns}, e.is_error, e.executed, e.result`

/**
 * A text that a caller chose, as it stands in a column. A file holds UTF-8, in which half a surrogate pair has no place: a
 * text with one stands there as JSON, behind a NUL.
 */
export function toColumn (chosen: string): string {
  return chosen.isWellFormed() && !chosen.startsWith('\0') ? chosen : `\0${JSON.stringify(chosen)}`
}

function fromColumn (value: unknown): string | undefined {
  const stored = text(value)
  return stored?.startsWith('\0') === true ? JSON.parse(stored.slice(1)) as string : stored
}

function text (value: unknown): string | undefined {
  return value === null ? undefined : value as string
}

export function toIdentity (row: Row): CallIdentity {
  const invocationId = row[1] as string
  return {
    invocationId,
    toolId: row[2] as string,
    toolCallId: fromColumn(row[3]) ?? invocationId,
    kind: row[4] as string,
    startedAtMs: row[5] as number,
    runId: fromColumn(row[6]),
    traceId: text(row[7]),
    parentSpanId: text(row[8]),
    parentInvocationId: fromColumn(row[9]),
    isChild: row[10] === 1,
    principalId: row[11] as string,
    timeoutMs: row[12] as number
  }
}

export function attemptsOf (row: Row): number {
  return row[13] as number
}

export function toStart (row: Row): CallStart {
  return { ...toIdentity(row), input: text(row[INPUT]) }
}

/** @param at where the columns of the end begin; undefined is given where they are those of no end */
export function toVerdict (row: Row, at: number): CallVerdict | undefined {
  return row[at] === null
    ? undefined
    : {
        status: row[at] as FinalStatus,
        errorCode: text(row[at + 1]) as OutcomeCode | undefined,
        durationMs: row[at + 2] as number,
        queuedMs: row[at + 3] === null ? undefined : row[at + 3] as number
      }
}

export function toEnd (row: Row, at: number): CallEnd | undefined {
  const verdict = toVerdict(row, at)
  return verdict && { ...verdict, isError: row[at + 4] === 1, executed: row[at + 5] === 1, result: row[at + 6] as string }
}
