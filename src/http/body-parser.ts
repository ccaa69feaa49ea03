import type { FastifyInstance } from 'fastify'
import { GatewayError } from '../errors.ts'
import { parseJson } from '../json/parse.ts'

/** A body adds this many containers around the input that it carries, where its route does not say otherwise. */
const ENVELOPE_DEPTH = 1

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Containers that the route's body has around an input. */
    envelopeDepth?: number
  }
}

/**
 * Makes JSON the only body there is, parsed so that it can be passed on unchanged. Any other media type is refused
 * before a tool could run: a browser sends those across origins without asking.
 */
export function useJsonBodies (app: FastifyInstance, maxJsonDepth: number): void {
  app.removeAllContentTypeParsers()
  app.addContentTypeParser<Buffer>(
    /^application\/(?:[\w.!#$&^-]+\+)?json(?:\s*;|\s*$)/i,
    { parseAs: 'buffer' },
    (request, bytes, done) => {
      try {
        const encoding = request.headers['content-encoding']
        if (encoding !== undefined && encoding !== 'identity') {
          throw new GatewayError('unsupported_media_type', 'The body must not be compressed.')
        }
        done(null, bytes.length === 0 ? {} : parseBody(bytes, maxJsonDepth, request.routeOptions.config.envelopeDepth ?? ENVELOPE_DEPTH))
      } catch (error) {
        done(error as Error, undefined)
      }
    }
  )
}

/** Every body of ours is an object. A literal null is refused here, since later on it looks like no body at all. */
function parseBody (bytes: Buffer, maxJsonDepth: number, envelopeDepth: number): unknown {
  const body = parseJson(bytes, maxJsonDepth, envelopeDepth)
  if (body === null) throw new GatewayError('invalid_request', 'The body is null; it must be an object.')
  return body
}
