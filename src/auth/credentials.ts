import type { FastifyRequest } from 'fastify'
import { GatewayError } from '../errors.ts'
import type { Principal } from '../tools/tool.ts'
import { createAuthenticate } from './api-key.ts'

export interface CredentialOptions {
  /** Absent, nobody is asked for a key. */
  apiKey: string | undefined
  /** Origins whose pages may call; `*` for any. */
  corsOrigins: readonly string[]
}

/**
 * Tells who sends a request to a route that is not `open`.
 * @throws by the returned function: {@link GatewayError} `unauthorized`, `forbidden`
 */
export function createCredentialCheck ({ apiKey, corsOrigins }: CredentialOptions): (request: FastifyRequest) => Principal {
  const authenticate = createAuthenticate(apiKey)
  return (request) => {
    // A key cannot be sent by a page that was not given it. Without one, any page that is open here could run tools.
    if (apiKey === undefined) {
      refuseForeignNames(request, corsOrigins)
      refuseForeignPages(request, corsOrigins)
    }
    return authenticate(request.headers.authorization)
  }
}

/** Browsers tell the page's origin with every request that could change something, even where they ask nobody first. */
function refuseForeignPages (request: FastifyRequest, corsOrigins: readonly string[]): void {
  const { origin, host } = request.headers
  if (origin === undefined || request.method !== 'POST') return
  if (corsOrigins.includes('*') || corsOrigins.includes(origin) || hostOf(origin) === host) return
  throw new GatewayError('forbidden', 'Pages of this origin may not call; TOOLGATE_CORS_ORIGINS allows origins.')
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
  throw new GatewayError('forbidden', 'The Host header must name this machine, as in localhost; or set TOOLGATE_API_KEY.')
}

function hostOf (origin: string): string | undefined {
  return URL.canParse(origin) ? new URL(origin).host : undefined
}
