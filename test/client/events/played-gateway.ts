import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Scope } from '../../e2e/harness.ts'

/** How one request is answered. */
export type Scene = (response: ServerResponse, request: IncomingMessage) => void

export interface PlayedGateway {
  url: string
  /** Each request, with the time it came at. */
  asked: { url: string, headers: IncomingHttpHeaders, atMs: number }[]
  /** Requests whose connection has been closed by either side, in the order of the closing. */
  closed: string[]
}

/** What listens in the place of a gateway, and answers the first request with the first scene and so on; the last one is for all that follow. */
export async function playGateway (t: Scope, ...scenes: [Scene, ...Scene[]]): Promise<PlayedGateway> {
  const asked: PlayedGateway['asked'] = []
  const closed: string[] = []
  const server = createServer((request, response) => {
    const scene = scenes[Math.min(asked.length, scenes.length - 1)]!
    asked.push({ url: request.url!, headers: request.headers, atMs: performance.now() })
    response.on('error', () => {})
    response.once('close', () => closed.push(request.url!))
    scene(response, request)
  })
  t.after(() => {
    server.closeAllConnections()
    server.close()
  })
  await new Promise<void>((resolve) => { server.listen(0, '127.0.0.1', resolve) })
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, asked, closed }
}

/** A stream of these pieces, which then stands until the other side leaves it. */
export function streams (...pieces: (string | Uint8Array)[]): Scene {
  return (response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    response.flushHeaders()
    for (const piece of pieces) response.write(piece)
  }
}

/** A stream of these pieces, which ends as a whole one. */
export function ends (...pieces: (string | Uint8Array)[]): Scene {
  return (response, request) => {
    streams(...pieces)(response, request)
    response.end()
  }
}

/** A stream of these pieces, and then no connection any more. */
export function cuts (...pieces: string[]): Scene {
  return (response, request) => {
    streams()(response, request)
    response.write(pieces.join(''), () => response.socket!.resetAndDestroy())
  }
}

/** Any other answer. */
export function says (status: number, body: string, headers: Record<string, string> = {}): Scene {
  return (response) => { response.writeHead(status, headers).end(body) }
}

/** A refusal of the gateway. */
export function refuses (status: number, code: string, headers: Record<string, string> = {}): Scene {
  const problem = { type: `urn:toolgate:problem:${code}`, title: code, status, detail: `This is ${code}.`, code }
  return says(status, JSON.stringify(problem), { 'content-type': 'application/problem+json', ...headers })
}
