import type { FastifyRequest } from 'fastify'
import type { Clock } from '../clock.ts'
import type { GatewayError } from '../errors.ts'
import type { Log } from '../tools/tool.ts'

/** Lines a second: who tries keys as fast as it can is not to fill the disk. */
const LINES_A_SECOND = 100
/** Of an id that a caller chose, in a line. */
const ID_LENGTH = 128

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
    const { id } = request.params as { id?: string } | undefined ?? {}
    const about = toolId ?? id
    this.#log.warn({
      code,
      reason: refusedFor,
      principal: (request.caller as FastifyRequest['caller'] | null)?.principal.id,
      address: request.ip,
      method: request.method,
      route: request.routeOptions.url,
      about: about?.slice(0, ID_LENGTH)
    }, 'a request was refused')
  }

  #hasRoom (): boolean {
    const second = Math.floor(this.#clock.monotonic() / 1000)
    if (second !== this.#second) {
      if (this.#left > 0) this.#log.warn({ count: this.#left }, 'more requests were refused than are logged')
      this.#second = second
      this.#lines = this.#left = 0
    }
    if (this.#lines++ < LINES_A_SECOND) return true
    this.#left++
    return false
  }
}
