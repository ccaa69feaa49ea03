import { createHash, timingSafeEqual } from 'node:crypto'
import { GatewayError } from '../errors.ts'
import type { Principal } from '../tools/tool.ts'

export type Authenticate = (authorization: string | undefined) => Principal

const anonymous: Principal = { id: 'anonymous' }
const keyHolder: Principal = { id: 'api-key' }
const challenge = { headers: { 'www-authenticate': 'Bearer realm="toolgate"' } }

/**
 * Tells who sends an `Authorization` header. Without a key to ask for, everyone is anonymous.
 * Keys are compared in constant time, as digests, so that not even their length shows.
 *
 * @throws by the returned function: {@link GatewayError} `unauthorized`
 */
export function createAuthenticate (apiKey: string | undefined): Authenticate {
  if (apiKey === undefined) return () => anonymous
  const expected = digest(apiKey)
  return (authorization) => {
    if (authorization === undefined) throw new GatewayError('unauthorized', 'Send the key as "Authorization: Bearer <key>".', challenge)
    const token = /^Bearer +(\S+) *$/i.exec(authorization)?.[1]
    if (token === undefined || !timingSafeEqual(digest(token), expected)) {
      throw new GatewayError('unauthorized', 'The key is not valid.', challenge)
    }
    return keyHolder
  }
}

function digest (key: string): Buffer {
  return createHash('sha256').update(key).digest()
}
