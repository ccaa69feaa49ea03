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
    if (apiKey === undefined) refuseForeignPages(request, corsOrigins)
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

function hostOf (origin: string): string | undefined {
  return URL.canParse(origin) ? new URL(origin).host : undefined
}
