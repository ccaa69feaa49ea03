import { Type, type FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Caller } from '../../src/auth/caller.ts'
import { InvocationAnswer, InvokeRequest, InvokeResponse } from '../../src/contract/invocation.ts'
import { Problem } from '../../src/contract/problem.ts'
import { ToolDescriptor, ToolList } from '../../src/contract/tool.ts'
import { GatewayError } from '../../src/errors.ts'
import { placeId } from '../../src/events/event-ids.ts'
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
  app.get('/', { config: { scope: 'tools:read' }, schema: { querystring: NoQuery, response: { 200: ToolList } } }, async (request, reply) => describe(request, reply))

  app.get('/:id', {
    config: { scope: 'tools:read' },
    schema: { params: ToolParams, querystring: NoQuery, response: { 200: ToolDescriptor, 404: Problem } }
  }, async (request, reply) => describe(request, reply, request.params.id))

  app.post('/:id/invoke', {
    config: { scope: 'tools:invoke' },
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
      principal: request.caller.principal,
      refusalOf: request.caller.access.refusalOfCall,
      isAsync: waitMs !== undefined,
      idempotencyKey
    })
    const call = started instanceof Promise ? await started : started
    if (call instanceof Replay) reply.header('idempotency-replayed', 'true')
    else if (!call.isSettled && waitMs === undefined && idempotencyKey === undefined) onHangUp(reply, () => invoker.cancel(call))
    if (isStream) return stream(request.caller, reply, call)
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

  function stream (caller: Caller, reply: FastifyReply, call: Call | Replay): FastifyReply {
    const { hub, store } = app.toolgate
    // Its own call is the caller's to see; of how many others there are it is told by its rights.
    const isSealed = caller.access.sight('events:read') !== undefined
    hub.subscribe(openStream(reply, { 'toolgate-invocation-id': call.invocationId }), {
      filter: { invocationId: [call.invocationId] },
      view: 'full',
      isSealed,
      isCurrent: () => caller.isCurrent(),
      reveal: (event) => call.reveal(event),
      after: placeId(store, call.startsAfter, isSealed),
      untilEnd: true,
      isAnswer: true
    })
    return reply
  }

  /** @throws {GatewayError} `unknown_tool`, `forbidden` */
  function descriptionFor ({ access }: Caller, toolId: string | undefined) {
    const { registry } = app.toolgate.invoker
    if (toolId === undefined) return registry.describeSome(access.toolsKey, ({ id, kind }) => access.mayTool('tools:read', id, kind))
    const refusal = access.refusalOfTool('tools:read', toolId, registry.get(toolId)?.descriptor.kind)
    if (refusal !== undefined) throw refusal
    const description = registry.describe(toolId)
    if (description === undefined) throw new GatewayError('unknown_tool', `There is no tool "${toolId}".`)
    return description
  }

  function describe (request: FastifyRequest, reply: FastifyReply, toolId?: string): FastifyReply {
    const description = descriptionFor(request.caller, toolId)
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
