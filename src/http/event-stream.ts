import type { FastifyReply, FastifyRequest } from 'fastify'
import { GatewayError } from '../errors.ts'
import { ResponseSink } from '../events/sink.ts'
import * as sse from '../events/sse.ts'

/** With its charset, so that it is found by those who ask for that as well. */
export const jsonType = 'application/json; charset=utf-8'
export const eventStreamType = 'text/event-stream'

/**
 * Which of the types in `offered` the caller prefers (its `Accept`, by quality, then by order); the first where it has no
 * preference.
 * @throws {GatewayError} `not_acceptable` where it accepts none
 */
export function preferredType<T extends string> (request: FastifyRequest, offered: readonly [T, ...T[]]): T {
  const { accept } = request.headers
  if (accept === undefined || accept === '*/*' || accept === offered[0]) return offered[0]
  const chosen = request.accepts().type([...offered])
  if (chosen === false) throw new GatewayError('not_acceptable', `Accept ${offered.map((type) => type.split(';')[0]).join(' or ')}.`)
  return chosen as T
}

/**
 * Whether the caller prefers an event stream to `otherwise`.
 * @throws {GatewayError} `not_acceptable` where it accepts neither
 */
export function wantsStream (request: FastifyRequest, otherwise: string): boolean {
  return preferredType(request, [otherwise, eventStreamType]) === eventStreamType
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
