import { Type, type FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { InvokeRequest, InvokeResponse } from '../../src/contract/invocation.ts'
import { Problem } from '../../src/contract/problem.ts'
import { ToolDescriptor, ToolList } from '../../src/contract/tool.ts'
import { GatewayError } from '../../src/errors.ts'
import { headerOf, onHangUp, refuseUnsupported } from '../../src/http/call-request.ts'
import { jsonType, openStream, wantsStream } from '../../src/http/event-stream.ts'
import { parseTraceparent } from '../../src/invocation/traceparent.ts'
import type { Settlement } from '../../src/invocation/call.ts'

const ToolParams = Type.Object({ id: Type.String() })
const NoQuery = Type.Object({}, { additionalProperties: false })

const routes: FastifyPluginAsyncTypebox = async (app) => {
  app.get('/', { schema: { querystring: NoQuery, response: { 200: ToolList } } }, async (request, reply) => describe(request, reply))

  app.get('/:id', {
    schema: { params: ToolParams, querystring: NoQuery, response: { 200: ToolDescriptor, 404: Problem } }
  }, async (request, reply) => describe(request, reply, request.params.id))

  app.post('/:id/invoke', {
    schema: { params: ToolParams, body: InvokeRequest, response: { 200: InvokeResponse, '4xx': InvokeResponse, '5xx': InvokeResponse } }
  }, async (request, reply) => {
    refuseUnsupported(request)
    const stream = wantsStream(request, false)
    const { invoker, hub } = app.toolgate
    const { input, toolCallId, runId, parentInvocationId, timeoutMs } = request.body
    const started = invoker.start({
      toolId: request.params.id,
      input,
      toolCallId,
      runId,
      parentInvocationId,
      timeoutMs,
      trace: parseTraceparent(headerOf(request, 'traceparent')),
      principal: request.principal
    })
    const call = started instanceof Promise ? await started : started
    if (!call.isSettled) onHangUp(reply, () => invoker.cancel(call))
    if (!stream) {
      const { settled } = call
      return answer(reply, settled instanceof Promise ? await settled : settled)
    }
    hub.subscribe(openStream(reply, { 'toolgate-invocation-id': call.invocationId }), {
      filter: { invocationId: [call.invocationId] },
      view: 'full',
      reveal: (event) => call.reveal(event),
      after: app.toolgate.store.eventId(call.startsAfter),
      untilEnd: true
    })
    return reply
  })

  function describe (request: FastifyRequest, reply: FastifyReply, toolId?: string): FastifyReply {
    const description = app.toolgate.invoker.registry.describe(toolId)
    if (description === undefined) throw new GatewayError('unknown_tool', `There is no tool "${toolId}".`)
    reply.header('etag', description.etag)
    if (matches(request.headers['if-none-match'], description.etag)) return reply.code(304).send()
    return reply.type(jsonType).send(description.text)
  }
}

export default routes

function answer (reply: FastifyReply, settlement: Settlement): FastifyReply {
  const { status, errorCode } = settlement.end
  reply.code(settlement.httpStatus)
    .header('toolgate-invocation-id', settlement.start.invocationId)
    .header('toolgate-status', status)
    .header('content-type', jsonType)
  if (errorCode !== undefined) reply.header('toolgate-error-code', errorCode)
  return reply.send(settlement.responseText)
}

/** RFC 9110, section 13.1.2: weak comparison, any of a list, or `*`. */
function matches (ifNoneMatch: string | undefined, etag: string): boolean {
  return ifNoneMatch !== undefined && ifNoneMatch.split(',').some((tag) => ['*', etag].includes(tag.trim().replace(/^W\//, '')))
}
