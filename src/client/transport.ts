import { Problem } from '../contract/problem.ts'
import { ConnectionError, ProblemError, ProtocolError } from './errors.ts'
import { orAborted } from './lingering.ts'
import { lossOf } from './losses.ts'
import { backoffMs, elapsed, isPassing, MAX_TIMER_MS, retryAfterMs, type RetryPolicy } from './retry.ts'
import { assertShape } from './shapes.ts'

/** The key that the gateway asks for, or what gives it, asked before each request. */
export type Auth = string | (() => string | Promise<string>)

export interface TransportOptions {
  url: string
  auth?: Auth | undefined
  fetch: typeof fetch
  retry: RetryPolicy
}

/** One request. */
export interface Ask {
  method: 'GET' | 'POST'
  /** Below the gateway's URL, without a leading slash. */
  path: string
  headers?: Record<string, string>
  /** JSON text. */
  body?: string | undefined
  /** Hangs up. Of a stream it is listened to for good, so it has to be the reader's own, and to abort when that is done. */
  signal?: AbortSignal | undefined
  /** Ends the tries, and lets the one under way go on. Default: `signal`. */
  noMore?: AbortSignal | undefined
  /** Whether it may be sent again although it may have been taken: it changes nothing, or it has an idempotency key. */
  isRepeatable: boolean
  /** Time in which the whole answer has to be there, or a stream's headers, milliseconds. Default: 30,000, `null` for none. */
  patienceMs?: number | null | undefined
  /** Tries after the first, where not as many as the client is set to. */
  retries?: number
}

/** Makes of an answer what is wanted of it; `body` is undefined where there is none (204, 304). Throws where it cannot be. */
export type Take<T> = (body: unknown, head: Pick<Response, 'status' | 'headers'>) => T

/** Time for an answer that is there at once, milliseconds. */
export const PATIENCE_MS = 30_000
/** A gateway that asks for more than this before the next try is not waited for. */
const MAX_RETRY_AFTER_MS = 60_000
/** Tries, after the first, to hear of a call whose answer was lost: a gateway that starts again has its record in less time. */
const PERSISTENT_RETRIES = 8

/** Requests to one gateway: credentials, tries, and what their failures mean. Knows no route. */
export class Transport {
  readonly #base: URL
  readonly #options: TransportOptions

  /** @throws {TypeError} for a URL that cannot be a gateway's */
  constructor (options: TransportOptions) {
    this.#options = options
    this.#base = baseOf(options.url)
  }

  get retry (): RetryPolicy {
    return this.#options.retry
  }

  /** To the same gateway, with tries for half a minute where the client is set to try again at all. */
  get persistent (): Transport {
    const { retry } = this.#options
    return new Transport({ ...this.#options, retry: { ...retry, retries: retry.retries === 0 ? 0 : Math.max(retry.retries, PERSISTENT_RETRIES) } })
  }

  /**
   * Asks for JSON.
   * @throws {ProblemError} where the gateway refuses
   * @throws {ConnectionError} {ProtocolError} where there is no answer, or none of a gateway
   * @throws the reason of `signal`
   */
  async json<T> (ask: Ask, take: Take<T>): Promise<T> {
    return await this.#trying(ask, async () => await this.#once(ask, 'application/json', async (response) => take(await bodyOf(response), response)))
  }

  /**
   * Asks for an event stream.
   * @returns the response with its body still to come; undefined where there is nothing more to tell (204)
   * @throws as `json` does, but for what is cut later
   */
  async stream (ask: Ask): Promise<Response | undefined> {
    return await this.#trying(ask, async () => await this.#once(ask, 'text/event-stream', async (response) => {
      if (response.status === 204) return undefined
      if (response.status === 200 && typeOf(response) === 'text/event-stream' && response.body !== null) return response
      await bodyOf(response)
      throw unexpected(response)
    }, true))
  }

  /** Tries as often as is safe and allowed. */
  async #trying<T> (ask: Ask, attempt: () => Promise<T>): Promise<T> {
    const { retry } = this.#options
    const signal = ask.noMore ?? ask.signal
    signal?.throwIfAborted()
    for (let failures = 1; ; failures++) {
      try {
        return await attempt()
      } catch (error) {
        signal?.throwIfAborted()
        if (failures > (ask.retries ?? retry.retries) || !mayTryAgain(error, ask.isRepeatable)) throw error
        const asked = error instanceof ProblemError ? error.retryAfterMs : undefined
        if (asked !== undefined && asked > MAX_RETRY_AFTER_MS) throw error
        if (!await elapsed(Math.max(asked ?? 0, backoffMs(failures, retry, Math.random())), signal)) throw signal!.reason
      }
    }
  }

  /** One try. Nothing of it is left when it is over: no timer, no connection, no listener but that of a stream that is read. */
  async #once<T> (ask: Ask, accept: string, take: (response: Response) => Promise<T>, isStream = false): Promise<T> {
    const { method, path, body, signal, patienceMs = PATIENCE_MS } = ask
    const url = new URL(path, this.#base)
    const headers = await orAborted(this.#headers(ask, accept), signal)
    const hangUp = new AbortController()
    const onAbort = () => hangUp.abort(signal!.reason)
    let isLate = false
    const timer = patienceMs === null ? undefined : setTimeout(() => hangUp.abort(isLate = true), Math.min(patienceMs, MAX_TIMER_MS))
    let response: Response | undefined
    let isRead = false
    try {
      signal?.throwIfAborted()
      signal?.addEventListener('abort', onAbort)
      // A redirect would be followed with another method, or take the input to somebody else.
      const init: RequestInit = { method, headers, redirect: 'manual', signal: hangUp.signal }
      response = await orAborted(this.#options.fetch(url, body === undefined ? init : { ...init, body }), hangUp.signal)
      const taken = await orAborted(take(response), hangUp.signal)
      isRead = isStream
      return taken
    } catch (error) {
      if (signal?.aborted === true) throw signal.reason
      throw isLate
        ? new ConnectionError('interrupted', `${url.origin} did not answer within ${patienceMs} ms.`, { cause: error, invocationId: invocationIdOf(response) })
        : lossOf(error, url.origin, invocationIdOf(response))
    } finally {
      clearTimeout(timer)
      if (!isRead) signal?.removeEventListener('abort', onAbort)
    }
  }

  async #headers ({ headers: given, body }: Ask, accept: string): Promise<Headers> {
    const { auth } = this.#options
    const headers = new Headers({ accept, ...given })
    if (body !== undefined) headers.set('content-type', 'application/json')
    if (auth === undefined) return headers
    const key = typeof auth === 'string' ? auth : await auth()
    // A runtime's own message would hold the key, and a key that is missing would be sent as a word.
    if (typeof key !== 'string' || !/^[\x21-\x7e]*$/.test(key)) throw new TypeError('The key given as `auth` is no text that a header can carry.')
    headers.set('authorization', `Bearer ${key}`)
    return headers
  }
}

function baseOf (text: string): URL {
  let url: URL
  try {
    url = new URL(text)
  } catch (cause) {
    throw new TypeError(`The gateway's URL must be a whole one, as http://127.0.0.1:8080 is, and "${text}" is not.`, { cause })
  }
  if (!/^https?:$/.test(url.protocol)) throw new TypeError(`The gateway's URL must begin with http:// or https://, not with ${url.protocol}`)
  if (url.username !== '' || url.password !== '' || url.search !== '') throw new TypeError("The gateway's URL must have neither a query nor credentials; give a key as `auth`.")
  if (!url.pathname.endsWith('/')) url.pathname += '/'
  return url
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
  const { status } = response
  if (status === 204 || status === 304) return undefined
  const type = typeOf(response)
  if (type !== 'application/json' && type !== 'application/problem+json') throw unexpected(response)
  const text = await response.text()
  let body: unknown
  try {
    body = JSON.parse(text)
  } catch (cause) {
    throw new ProtocolError(`The answer is not JSON (HTTP ${status}).`, status, { cause })
  }
  if (type === 'application/json') return body
  const problem = assertShape(Problem, body, 'The refusal', status)
  // Proxies know this media type, too, and promise nothing of whether the tool ran.
  if (problem.type !== `urn:toolgate:problem:${problem.code}` || problem.status !== status) throw unexpected(response)
  throw new ProblemError(problem, retryAfterMs(response.headers.get('retry-after'), Date.now()))
}

function typeOf ({ headers }: Response): string | undefined {
  return headers.get('content-type')?.split(';')[0]!.trim().toLowerCase()
}

function invocationIdOf (response: Response | undefined): string | undefined {
  return response?.headers.get('toolgate-invocation-id') ?? undefined
}

/** Of an answer that is not read: it may have no end. */
function unexpected (response: Response): ProtocolError {
  if (!response.bodyUsed) response.body?.cancel().catch(() => {})
  const { status, type, headers } = response
  if (type === 'opaqueredirect' || (status >= 300 && status < 400)) {
    return new ProtocolError(`A gateway does not redirect; use the URL that it is at${headers.has('location') ? `: ${headers.get('location')}` : '.'}`, status)
  }
  return new ProtocolError(`This is no answer of a gateway: HTTP ${status}, ${typeOf(response) ?? 'without a content type'}.`, status)
}
