import assert from 'node:assert/strict'
import { request } from 'node:http'
import { connect, type AddressInfo } from 'node:net'
import type { FastifyInstance } from 'fastify'
import { createGateway, type GatewayOptions } from '../../src/gateway.ts'
import type { AnyTool } from '../../src/tools/registry.ts'

/** What a test context and a suite have in common here. */
export interface Scope {
  after (run: () => unknown): void
}

export interface RunningGateway {
  app: FastifyInstance
  url: string
  port: number
}

/** A gateway on a free port of the loopback, gone when the test is over. */
export async function startGateway (t: Scope, options: GatewayOptions = {}): Promise<RunningGateway> {
  const app = createGateway({ logger: false, shutdownGraceMs: 200, ...options })
  t.after(async () => {
    app.server.closeAllConnections()
    await within(app.close(), 'the close')
  })
  await app.listen({ port: 0, host: '127.0.0.1' })
  const { port } = app.server.address() as AddressInfo
  return { app, url: `http://127.0.0.1:${port}`, port }
}

/** A tool of Toolgate's own shape that takes anything; `more` wins. */
export function tool (id: string, execute: (...args: any[]) => unknown, more: object = {}): AnyTool {
  return { id, description: id, kind: 'test', parameters: {}, execute, ...more } as AnyTool
}

/** Returns its input as `structuredContent`. */
export const echo = tool('echo', (_id: string, input: unknown) => ({ structuredContent: input }))

export interface Answer {
  status: number
  headers: Headers
  /** The parsed JSON, or undefined where the body is not JSON. */
  body: any
  text: string
}

/** `GET`s, or whatever `init` says, with the body parsed. */
export async function send (url: string, init: RequestInit = {}): Promise<Answer> {
  const patience = AbortSignal.timeout(20_000)
  const response = await fetch(url, { ...init, signal: init.signal == null ? patience : AbortSignal.any([init.signal, patience]) })
  const text = await response.text()
  const isJson = /json/.test(response.headers.get('content-type') ?? '') && text !== ''
  return { status: response.status, headers: response.headers, body: isJson ? JSON.parse(text) : undefined, text }
}

/** Runs a tool. `input` undefined sends no input; `more` are further fields of the body. */
export function invoke (
  { url }: { url: string },
  toolId: string,
  input?: unknown,
  { headers = {}, ...more }: { headers?: Record<string, string> } & Record<string, unknown> = {}
): Promise<Answer> {
  return send(`${url}/tools/${toolId}/invoke`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify({ ...(input === undefined ? {} : { input }), ...more })
  })
}

/** Waits until `condition` gives something truthy, and returns that. */
export async function waitFor<T> (condition: () => T | Promise<T>, what: string, deadlineMs = 5000): Promise<Exclude<T, false | null | undefined>> {
  const end = performance.now() + deadlineMs
  for (;;) {
    const value = await condition()
    if (value) return value as Exclude<T, false | null | undefined>
    if (performance.now() > end) assert.fail(`not within ${deadlineMs} ms: ${what}`)
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
}

/** `promise`, or a failure that names what was waited for. */
export async function within<T> (promise: Promise<T>, what: string, deadlineMs = 5000): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(new Error(`not within ${deadlineMs} ms: ${what}`)), deadlineMs)
  })
  try {
    return await Promise.race([promise, late])
  } finally {
    clearTimeout(timer)
  }
}

export interface Gate<T = void> {
  /** For tools and hooks that wait for as long as the test likes. */
  promise: Promise<T>
  open: (value: T) => void
  /** For the test itself, which does not wait for ever. */
  reached: (what: string) => Promise<T>
}

/** A point that a test and its tools wait for. */
export function gate<T = void> (): Gate<T> {
  const { promise, resolve } = Promise.withResolvers<T>()
  return { promise, open: resolve, reached: (what) => within(promise, what) }
}

/** Sends bytes over a plain socket and gives back all that came until the other side closed, or until `enough`. */
export function exchange (port: number, bytes: string | Buffer | Buffer[], enough: (text: string) => boolean = () => false): Promise<string> {
  return within(new Promise<string>((resolve, reject) => {
    const socket = connect(port, '127.0.0.1')
    let text = ''
    const done = () => {
      socket.destroy()
      resolve(text)
    }
    socket.on('data', (chunk) => {
      text += chunk.toString('latin1')
      if (enough(text)) done()
    })
    socket.on('close', done)
    // A refusal may come with a reset while we still write; what was received counts.
    socket.on('error', (error) => { if (text === '') reject(error) })
    for (const part of [bytes].flat()) socket.write(part)
  }), 'an answer on a plain socket', 10_000)
}

/** The first response in what a plain socket received. */
export function parseResponse (text: string): { status: number, headers: Record<string, string>, body: string } {
  const [head, ...rest] = text.split('\r\n\r\n')
  const [statusLine, ...lines] = head!.split('\r\n')
  const headers = Object.fromEntries(lines.map((line) => [line.slice(0, line.indexOf(':')).toLowerCase(), line.slice(line.indexOf(':') + 1).trim()]))
  return { status: Number(statusLine!.split(' ')[1]), headers, body: rest.join('\r\n\r\n') }
}

/** Asserts that an answer is a problem with this status and code, in the contract's shape and nothing beyond it. */
export function assertProblem (answer: { status: number, headers: Headers | Record<string, string>, body: any }, status: number, code: string): void {
  const body = typeof answer.body === 'string' ? JSON.parse(answer.body) : answer.body
  const type = answer.headers instanceof Headers ? answer.headers.get('content-type') : answer.headers['content-type']
  assert.deepEqual({ status: answer.status, code: body?.code, type: type?.split(';')[0] }, { status, code, type: 'application/problem+json' })
  assert.equal(body.status, status)
  for (const name of ['type', 'title', 'detail']) assert.equal(typeof body[name], 'string', name)
  const extra = Object.keys(body).filter((key) => !['type', 'title', 'status', 'detail', 'code', 'errors'].includes(key))
  assert.deepEqual(extra, [], 'members beyond the contract')
  assert.doesNotMatch(JSON.stringify(body), /node_modules|\.ts:|\/src\/|at \w+ \(/, 'a stack or a path')
}

/** A POST by hand, for tests that end the connection themselves. */
export function rawInvoke (port: number, toolId: string, body: string, headers: Record<string, string> = {}) {
  const call = request({ port, host: '127.0.0.1', path: `/tools/${toolId}/invoke`, method: 'POST', agent: false, headers: { 'content-type': 'application/json', ...headers } })
  call.on('error', () => {}) // ended on purpose
  call.end(body)
  return call
}
