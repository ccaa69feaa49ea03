import { createServer, request as httpRequest, type IncomingMessage, type ServerResponse } from 'node:http'
import { connect, createServer as createTcpServer, type AddressInfo, type Server, type Socket } from 'node:net'
import { createClient, type Client, type ClientOptions } from '../../../src/client.ts'
import type { Scope } from '../../e2e/harness.ts'

/** Servers and proxies that do what no gateway does. */

/** Tries again at once, so that nobody waits. */
export const atOnce = { minDelayMs: 1, maxDelayMs: 2 }

export function clientOf ({ url }: { url: string }, options: Partial<ClientOptions> = {}): Client {
  return createClient({ url, retry: atOnce, ...options })
}

async function listening (t: Scope, server: Server, port = 0): Promise<{ url: string, port: number }> {
  const sockets = new Set<Socket>()
  server.on('connection', (socket) => {
    sockets.add(socket)
    socket.on('error', () => {}) // cut on purpose
    socket.on('close', () => sockets.delete(socket))
  })
  t.after(() => new Promise((resolve) => {
    server.close(resolve)
    for (const socket of sockets) socket.destroy()
  }))
  await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve))
  const address = server.address() as AddressInfo
  return { url: `http://127.0.0.1:${address.port}`, port: address.port }
}

/** What a request was, with its body read. */
export interface Seen { method: string, url: string, headers: IncomingMessage['headers'], body: string }

/** An HTTP server that answers as `answer` says, and keeps what it was asked. */
export async function serverOf (t: Scope, answer: (request: Seen, response: ServerResponse, count: number) => unknown, port = 0) {
  const seen: Seen[] = []
  const server = createServer(async (request, response) => {
    let body = ''
    try {
      for await (const chunk of request) body += chunk
    } catch {
      return // hung up
    }
    const one = { method: request.method!, url: request.url!, headers: request.headers, body }
    await answer(one, response, seen.push(one))
  })
  return { ...await listening(t, server, port), seen, server }
}

/** JSON, whatever it is. */
export function sendJson (response: ServerResponse, body: unknown, status = 200, headers: Record<string, string> = {}): void {
  response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(typeof body === 'string' ? body : JSON.stringify(body))
}

/** A server of bare sockets. */
export async function socketsOf (t: Scope, onSocket: (socket: Socket, count: number) => void) {
  let count = 0
  return await listening(t, createTcpServer({ allowHalfOpen: false }, (socket) => onSocket(socket, ++count)))
}

/** What a proxy does to one connection: how many bytes of the answers go through before it is cut, or whether it is reset at the first byte of a request. */
export interface Fault { cutAfterBytes?: number, isReset?: boolean }

/** Passes bytes on to a gateway; `faultOf` says what becomes of a connection, by its number from 1. */
export async function byteProxy (t: Scope, port: number, faultOf: (count: number) => Fault | undefined) {
  let connections = 0
  const proxy = await socketsOf(t, (near, count) => {
    connections = count
    const { cutAfterBytes = Infinity, isReset = false } = faultOf(count) ?? {}
    // Once it is connected: before that, nothing would have been sent.
    if (isReset) return near.once('data', () => near.resetAndDestroy())
    const far = connect(port, '127.0.0.1')
    let passed = 0
    far.on('error', () => near.destroy())
    near.on('close', () => far.destroy())
    far.on('close', () => near.destroy())
    near.on('data', (chunk) => far.write(chunk))
    far.on('data', (chunk) => {
      const room = cutAfterBytes - passed
      passed += chunk.length
      if (room > chunk.length) near.write(chunk)
      else near.end(chunk.subarray(0, Math.max(0, room)))
    })
  })
  return { ...proxy, get connections () { return connections } }
}

/** Passes requests on to a gateway below a path prefix; `intercept` may answer in its place, before or after it was asked. */
export async function httpProxy (
  t: Scope, gatewayUrl: string, { prefix = '', intercept = () => undefined }: { prefix?: string, intercept?: (request: Seen, response: ServerResponse, count: number) => 'instead' | 'after' | undefined } = {}
) {
  return await serverOf(t, (seen, response, count) => {
    const how = intercept(seen, response, count)
    if (how === 'instead') return
    if (!seen.url.startsWith(prefix)) return response.writeHead(404, { 'content-type': 'text/html' }).end('<h1>Not here</h1>')
    const passed = httpRequest(gatewayUrl + seen.url.slice(prefix.length), { method: seen.method, headers: seen.headers, agent: false }, (answer) => {
      if (how === 'after') return answer.resume().on('end', () => response.emit('answered'))
      response.writeHead(answer.statusCode!, answer.headers)
      response.flushHeaders()
      answer.pipe(response)
    })
    passed.on('error', () => response.destroy())
    response.on('close', () => passed.destroy())
    passed.end(seen.body)
  })
}

/** What `promise` rejects with. */
export async function rejection (promise: Promise<unknown>): Promise<any> {
  let value: unknown
  try {
    value = await promise
  } catch (error) {
    return error
  }
  throw new Error(`did not reject, but gave ${JSON.stringify(value)}`)
}

/** What each of `promises` rejects with. */
export async function rejections (promises: Promise<unknown>[]): Promise<any[]> {
  return await Promise.all(promises.map(rejection))
}

/** A receipt that keeps the contract. */
export function receipt (more: object = {}) {
  return { invocationId: 'i1', toolId: 'echo', toolCallId: 'i1', kind: 'test', status: 'succeeded', startedAtMs: 1, durationMs: 1, spanId: '0123456789abcdef', ...more }
}

/** An answer that keeps the contract. */
export function answer (more: object = {}, about: object = {}) {
  return { content: [], details: null, isError: false, ...more, invocation: receipt(about) }
}
