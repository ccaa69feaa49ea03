import type { CryptoKey, JWSHeaderParameters } from 'jose'
import type { Clock } from '../clock.ts'
import { GatewayError } from '../errors.ts'
import type { Log } from '../tools/tool.ts'
import { KeySet } from './key-set.ts'

/** Age at which the keys are fetched anew. */
const REFRESH_MS = 600_000
/** Time between two tries that keys nobody knows can cause; also after a try that failed while keys are held. */
const COOLDOWN_MS = 30_000
/** After a try that failed while none are held, as nobody with a token gets in until then. */
const RETRY_MS = 2000
const FETCH_TIMEOUT_MS = 5000
const MAX_SET_BYTES = 256 * 1024

export interface JwksOptions {
  jwksUrl: string
  clock: Clock
  log: Log
}

/** Why keys could not be fetched, in words for the log. */
class FetchFault extends Error {}

/**
 * The keys of the issuer of JWTs.
 *
 * Contract:
 * - They are fetched in the background from the start on. A try that fails changes nothing of the keys that are held.
 * - However many tokens ask for a key that is not held, they cause one fetch, and no other for a while.
 */
export class Jwks {
  readonly #url: string
  readonly #clock: Clock
  readonly #log: Log
  readonly #closing = new AbortController()
  #held: KeySet | undefined
  #fetching: Promise<void> | undefined
  #mayAskFrom = -Infinity
  #stopTimer = (): void => {}
  /** Of failures since the last success. */
  readonly #reasons = new Set<string>()

  /** @throws {GatewayError} `invalid_config` for a URL that keys cannot be trusted from */
  constructor ({ jwksUrl, clock, log }: JwksOptions) {
    assertTrustworthy(jwksUrl)
    this.#url = jwksUrl
    this.#clock = clock
    this.#log = log
    void this.#fetch()
  }

  /**
   * The keys that may have signed what has this header; none where no such key is known, even after asking again.
   * @throws {GatewayError} rejects: `auth_unavailable` while there never were any keys
   */
  async candidates (header: JWSHeaderParameters): Promise<CryptoKey[]> {
    if (this.#held === undefined) await this.#fetching
    if (this.#held === undefined) throw new GatewayError('auth_unavailable', 'The keys to check this token with cannot be had at the moment.', { refusedFor: 'token: no keys are held' })
    const found = await this.#held.candidates(header)
    if (found.length > 0) return found
    await this.#askAgain()
    return await this.#held.candidates(header)
  }

  /** Whether a key, by its identity, is one of those held. */
  holds (identity: string): boolean {
    return this.#held?.holds(identity) === true
  }

  async close (): Promise<void> {
    this.#closing.abort()
    this.#stopTimer()
    await this.#fetching
  }

  /** Waits for a fetch that is under way, or starts one where that may be. */
  async #askAgain (): Promise<void> {
    const now = this.#clock.monotonic()
    if (this.#fetching === undefined) {
      if (now < this.#mayAskFrom || this.#closing.signal.aborted) return
      this.#mayAskFrom = now + COOLDOWN_MS
    }
    await this.#fetch()
  }

  /** One at a time; never rejects. */
  #fetch (): Promise<void> {
    this.#fetching ??= this.#refresh().finally(() => { this.#fetching = undefined })
    return this.#fetching
  }

  async #refresh (): Promise<void> {
    this.#stopTimer()
    let delayMs = REFRESH_MS
    try {
      this.#use(setOf(await fetchText(this.#url, this.#clock, this.#closing.signal)))
    } catch (error) {
      if (this.#closing.signal.aborted) return
      this.#noteFailure(reasonOf(error))
      delayMs = this.#held === undefined ? RETRY_MS : COOLDOWN_MS
    }
    if (!this.#closing.signal.aborted) this.#stopTimer = this.#clock.after(delayMs, () => { void this.#fetch() })
  }

  #use (fetched: KeySet): void {
    this.#reasons.clear()
    if (fetched.text === this.#held?.text) return
    this.#held = fetched
    if (fetched.size > 0) this.#log.info({ keys: fetched.size }, 'the keys for JWTs were fetched')
    else this.#log.warn({}, 'the key set has no key that signatures can be checked with; every JWT is refused')
  }

  #noteFailure (reason: string): void {
    if (this.#reasons.has(reason)) return
    this.#reasons.add(reason)
    this.#log.warn({ reason, held: this.#held?.size ?? 0 }, 'the keys for JWTs could not be fetched')
  }
}

/** Who can change the answer on its way decides who gets in. */
function assertTrustworthy (url: string): void {
  const { protocol, hostname, username, password } = URL.canParse(url) ? new URL(url) : new URL('data:')
  const isLocal = /^(localhost|127(\.\d{1,3}){3}|\[::1\])$/.test(hostname)
  if (username === '' && password === '' && (protocol === 'https:' || (protocol === 'http:' && isLocal))) return
  throw new GatewayError('invalid_config', 'jwksUrl must be an https URL, or an http one on this machine, without a user or password.')
}

async function fetchText (url: string, clock: Clock, closing: AbortSignal): Promise<string> {
  const late = new AbortController()
  const callOff = clock.after(FETCH_TIMEOUT_MS, () => late.abort(new FetchFault(`no whole answer within ${FETCH_TIMEOUT_MS} ms`)))
  try {
    const response = await fetch(url, { redirect: 'manual', headers: { accept: 'application/json' }, signal: AbortSignal.any([closing, late.signal]) })
    if (response.status !== 200 || response.body === null) {
      await response.body?.cancel()
      throw new FetchFault(`status ${response.status}${response.status >= 300 && response.status < 400 ? '; redirects are not followed' : ''}`)
    }
    const chunks: Uint8Array[] = []
    let bytes = 0
    for await (const chunk of response.body) {
      bytes += chunk.length
      if (bytes > MAX_SET_BYTES) throw new FetchFault(`more than ${MAX_SET_BYTES} bytes`)
      chunks.push(chunk)
    }
    return Buffer.concat(chunks).toString()
  } finally {
    callOff()
  }
}

function setOf (text: string): KeySet {
  let content: unknown
  try {
    content = JSON.parse(text)
  } catch {
    throw new FetchFault('not JSON')
  }
  const keys = (content as { keys?: unknown } | null)?.keys
  if (!Array.isArray(keys)) throw new FetchFault('not a key set')
  return new KeySet(keys)
}

/** A code where there is one: messages of the network may hold addresses. */
function reasonOf (error: unknown): string {
  if (error instanceof FetchFault) return error.message
  const { name, code, cause } = error as NodeJS.ErrnoException
  return (cause as NodeJS.ErrnoException | undefined)?.code ?? code ?? name
}
