import type { FastifyReply, FastifyRequest } from 'fastify'
import { GatewayError } from '../errors.ts'

/** Calls `cancel` when the caller hangs up. An answer that was sent whole is no hang-up, nor is a stream that we ended. */
export function onHangUp ({ raw }: FastifyReply, cancel: () => void): void {
  if (raw.destroyed) cancel()
  else raw.once('close', () => { if (!raw.writableFinished) cancel() })
}

/** @throws {GatewayError} `invalid_request` where the request has a query, which would be passed over in silence */
export function refuseQuery (request: FastifyRequest): void {
  if (request.raw.url!.includes('?')) throw new GatewayError('invalid_request', 'The query is not empty; this route takes none.')
}

const MAX_KEY_CHARACTERS = 256

/**
 * What the caller calls its call by, in case it sends it again.
 * @throws {GatewayError} `invalid_request` for a key that is empty or too long: one that is not honoured is worse than none
 */
export function idempotencyKeyOf (request: FastifyRequest): string | undefined {
  const key = headerOf(request, 'idempotency-key')
  if (key === undefined) return undefined
  if (key === '' || key.length > MAX_KEY_CHARACTERS) throw new GatewayError('invalid_request', `An Idempotency-Key has 1 to ${MAX_KEY_CHARACTERS} characters.`)
  return key
}

/** The one value of a header, or undefined. */
export function headerOf (request: FastifyRequest, name: string): string | undefined {
  const value = request.headers[name]
  return typeof value === 'string' ? value : undefined
}
