import { Type, type FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { InvokeRequest, InvokeResponse } from '../../src/contract/invocation.ts'
import { Problem } from '../../src/contract/problem.ts'
import { ToolDescriptor, ToolList } from '../../src/contract/tool.ts'
import { GatewayError } from '../../src/errors.ts'
import { openStream, wantsStream } from '../../src/http/event-stream.ts'
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
    const stream = wantsStream(request, 'application/json')
    const { invoker, hub } = app.toolgate
    const { input, toolCallId, runId, parentInvocationId, timeoutMs } = request.body
    const started = invoker.start({
      toolId: request.params.id,
      input,
      toolCallId,
      runId,
      parentInvocationId,
      timeoutMs,
      trace: parseTraceparent(header(request, 'traceparent')),
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
    return reply.type('application/json; charset=utf-8').send(description.text)
  }
}

export default routes

function answer (reply: FastifyReply, settlement: Settlement): FastifyReply {
  const { status, errorCode } = settlement.end
  reply.code(settlement.httpStatus)
    .header('toolgate-invocation-id', settlement.start.invocationId)
    .header('toolgate-status', status)
    .header('content-type', 'application/json; charset=utf-8')
  if (errorCode !== undefined) reply.header('toolgate-error-code', errorCode)
  return reply.send(settlement.responseText)
}

/** The response closes in any case. Once the call has settled, cancelling has no effect: so an ordinary end is no hang-up. */
function onHangUp ({ raw }: FastifyReply, cancel: () => void): void {
  if (raw.destroyed) cancel()
  else raw.once('close', cancel)
}

/**
 * Refuses what would otherwise be passed over in silence. A key that is not honoured is worse than none: the retry that
 * it is for would run the tool twice.
 */
function refuseUnsupported (request: FastifyRequest): void {
  if (request.raw.url!.includes('?')) throw new GatewayError('invalid_request', 'The query is not empty; this route takes none.')
  if (request.headers['idempotency-key'] !== undefined) {
    throw new GatewayError('not_supported', 'Idempotency-Key is not supported yet; send the call without it.')
  }
}

function header (request: FastifyRequest, name: string): string | undefined {
  const value = request.headers[name]
  return typeof value === 'string' ? value : undefined
}

/** RFC 9110, section 13.1.2: weak comparison, any of a list, or `*`. */
function matches (ifNoneMatch: string | undefined, etag: string): boolean {
  return ifNoneMatch !== undefined && ifNoneMatch.split(',').some((tag) => ['*', etag].includes(tag.trim().replace(/^W\//, '')))
}
