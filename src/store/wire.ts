import { spanIdOf } from '../ids.ts'
import type { CallSight } from './call-sight.ts'
import type { CallEnd, CallIdentity, CallStart, CallVerdict, StoredCall, StoredEvent } from './store.ts'

/**
 * The JSON text of receipts and events, put together around parts that are text already: a result is turned into JSON
 * once, and answer, event and record share it. Tool ids need no escaping; everything that a caller chose does.
 */

const quote = JSON.stringify

function lineage (start: CallIdentity, sight: CallSight | undefined): string {
  let text = `,"spanId":"${spanIdOf(start.invocationId)}"`
  if (start.runId !== undefined) text = `,"runId":${quote(start.runId)}${text}`
  if (start.traceId !== undefined) text += `,"traceId":"${start.traceId}"`
  // They would name a call that the reader may not know of.
  if (sight !== undefined && !sight.seesParent(start)) return text
  if (start.parentSpanId !== undefined) text += `,"parentSpanId":"${start.parentSpanId}"`
  if (start.parentInvocationId !== undefined) text += `,"parentInvocationId":${quote(start.parentInvocationId)}`
  return text
}

function callerId (start: CallIdentity): string {
  return start.toolCallId === start.invocationId ? `"${start.toolCallId}"` : quote(start.toolCallId)
}

/**
 * An InvocationReceipt. Without `end` the call runs.
 * @param sight the calls that its reader may see; undefined for all
 */
export function receiptText (start: CallIdentity, end: CallVerdict | undefined, sight?: CallSight): string {
  const { invocationId } = start
  return `{"invocationId":"${invocationId}${toolParts(start)}${callerId(start)}` +
    `${statusText(end)}${start.startedAtMs},"durationMs":${end?.durationMs ?? 0}` +
    `${end?.queuedMs === undefined ? '' : `,"queuedMs":${end.queuedMs}`}${lineage(start, sight)}}`
}

function statusText (end: CallVerdict | undefined): string {
  if (end === undefined) return ',"status":"running","startedAtMs":'
  if (end.status === 'succeeded') return ',"status":"succeeded","startedAtMs":'
  return `,"status":"${end.status}"${end.errorCode === undefined ? '' : `,"errorCode":"${end.errorCode}"`},"startedAtMs":`
}

/** What is the same in all receipts of a tool, put together once: tools are few, calls are many. */
let lastTool = { toolId: '', kind: '', text: '' }
function toolParts ({ toolId, kind }: CallIdentity): string {
  if (lastTool.toolId !== toolId || lastTool.kind !== kind) {
    lastTool = { toolId, kind, text: `","toolId":"${toolId}","kind":${quote(kind)},"toolCallId":` }
  }
  return lastTool.text
}

/** An AuditEntry: the receipt, and who called. */
export function auditText (start: CallIdentity, end: CallVerdict | undefined, sight?: CallSight): string {
  return `{"principalId":${quote(start.principalId)},"invocation":${receiptText(start, end, sight)}}`
}

/** An InvokeResponse: the result's fields and the receipt, flat. */
export function responseText (result: string, start: CallStart, end: CallEnd): string {
  return `${result.slice(0, -1)},"invocation":${receiptText(start, end)}}`
}

/** An InvocationRecord: the receipt, with what was asked and what came of it. */
export function recordText ({ start, end }: StoredCall, sight?: CallSight): string {
  return `{"invocation":${receiptText(start, end, sight)}` +
    `${start.input === undefined ? '' : `,"input":${start.input}`}${end === undefined ? '' : `,"result":${end.result}`}}`
}

/** Whether a text has more bytes than that in UTF-8, where it has at most three times its length. */
export function isOver (text: string, maxBytes: number): boolean {
  return text.length > maxBytes || (text.length * 3 > maxBytes && Buffer.byteLength(text) > maxBytes)
}

/**
 * A ToolExecutionEvent.
 *
 * @param maxPartBytes a part (args, partialResult, result) over it is left out and named in `omitted`
 * @param receiptOnly leaves the part out in any case
 * @param sight the calls that its reader may see; undefined for all
 */
export function eventText (event: StoredEvent, maxPartBytes: number, receiptOnly: boolean, sight?: CallSight): string {
  const { start, end } = event
  let text = `{"type":"${event.type}","toolCallId":${callerId(start)},"toolName":"${start.toolId}","toolId":"${start.toolId}",` +
    `"invocationId":"${start.invocationId}","kind":${quote(start.kind)},"startedAtMs":${start.startedAtMs}${lineage(start, sight)}`
  const name = partNames[event.type]
  const part = event.partialResult ?? (end === undefined ? start.input : end.result)
  if (part === undefined || (start.isMasked === true && event.type === 'tool_execution_start')) text += ',"redacted":true'
  if (part !== undefined && !receiptOnly) text += isOver(part, maxPartBytes) ? `,"omitted":["${name}"]` : `,"${name}":${part}`
  if (end !== undefined) {
    text += `,"isError":${end.isError},"status":"${end.status}"`
    if (end.errorCode !== undefined) text += `,"errorCode":"${end.errorCode}"`
    text += `,"durationMs":${end.durationMs}`
    if (end.queuedMs !== undefined) text += `,"queuedMs":${end.queuedMs}`
  }
  return `${text}}`
}

const partNames = {
  tool_execution_start: 'args',
  tool_execution_update: 'partialResult',
  tool_execution_end: 'result'
} as const
