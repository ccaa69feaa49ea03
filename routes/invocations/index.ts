import { Type, type FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { InvocationAnswer, InvocationList, InvocationQuery, InvocationRecord } from '../../src/contract/invocation.ts'
import { Problem } from '../../src/contract/problem.ts'
import { GatewayError } from '../../src/errors.ts'
import { headers as eventStreamHeaders } from '../../src/events/sse.ts'
import { sendText, settledWithin, tellOutcome } from '../../src/http/answer.ts'
import { headerOf, refuseQuery } from '../../src/http/call-request.ts'
import { assertAcceptsJson, assertAcceptsStream, openStream } from '../../src/http/event-stream.ts'
import { parsePrefer, waitSeconds } from '../../src/http/prefer.ts'
import type { StoredCall } from '../../src/store/store.ts'
import { receiptText, recordText } from '../../src/store/wire.ts'

const InvocationParams = Type.Object({ id: Type.String() })
const Nothing = Type.Object({}, { additionalProperties: false })
const PAGE = 100

const routes: FastifyPluginAsyncTypebox = async (app) => {
  app.get('/', { schema: { querystring: InvocationQuery, response: { 200: InvocationList } } }, async (request, reply) => {
    assertAcceptsJson(request)
    const { store } = app.toolgate
    const { limit = PAGE, cursor, ...filter } = request.query
    const before = cursor === undefined ? undefined : store.locate(cursor)
    if (cursor !== undefined && before === undefined) {
      const message = 'is no place in this log; take the nextCursor of a page'
      throw new GatewayError('invalid_request', `The query is not valid. /cursor: ${message}`, { errors: [{ path: '/cursor', keyword: 'cursor', message }] })
    }
    const { calls, next } = await store.list(filter, before, limit)
    const receipts = calls.map(({ start, end }) => receiptText(start, end)).join(',')
    const nextCursor = next === undefined ? '' : `,"nextCursor":"${store.eventId(next)}"`
    return sendText(reply.header('cache-control', 'no-store'), `{"invocations":[${receipts}]${nextCursor}}`)
  })

  app.get('/:id', { schema: { params: InvocationParams, response: { 200: InvocationRecord, 404: Problem } } }, async (request, reply) => {
    refuseQuery(request)
    assertAcceptsJson(request)
    const { config, clock, invoker } = app.toolgate
    const { id } = request.params
    let call = await recordOf(id)
    const seconds = waitSeconds(parsePrefer(request.headers.prefer), config.maxWaitMs)
    if (seconds !== undefined) {
      reply.header('preference-applied', `wait=${seconds}`)
      const running = call.end === undefined ? invoker.find(id) : undefined
      if (running !== undefined) {
        await settledWithin(running, seconds * 1000, clock, reply)
        call = await recordOf(id)
      }
    }
    tellOutcome(reply, id, call.end)
    return sendText(reply.header('cache-control', 'no-store'), recordText(call))
  })

  app.post('/:id/cancel', {
    schema: { params: InvocationParams, body: Nothing, response: { 202: InvocationAnswer, 404: Problem, 409: Problem } }
  }, async (request, reply) => {
    refuseQuery(request)
    assertAcceptsJson(request)
    const { invoker } = app.toolgate
    const { id } = request.params
    const call = invoker.find(id)
    if (call === undefined || call.isSettled) {
      // What is told of a call is on record, also where it has only just ended.
      await call?.settled
      const { end } = await recordOf(id)
      // On record and not here: its end could not be recorded, or it is left to the next start.
      if (end === undefined) throw new GatewayError('shutting_down', 'The gateway is shutting down.')
      throw new GatewayError('already_settled', `The invocation has ended before: ${end.status}.`)
    }
    invoker.cancel(call)
    const { start, end } = await call.settled
    tellOutcome(reply, id, end)
    return sendText(reply.code(202), `{"invocation":${receiptText(start, end)}}`)
  })

  app.get('/:id/events', { schema: { params: InvocationParams } }, async (request, reply) => {
    refuseQuery(request)
    assertAcceptsStream(request)
    const { hub, store } = app.toolgate
    const { startSequence, endSequence } = await recordOf(request.params.id)
    const after = headerOf(request, 'last-event-id') || store.eventId(startSequence - 1)
    // Who has had everything is told not to come back, as an EventSource would.
    if (endSequence !== undefined && (store.locate(after) ?? 0) >= endSequence) return reply.code(204).send()
    const headers = { 'toolgate-invocation-id': request.params.id }
    if (request.method === 'HEAD') return reply.headers(eventStreamHeaders).headers(headers).send()
    hub.assertRoom()
    hub.subscribe(openStream(reply, headers), { filter: { invocationId: [request.params.id] }, view: 'full', after, untilEnd: true })
    return reply
  })

  /** @throws {GatewayError} `unknown_invocation` */
  async function recordOf (id: string): Promise<StoredCall> {
    const call = await app.toolgate.store.get(id)
    if (call === undefined) throw new GatewayError('unknown_invocation', 'There is no record of this invocation.')
    return call
  }
}

export default routes
