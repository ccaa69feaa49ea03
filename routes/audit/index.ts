import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { AuditList, AuditQuery } from '../../src/contract/audit.ts'
import { sendText } from '../../src/http/answer.ts'
import { pageOfCalls } from '../../src/http/call-pages.ts'
import { assertAcceptsJson } from '../../src/http/event-stream.ts'
import { auditText } from '../../src/store/wire.ts'

const routes: FastifyPluginAsyncTypebox = async (app) => {
  app.get('/', { config: { scope: 'admin' }, schema: { querystring: AuditQuery, response: { 200: AuditList } } }, async (request, reply) => {
    assertAcceptsJson(request)
    const sight = request.caller.access.sight('admin')
    const { entries, nextCursor } = await pageOfCalls(app.toolgate.store, request.query, sight, ({ start, end }) => auditText(start, end, sight))
    return sendText(reply.header('cache-control', 'no-store'), `{"entries":${entries}${nextCursor}}`)
  })
}

export default routes
