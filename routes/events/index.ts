import { Type, type FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { EventList, EventQuery } from '../../src/contract/event.ts'
import { Ticket } from '../../src/contract/ticket.ts'
import { GatewayError } from '../../src/errors.ts'
import { filterOf } from '../../src/events/filter.ts'
import type { PollOptions } from '../../src/events/long-polls.ts'
import * as sse from '../../src/events/sse.ts'
import { sendText } from '../../src/http/answer.ts'
import { refuseQuery } from '../../src/http/call-request.ts'
import { assertAcceptsJson, jsonType, openStream, varyByAccept, wantsStream } from '../../src/http/event-stream.ts'
import { parsePrefer, waitSeconds } from '../../src/http/prefer.ts'

const Nothing = Type.Object({}, { additionalProperties: false })
const listHeaders = { 'content-type': jsonType, 'cache-control': 'no-store' } as const

const routes: FastifyPluginAsyncTypebox = async (app) => {
  app.get('/', {
    config: { scope: 'events:read', takesTicket: true },
    schema: { querystring: EventQuery, response: { 200: EventList } }
  }, async (request, reply) => {
    varyByAccept(reply)
    const isList = !wantsStream(request, true)
    if (request.method === 'HEAD') return headersOnly(reply, isList ? listHeaders : sse.headers)
    const wanted = {
      filter: filterOf(request.query),
      view: request.query.view ?? 'full',
      sight: request.caller.access.sight('events:read'),
      isCurrent: () => request.caller.isCurrent(),
      after: cursorOf(request, request.query)
    }
    if (isList) return await poll(request, reply, wanted)
    const { hub } = app.toolgate
    hub.assertRoom()
    hub.subscribe(openStream(reply), wanted)
    return reply
  })

  app.post('/tickets', {
    config: { scope: 'events:read' },
    schema: { body: Nothing, response: { 201: Ticket } }
  }, async (request, reply) => {
    refuseQuery(request)
    assertAcceptsJson(request)
    return sendText(reply.code(201).header('cache-control', 'no-store'), JSON.stringify(app.toolgate.tickets.issue(request.caller)))
  })

  async function poll (request: FastifyRequest, reply: FastifyReply, wanted: Omit<PollOptions, 'waitMs' | 'signal' | 'read'>): Promise<FastifyReply> {
    const { config, hub } = app.toolgate
    // Of requests that come on one connection before it has answered, each would have a whole page in memory.
    if (reply.raw.socket === null) throw new GatewayError('too_many_subscribers', 'A connection has one poll at a time.')
    const seconds = waitSeconds(parsePrefer(request.headers.prefer), config.maxWaitMs)
    const closed = new AbortController()
    const { signal } = closed
    reply.raw.once('close', () => closed.abort())
    const text = await hub.polls.poll({ ...wanted, waitMs: (seconds ?? 0) * 1000, signal, read: signal })
    if (text === undefined) return reply.hijack()
    if (seconds !== undefined) reply.header('preference-applied', `wait=${seconds}`)
    return reply.headers(listHeaders).send(text)
  }
}

export default routes

function headersOnly (reply: FastifyReply, headers: Record<string, string>): FastifyReply {
  return reply.headers(headers).send()
}

function cursorOf ({ headers }: FastifyRequest, { lastEventId }: EventQuery): string | undefined {
  const header = headers['last-event-id']
  return (typeof header === 'string' && header !== '' ? header : lastEventId) || undefined
}
