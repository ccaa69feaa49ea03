import type { FastifyReply, FastifyRequest } from 'fastify'
import { GatewayError } from '../errors.ts'
import { ResponseSink } from '../events/sink.ts'
import * as sse from '../events/sse.ts'

const eventStream = 'text/event-stream'

/**
 * Whether the caller prefers an event stream to `otherwise` (its `Accept`, by quality, then by order).
 * @throws {GatewayError} `not_acceptable` where it accepts neither
 */
export function wantsStream (request: FastifyRequest, otherwise?: string): boolean {
  const { accept } = request.headers
  if (otherwise !== undefined && (accept === undefined || accept === '*/*' || accept === otherwise)) return false
  const offered = otherwise === undefined ? [eventStream] : [otherwise, eventStream]
  const chosen = request.accepts().type(offered)
  if (chosen === false) throw new GatewayError('not_acceptable', `Accept ${offered.join(' or ')}.`)
  return chosen === eventStream
}

/** Takes the response over for a stream: status and headers go out at once. */
export function openStream (reply: FastifyReply, headers: Record<string, string> = {}): ResponseSink {
  reply.hijack()
  // What plugins set (CORS) belongs on a stream, too.
  reply.raw.writeHead(200, { ...reply.getHeaders() as Record<string, string>, ...sse.headers, ...headers })
  reply.raw.flushHeaders()
  return new ResponseSink(reply.raw)
}
