import type { Clock } from '../clock.ts'
import { GatewayError } from '../errors.ts'
import type { IdSource } from '../ids.ts'
import { NotJsonError, stringifyJson } from '../json/stringify.ts'
import type { CallStart } from '../store/store.ts'
import type { ToolRegistry } from '../tools/registry.ts'
import type { Principal } from '../tools/tool.ts'
import { Call } from './call.ts'
import type { CallLimits } from './limits.ts'
import type { Slots } from './slots.ts'

/** A call as it arrives. */
export interface CallRequest {
  toolId: string
  /** `{}` where absent. */
  input?: unknown
  toolCallId?: string | undefined
  runId?: string | undefined
  parentInvocationId?: string | undefined
  timeoutMs?: number | undefined
  trace?: { traceId: string | undefined, parentSpanId: string } | undefined
  principal: Principal
  /** The call that makes this one, for a child call. */
  parent?: Call | undefined
}

interface Arrival {
  clock: Clock
  ids: IdSource
  limits: CallLimits
}

/**
 * A call as it goes on record: its tool found, its identity given, a place kept for it, its clock running.
 * @throws {GatewayError} `unknown_tool`; `overloaded`; `invalid_request` for input that is not JSON
 */
export function arrive (request: CallRequest, registry: ToolRegistry<any>, slots: Slots, { clock, ids, limits }: Arrival): Call {
  const tool = registry.get(request.toolId)
  if (tool === undefined) throw new GatewayError('unknown_tool', `There is no tool "${request.toolId}".`)
  const input = request.input === undefined ? {} : request.input
  const text = inputText(input, limits.maxJsonDepth)
  const { principal, parent } = request
  const timeoutMs = Math.min(request.timeoutMs ?? Infinity, tool.descriptor.timeoutMs, limits.maxTimeoutMs)
  const startedAtMs = clock.now()
  const invocationId = ids.invocationId(startedAtMs)
  const start: CallStart = {
    invocationId,
    toolId: tool.descriptor.id,
    toolCallId: request.toolCallId ?? invocationId,
    kind: tool.descriptor.kind,
    startedAtMs,
    runId: request.runId,
    traceId: request.trace?.traceId,
    parentSpanId: request.trace?.parentSpanId,
    parentInvocationId: request.parentInvocationId,
    isChild: parent !== undefined,
    principalId: principal.id,
    timeoutMs,
    input: tool.sensitive ? undefined : text
  }
  return new Call({ start, tool, input, text, principal, timeoutMs, parent, lane: slots.admit(start.toolId, parent) }, clock.monotonic())
}

function inputText (input: unknown, maxJsonDepth: number): string {
  try {
    return stringifyJson(input, maxJsonDepth)
  } catch (cause) {
    throw new GatewayError('invalid_request', `The input is not JSON: ${(cause as NotJsonError).message}`, { cause })
  }
}
