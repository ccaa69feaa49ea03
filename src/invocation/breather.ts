import { setImmediate as nextTurn } from 'node:timers/promises'

/** So many child calls may follow one another before timers, sockets and probes get their turn. */
const STARTS_A_TURN = 50

/**
 * Makes child calls let the event loop turn. One that ends may start the next in the same step, and so on: without a pause
 * a run of them would keep the thread to itself for as long as it goes on, timeouts included.
 */
export class Breather {
  #starts = 0
  #turn: Promise<void> | undefined

  /** To be waited for before a child call starts; undefined where there is nothing to wait for. */
  pause (): Promise<void> | undefined {
    if (this.#turn === undefined && ++this.#starts <= STARTS_A_TURN) return undefined
    this.#turn ??= nextTurn().then(() => {
      this.#turn = undefined
      this.#starts = 0
    })
    return this.#turn
  }
}
