import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Liveness, Readiness } from '../../src/contract/health.ts'

export const autoPrefix = '/'

const routes: FastifyPluginAsyncTypebox = async (app) => {
  app.get('/livez', {
    config: { open: true },
    schema: { response: { 200: Liveness } }
  }, async () => ({ status: 'ok' as const }))

  app.get('/readyz', {
    config: { open: true },
    schema: { response: { 200: Readiness, 503: Readiness } }
  }, async (_request, reply): Promise<Readiness> => {
    if (app.toolgate.invoker.accepting) return { status: 'ready', reasons: [] }
    reply.code(503)
    return { status: 'not_ready', reasons: [{ code: 'shutting_down', message: 'The gateway is shutting down.' }] }
  })
}

export default routes
