import type { FastifyInstance } from 'fastify'
import { parseJson } from '../json/parse.ts'

/** A body adds this many containers around the input that it carries. */
const ENVELOPE_DEPTH = 1

/**
 * Makes JSON the only body there is, parsed so that it can be passed on unchanged. Any other media type is refused
 * before a tool could run: a browser sends those across origins without asking.
 */
export function useJsonBodies (app: FastifyInstance, maxJsonDepth: number): void {
  app.removeAllContentTypeParsers()
  app.addContentTypeParser<Buffer>(
    /^application\/(?:[\w.!#$&^-]+\+)?json(?:\s*;|\s*$)/i,
    { parseAs: 'buffer' },
    (_request, bytes, done) => {
      try {
        done(null, bytes.length === 0 ? undefined : parseJson(bytes, maxJsonDepth + ENVELOPE_DEPTH))
      } catch (error) {
        done(error as Error, undefined)
      }
    }
  )
  app.addHook('preValidation', (request, _reply, done) => {
    if (request.body === undefined && request.method === 'POST') request.body = {}
    done()
  })
}
