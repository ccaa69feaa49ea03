import type { CallEnd, CallStart, StoredEvent } from '../../src/store/store.ts'

let counter = 0

/** An invocation id of the shape that the gateway gives. */
export function invocationIdOf (number: number): string {
  return number.toString(16).padStart(32, '0')
}

/** What is on record of a call's beginning; a new id each time, everything else ordinary. */
export function startOf (fields: Partial<CallStart> = {}): CallStart {
  const invocationId = fields.invocationId ?? invocationIdOf(++counter)
  return {
    invocationId,
    toolId: 'echo',
    toolCallId: invocationId,
    kind: 'read',
    startedAtMs: 1_700_000_000_000,
    runId: undefined,
    traceId: undefined,
    parentSpanId: undefined,
    parentInvocationId: undefined,
    isChild: false,
    principalId: 'somebody',
    timeoutMs: 60_000,
    input: '{}',
    ...fields
  }
}

export const emptyResult = '{"content":[],"details":null,"isError":false}'

/** How a call ended: well, where nothing else is said. */
export function endOf (fields: Partial<CallEnd> = {}): CallEnd {
  return {
    status: 'succeeded',
    errorCode: undefined,
    isError: false,
    result: emptyResult,
    executed: true,
    durationMs: 1.5,
    queuedMs: undefined,
    ...fields
  }
}

export function startEvent (fields: Partial<CallStart> = {}, sequence = 1): StoredEvent {
  return { sequence, type: 'tool_execution_start', start: startOf(fields), partialResult: undefined, end: undefined }
}

export function updateEvent (partialResult = emptyResult, fields: Partial<CallStart> = {}, sequence = 2): StoredEvent {
  return { sequence, type: 'tool_execution_update', start: startOf(fields), partialResult, end: undefined }
}

export function endEvent (end: Partial<CallEnd> = {}, fields: Partial<CallStart> = {}, sequence = 3): StoredEvent {
  return { sequence, type: 'tool_execution_end', start: startOf(fields), partialResult: undefined, end: endOf(end) }
}
