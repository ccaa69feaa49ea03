import { setImmediate as nextTurn } from 'node:timers/promises'

/** A page takes a millisecond or two. */
const PAGES_A_TURN = 2

/** Spreads the pages of replays: however many replays there are, each turn of the event loop has few of their pages. */
export class PageTurns {
  /** The last turn that somebody waits for, and how many more may. */
  #last: Promise<void> = Promise.resolve()
  #places = 0

  /** To be waited for before the next page. First come, first served. */
  next (): Promise<void> {
    if (this.#places === 0) {
      const turn = this.#last = this.#last.then(() => nextTurn())
      this.#places = PAGES_A_TURN
      void turn.then(() => { if (this.#last === turn) this.#places = 0 })
    }
    this.#places--
    return this.#last
  }
}
