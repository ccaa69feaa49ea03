import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyRequest } from 'fastify'
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
  }, async (request, reply): Promise<Readiness> => {
    const { credentials, invoker, store, tools: { registry, loadedAtMs, lastReloadFailed } } = app.toolgate
    const isReady = invoker.accepting && store.fault === undefined
    const reasons: Readiness['reasons'] = []
    if (!invoker.accepting) reasons.push({ code: 'shutting_down', message: 'The gateway is shutting down.' })
    if (store.fault !== undefined) reasons.push({ code: 'store_unavailable', message: `Calls cannot be recorded: ${store.fault}.` })
    // Why it failed stays in the log: this route is open to everyone.
    if (lastReloadFailed) reasons.push({ code: 'reload_failed', message: 'The last reload failed; the tools from before are served. The log says why.' })
    reasons.push(...credentials.flatMap(({ fault }) => fault ?? []))
    if (!isReady) reply.code(503)
    return {
      status: isReady ? 'ready' : 'not_ready',
      reasons,
      // Of tools that a caller may not see not even their number is told.
      ...await isAdmin(request) ? { tools: { count: registry.size, etag: registry.describe()!.etag, loadedAtMs } } : {}
    }
  })

  async function isAdmin (request: FastifyRequest): Promise<boolean> {
    try {
      app.toolgate.checkPage(request)
      return (await app.toolgate.authenticate(request.headers.authorization)).access.isAdmin
    } catch {
      return false
    }
  }
}

export default routes
