import { GatewayError } from '../errors.ts'
import { singleKey } from './api-key.ts'
import type { Credentials } from './caller.ts'
import { Jwts, type JwtOptions } from './jwt.ts'
import { FileKeys } from './keys/file-keys.ts'
import { isKeyText } from './keys/key-text.ts'

export interface CredentialOptions extends Omit<JwtOptions, 'jwksUrl'> {
  apiKey: string | undefined
  /** The file of keys. */
  keysFile: string | undefined
  jwksUrl: string | undefined
}

/** Every kind of credentials that is configured. */
export interface OpenCredentials {
  /** Asked one after the other. With none, nobody is asked for credentials. */
  readonly sources: readonly Credentials[]
  close (): Promise<void>
}

/** @throws {GatewayError} rejects: `invalid_config` for options that do not go together, and for a file that cannot be used */
export async function openCredentials (options: CredentialOptions): Promise<OpenCredentials> {
  const { apiKey, keysFile, jwksUrl, jwtIssuer, jwtAudience, clock, log } = options
  if (jwksUrl === undefined && (jwtIssuer.length > 0 || jwtAudience.length > 0)) {
    throw new GatewayError('invalid_config', 'jwtIssuer and jwtAudience need jwksUrl.')
  }
  // It would be let in with all rights, and go on being so when it is revoked.
  if (apiKey !== undefined && isKeyText(apiKey)) throw new GatewayError('invalid_config', 'apiKey is a key of a keys file; those have the rights that the file gives them.')
  const keys = keysFile === undefined ? undefined : await FileKeys.open(keysFile, clock, log)
  const jwts = jwksUrl === undefined ? undefined : new Jwts({ ...options, jwksUrl })
  return {
    sources: [apiKey === undefined ? undefined : singleKey(apiKey), keys, jwts].filter((source) => source !== undefined),
    close: async () => { await Promise.all([keys?.close(), jwts?.close()]) }
  }
}
