import type { FastifyReply, FastifyRequest } from 'fastify'
import { GatewayError } from '../errors.ts'

/**
 * Calls `cancel` when the caller hangs up. The response closes in any case; once a call has settled, cancelling it has no
 * effect: so an ordinary end is no hang-up.
 */
export function onHangUp ({ raw }: FastifyReply, cancel: () => void): void {
  if (raw.destroyed) cancel()
  else raw.once('close', cancel)
}

/**
 * Refuses what would otherwise be passed over in silence. A key that is not honoured is worse than none: the retry that
 * it is for would run the tool twice.
 * @throws {GatewayError} `invalid_request` for a query, `not_supported` for an Idempotency-Key
 */
export function refuseUnsupported (request: FastifyRequest, keyRefusal = 'Idempotency-Key is not supported yet; send the call without it.'): void {
  if (request.raw.url!.includes('?')) throw new GatewayError('invalid_request', 'The query is not empty; this route takes none.')
  if (request.headers['idempotency-key'] !== undefined) throw new GatewayError('not_supported', keyRefusal)
}

/** The one value of a header, or undefined. */
export function headerOf (request: FastifyRequest, name: string): string | undefined {
  const value = request.headers[name]
  return typeof value === 'string' ? value : undefined
}
