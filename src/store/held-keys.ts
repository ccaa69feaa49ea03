import { GatewayError } from '../errors.ts'
import type { KeyClaim } from './store.ts'

/** A key in use, with the record that it holds. */
export interface HeldKey<Held> extends KeyClaim {
  readonly call: Held
}

/**
 * Idempotency keys and the records that they hold, in memory. Keys come with rising times, so the first to come is the
 * first to go.
 */
export class HeldKeys<Held> {
  readonly #max: number
  readonly #keys = new Map<string, HeldKey<Held>>()
  readonly #onGone: (held: Held) => void

  /**
   * @param max keys held at most
   * @param onGone called with a record whose key is over
   */
  constructor (max: number, onGone: (held: Held) => void) {
    this.#max = max
    this.#onGone = onGone
  }

  get (scope: string, nowMs: number): HeldKey<Held> | undefined {
    this.trim(nowMs)
    return this.#keys.get(scope)
  }

  /** @throws {GatewayError} `overloaded` */
  hold (claim: KeyClaim, call: Held): void {
    if (this.#keys.size >= this.#max) throw keysExhausted()
    this.#keys.set(claim.scope, { ...claim, call })
  }

  /** For a call that ended without having executed. */
  release (scope: string): void {
    this.#keys.delete(scope)
  }

  /** Lets go of those whose time is over. */
  trim (nowMs: number): void {
    if (this.#keys.size === 0) return
    for (const [scope, { untilMs, call }] of this.#keys) {
      if (untilMs > nowMs) return
      this.#keys.delete(scope)
      this.#onGone(call)
    }
  }
}

/** No key is ever let go before its time: the retry that it is for would run the tool twice. */
export function keysExhausted (): GatewayError {
  return new GatewayError('overloaded', 'As many idempotency keys are in use as the store takes.')
}
