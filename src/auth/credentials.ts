import { GatewayError } from '../errors.ts'
import { singleKey } from './api-key.ts'
import type { Credentials } from './caller.ts'
import { Jwts, type JwtOptions } from './jwt.ts'

export interface CredentialOptions extends Omit<JwtOptions, 'jwksUrl'> {
  apiKey: string | undefined
  jwksUrl: string | undefined
}

/** Every kind of credentials that is configured. */
export interface OpenCredentials {
  /** Asked one after the other. With none, nobody is asked for credentials. */
  readonly sources: readonly Credentials[]
  close (): Promise<void>
}

/** @throws {GatewayError} rejects: `invalid_config` for options that do not go together */
export async function openCredentials (options: CredentialOptions): Promise<OpenCredentials> {
  const { apiKey, jwksUrl, jwtIssuer, jwtAudience } = options
  if (jwksUrl === undefined && (jwtIssuer.length > 0 || jwtAudience.length > 0)) {
    throw new GatewayError('invalid_config', 'jwtIssuer and jwtAudience need jwksUrl.')
  }
  const jwts = jwksUrl === undefined ? undefined : new Jwts({ ...options, jwksUrl })
  return {
    sources: [
      ...(apiKey === undefined ? [] : [singleKey(apiKey)]),
      ...(jwts === undefined ? [] : [jwts])
    ],
    close: async () => { await jwts?.close() }
  }
}
