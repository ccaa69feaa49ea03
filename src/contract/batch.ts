import { Type, type Static } from '@sinclair/typebox'
import { InvokeRequest, InvokeResponse } from './invocation.ts'
import { Problem } from './problem.ts'

const { input, toolCallId, timeoutMs, runId } = InvokeRequest.properties

/** One call of a batch. */
export const BatchCall = Type.Object({
  toolId: Type.String(),
  input,
  toolCallId,
  timeoutMs
}, { $id: 'BatchCall', additionalProperties: false })
export type BatchCall = Static<typeof BatchCall>

export const BatchMode = Type.Union([Type.Literal('parallel'), Type.Literal('sequential')])
export type BatchMode = Static<typeof BatchMode>

/** The body of `POST /batch`. */
export const BatchRequest = Type.Object({
  calls: Type.Array(BatchCall, { minItems: 1 }),
  mode: Type.Optional(Type.Union(BatchMode.anyOf, {
    description: 'Default: parallel. A batch with a call of a sequential tool runs in sequence in any case'
  })),
  runId
}, { $id: 'BatchRequest', additionalProperties: false })
export type BatchRequest = Static<typeof BatchRequest>

/** In the place of a result: why the call got no invocation. */
export const BatchProblem = Type.Object({ problem: Problem }, { $id: 'BatchProblem' })
export type BatchProblem = Static<typeof BatchProblem>

/** The answer of `POST /batch`, in the order of the calls. */
export const BatchResponse = Type.Object({
  results: Type.Array(Type.Union([InvokeResponse, BatchProblem])),
  terminate: Type.Boolean({ description: 'True where every result says so' })
}, { $id: 'BatchResponse' })
export type BatchResponse = Static<typeof BatchResponse>
