import type { Clock } from '../clock.ts'
import { GatewayError } from '../errors.ts'

/**
 * Who follows events, streams and polls: those that count share one bound, and at the end all of them are waited for.
 * Whoever enters has to leave, once.
 */
export class Room {
  readonly #max: number
  #inside = 0
  #counted = 0
  #closed = false
  #onEmpty: (() => void) | undefined

  constructor (max: number) {
    this.#max = max
  }

  /** How many are inside, those that do not count included. */
  get size (): number {
    return this.#inside
  }

  get isClosed (): boolean {
    return this.#closed
  }

  /** @throws {GatewayError} `shutting_down` */
  assertOpen (): void {
    if (this.#closed) throw new GatewayError('shutting_down', 'The gateway is shutting down.')
  }

  /** @throws {GatewayError} `shutting_down`, `too_many_subscribers` */
  assertPlace (): void {
    this.assertOpen()
    if (this.#counted >= this.#max) throw new GatewayError('too_many_subscribers', `The gateway takes ${this.#max} subscribers.`)
  }

  enter (counts: boolean): void {
    this.#inside++
    if (counts) this.#counted++
  }

  leave (counts: boolean): void {
    this.#inside--
    if (counts) this.#counted--
    if (this.#inside === 0) this.#onEmpty?.()
  }

  /** Nobody is to enter any more. */
  close (): void {
    this.#closed = true
  }

  /** Resolves once nobody is inside, or after `forMs`. */
  async emptied (clock: Clock, forMs: number): Promise<void> {
    if (this.#inside === 0) return
    await new Promise<void>((resolve) => {
      this.#onEmpty = resolve
      clock.after(forMs, resolve)
    })
  }
}
