import type { FastifyRequest } from 'fastify'
import { GatewayError } from '../errors.ts'

export interface PageRules {
  /** Origins whose pages may call; `*` for any. */
  corsOrigins: readonly string[]
  /** Names that the gateway goes by, beside those of this machine; with a port or for any. */
  allowedHosts: readonly string[]
  /** Whether nobody is asked for credentials. */
  isOpen: boolean
}

export type PageCheck = (request: FastifyRequest) => void

/**
 * Tells callers from pages that a browser has open. A key cannot be sent by a page that was not given it; without one, any
 * page could run tools.
 *
 * @throws by the returned function: {@link GatewayError} `forbidden`
 */
export function createPageCheck ({ corsOrigins, allowedHosts, isOpen }: PageRules): PageCheck {
  const isNamed = createNameCheck(allowedHosts, corsOrigins)
  const holdsEverywhere = allowedHosts.length > 0
  return (request) => {
    if (!isOpen && !holdsEverywhere) return
    const { host } = request.headers
    // Only what speaks HTTP/1.0 comes without one, and no browser does.
    if (host !== undefined && !isNamed(host) && (holdsEverywhere || isOnLoopback(request))) throw foreignName()
    if (isOpen) refuseForeignPages(request, corsOrigins)
  }
}

/** Browsers tell the page's origin with every request whose answer it could read, or that could change something. */
function refuseForeignPages ({ headers: { origin, host } }: FastifyRequest, corsOrigins: readonly string[]): void {
  if (origin === undefined || corsOrigins.includes('*') || corsOrigins.includes(origin) || (host !== undefined && hostOf(origin) === host)) return
  throw new GatewayError('forbidden', 'Pages of this origin may not call; TOOLGATE_CORS_ORIGINS allows origins.', { refusedFor: 'origin' })
}

const loopbackName = /^(([\w-]+\.)*localhost\.?|127(\.\d{1,3}){3}|\[::1\])(:\d+)?$/i
const loopbackAddress = /^(127\.|::1$|::ffff:127\.)/

/**
 * A page whose own name was made to resolve to 127.0.0.1 (DNS rebinding) is of the same origin as the gateway for its
 * browser, and only the name that it asks for gives it away. Names of this machine are nobody else's.
 */
function createNameCheck (allowedHosts: readonly string[], corsOrigins: readonly string[]): (host: string) => boolean {
  const allowed = new Set(allowedHosts.map((host) => host.toLowerCase()))
  const ofOrigins = new Set(corsOrigins.map(hostOf))
  return (given) => {
    if (loopbackName.test(given)) return true
    const host = given.toLowerCase()
    return allowed.has(host) || allowed.has(host.replace(/:\d+$/, '')) || ofOrigins.has(host)
  }
}

/** A connection that is gone no longer tells. */
function isOnLoopback ({ raw: { socket } }: FastifyRequest): boolean {
  return socket.destroyed || loopbackAddress.test(socket.localAddress ?? '')
}

function foreignName (): GatewayError {
  return new GatewayError('forbidden', 'The Host header must name this machine, as in localhost; TOOLGATE_ALLOWED_HOSTS allows other names.', { refusedFor: 'host' })
}

function hostOf (origin: string): string | undefined {
  return URL.canParse(origin) ? new URL(origin).host : undefined
}
