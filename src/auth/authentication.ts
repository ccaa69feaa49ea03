import { GatewayError } from '../errors.ts'
import { fullAccess } from './access.ts'
import type { Caller, Credentials } from './caller.ts'

const anonymous: Caller = { principal: { id: 'anonymous' }, access: fullAccess('anonymous'), isCurrent: () => true }

/** Tells who sends an `Authorization` header. */
export type Authenticate = (authorization: string | undefined) => Caller | Promise<Caller>

/**
 * @param sources asked one after the other; with none, nobody is asked for credentials
 * @throws by the returned function, or rejects: {@link GatewayError} `unauthorized`, `auth_unavailable`
 */
export function createAuthenticate (sources: readonly Credentials[]): Authenticate {
  if (sources.length === 0) return () => anonymous
  const find = (token: string, from: number): Caller | Promise<Caller> => {
    for (let at = from; at < sources.length; at++) {
      const found = sources[at]!.find(token)
      if (found instanceof Promise) return found.then((caller) => caller ?? find(token, at + 1))
      if (found !== undefined) return found
    }
    throw unauthorized('The key or token is not valid.', 'unknown credentials')
  }
  return (authorization) => {
    if (authorization === undefined) throw unauthorized('Send a key or token as "Authorization: Bearer <key>".', 'no credentials', false)
    const token = /^Bearer +(\S+) *$/i.exec(authorization)?.[1]
    if (token === undefined) throw unauthorized('The Authorization header must be "Bearer" and a key or token.', 'malformed credentials')
    return find(token, 0)
  }
}

/** For credentials that were good when a request came, and are not any more. */
export function noLongerValid (): GatewayError {
  return unauthorized('The credentials are no longer valid.', 'expired or revoked meanwhile')
}

/**
 * @param message told to the caller
 * @param refusedFor told to the people who run this
 * @param isGiven whether it came with credentials at all (RFC 6750, section 3)
 */
export function unauthorized (message: string, refusedFor: string, isGiven = true): GatewayError {
  return new GatewayError('unauthorized', message, {
    headers: { 'www-authenticate': `Bearer realm="toolgate"${isGiven ? ', error="invalid_token"' : ''}` },
    refusedFor
  })
}
