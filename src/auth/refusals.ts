import { isIP } from 'node:net'
import type { FastifyRequest } from 'fastify'
import type { Clock } from '../clock.ts'
import type { GatewayError } from '../errors.ts'
import type { Log } from '../tools/tool.ts'

/** Lines a second of those who are not known, and of each who is: who tries as fast as it can fills no disk, and hides nobody else. */
const LINES_OF_STRANGERS = 50
const LINES_OF_ONE = 20
/** Of all who are known together. Each has a first line beyond that, up to so many. */
const LINES_OF_KNOWN = 200
const FIRST_LINES = 1000
/** Of a text that somebody else chose, in a line. */
const TEXT_LENGTH = 128

/** Logs attempts that were refused: whose, of what, and why. */
export class Refusals {
  readonly #log: Log
  readonly #clock: Clock
  #second = -1
  /** Lines of this second, by caller. */
  readonly #lines = new Map<string | undefined, number>()
  #knownCount = 0
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
    const principal = (request.caller as FastifyRequest['caller'] | null)?.principal
    if (refusedFor === undefined || !this.#hasRoom(principal?.id)) return
    const { id } = request.params as { id?: string } | undefined ?? {}
    const line = {
      code,
      reason: refusedFor,
      principal: plain(principal?.id),
      // What it has, where that was not enough.
      ...code === 'forbidden' && principal?.scopes !== undefined ? { scopes: plain(principal.scopes.join(' ')) } : {},
      address: addressOf(request),
      method: request.method,
      route: request.routeOptions.url,
      about: plain(toolId ?? id)
    }
    // Once it is answered, so that nobody can tell by the time a line takes that something was hidden.
    setImmediate(() => this.#log.warn(line, 'a request was refused'))
  }

  #hasRoom (principalId: string | undefined): boolean {
    const second = Math.floor(this.#clock.monotonic() / 1000)
    if (second !== this.#second) {
      this.#second = second
      this.#knownCount = 0
      this.#lines.clear()
    }
    const lines = this.#lines.get(principalId) ?? 0
    const hasRoom = principalId === undefined
      ? lines < LINES_OF_STRANGERS
      : lines < LINES_OF_ONE && this.#knownCount < (lines === 0 ? FIRST_LINES : LINES_OF_KNOWN)
    if (hasRoom) {
      this.#lines.set(principalId, lines + 1)
      if (principalId !== undefined) this.#knownCount++
      return true
    }
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

/** Credentials that stand where they do not belong, as in a path. */
const secrets = /tg[kt]_\w{8}[\w-]*|eyJ[\w-]{8,}(\.[\w-]*)*/g

/** A log is read in terminals, and by others: nothing in it moves the cursor or turns the order of what follows, or lets anybody in. */
function plain (text: string | undefined): string | undefined {
  return text?.replace(secrets, '[secret]').slice(0, TEXT_LENGTH).replace(/[\p{C}\p{Zl}\p{Zp}]/gu, '\uFFFD')
}
