import { STATUS_CODES, type ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { FastifyError, FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { GatewayError, toProblem, type ProblemCode } from '../errors.ts'
import type { Log } from '../tools/tool.ts'
import { browserHeaders, headersWithoutHooks } from './browser-headers.ts'

export const problemType = 'application/problem+json'

/** Answers with the problem that `error` is. */
export function sendProblem (reply: FastifyReply, error: GatewayError): FastifyReply {
  const { problem, headers } = toProblem(error)
  if (problem.code === 'shutting_down') headers.connection = 'close'
  // Whoever refuses: RFC 9110, section 15.5.2 has every 401 say how to get in.
  if (problem.code === 'unauthorized') headers['www-authenticate'] ??= 'Bearer realm="toolgate", error="invalid_token"'
  return reply.code(problem.status).headers(headers).type(problemType).send(JSON.stringify(problem))
}

export interface ProblemLimits {
  maxBodyBytes: number
}

/**
 * Gives every refusal of the framework and the router the contract's shape.
 * @param onRefusal told of what is refused by the gateway's own rules
 */
export function useProblems (
  app: FastifyInstance, limits: ProblemLimits, log: Log, onRefusal: (error: GatewayError, request: FastifyRequest) => void
): void {
  const methods = collectMethods(app)

  app.server.on('checkExpectation', (_request, response: ServerResponse) => {
    const { problem } = toProblem(new GatewayError('expectation_failed', 'Only 100-continue can be expected.'))
    const body = JSON.stringify(problem)
    response.writeHead(problem.status, { ...browserHeaders, 'content-type': problemType, 'content-length': Buffer.byteLength(body) }).end(body)
  })
  app.setErrorHandler((error: FastifyError | GatewayError, request, reply) => {
    if (error instanceof GatewayError) {
      if (error.code === 'not_recorded') return hangUp(reply)
      onRefusal(error, request)
    }
    // Closed while the rest of a body is still coming, the connection would be reset, and the refusal lost with it. Kept, the
    // rest is read and dropped, for as long as a request may take to arrive.
    if (error.code === 'FST_ERR_CTP_BODY_TOO_LARGE') reply.removeHeader('connection')
    return sendProblem(reply, translate(error, request, limits, log))
  })
  app.setNotFoundHandler((request, reply) => sendProblem(reply, notFound(request, methods.values())))
}

/**
 * Refuses a first line that is too long, and a request without a Host where HTTP/1.1 wants one.
 * @throws {GatewayError} `url_too_long`, `malformed_http`
 */
export function checkRequestLine ({ raw }: FastifyRequest, maxUrlBytes: number): void {
  if (raw.url !== undefined && raw.url.length > maxUrlBytes) {
    throw new GatewayError('url_too_long', `The URL is over the limit of ${maxUrlBytes} bytes.`)
  }
  if (raw.headers.host === undefined && raw.httpVersion !== '1.0') throw new GatewayError('malformed_http', 'The Host header is missing.')
}

/** For URLs that the router cannot even read: no hook runs. */
export function createFrameworkErrors (corsOrigins: readonly string[]) {
  return (error: FastifyError, request: FastifyRequest, reply: FastifyReply): void => {
    reply.headers(headersWithoutHooks(request, corsOrigins))
    sendProblem(reply, new GatewayError(error.code === 'FST_ERR_BAD_URL' ? 'invalid_request' : 'not_found', 'The URL is not valid.'))
  }
}

/** No status would be true: the tool may have run, and may be run again. To its caller this is a crash, as it is to the call. */
function hangUp (reply: FastifyReply): void {
  reply.hijack()
  reply.raw.destroy()
}

/** For bytes that are not a request at all: Node has no response to answer with, only the socket. */
export function clientErrorHandler (error: NodeJS.ErrnoException, socket: Socket): void {
  if (error.code === 'ECONNRESET' || socket.destroyed || !socket.writable) {
    socket.destroy()
    return
  }
  const { problem } = toProblem(new GatewayError(...clientErrors[error.code ?? ''] ?? (['malformed_http', 'The request is not valid HTTP.'] as const)))
  const body = JSON.stringify(problem)
  const headers = { ...browserHeaders, 'content-type': problemType, 'content-length': Buffer.byteLength(body), connection: 'close' }
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`)
  socket.end(`HTTP/1.1 ${problem.status} ${STATUS_CODES[problem.status]}\r\n${lines.join('')}\r\n${body}`)
}

const clientErrors: Record<string, readonly [ProblemCode, string]> = {
  HPE_HEADER_OVERFLOW: ['headers_too_large', 'The headers are over the size limit.'],
  ERR_HTTP_REQUEST_TIMEOUT: ['request_timeout', 'The request did not arrive in time.']
}

function translate (error: FastifyError | GatewayError, request: FastifyRequest, limits: ProblemLimits, log: Log): GatewayError {
  if (error instanceof GatewayError) {
    if (toProblem(error).problem.code === 'internal_error') log.error({ err: error, route: request.routeOptions.url }, 'a request failed')
    return error
  }
  if (error.validation !== undefined) {
    const where = error.validationContext === 'querystring' ? 'query' : error.validationContext ?? 'request'
    const errors = error.validation.map(({ instancePath, message }) => ({ path: instancePath, keyword: 'schema', message: message ?? 'is not valid' }))
    const lines = errors.map(({ path, message }) => `${path || '/'}: ${message}`)
    return new GatewayError('invalid_request', `The ${where} is not valid. ${lines.join('; ')}`, { errors })
  }
  switch (error.code) {
    case 'FST_ERR_CTP_BODY_TOO_LARGE':
      return new GatewayError('body_too_large', `The body is over the limit of ${limits.maxBodyBytes} bytes.`)
    case 'FST_ERR_CTP_INVALID_MEDIA_TYPE':
      return new GatewayError('unsupported_media_type', 'The body must be JSON, with Content-Type: application/json.')
  }
  if (error.statusCode !== undefined && error.statusCode < 500) return new GatewayError('invalid_request', error.message)
  log.error({ err: error, route: request.routeOptions.url }, 'a request failed')
  return new GatewayError('internal_error', 'The gateway failed to handle the request.')
}

function notFound (request: FastifyRequest, routes: Iterable<RouteMethods>): GatewayError {
  const path = request.url.split('?', 1)[0]!
  const allowed = [...routes].filter((route) => route.pattern.test(path)).flatMap((route) => [...route.methods])
  if (allowed.length === 0) return new GatewayError('not_found', `There is no route ${request.method} ${path.slice(0, 200)}.`)
  const allow = [...new Set(allowed)].sort().join(', ')
  return new GatewayError('method_not_allowed', `${request.method} is not allowed here. Allowed: ${allow}.`, { headers: { allow } })
}

interface RouteMethods {
  pattern: RegExp
  methods: Set<string>
}

/** Which methods each path takes, so that a wrong one can be told from a wrong path. Filled as routes are added. */
function collectMethods (app: FastifyInstance): ReadonlyMap<string, RouteMethods> {
  const routes = new Map<string, RouteMethods>()
  app.addHook('onRoute', ({ url, method }) => {
    const pattern = `^${url.replace(/[.*+?^${}()|[\]\\]/g, '\\$&').replace(/:[^/]+/g, '[^/]+')}$`
    const route = routes.get(pattern) ?? { pattern: new RegExp(pattern), methods: new Set<string>() }
    for (const name of [method].flat()) route.methods.add(name)
    routes.set(pattern, route)
  })
  return routes
}
