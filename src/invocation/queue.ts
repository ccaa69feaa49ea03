/** What has room for its place in a queue. An item stands in one queue at a time. */
export interface Linked<Item> {
  previous: Item | undefined
  next: Item | undefined
}

/**
 * Items in the order in which they came. They link to each other, so that one costs no entry of a set or an array, and
 * any of them can leave from wherever it stands, at once.
 */
export class Queue<Item extends Linked<Item>> {
  #first: Item | undefined
  #last: Item | undefined
  #size = 0

  /** The one that came first of those that are left. */
  get first (): Item | undefined {
    return this.#first
  }

  get size (): number {
    return this.#size
  }

  /** @param item one that stands in no queue */
  add (item: Item): void {
    item.previous = this.#last
    item.next = undefined
    if (this.#last === undefined) this.#first = item
    else this.#last.next = item
    this.#last = item
    this.#size++
  }

  /** @param item one that was added here and not yet deleted */
  delete (item: Item): void {
    const { previous, next } = item
    if (previous === undefined) this.#first = next
    else previous.next = next
    if (next === undefined) this.#last = previous
    else next.previous = previous
    item.previous = item.next = undefined
    this.#size--
  }

  /** Every item, oldest first. Items may be deleted meanwhile, but for the one that was given last. */
  * [Symbol.iterator] (): IterableIterator<Item> {
    for (let item = this.#first; item !== undefined; item = item.next) yield item
  }
}
