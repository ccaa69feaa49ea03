import { Problem } from '../contract/problem.ts'
import { ClientError, ConnectionError, ProblemError, ProtocolError } from './errors.ts'
import { backoffMs, elapsed, isPassing, retryAfterMs, type RetryOptions } from './retry.ts'
import { assertShape } from './shapes.ts'

/** The key that the gateway asks for, or what gives it, asked before each request. */
export type Auth = string | (() => string | Promise<string>)

export interface TransportOptions {
  url: string
  auth?: Auth | undefined
  fetch: typeof fetch
  retry: Required<RetryOptions>
}

/** One request. */
export interface Ask {
  method: 'GET' | 'POST'
  /** Below the gateway's URL, without a leading slash. */
  path: string
  headers?: Record<string, string>
  /** JSON text. */
  body?: string | undefined
  signal?: AbortSignal | undefined
  /** Whether it may be sent again although it may have been taken: it changes nothing, or it has an idempotency key. */
  isRepeatable: boolean
  /** Time in which the whole answer has to be there, milliseconds. */
  patienceMs?: number | undefined
  /** Tries after the first, where not as many as the client is set to. */
  retries?: number
}

export interface Answer {
  status: number
  headers: Headers
  /** Parsed; undefined where there is none. */
  body: unknown
}

/** A gateway that asks for more than this before the next try is not waited for. */
const MAX_RETRY_AFTER_MS = 60_000

/** Requests to one gateway: credentials, tries, and what their failures mean. Knows no route. */
export class Transport {
  readonly #base: URL
  readonly #options: TransportOptions

  /** @throws {TypeError} for a URL that is none */
  constructor (options: TransportOptions) {
    this.#options = options
    this.#base = new URL(options.url)
    if (!/^https?:$/.test(this.#base.protocol)) throw new TypeError(`The gateway's URL must begin with http:// or https://, and "${options.url}" does not.`)
    if (!this.#base.pathname.endsWith('/')) this.#base.pathname += '/'
  }

  get retry (): Required<RetryOptions> {
    return this.#options.retry
  }

  /**
   * Asks for JSON.
   * @throws {ProblemError} where the gateway refuses
   * @throws {ConnectionError} {ProtocolError} where there is no answer, or none of a gateway
   * @throws the reason of `signal`
   */
  async json (ask: Ask): Promise<Answer> {
    return await this.#trying(ask, async (signal) => {
      const response = await this.#send(ask, signal, 'application/json')
      return { status: response.status, headers: response.headers, body: await bodyOf(response) }
    })
  }

  /**
   * Asks for an event stream.
   * @returns the response with its body still to come; undefined where there is nothing more to tell (204)
   * @throws as `json` does, but for what is cut later
   */
  async stream (ask: Ask): Promise<Response | undefined> {
    return await this.#trying(ask, async (signal) => {
      const response = await this.#send(ask, signal, 'text/event-stream')
      if (response.status === 204) return undefined
      if (response.status === 200 && typeOf(response) === 'text/event-stream' && response.body !== null) return response
      await bodyOf(response)
      throw unexpected(response)
    })
  }

  /** Tries as often as is safe and allowed. */
  async #trying<T> (ask: Ask, attempt: (signal: AbortSignal | undefined) => Promise<T>): Promise<T> {
    const { retry } = this.#options
    for (let failures = 1; ; failures++) {
      try {
        ask.signal?.throwIfAborted()
        return await attempt(ask.signal)
      } catch (error) {
        ask.signal?.throwIfAborted()
        if (failures > (ask.retries ?? retry.retries) || !mayTryAgain(error, ask.isRepeatable)) throw error
        const asked = error instanceof ProblemError ? error.retryAfterMs : undefined
        if (asked !== undefined && asked > MAX_RETRY_AFTER_MS) throw error
        if (!await elapsed(Math.max(asked ?? 0, backoffMs(failures, retry, Math.random())), ask.signal)) throw ask.signal!.reason
      }
    }
  }

  async #send (ask: Ask, signal: AbortSignal | undefined, accept: string): Promise<Response> {
    const { auth, fetch } = this.#options
    const headers = new Headers({ accept, ...ask.headers })
    if (ask.body !== undefined) headers.set('content-type', 'application/json')
    if (auth !== undefined) headers.set('authorization', `Bearer ${typeof auth === 'string' ? auth : await auth()}`)
    const url = new URL(ask.path, this.#base)
    const patience = ask.patienceMs === undefined ? undefined : AbortSignal.timeout(ask.patienceMs)
    const signals = [signal, patience].filter((each) => each !== undefined)
    const init: RequestInit = { method: ask.method, headers }
    if (ask.body !== undefined) init.body = ask.body
    if (signals.length > 0) init.signal = signals.length === 1 ? signals[0]! : AbortSignal.any(signals)
    try {
      return await fetch(url, init)
    } catch (cause) {
      signal?.throwIfAborted()
      if (patience?.aborted === true) throw new ConnectionError('interrupted', `${url.origin} did not answer within ${ask.patienceMs} ms.`, { cause })
      throw neverSent(cause)
        ? new ConnectionError('unreachable', `${url.origin} cannot be reached${reasonOf(cause)}.`, { cause })
        : new ConnectionError('interrupted', `The connection to ${url.origin} was lost${reasonOf(cause)}.`, { cause })
    }
  }
}

/**
 * The rule of the contract: 400 and above means that the tool did not run. It is the gateway's promise, so it holds for
 * answers that are the gateway's. What a proxy says in its place, and silence, may come after the tool began.
 */
export function mayTryAgain (error: unknown, isRepeatable: boolean): boolean {
  if (error instanceof ProblemError) return isPassing(error.code)
  if (error instanceof ConnectionError) return error.code === 'unreachable' || isRepeatable
  if (error instanceof ProtocolError) return isRepeatable && [502, 503, 504].includes(error.status)
  return false
}

/** @throws {ProblemError} for a refusal, whatever was asked for */
async function bodyOf (response: Response): Promise<unknown> {
  const type = typeOf(response)
  if (response.status === 204 || response.status === 304) return undefined
  let text: string
  try {
    text = await response.text()
  } catch (cause) {
    throw new ConnectionError('interrupted', `The answer was cut${reasonOf(cause)}.`, { cause, invocationId: response.headers.get('toolgate-invocation-id') ?? undefined })
  }
  if (type !== 'application/json' && type !== 'application/problem+json') throw unexpected(response)
  let body: unknown
  try {
    body = JSON.parse(text)
  } catch (cause) {
    throw new ProtocolError(`The answer is not JSON (HTTP ${response.status}).`, response.status, { cause })
  }
  if (type === 'application/json') return body
  const problem = assertShape(Problem, body, 'The refusal', response.status)
  // Proxies know this media type, too, and promise nothing of whether the tool ran.
  if (!problem.type.startsWith('urn:toolgate:problem:')) throw unexpected(response)
  throw new ProblemError(problem, retryAfterMs(response.headers.get('retry-after'), Date.now()))
}

function typeOf ({ headers }: Response): string | undefined {
  return headers.get('content-type')?.split(';')[0]!.trim().toLowerCase()
}

function unexpected (response: Response): ClientError {
  return new ProtocolError(`This is no answer of a gateway: HTTP ${response.status}, ${typeOf(response) ?? 'without a content type'}.`, response.status)
}

/** Failures before there was a connection, as Node names them. A browser does not tell. */
const connecting = new Set([
  'ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN', 'EHOSTUNREACH', 'ENETUNREACH', 'EADDRNOTAVAIL', 'UND_ERR_CONNECT_TIMEOUT',
  'CERT_HAS_EXPIRED', 'DEPTH_ZERO_SELF_SIGNED_CERT', 'ERR_TLS_CERT_ALTNAME_INVALID', 'SELF_SIGNED_CERT_IN_CHAIN', 'UNABLE_TO_VERIFY_LEAF_SIGNATURE'
])

function neverSent (error: unknown): boolean {
  const code = codeOf(error)
  return code !== undefined && connecting.has(code)
}

function codeOf (error: unknown): string | undefined {
  const { cause, code } = error as { cause?: { code?: unknown }, code?: unknown }
  return [cause?.code, code].find((each) => typeof each === 'string') as string | undefined
}

function reasonOf (error: unknown): string {
  const code = codeOf(error)
  return code === undefined ? '' : ` (${code})`
}
