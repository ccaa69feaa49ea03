import type { ToolExecutionEndEvent, ToolExecutionStartEvent, ToolExecutionUpdateEvent } from '../contract/event.ts'
import type { InvocationRecord } from '../contract/invocation.ts'
import type { JsonValue } from '../contract/json.ts'
import { isWithheld, type ToolResult } from '../contract/result.ts'
import { ClientError } from './errors.ts'
import type { EventsLostNotice, SubscriptionItem } from './event-subscription.ts'
import { piResult, thrownResult, thrownText, type PiToolResult } from './pi-result.ts'
import { RecentArguments } from './recent-arguments.ts'

interface PiEvent {
  toolCallId: string
  toolName: string
  /** Parts that are not known here, and stand empty: too large for an event, withheld, or before what was seen. Not pi's own. */
  omitted?: string[]
}

export interface PiToolStartEvent extends PiEvent { type: 'tool_execution_start', args: JsonValue }
export interface PiToolUpdateEvent extends PiEvent { type: 'tool_execution_update', args: JsonValue, partialResult: PiToolResult }
export interface PiToolEndEvent extends PiEvent {
  type: 'tool_execution_end'
  result: PiToolResult
  isError: boolean
  /** Whole milliseconds; absent where the tool never ran. */
  durationMs?: number
}

/** What pi's own agents tell of a tool call. */
export type PiToolEvent = PiToolStartEvent | PiToolUpdateEvent | PiToolEndEvent

export interface PiEventsOptions {
  /** Gives the parts that events were too large for: `client.invocation`. Later events wait for it. */
  record?: ((invocationId: string) => Promise<InvocationRecord>) | undefined
  /** Told in the place where events are missing. */
  onEventsLost?: ((lost: EventsLostNotice) => void) | undefined
}

/**
 * Events of a gateway as pi's subscribers know them: `for await (const event of toPiEvents(client.events())) …`
 *
 * Contract:
 * - pi's fields and no others, one event for each: `args` stands on updates too, as the start told it.
 * - A part that is not there is empty (`{}`, or a result without content) and named in `omitted`. Where the record cannot be
 *   had, it stays so.
 * - Leaving its loop leaves the loop over `events`; what that throws is thrown.
 */
export async function * toPiEvents (events: AsyncIterable<SubscriptionItem>, { record, onEventsLost }: PiEventsOptions = {}): AsyncGenerator<PiToolEvent, void, undefined> {
  const known = new RecentArguments()
  const recordOf = async (invocationId: string): Promise<InvocationRecord | undefined> => {
    try {
      return await record?.(invocationId)
    } catch (error) {
      if (error instanceof ClientError) return undefined
      throw error
    }
  }
  /** As the start told them, or the record does; undefined where neither does. */
  const argumentsOf = async (event: ToolExecutionStartEvent | ToolExecutionUpdateEvent): Promise<JsonValue | undefined> => {
    const { invocationId } = event
    const isStart = event.type === 'tool_execution_start'
    if (!isStart && known.has(invocationId)) return known.get(invocationId)
    const told = isStart ? event.args : undefined
    const args = told !== undefined || (isStart && event.redacted === true && event.omitted === undefined) ? told : (await recordOf(invocationId))?.input
    known.set(invocationId, args)
    return args
  }

  for await (const event of events) {
    switch (event.type) {
      case 'events_lost':
        onEventsLost?.(event)
        break
      case 'tool_execution_start':
        yield startOf(event, await argumentsOf(event))
        break
      case 'tool_execution_update':
        yield updateOf(event, await argumentsOf(event))
        break
      case 'tool_execution_end':
        known.delete(event.invocationId)
        yield endOf(event, event.result ?? (await recordOf(event.invocationId))?.result)
    }
  }
}

function startOf ({ type, toolCallId, toolName }: ToolExecutionStartEvent, args: JsonValue | undefined): PiToolStartEvent {
  return { type, toolCallId, toolName, args: args === undefined ? {} : args, ...lacking({ args }) }
}

function updateOf ({ type, toolCallId, toolName, partialResult: told }: ToolExecutionUpdateEvent, args: JsonValue | undefined): PiToolUpdateEvent {
  const partialResult = unlessWithheld(told)
  return {
    type,
    toolCallId,
    toolName,
    args: args === undefined ? {} : args,
    partialResult: partialResult === undefined ? nothing() : piResult(partialResult),
    ...lacking({ args, partialResult })
  }
}

function endOf ({ type, toolCallId, toolName, isError, errorCode, durationMs }: ToolExecutionEndEvent, told: ToolResult | undefined): PiToolEndEvent {
  const result = unlessWithheld(told)
  const thrown = result === undefined ? undefined : thrownText(result, errorCode)
  return {
    type,
    toolCallId,
    toolName,
    result: result === undefined ? nothing() : thrown === undefined ? piResult(result, errorCode) : thrownResult(thrown),
    isError,
    ...(durationMs === 0 ? {} : { durationMs: Math.round(durationMs) }),
    ...lacking({ result })
  }
}

function unlessWithheld (result: ToolResult | undefined): ToolResult | undefined {
  return result === undefined || isWithheld(result) ? undefined : result
}

function nothing (): PiToolResult {
  return { content: [], details: undefined }
}

function lacking (parts: Record<string, unknown>): { omitted?: string[] } {
  const omitted = Object.keys(parts).filter((name) => parts[name] === undefined)
  return omitted.length === 0 ? {} : { omitted }
}
