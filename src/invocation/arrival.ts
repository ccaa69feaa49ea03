import type { Clock } from '../clock.ts'
import { GatewayError } from '../errors.ts'
import type { IdSource } from '../ids.ts'
import { NotJsonError, stringifyJson } from '../json/stringify.ts'
import type { CallStart, StoredCall } from '../store/store.ts'
import type { RegisteredTool } from '../tools/registered-tool.ts'
import type { ToolRegistry } from '../tools/registry.ts'
import type { Principal } from '../tools/tool.ts'
import { Call } from './call.ts'
import type { CallLimits } from './limits.ts'
import { maskingOf } from './masking.ts'
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
  /** Why the caller may not call a tool; undefined where it may. Absent, it may call all of them. */
  refusalOf?: ((toolId: string, kind: string | undefined) => GatewayError | undefined) | undefined
  /** The call that makes this one, for a child call. */
  parent?: Call | undefined
  /** Whether the caller goes on without waiting for the answer. */
  isAsync?: boolean | undefined
}

/** One that its caller may send again. */
export interface KeyedRequest extends CallRequest {
  idempotencyKey: string | undefined
}

interface Arrival {
  clock: Clock
  ids: IdSource
  limits: CallLimits
}

/**
 * A call as it goes on record: its tool found, its identity given, a place kept for it, its clock running.
 * @throws {GatewayError} `unknown_tool`; `overloaded`; `invalid_request` for input that is not JSON; `not_supported` for an
 *   async call of a sensitive tool, whose result is kept nowhere
 */
export function arrive (request: CallRequest, registry: ToolRegistry<any>, slots: Slots, { clock, ids, limits }: Arrival): Call {
  const tool = registry.get(request.toolId)
  if (tool === undefined) throw new GatewayError('unknown_tool', `There is no tool "${request.toolId}".`)
  const isAsync = request.isAsync === true
  if (isAsync && tool.sensitive) {
    throw new GatewayError('not_supported', `Tool "${request.toolId}" is sensitive: its result is kept nowhere, so it cannot be called without waiting for the answer.`)
  }
  const input = request.input === undefined ? {} : request.input
  const text = inputText(input, limits.maxJsonDepth)
  const { principal, parent } = request
  const masking = maskingOf(tool.mask, text, parent?.masking)
  const recorded = tool.sensitive ? undefined : masking === undefined ? text : masking.input
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
    parentTool: parent && { toolId: parent.toolId, kind: parent.start.kind },
    principalId: principal.id,
    timeoutMs,
    input: recorded
  }
  return new Call({
    start: recorded === text || recorded === undefined ? start : { ...start, isMasked: true },
    tool, input, text, principal, parent, lane: slots.admit(start.toolId, parent, isAsync), isAsync, masking, attemptsBefore: 0
  }, clock.monotonic())
}

/** The call of a record that did not settle before the gateway was started, about to be run. The time that it gets begins anew. */
export function rearrive ({ start, startSequence, attempts }: StoredCall, tool: RegisteredTool, slots: Slots, clock: Clock): Call {
  const text = start.input!
  const call = new Call({
    start, tool, input: JSON.parse(text), text, principal: { id: start.principalId }, parent: undefined, lane: slots.readmit(start.toolId), isAsync: true,
    masking: maskingOf(tool.mask, text, undefined), attemptsBefore: attempts
  }, clock.monotonic())
  call.startsAfter = startSequence - 1
  return call
}

/** @throws {GatewayError} `invalid_request` */
export function inputText (input: unknown, maxJsonDepth: number): string {
  try {
    return stringifyJson(input, maxJsonDepth)
  } catch (cause) {
    throw new GatewayError('invalid_request', `The input is not JSON: ${(cause as NotJsonError).message}`, { cause })
  }
}

export function shuttingDown (): GatewayError {
  return new GatewayError('shutting_down', 'The gateway is shutting down and takes no more calls.')
}
