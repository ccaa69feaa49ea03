/** An entry of the log, with the running totals up to and including it. */
export interface Entry {
  readonly place: number
  readonly atMs: number
  readonly count: number
  readonly bytes: number
}

/** Where the entries stand. Those past the floor are all there. */
export interface Entries {
  /** At most `limit` entries after `place`, in order. */
  after (place: number, limit: number): Entry[]
  /** The last entry that is not past `place`. */
  upTo (place: number): Entry | undefined
  /** The totals of all there are. */
  readonly total: Omit<Entry, 'atMs'>
}

export interface Bounds {
  readonly maxCount: number
  readonly maxBytes: number
  readonly maxAgeMs: number
}

const WINDOW = 512

/**
 * Up to where entries are gone, because newer ones are as many, as large or as young as may be kept. It only rises.
 * Whether the next has to go is a look at a window of entries held in memory; where a whole window has to, the place is
 * searched for by halves.
 */
export class Floor {
  readonly #entries: Entries
  readonly #bounds: Bounds
  #gone: Omit<Entry, 'atMs'>
  #window: readonly Entry[] = []
  #next = 0

  /** @param gone the last entry that is gone, with its totals */
  constructor (entries: Entries, bounds: Bounds, gone: Omit<Entry, 'atMs'>) {
    this.#entries = entries
    this.#bounds = bounds
    this.#gone = gone
  }

  /** The last entry that is gone. */
  get gone (): Omit<Entry, 'atMs'> {
    return this.#gone
  }

  /** Lets go of what has to. */
  advance (nowMs: number): void {
    let isSearched = false
    while (this.#gone.place < this.#entries.total.place) {
      if (this.#next === this.#window.length) {
        if (this.#window.length === WINDOW && !isSearched) {
          isSearched = true
          this.#search(nowMs)
        }
        this.#window = this.#entries.after(this.#gone.place, WINDOW)
        this.#next = 0
      }
      const next = this.#window[this.#next]
      if (next === undefined || !(this.#isOver(this.#gone) || next.atMs < nowMs - this.#bounds.maxAgeMs)) return
      this.#gone = next
      this.#next++
    }
  }

  /** Whether too much is left where all up to `entry` is gone. */
  #isOver (entry: Omit<Entry, 'atMs'>): boolean {
    const { total } = this.#entries
    return total.count - entry.count > this.#bounds.maxCount || total.bytes - entry.bytes > this.#bounds.maxBytes
  }

  #search (nowMs: number): void {
    let low = this.#gone.place
    let high = this.#entries.total.place
    while (low < high) {
      const entry = this.#entries.upTo(Math.ceil((low + high) / 2))
      if (entry === undefined || entry.place <= low) {
        // None between: places of records are not dense.
        low = Math.ceil((low + high) / 2)
      } else if (this.#isOver(entry) || entry.atMs < nowMs - this.#bounds.maxAgeMs) {
        this.#gone = entry
        low = Math.ceil((low + high) / 2)
      } else {
        high = Math.ceil((low + high) / 2) - 1
      }
    }
  }
}
