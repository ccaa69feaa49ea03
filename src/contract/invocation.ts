import { Type, type Static } from '@sinclair/typebox'
import { DurationMs, EpochMs, JsonValue } from './json.ts'
import { resultFields, ToolResult } from './result.ts'

export const InvocationStatus = Type.Union([
  Type.Literal('running'),
  Type.Literal('succeeded'),
  Type.Literal('failed'),
  Type.Literal('cancelled')
])
export type InvocationStatus = Static<typeof InvocationStatus>

/** The statuses that never change any more. */
export const FinalStatus = Type.Union([Type.Literal('succeeded'), Type.Literal('failed'), Type.Literal('cancelled')])
export type FinalStatus = Static<typeof FinalStatus>

/** Why an invocation did not succeed. `src/errors.ts` says which HTTP status each has. */
export const OutcomeCode = Type.Union([
  Type.Literal('tool_error'),
  Type.Literal('invalid_output'),
  Type.Literal('result_too_large'),
  Type.Literal('hook_error'),
  Type.Literal('timeout'),
  Type.Literal('cancelled'),
  Type.Literal('shutdown'),
  Type.Literal('tool_crashed'),
  Type.Literal('outcome_unknown'),
  Type.Literal('invalid_input'),
  Type.Literal('blocked')
])
export type OutcomeCode = Static<typeof OutcomeCode>

const id = (description: string) => Type.String({ description })

/** What relates an invocation to its run, its trace and the call that caused it. */
export const lineageFields = {
  runId: Type.Optional(id('The run that the call is part of')),
  traceId: Type.Optional(id('W3C trace id, where the caller sent a traceparent')),
  spanId: id('The span of the call: 16 hex digits'),
  parentSpanId: Type.Optional(id('The span of what caused the call')),
  parentInvocationId: Type.Optional(id('The call that made this one'))
}

/** Who ran what, when, and how it ended. */
export const InvocationReceipt = Type.Object({
  invocationId: id('Names the call, in its answer, its record and its events'),
  toolId: Type.String(),
  toolCallId: id("The caller's own id; the invocationId where it gave none"),
  kind: Type.String(),
  status: InvocationStatus,
  errorCode: Type.Optional(OutcomeCode),
  startedAtMs: EpochMs,
  durationMs: Type.Number({ minimum: 0, description: 'What execute took, on a monotonic clock; 0 where it never ran' }),
  queuedMs: Type.Optional(DurationMs),
  ...lineageFields
}, { $id: 'InvocationReceipt' })
export type InvocationReceipt = Static<typeof InvocationReceipt>

const callerId = (description: string, maxLength = 256) => Type.String({ minLength: 1, maxLength, description })

/** The body of `POST /tools/:id/invoke`. */
export const InvokeRequest = Type.Object({
  input: Type.Optional(JsonValue),
  // Some model providers make ids of several parts, 450 characters and more.
  toolCallId: Type.Optional(callerId("The caller's own id for this call", 1024)),
  runId: Type.Optional(callerId('The run this call belongs to')),
  parentInvocationId: Type.Optional(callerId('The invocation that caused this one')),
  timeoutMs: Type.Optional(Type.Integer({ minimum: 1, maximum: 86_400_000, description: "Milliseconds from arrival; the smaller of this and the tool's own counts" }))
}, { $id: 'InvokeRequest', additionalProperties: false })
export type InvokeRequest = Static<typeof InvokeRequest>

/** The answer of `POST /tools/:id/invoke`: the result and its receipt, flat. */
export const InvokeResponse = Type.Object({
  ...resultFields,
  invocation: InvocationReceipt
}, { $id: 'InvokeResponse' })
export type InvokeResponse = Static<typeof InvokeResponse>

/** The answer of `GET /invocations/:id`. What a sensitive tool was given is not in it. */
export const InvocationRecord = Type.Object({
  invocation: InvocationReceipt,
  input: Type.Optional(JsonValue),
  result: Type.Optional(ToolResult)
}, { $id: 'InvocationRecord' })
export type InvocationRecord = Static<typeof InvocationRecord>

/** The answer to who need not wait, or may no more: the receipt alone. */
export const InvocationAnswer = Type.Object({ invocation: InvocationReceipt }, { $id: 'InvocationAnswer' })
export type InvocationAnswer = Static<typeof InvocationAnswer>

/** Of a page of a list of records. */
export const nextCursor = Type.Optional(Type.String({ description: 'The `cursor` of the next page; absent where nothing older is there' }))

/** The answer of `GET /invocations`: newest first. */
export const InvocationList = Type.Object({
  invocations: Type.Array(InvocationReceipt),
  nextCursor
}, { $id: 'InvocationList' })
export type InvocationList = Static<typeof InvocationList>

const many = <T extends ReturnType<typeof Type.String> | typeof InvocationStatus>(schema: T) => Type.Optional(Type.Array(schema, { maxItems: 100 }))
/** The query of `GET /invocations`. Different names narrow, the same name widens. */
export const InvocationQuery = Type.Object({
  toolId: many(Type.String()),
  kind: many(Type.String()),
  status: many(InvocationStatus),
  runId: many(Type.String()),
  from: Type.Optional(Type.Integer({ minimum: 0, description: 'Arrived then or later, epoch milliseconds' })),
  to: Type.Optional(Type.Integer({ minimum: 0, description: 'Arrived before then, epoch milliseconds' })),
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 1000, description: 'Records of a page; 100 where absent' })),
  cursor: Type.Optional(Type.String({ description: 'The `nextCursor` of the page before' }))
}, { $id: 'InvocationQuery', additionalProperties: false })
export type InvocationQuery = Static<typeof InvocationQuery>
