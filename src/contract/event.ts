import { Type, type Static } from '@sinclair/typebox'
import { DurationMs, EpochMs, JsonValue } from './json.ts'
import { FinalStatus, InvocationStatus, lineageFields, OutcomeCode } from './invocation.ts'
import { ToolResult } from './result.ts'

const eventFields = {
  toolCallId: Type.String(),
  toolName: Type.String({ description: "The same as toolId, for consumers of pi's vocabulary" }),
  toolId: Type.String(),
  invocationId: Type.String(),
  kind: Type.String(),
  startedAtMs: EpochMs,
  ...lineageFields
}

const omitted = Type.Optional(Type.Array(Type.String(), {
  description: 'Parts left out because they are over the size limit of an event; the record has them'
}))
const redacted = Type.Optional(Type.Literal(true, { description: '`args` are withheld, as the tool is sensitive, or values in them masked' }))

/** A call began. `args` is the input as the caller sent it. */
export const ToolExecutionStartEvent = Type.Object({
  type: Type.Literal('tool_execution_start'),
  ...eventFields,
  args: Type.Optional(JsonValue),
  omitted,
  redacted
}, { $id: 'ToolExecutionStartEvent' })
export type ToolExecutionStartEvent = Static<typeof ToolExecutionStartEvent>

/** A call reported progress. */
export const ToolExecutionUpdateEvent = Type.Object({
  type: Type.Literal('tool_execution_update'),
  ...eventFields,
  partialResult: Type.Optional(ToolResult),
  omitted
}, { $id: 'ToolExecutionUpdateEvent' })
export type ToolExecutionUpdateEvent = Static<typeof ToolExecutionUpdateEvent>

/** A call settled. Exactly one for each start; also the registry system's ToolExecutionEvent. */
export const ToolExecutionEndEvent = Type.Object({
  type: Type.Literal('tool_execution_end'),
  ...eventFields,
  result: Type.Optional(ToolResult),
  isError: Type.Boolean(),
  status: FinalStatus,
  errorCode: Type.Optional(OutcomeCode),
  durationMs: DurationMs,
  queuedMs: Type.Optional(DurationMs),
  omitted
}, { $id: 'ToolExecutionEndEvent' })
export type ToolExecutionEndEvent = Static<typeof ToolExecutionEndEvent>

/** One message of `GET /events`, told apart by `type`. */
export const ToolExecutionEvent = Type.Union(
  [ToolExecutionStartEvent, ToolExecutionUpdateEvent, ToolExecutionEndEvent],
  { $id: 'ToolExecutionEvent' }
)
export type ToolExecutionEvent = Static<typeof ToolExecutionEvent>

export const ToolExecutionEventType = Type.Union([
  Type.Literal('tool_execution_start'),
  Type.Literal('tool_execution_update'),
  Type.Literal('tool_execution_end')
])
export type ToolExecutionEventType = Static<typeof ToolExecutionEventType>

/** The data of an `events_lost` message, and `lost` of a list: events after `requestedId` are gone; everything kept follows. */
export const EventsLost = Type.Object({
  requestedId: Type.String(),
  earliestId: Type.String({ description: 'The first event still kept, or the next to come where none is' })
}, { $id: 'EventsLost' })
export type EventsLost = Static<typeof EventsLost>

/** What `GET /events` answers as JSON: a page of events after a place in the log. */
export const EventList = Type.Object({
  events: Type.Array(Type.Object({ id: Type.String(), event: ToolExecutionEvent }), {
    description: 'In the order of the log; no more than a page holds'
  }),
  next: Type.String({ description: 'The place up to which the log was looked through: the `lastEventId` to go on with' }),
  lost: Type.Optional(EventsLost)
}, { $id: 'EventList' })
export type EventList = Static<typeof EventList>

const many = <T extends ReturnType<typeof Type.String> | typeof ToolExecutionEventType | typeof InvocationStatus>(schema: T) =>
  Type.Optional(Type.Array(schema, { maxItems: 100 }))

/** The query of `GET /events`. Different names narrow, the same name widens. */
export const EventQuery = Type.Object({
  type: many(ToolExecutionEventType),
  toolId: many(Type.String()),
  kind: many(Type.String()),
  status: many(InvocationStatus),
  runId: many(Type.String()),
  invocationId: many(Type.String()),
  toolCallId: many(Type.String()),
  view: Type.Optional(Type.Union([Type.Literal('full'), Type.Literal('receipt')])),
  lastEventId: Type.Optional(Type.String({ description: 'Where to resume, or `earliest`; the Last-Event-ID header wins' })),
  ticket: Type.Optional(Type.String({ description: 'Of POST /events/tickets, for clients that cannot send an Authorization header' }))
}, { $id: 'EventQuery', additionalProperties: false })
export type EventQuery = Static<typeof EventQuery>
