import { setImmediate as nextTurn } from 'node:timers/promises'

/**
 * Spreads what is read in pages over the turns of the event loop: however many read, each turn has few of their pages, and
 * nothing else waits for more than these.
 */
export class PageTurns {
  readonly #pagesATurn: number
  /** The last turn that somebody waits for, and how many more may. */
  #last: Promise<void> = Promise.resolve()
  #places = 0

  constructor (pagesATurn: number) {
    this.#pagesATurn = pagesATurn
  }

  /** To be waited for before the next page. First come, first served. */
  next (): Promise<void> {
    if (this.#places === 0) {
      const turn = this.#last = this.#last.then(() => nextTurn())
      this.#places = this.#pagesATurn
      void turn.then(() => { if (this.#last === turn) this.#places = 0 })
    }
    this.#places--
    return this.#last
  }
}
