import type { FastifyRequest } from 'fastify'
import { GatewayError } from '../errors.ts'

/**
 * For a gateway that asks nobody for credentials: what is left to tell its callers from pages that a browser has open.
 *
 * @param corsOrigins origins whose pages may call; `*` for any
 * @throws by the returned function: {@link GatewayError} `forbidden`
 */
export function createPageCheck (corsOrigins: readonly string[]): (request: FastifyRequest) => void {
  // A key cannot be sent by a page that was not given it. Without one, any page that is open here could run tools.
  return (request) => {
    refuseForeignNames(request, corsOrigins)
    refuseForeignPages(request, corsOrigins)
  }
}

/** Browsers tell the page's origin with every request that could change something, even where they ask nobody first. */
function refuseForeignPages (request: FastifyRequest, corsOrigins: readonly string[]): void {
  const { origin, host } = request.headers
  if (origin === undefined || request.method !== 'POST') return
  if (corsOrigins.includes('*') || corsOrigins.includes(origin) || hostOf(origin) === host) return
  throw new GatewayError('forbidden', 'Pages of this origin may not call; TOOLGATE_CORS_ORIGINS allows origins.', { refusedFor: 'origin' })
}

const loopbackName = /^(localhost|127(\.\d{1,3}){3}|\[::1\])(:\d+)?$/i
const loopbackAddress = /^(127\.|::1$|::ffff:127\.)/

/**
 * On loopback a browser must call the gateway by a name of this machine, or one that is configured. A page whose own name
 * was made to resolve to 127.0.0.1 (DNS rebinding) is of the same origin as the gateway for its browser, and only the
 * name that it asks for gives it away. Every browser names itself Mozilla; other clients may call us what they like.
 */
function refuseForeignNames (request: FastifyRequest, corsOrigins: readonly string[]): void {
  const { host, origin, 'user-agent': userAgent } = request.headers
  if (host === undefined || loopbackName.test(host)) return
  if (origin === undefined && userAgent?.includes('Mozilla/') !== true) return
  const { localAddress } = request.raw.socket
  if (localAddress === undefined || !loopbackAddress.test(localAddress)) return
  if (corsOrigins.some((origin) => hostOf(origin) === host)) return
  throw new GatewayError('forbidden', 'The Host header must name this machine, as in localhost; or set TOOLGATE_API_KEY.', { refusedFor: 'host' })
}

function hostOf (origin: string): string | undefined {
  return URL.canParse(origin) ? new URL(origin).host : undefined
}
