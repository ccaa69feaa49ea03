import type { JsonValue } from '../contract/json.ts'

interface Bounds { calls: number, length: number }

/**
 * The arguments of calls that run, by `invocationId`: of 10,000 at most, and no more than 16 MiB of JSON text beside the
 * last. The oldest go first. A call whose arguments are not to be had is kept as well, as undefined.
 */
export class RecentArguments {
  readonly #bounds: Bounds
  readonly #calls = new Map<string, { args: JsonValue | undefined, length: number }>()
  #length = 0

  constructor (bounds: Bounds = { calls: 10_000, length: 16 * 1024 * 1024 }) {
    this.#bounds = bounds
  }

  has (invocationId: string): boolean {
    return this.#calls.has(invocationId)
  }

  get (invocationId: string): JsonValue | undefined {
    return this.#calls.get(invocationId)?.args
  }

  set (invocationId: string, args: JsonValue | undefined): void {
    this.delete(invocationId)
    const length = args === undefined ? 0 : JSON.stringify(args).length
    this.#calls.set(invocationId, { args, length })
    this.#length += length
    for (const oldest of this.#calls.keys()) {
      if (this.#calls.size === 1 || (this.#calls.size <= this.#bounds.calls && this.#length <= this.#bounds.length)) return
      this.delete(oldest)
    }
  }

  delete (invocationId: string): void {
    this.#length -= this.#calls.get(invocationId)?.length ?? 0
    this.#calls.delete(invocationId)
  }
}
