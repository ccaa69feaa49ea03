import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyReply } from 'fastify'
import type { ToolRefusal } from '../../src/auth/access.ts'
import { noLongerValid } from '../../src/auth/authentication.ts'
import { BatchRequest, BatchResponse } from '../../src/contract/batch.ts'
import { GatewayError } from '../../src/errors.ts'
import { headerOf, onHangUp, refuseQuery } from '../../src/http/call-request.ts'
import { assertAcceptsJson, jsonType } from '../../src/http/event-stream.ts'
import { Batch } from '../../src/invocation/batch.ts'
import { parseTraceparent } from '../../src/invocation/traceparent.ts'

const routes: FastifyPluginAsyncTypebox = async (app) => {
  app.post('/', {
    // The body, its list of calls, and the call.
    config: { scope: 'tools:invoke', envelopeDepth: 3 },
    schema: { body: BatchRequest, response: { 200: BatchResponse } }
  }, async (request, reply) => {
    refuseQuery(request)
    // A key that is not honoured is worse than none: the retry that it is for would run the tools twice.
    if (request.headers['idempotency-key'] !== undefined) throw new GatewayError('not_supported', 'A batch takes no Idempotency-Key; send calls that need one singly.')
    assertAcceptsJson(request)
    const { config: { maxBatchCalls }, log, invoker, refusals } = app.toolgate
    const { caller } = request
    const { principal, access } = caller
    // A batch in sequence may take long; what has not begun when its credentials are gone does not.
    const refusalOf: ToolRefusal = (toolId, kind) => caller.isCurrent() ? access.refusalOfCall?.(toolId, kind) : noLongerValid()
    const { calls, mode, runId } = request.body
    if (calls.length > maxBatchCalls) {
      const message = `must not have more than ${maxBatchCalls} calls`
      throw new GatewayError('invalid_request', `The body is not valid. /calls: ${message}`, { errors: [{ path: '/calls', keyword: 'maxItems', message }] })
    }
    const trace = parseTraceparent(headerOf(request, 'traceparent'))
    const batch = new Batch(invoker, log, (error, { toolId }) => refusals.note(error, request, toolId))
    onHangUp(reply, () => batch.cancel())
    const pieces = await batch.run(calls.map((call) => ({ ...call, runId, trace, principal, refusalOf })), mode ?? 'parallel')
    return answer(reply, pieces)
  })
}

export default routes

function answer (reply: FastifyReply, pieces: readonly string[]): FastifyReply {
  return reply.type(jsonType).send(Buffer.concat(pieces.map((piece) => Buffer.from(piece))))
}
