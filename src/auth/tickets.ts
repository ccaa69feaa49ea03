import { randomBytes } from 'node:crypto'
import type { Clock } from '../clock.ts'
import type { Ticket } from '../contract/ticket.ts'
import { GatewayError } from '../errors.ts'
import { unauthorized } from './authentication.ts'
import type { Caller } from './caller.ts'

/** Tickets of all callers that are not used yet. Who asks for so many keeps nobody else out for longer than they live. */
const MAX_TICKETS = 10_000
/** Of one caller. */
const MAX_OF_ONE = 100

interface Issued {
  readonly caller: Caller
  /** On the monotonic clock. */
  readonly until: number
}

/**
 * Short-lived stand-ins for credentials, for clients that cannot send headers. Each is good once, for what its holder may
 * read at that time, and no longer than the credentials that it was given for.
 */
export class Tickets {
  readonly #clock: Clock
  readonly #lifeMs: number
  /** In the order in which they were given, which is that in which they end. */
  readonly #issued = new Map<string, Issued>()
  readonly #counts = new Map<string, number>()

  constructor (clock: Clock, lifeMs: number) {
    this.#clock = clock
    this.#lifeMs = lifeMs
  }

  /** @throws {GatewayError} `rate_limited` where too many are not used yet */
  issue (caller: Caller): Ticket {
    const now = this.#clock.monotonic()
    for (const [ticket, { until }] of this.#issued) {
      if (until > now) break
      this.#take(ticket)
    }
    const { id } = caller.principal
    const count = this.#counts.get(id) ?? 0
    if (count >= MAX_OF_ONE || this.#issued.size >= MAX_TICKETS) throw new GatewayError('rate_limited', 'Too many tickets were asked for and not used.')
    const ticket = `tgt_${randomBytes(32).toString('base64url')}`
    this.#issued.set(ticket, { caller, until: now + this.#lifeMs })
    this.#counts.set(id, count + 1)
    return { ticket, expiresAtMs: this.#clock.now() + this.#lifeMs }
  }

  /** @throws {GatewayError} `unauthorized` for one that is none, used, or too old, and where its caller's credentials are gone */
  redeem (ticket: string): Caller {
    const issued = this.#take(ticket)
    if (issued === undefined || issued.until <= this.#clock.monotonic() || !issued.caller.isCurrent()) {
      throw unauthorized('The ticket is not valid. Each is good once, for a short time.', 'ticket')
    }
    return issued.caller
  }

  #take (ticket: string): Issued | undefined {
    const issued = this.#issued.get(ticket)
    if (issued === undefined) return undefined
    this.#issued.delete(ticket)
    const { id } = issued.caller.principal
    const left = this.#counts.get(id)! - 1
    if (left === 0) this.#counts.delete(id)
    else this.#counts.set(id, left)
    return issued
  }
}
