import type { FastifyCorsOptions } from '@fastify/cors'
import type { FastifyInstance, FastifyRequest } from 'fastify'

/**
 * What browsers are told with every answer. It is data, so whatever it is taken for, it loads and runs nothing and stands in
 * no frame. Pages of other origins that may call ask with CORS, which `cross-origin-resource-policy` does not concern.
 */
export const browserHeaders = {
  'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
  'cross-origin-resource-policy': 'same-origin',
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY'
} as const

/** Sets them before anything else can answer. A route that serves pages sets its own over them, by `reply.header`. */
export function useBrowserHeaders (app: FastifyInstance): void {
  app.addHook('onRequest', (_request, reply, done) => {
    reply.headers(browserHeaders)
    done()
  })
}

/** For an answer that no hook comes before: what it has to carry, CORS included. */
export function headersWithoutHooks ({ headers }: FastifyRequest, corsOrigins: readonly string[]): Record<string, string> {
  const { origin } = headers
  const allowed = corsOrigins.includes('*') ? '*' : corsOrigins.find((listed) => listed === origin)
  return { ...browserHeaders, ...allowed === undefined ? {} : { 'access-control-allow-origin': allowed, vary: 'Origin' } }
}

/** Without anything for `Access-Control-Request-Private-Network`: browsers that look after local networks ask their users instead. */
export function corsOptions (origins: readonly string[]): FastifyCorsOptions {
  return {
    origin: origins.includes('*') ? '*' : [...origins],
    methods: ['GET', 'HEAD', 'POST'],
    exposedHeaders: [
      'ETag', 'Location', 'Preference-Applied', 'Retry-After', 'WWW-Authenticate',
      'Idempotency-Replayed', 'Toolgate-Invocation-Id', 'Toolgate-Status', 'Toolgate-Error-Code'
    ],
    maxAge: 600,
    strictPreflight: false
  }
}
