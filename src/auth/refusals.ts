import { isIP } from 'node:net'
import type { FastifyRequest } from 'fastify'
import type { Clock } from '../clock.ts'
import type { GatewayError } from '../errors.ts'
import type { Log } from '../tools/tool.ts'

/** Lines a second: who tries keys as fast as it can is not to fill the disk. */
const LINES_A_SECOND = 100
/** Of a text that somebody else chose, in a line. */
const TEXT_LENGTH = 128

/** Logs attempts that were refused: whose, of what, and why. */
export class Refusals {
  readonly #log: Log
  readonly #clock: Clock
  #second = -1
  #lines = 0
  #left = 0

  constructor (log: Log, clock: Clock) {
    this.#log = log
    this.#clock = clock
  }

  /**
   * @param error of a refusal; others are passed over
   * @param toolId of a call among several; else the route's own says what it was about
   */
  note ({ code, refusedFor }: GatewayError, request: FastifyRequest, toolId?: string): void {
    if (refusedFor === undefined || !this.#hasRoom()) return
    const principal = (request.caller as FastifyRequest['caller'] | null)?.principal
    const { id } = request.params as { id?: string } | undefined ?? {}
    this.#log.warn({
      code,
      reason: refusedFor,
      principal: plain(principal?.id),
      // What it has, where that was not enough.
      ...code === 'forbidden' && principal?.scopes !== undefined ? { scopes: plain(principal.scopes.join(' ')) } : {},
      address: addressOf(request),
      method: request.method,
      route: request.routeOptions.url,
      about: plain(toolId ?? id)
    }, 'a request was refused')
  }

  #hasRoom (): boolean {
    const second = Math.floor(this.#clock.monotonic() / 1000)
    if (second !== this.#second) {
      this.#second = second
      this.#lines = 0
    }
    if (this.#lines++ < LINES_A_SECOND) return true
    if (this.#left++ === 0) this.#clock.after(1000, () => this.#tellLeft())
    return false
  }

  #tellLeft (): void {
    this.#log.warn({ count: this.#left }, 'more requests were refused than are logged')
    this.#left = 0
  }
}

/** What a trusted proxy forwards need not be an address; then it is the proxy's own that is known. */
function addressOf ({ ip, socket }: FastifyRequest): string | undefined {
  return isIP(ip) === 0 ? socket.remoteAddress : ip
}

/** A log is read in terminals: nothing in it moves the cursor or turns the order of what follows. */
function plain (text: string | undefined): string | undefined {
  return text?.slice(0, TEXT_LENGTH).replace(/[\p{C}\p{Zl}\p{Zp}]/gu, '\uFFFD')
}
