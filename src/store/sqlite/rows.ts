import type { FinalStatus, OutcomeCode } from '../../contract/invocation.ts'
import type { CallEnd, CallIdentity, CallStart, CallVerdict, ToolIdentity } from '../store.ts'
import type { Row } from './database.ts'

/** Columns of a call without its input, in the order that {@link toIdentity} reads them. */
export const identityColumns = 'c.start_sequence, c.invocation_id, c.tool_id, c.tool_call_id, c.kind, c.started_at_ms, c.run_id, c.trace_id, ' +
  'c.parent_span_id, c.parent_invocation_id, c.flags, c.principal_id, c.timeout_ms, c.attempts, CASE WHEN c.flags & 1 THEN ' +
  "(SELECT p.tool_id || ' ' || p.kind FROM calls p WHERE p.invocation_id = c.parent_invocation_id) END"

export const IDENTITY_WIDTH = 15

/** The same with its input, for {@link toStart}. */
export const startColumns = `${identityColumns}, c.input`
export const START_WIDTH = IDENTITY_WIDTH + 1
const INPUT = IDENTITY_WIDTH

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

const CHILD = 1
const MASKED = 2

/** The column `flags` of a call. */
export function flagsOf ({ isChild, isMasked }: CallStart): number {
  return (isChild ? CHILD : 0) | (isMasked === true ? MASKED : 0)
}

function hasFlag (row: Row, flag: number): boolean {
  return ((row[10] as number) & flag) !== 0
}

function text (value: unknown): string | undefined {
  return value === null ? undefined : value as string
}

export function toIdentity (row: Row): CallIdentity {
  const invocationId = row[1] as string
  const parentTool = text(row[14])
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
    isChild: hasFlag(row, CHILD),
    principalId: row[11] as string,
    timeoutMs: row[12] as number,
    ...parentTool === undefined ? {} : { parentTool: toTool(parentTool) }
  }
}

/** Ids of tools have no spaces; their kinds may. */
function toTool (idAndKind: string): ToolIdentity {
  const at = idAndKind.indexOf(' ')
  return { toolId: idAndKind.slice(0, at), kind: idAndKind.slice(at + 1) }
}

export function attemptsOf (row: Row): number {
  return row[13] as number
}

export function toStart (row: Row): CallStart {
  return { ...toIdentity(row), input: text(row[INPUT]), ...hasFlag(row, MASKED) ? { isMasked: true } : {} }
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
