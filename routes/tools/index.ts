import { Type, type FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { InvocationAnswer, InvokeRequest, InvokeResponse } from '../../src/contract/invocation.ts'
import { Problem } from '../../src/contract/problem.ts'
import { ToolDescriptor, ToolList } from '../../src/contract/tool.ts'
import { GatewayError } from '../../src/errors.ts'
import { sendAccepted, sendSettlement, settledWithin } from '../../src/http/answer.ts'
import { headerOf, idempotencyKeyOf, onHangUp, refuseQuery } from '../../src/http/call-request.ts'
import { jsonType, openStream, wantsStream } from '../../src/http/event-stream.ts'
import { answerPreference } from '../../src/http/prefer.ts'
import type { Call } from '../../src/invocation/call.ts'
import { Replay } from '../../src/invocation/replay.ts'
import { parseTraceparent } from '../../src/invocation/traceparent.ts'

const ToolParams = Type.Object({ id: Type.String() })
const NoQuery = Type.Object({}, { additionalProperties: false })

const routes: FastifyPluginAsyncTypebox = async (app) => {
  app.get('/', { schema: { querystring: NoQuery, response: { 200: ToolList } } }, async (request, reply) => describe(request, reply))

  app.get('/:id', {
    schema: { params: ToolParams, querystring: NoQuery, response: { 200: ToolDescriptor, 404: Problem } }
  }, async (request, reply) => describe(request, reply, request.params.id))

  app.post('/:id/invoke', {
    schema: { params: ToolParams, body: InvokeRequest, response: { 200: InvokeResponse, 202: InvocationAnswer, '4xx': InvokeResponse, '5xx': InvokeResponse } }
  }, async (request, reply) => {
    refuseQuery(request)
    const isStream = wantsStream(request, false)
    const { config, invoker } = app.toolgate
    // Who follows a stream is told of everything there is; there is nothing to come back for.
    const { waitMs, applied } = answerPreference(isStream ? undefined : request.headers.prefer, config.maxWaitMs)
    const idempotencyKey = idempotencyKeyOf(request)
    const { input, toolCallId, runId, parentInvocationId, timeoutMs } = request.body
    const started = invoker.start({
      toolId: request.params.id,
      input,
      toolCallId,
      runId,
      parentInvocationId,
      timeoutMs,
      trace: parseTraceparent(headerOf(request, 'traceparent')),
      principal: request.principal,
      isAsync: waitMs !== undefined,
      idempotencyKey
    })
    const call = started instanceof Promise ? await started : started
    if (call instanceof Replay) reply.header('idempotency-replayed', 'true')
    else if (!call.isSettled && waitMs === undefined && idempotencyKey === undefined) onHangUp(reply, () => invoker.cancel(call))
    if (isStream) return stream(reply, call)
    if (waitMs !== undefined) return await answerWithin(reply, call, waitMs, applied!)
    const { settled } = call
    return sendSettlement(reply, settled instanceof Promise ? await settled : settled)
  })

  async function answerWithin (reply: FastifyReply, call: Call | Replay, waitMs: number, applied: string): Promise<FastifyReply> {
    reply.header('preference-applied', applied)
    // What has ended before is told at once; of a new call, however soon it ends, who does not wait is told that it was taken.
    const isKnown = call instanceof Replay && call.isSettled
    const settlement = waitMs > 0 || isKnown ? await settledWithin(call, waitMs, app.toolgate.clock, reply) : undefined
    return settlement === undefined ? sendAccepted(reply, call.invocationId, call.runningReceipt) : sendSettlement(reply, settlement)
  }

  function stream (reply: FastifyReply, call: Call | Replay): FastifyReply {
    const { hub, store } = app.toolgate
    hub.subscribe(openStream(reply, { 'toolgate-invocation-id': call.invocationId }), {
      filter: { invocationId: [call.invocationId] },
      view: 'full',
      reveal: (event) => call.reveal(event),
      after: store.eventId(call.startsAfter),
      untilEnd: true,
      isAnswer: true
    })
    return reply
  }

  function describe (request: FastifyRequest, reply: FastifyReply, toolId?: string): FastifyReply {
    const description = app.toolgate.invoker.registry.describe(toolId)
    if (description === undefined) throw new GatewayError('unknown_tool', `There is no tool "${toolId}".`)
    reply.header('etag', description.etag)
    if (matches(request.headers['if-none-match'], description.etag)) return reply.code(304).send()
    return reply.type(jsonType).send(description.text)
  }
}

export default routes

/** RFC 9110, section 13.1.2: weak comparison, any of a list, or `*`. */
function matches (ifNoneMatch: string | undefined, etag: string): boolean {
  return ifNoneMatch !== undefined && ifNoneMatch.split(',').some((tag) => ['*', etag].includes(tag.trim().replace(/^W\//, '')))
}
