import type { Clock } from '../clock.ts'
import { Queue, type Linked } from './queue.ts'

/** A sweep looks at every item. So many are swept once a millisecond; more of them less often, at the same cost. */
const ITEMS_A_MS = 1000

/** What has a deadline, and room for its place among the others. */
export interface Dated<Item> extends Linked<Item> {
  /** On the clock's monotonic scale, milliseconds; Infinity for none. */
  deadline: number
}

/**
 * The running calls in the order in which they came, and their deadlines with one timer for all: it stands at the
 * earliest deadline seen, and a call that ends leaves it as it is. So a call costs neither a timer nor a set entry.
 */
export class Deadlines<Item extends Dated<Item>> {
  readonly #clock: Clock
  readonly #expire: (item: Item) => void
  readonly #items = new Queue<Item>()
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

  /** @param item one that was added and not yet deleted */
  delete (item: Item): void {
    this.#items.delete(item)
    item.deadline = Infinity
  }

  /** Every item that has not been deleted, oldest first. */
  [Symbol.iterator] (): IterableIterator<Item> {
    return this.#items[Symbol.iterator]()
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
    for (const item of [...this]) {
      if (item.deadline <= now) {
        item.deadline = Infinity
        this.#expire(item)
      } else if (item.deadline < next) {
        next = item.deadline
      }
    }
    if (next < this.#armedFor) this.#arm(Math.max(next, now + this.size / ITEMS_A_MS))
  }
}
