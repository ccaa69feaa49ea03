import assert from 'node:assert/strict'
import type { Client, SubscriptionItem, ToolExecutionEvent } from '../../../src/client.ts'

/** What a call has to have come to. A field that is not named must not be there. */
export interface Expected {
  toolId: string
  kind: string
  status: 'succeeded' | 'failed' | 'cancelled'
  errorCode?: string
  /** The invocationId where the caller gave none. */
  toolCallId?: string
  runId?: string
  traceId?: string
  parentSpanId?: string
  parentInvocationId?: string
  /** `execute` was never reached. */
  neverRan?: true
}

/** Between which moments the call was made, epoch milliseconds, as the caller's clock has it. */
export interface Period { since: number, until: number }

/** Runs something, and says when that was. */
export async function timed<T> (run: () => T | Promise<T>): Promise<{ value: T, period: Period }> {
  const since = Date.now()
  const value = await run()
  return { value, period: { since, until: Date.now() } }
}

/** Clocks of one machine may be set while a test runs. */
const SLACK_MS = 1000

const isText = (value: unknown) => typeof value === 'string' && value !== ''
const isSpan = (value: unknown) => typeof value === 'string' && /^[0-9a-f]{16}$/.test(value) && !/^0+$/.test(value)

type Fields = Record<string, unknown>

/** The fields that a receipt and every event share: each one there or not, of its type, with a sensible value. */
function assertIdentity (fields: Fields, expected: Expected, { since, until }: Period): string[] {
  const { toolId, kind, runId, traceId, parentSpanId, parentInvocationId, toolCallId = fields.invocationId } = expected
  assert.ok(isText(fields.invocationId), 'invocationId')
  assert.ok(isSpan(fields.spanId), 'spanId')
  assert.ok(Number.isFinite(fields.startedAtMs), 'startedAtMs')
  const startedAtMs = fields.startedAtMs as number
  assert.ok(startedAtMs >= since - SLACK_MS && startedAtMs <= until + SLACK_MS, `startedAtMs ${startedAtMs} is not of the call`)
  const given = Object.entries({ toolId, kind, toolCallId, runId, traceId, parentSpanId, parentInvocationId }).filter(([, value]) => value !== undefined)
  for (const [name, value] of given) assert.equal(fields[name], value, name)
  return ['invocationId', 'spanId', 'startedAtMs', ...given.map(([name]) => name)]
}

/** How a call ended: in receipts and end events. */
function assertEnding (fields: Fields, { status, errorCode, neverRan }: Expected, { since, until }: Period): string[] {
  assert.equal(fields.status, status, 'status')
  assert.ok(Number.isFinite(fields.durationMs), 'durationMs')
  const durationMs = fields.durationMs as number
  if (neverRan === true) assert.equal(durationMs, 0, 'durationMs')
  else assert.ok(durationMs >= 0 && durationMs <= until - since + SLACK_MS, `durationMs ${durationMs}`)
  if (errorCode !== undefined) assert.equal(fields.errorCode, errorCode, 'errorCode')
  return ['status', 'durationMs', ...errorCode === undefined ? [] : ['errorCode']]
}

function assertKeys (fields: Fields, names: string[], what: string): void {
  assert.deepEqual(Object.keys(fields).sort(), names.sort(), `${what}: fields missing, or not known`)
}

/** An `invocation`, field by field, and none beyond those. */
export function assertReceipt (invocation: unknown, expected: Expected, period: Period): void {
  const fields = invocation as Fields
  assertKeys(fields, [...assertIdentity(fields, expected, period), ...assertEnding(fields, expected, period)], 'invocation')
}

/** The events of one call: a start and one end, field by field; the end says what the receipt says. */
export function assertEvents (events: readonly ToolExecutionEvent[], expected: Expected, period: Period, { args, result, invocation }: { args: unknown, result: object, invocation?: object }): void {
  assert.deepEqual(events.map(({ type }) => type), ['tool_execution_start', 'tool_execution_end'])
  const [start, end] = events as unknown as [Fields, Fields]
  const ofStart = assertIdentity(start, expected, period)
  assert.equal(start.toolName, expected.toolId)
  assert.deepEqual(start.args, args)
  assertKeys(start, [...ofStart, 'type', 'toolName', 'args'], 'start event')

  const ofReceipt = [...assertIdentity(end, expected, period), ...assertEnding(end, expected, period)]
  assert.equal(end.toolName, expected.toolId)
  assert.equal(end.isError, expected.status !== 'succeeded')
  assert.deepEqual(end.result, result)
  assertKeys(end, [...ofReceipt, 'type', 'toolName', 'isError', 'result'], 'end event')
  for (const name of ofStart) assert.equal(start[name], end[name], `${name} of start and end`)
  if (invocation !== undefined) assert.deepEqual(Object.fromEntries(ofReceipt.map((name) => [name, end[name]])), invocation)
}

/** Ends a loop over events that would wait for ever; what did not come is then missed. */
export const patience = () => AbortSignal.timeout(20_000)

/**
 * All events there have been that pass `isWanted`. A last call, of a tool that is called for nothing else, marks where to
 * stop: what was told twice would stand before it.
 */
export async function eventsUntil (client: Client, markTool: string, isWanted: (event: ToolExecutionEvent) => boolean): Promise<ToolExecutionEvent[]> {
  const { invocation } = await client.invoke(markTool)
  const wanted: ToolExecutionEvent[] = []
  for await (const item of client.events({ lastEventId: 'earliest', signal: patience() })) {
    const event = told(item)
    if (event.invocationId === invocation.invocationId) {
      if (event.type === 'tool_execution_end') break
    } else if (isWanted(event)) wanted.push(event)
  }
  return wanted
}

function told (item: SubscriptionItem): ToolExecutionEvent {
  assert.notEqual(item.type, 'events_lost')
  return item as ToolExecutionEvent
}
