import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { EventQuery } from '../../src/contract/event.ts'
import { filterOf } from '../../src/events/filter.ts'
import * as sse from '../../src/events/sse.ts'
import { openStream, wantsStream } from '../../src/http/event-stream.ts'

const routes: FastifyPluginAsyncTypebox = async (app) => {
  app.get('/', { schema: { querystring: EventQuery } }, async (request, reply) => {
    wantsStream(request)
    if (request.method === 'HEAD') return reply.headers(sse.headers).send()
    const { hub } = app.toolgate
    hub.assertRoom()
    const lastEventId = request.headers['last-event-id']
    hub.subscribe(openStream(reply), {
      filter: filterOf(request.query),
      view: request.query.view ?? 'full',
      after: (typeof lastEventId === 'string' && lastEventId !== '' ? lastEventId : request.query.lastEventId) || undefined
    })
    return reply
  })
}

export default routes
