import type { Clock } from '../clock.ts'

export interface Dated {
  /** On the clock's monotonic scale, milliseconds; Infinity for none. */
  deadline: number
}

/**
 * The deadlines of all running calls, with one timer: it stands at the earliest deadline seen, and a call that ends
 * leaves it as it is. So a call costs a set entry, not a timer.
 */
export class Deadlines<Item extends Dated> {
  readonly #clock: Clock
  readonly #expire: (item: Item) => void
  readonly #items = new Set<Item>()
  #armedFor = Infinity
  #disarm: () => void = () => {}

  /** @param expire called once for each item whose deadline has passed; the item stays, without a deadline, until it is deleted */
  constructor (clock: Clock, expire: (item: Item) => void) {
    this.#clock = clock
    this.#expire = expire
  }

  add (item: Item): void {
    this.#items.add(item)
    if (item.deadline < this.#armedFor) this.#arm(item.deadline)
  }

  delete (item: Item): void {
    this.#items.delete(item)
  }

  /** Every item that has not been deleted, oldest first. */
  [Symbol.iterator] (): IterableIterator<Item> {
    return this.#items.values()
  }

  get size (): number {
    return this.#items.size
  }

  #arm (deadline: number): void {
    this.#disarm()
    this.#armedFor = deadline
    this.#disarm = this.#clock.after(Math.max(0, Math.ceil(deadline - this.#clock.monotonic())), () => this.#sweep())
  }

  #sweep (): void {
    const now = this.#clock.monotonic()
    let next = Infinity
    this.#armedFor = Infinity
    for (const item of [...this.#items]) {
      if (item.deadline <= now) {
        item.deadline = Infinity
        this.#expire(item)
      } else if (item.deadline < next) {
        next = item.deadline
      }
    }
    if (next < this.#armedFor) this.#arm(next)
  }
}
