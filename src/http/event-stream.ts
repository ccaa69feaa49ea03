import type { FastifyReply, FastifyRequest } from 'fastify'
import { GatewayError } from '../errors.ts'
import { ResponseSink } from '../events/sink.ts'
import * as sse from '../events/sse.ts'

export const jsonType = 'application/json; charset=utf-8'
/** With the charset and without, so that those who ask for it find it as well. */
const jsonTypes = ['application/json', jsonType]
const eventStreamType = 'text/event-stream'

/**
 * Whether the caller prefers an event stream to JSON (its `Accept`, by quality, then by order).
 *
 * @param isDefault what it gets where it has no preference
 * @throws {GatewayError} `not_acceptable` where it accepts neither
 */
export function wantsStream (request: FastifyRequest, isDefault: boolean): boolean {
  const { accept } = request.headers
  if (accept === undefined || accept === '*/*') return isDefault
  // As most say it.
  if (accept === 'application/json') return false
  const chosen = request.accepts().type(isDefault ? [eventStreamType, ...jsonTypes] : [...jsonTypes, eventStreamType])
  if (chosen === false) throw new GatewayError('not_acceptable', `Accept application/json or ${eventStreamType}.`)
  return chosen === eventStreamType
}

/** @throws {GatewayError} `not_acceptable` where the caller does not accept JSON */
export function assertAcceptsJson (request: FastifyRequest): void {
  if (request.accepts().type(jsonTypes) === false) throw new GatewayError('not_acceptable', 'Accept application/json.')
}

/** @throws {GatewayError} `not_acceptable` where the caller does not accept an event stream */
export function assertAcceptsStream (request: FastifyRequest): void {
  if (request.accepts().type([eventStreamType]) === false) throw new GatewayError('not_acceptable', `Accept ${eventStreamType}.`)
}

/** Says that the answer depends on `Accept`, beside what plugins (CORS) say that it depends on. */
export function varyByAccept (reply: FastifyReply): void {
  const vary = reply.getHeader('vary')
  reply.header('vary', vary === undefined ? 'accept' : `${[vary].flat().join(', ')}, accept`)
}

/** Takes the response over for a stream: status and headers go out at once. */
export function openStream (reply: FastifyReply, headers: Record<string, string> = {}): ResponseSink {
  reply.hijack()
  // What plugins set (CORS) belongs on a stream, too.
  reply.raw.writeHead(200, { ...reply.getHeaders() as Record<string, string>, ...sse.headers, ...headers })
  reply.raw.flushHeaders()
  return new ResponseSink(reply.raw)
}
