const HASHED_CHARACTERS = 12

/**
 * A bounded first-in-first-out of values found by a string key: what a Map with eviction from its front would be,
 * without its cost. Keys hash into chains held in typed arrays, so that adding and evicting allocates nothing.
 */
export class CallIndex<Value> {
  readonly #capacity: number
  readonly #keyOf: (value: Value) => string
  readonly #values: (Value | undefined)[]
  readonly #buckets: Int32Array
  readonly #next: Int32Array
  #added = 0
  #evicted = 0

  /** @param capacity values kept at most; the caller evicts before it adds to a full one */
  constructor (capacity: number, keyOf: (value: Value) => string) {
    this.#capacity = capacity
    this.#keyOf = keyOf
    this.#values = new Array<Value | undefined>(capacity).fill(undefined)
    this.#next = new Int32Array(capacity).fill(-1)
    this.#buckets = new Int32Array(2 ** Math.ceil(Math.log2(capacity * 2))).fill(-1)
  }

  get size (): number {
    return this.#added - this.#evicted
  }

  get full (): boolean {
    return this.size === this.#capacity
  }

  /** The oldest value held. */
  get oldest (): Value | undefined {
    return this.size === 0 ? undefined : this.#values[this.#evicted % this.#capacity]
  }

  add (value: Value): void {
    const slot = this.#added++ % this.#capacity
    const bucket = this.#bucketOf(this.#keyOf(value))
    this.#values[slot] = value
    this.#next[slot] = this.#buckets[bucket]!
    this.#buckets[bucket] = slot
  }

  get (key: string): Value | undefined {
    for (let slot = this.#buckets[this.#bucketOf(key)]!; slot !== -1; slot = this.#next[slot]!) {
      const value = this.#values[slot]!
      if (this.#keyOf(value) === key) return value
    }
    return undefined
  }

  /** Every value held, oldest first. */
  * [Symbol.iterator] (): IterableIterator<Value> {
    for (let at = this.#evicted; at < this.#added; at++) yield this.#values[at % this.#capacity]!
  }

  /** Drops the oldest value. */
  evict (): void {
    const slot = this.#evicted++ % this.#capacity
    const bucket = this.#bucketOf(this.#keyOf(this.#values[slot]!))
    if (this.#buckets[bucket] === slot) {
      this.#buckets[bucket] = this.#next[slot]!
    } else {
      let before = this.#buckets[bucket]!
      while (this.#next[before] !== slot) before = this.#next[before]!
      this.#next[before] = this.#next[slot]!
    }
    this.#values[slot] = undefined
  }

  /** Hashes the end of a key (FNV-1a): that is where ids are random. */
  #bucketOf (key: string): number {
    let hash = 0x811c9dc5
    for (let at = Math.max(0, key.length - HASHED_CHARACTERS); at < key.length; at++) hash = Math.imul(hash ^ key.charCodeAt(at), 0x01000193)
    return (hash ^ (hash >>> 15)) & (this.#buckets.length - 1)
  }
}
