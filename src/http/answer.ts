import type { FastifyReply } from 'fastify'
import type { Clock } from '../clock.ts'
import type { Call, Settlement } from '../invocation/call.ts'
import { jsonType } from './event-stream.ts'

/** Says in headers which invocation an answer is about and how it ended, as far as it has. */
export function tellOutcome (reply: FastifyReply, invocationId: string, end: { status: string, errorCode: string | undefined } | undefined): void {
  reply.header('toolgate-invocation-id', invocationId)
    .header('toolgate-status', end?.status ?? 'running')
    .header('content-type', jsonType)
  if (end?.errorCode !== undefined) reply.header('toolgate-error-code', end.errorCode)
}

/** Answers with JSON that is text already. */
export function sendText (reply: FastifyReply, text: string): FastifyReply {
  return reply.header('content-type', jsonType).send(text)
}

/** Answers with how a call ended. */
export function sendSettlement (reply: FastifyReply, settlement: Settlement): FastifyReply {
  tellOutcome(reply, settlement.start.invocationId, settlement.end)
  return reply.code(settlement.httpStatus).send(settlement.responseText)
}

/** Says that a call is taken and goes on: where its record is, and its receipt until now. */
export function sendAccepted (reply: FastifyReply, invocationId: string, receipt: string): FastifyReply {
  tellOutcome(reply, invocationId, undefined)
  return reply.code(202).header('location', `/invocations/${invocationId}`).send(`{"invocation":${receipt}}`)
}

/** Waits for how a call ended, but no longer than `forMs`, nor than the caller is there. */
export async function settledWithin (call: Pick<Call, 'settledBefore'>, forMs: number, clock: Clock, { raw }: FastifyReply): Promise<Settlement | undefined> {
  if (raw.destroyed) return undefined
  const over = Promise.withResolvers<undefined>()
  const end = () => over.resolve(undefined)
  const stopTimer = clock.after(forMs, end)
  raw.once('close', end)
  try {
    return await call.settledBefore(over.promise)
  } finally {
    stopTimer()
    raw.off('close', end)
  }
}
