import { BatchResponse, type BatchCall } from '../contract/batch.ts'
import { InvocationAnswer, InvocationRecord, InvokeResponse, type InvocationReceipt } from '../contract/invocation.ts'
import { ProtocolError } from './errors.ts'
import { assertShape } from './shapes.ts'
import type { Take } from './transport.ts'

/** Answers, held to the contract, to themselves, and to what was asked for. Each throws {@link ProtocolError}. */

/** A tool, or a call, or both. */
interface Subject { toolId?: string | undefined, invocationId?: string | undefined }

export function answerOf (toolId: string): Take<InvokeResponse> {
  return (body, { status }) => {
    const response = assertShape(InvokeResponse, body, 'The answer', status)
    assertSubject(response.invocation, { toolId }, status)
    assertVerdict(response.isError, response.invocation, status)
    return response
  }
}

/** An answer that may come before the end. */
export function receiptOf (subject: Subject): Take<InvocationReceipt> {
  return (body, { status }) => {
    const { invocation } = assertShape(InvocationAnswer, body, 'The answer', status)
    assertSubject(invocation, subject, status)
    return invocation
  }
}

export function recordOf (invocationId: string): Take<InvocationRecord> {
  return (body, { status }) => {
    const record = assertShape(InvocationRecord, body, 'The record', status)
    const { invocation, result } = record
    assertSubject(invocation, { invocationId }, status)
    if (result !== undefined) assertVerdict(result.isError, invocation, status)
    else if (invocation.status !== 'running') throw new ProtocolError(`The record of a call that has ${invocation.status} has no result.`, status)
    return record
  }
}

export function batchOf (calls: readonly BatchCall[]): Take<BatchResponse> {
  return (body, head) => {
    const response = assertShape(BatchResponse, body, 'The answer', head.status)
    const { results } = response
    if (results.length !== calls.length) throw new ProtocolError(`${calls.length} calls were answered with ${results.length} results.`, head.status)
    for (const [index, result] of results.entries()) if (!('problem' in result)) answerOf(calls[index]!.toolId)(result, head)
    return response
  }
}

/** Holds what is told to what was asked for. */
export function assertSubject (told: Subject, asked: Subject, status: number): void {
  for (const name of ['toolId', 'invocationId'] as const) {
    if (asked[name] !== undefined && told[name] !== asked[name]) {
      throw new ProtocolError(`The gateway told of ${name} "${told[name]}", not of "${asked[name]}", which was asked for.`, status)
    }
  }
}

/** Holds a verdict to how its receipt says that the call ended. */
export function assertVerdict (isError: boolean, { status: end }: Pick<InvocationReceipt, 'status'>, status: number): void {
  if (end === 'running' || isError !== (end !== 'succeeded')) {
    throw new ProtocolError(`The gateway contradicts itself: isError is ${isError}, and the status is ${end}.`, status)
  }
}
