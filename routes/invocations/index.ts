import { Type, type FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { unknownInvocation } from '../../src/auth/access.ts'
import { noLongerValid } from '../../src/auth/authentication.ts'
import { InvocationAnswer, InvocationList, InvocationQuery, InvocationRecord } from '../../src/contract/invocation.ts'
import { Problem } from '../../src/contract/problem.ts'
import { placeId, placeOf } from '../../src/events/event-ids.ts'
import { GatewayError } from '../../src/errors.ts'
import { headers as eventStreamHeaders } from '../../src/events/sse.ts'
import { sendText, settledWithin, tellOutcome } from '../../src/http/answer.ts'
import { pageOfCalls } from '../../src/http/call-pages.ts'
import { headerOf, refuseQuery } from '../../src/http/call-request.ts'
import { assertAcceptsJson, assertAcceptsStream, openStream } from '../../src/http/event-stream.ts'
import { parsePrefer, waitSeconds } from '../../src/http/prefer.ts'
import type { StoredCall } from '../../src/store/store.ts'
import { receiptText, recordText } from '../../src/store/wire.ts'

const InvocationParams = Type.Object({ id: Type.String() })
const Nothing = Type.Object({}, { additionalProperties: false })

const routes: FastifyPluginAsyncTypebox = async (app) => {
  app.get('/', { config: { scope: 'invocations:read' }, schema: { querystring: InvocationQuery, response: { 200: InvocationList } } }, async (request, reply) => {
    assertAcceptsJson(request)
    const sight = request.caller.access.sight('invocations:read')
    const { entries, nextCursor } = await pageOfCalls(app.toolgate.store, request.query, sight, ({ start, end }) => receiptText(start, end, sight))
    return sendText(reply.header('cache-control', 'no-store'), `{"invocations":${entries}${nextCursor}}`)
  })

  app.get('/:id', { config: { scope: 'invocations:read' }, schema: { params: InvocationParams, response: { 200: InvocationRecord, 404: Problem } } }, async (request, reply) => {
    refuseQuery(request)
    assertAcceptsJson(request)
    const { config, clock, invoker } = app.toolgate
    const { id } = request.params
    const { caller } = request
    let call = await recordOf(id)
    caller.access.assertCall('invocations:read', call.start)
    const seconds = waitSeconds(parsePrefer(request.headers.prefer), config.maxWaitMs)
    if (seconds !== undefined) {
      reply.header('preference-applied', `wait=${seconds}`)
      const running = call.end === undefined ? invoker.find(id) : undefined
      if (running !== undefined) {
        await settledWithin(running, seconds * 1000, clock, reply)
        if (!caller.isCurrent()) throw noLongerValid()
        call = await recordOf(id)
      }
    }
    tellOutcome(reply, id, call.end)
    return sendText(reply.header('cache-control', 'no-store'), recordText(call, caller.access.sight('invocations:read')))
  })

  app.post('/:id/cancel', {
    config: { scope: 'invocations:cancel' },
    schema: { params: InvocationParams, body: Nothing, response: { 202: InvocationAnswer, 404: Problem, 409: Problem } }
  }, async (request, reply) => {
    refuseQuery(request)
    assertAcceptsJson(request)
    const { invoker, log } = app.toolgate
    const { id } = request.params
    const call = invoker.find(id)
    request.caller.access.assertCall('invocations:cancel', (call ?? await recordOf(id)).start)
    if (call === undefined || call.isSettled) {
      // What is told of a call is on record, also where it has only just ended.
      await call?.settled
      const { end } = await recordOf(id)
      // On record and not here: its end could not be recorded, or it is left to the next start.
      if (end === undefined) throw new GatewayError('shutting_down', 'The gateway is shutting down.')
      throw new GatewayError('already_settled', `The invocation has ended before: ${end.status}.`)
    }
    // Who called stands in the record; who ended it, here.
    log.info({ tool: call.toolId, invocation: id, principal: request.caller.principal.id }, 'a cancel was asked for')
    invoker.cancel(call)
    const { start, end } = await call.settled
    tellOutcome(reply, id, end)
    return sendText(reply.code(202), `{"invocation":${receiptText(start, end, request.caller.access.sight('invocations:cancel'))}}`)
  })

  app.get('/:id/events', { config: { scope: 'events:read' }, schema: { params: InvocationParams } }, async (request, reply) => {
    refuseQuery(request)
    assertAcceptsStream(request)
    const { hub, store } = app.toolgate
    const { caller } = request
    const { start, startSequence, endSequence } = await recordOf(request.params.id)
    caller.access.assertCall('events:read', start)
    const sight = caller.access.sight('events:read')
    const after = headerOf(request, 'last-event-id') || placeId(store, startSequence - 1, sight !== undefined)
    // Who has had everything is told not to come back, as an EventSource would.
    if (endSequence !== undefined && (placeOf(store, after, sight !== undefined) ?? 0) >= endSequence) return reply.code(204).send()
    const headers = { 'toolgate-invocation-id': request.params.id }
    if (request.method === 'HEAD') return reply.headers(eventStreamHeaders).headers(headers).send()
    hub.assertRoom()
    hub.subscribe(openStream(reply, headers), {
      filter: { invocationId: [request.params.id] },
      view: 'full',
      sight,
      isCurrent: () => caller.isCurrent(),
      after,
      untilEnd: true
    })
    return reply
  })

  /** @throws {GatewayError} `unknown_invocation` */
  async function recordOf (id: string): Promise<StoredCall> {
    const call = await app.toolgate.store.get(id)
    if (call === undefined) throw new GatewayError('unknown_invocation', unknownInvocation)
    return call
  }
}

export default routes
