import type { Clock } from '../clock.ts'
import type { Maybe, Store } from '../store/store.ts'
import type { Call } from './call.ts'
import { STORE_RETRY_MS } from './limits.ts'

interface MarkOptions {
  store: Store
  clock: Clock
}

/**
 * Marks calls as about to execute. No call executes before that is on record, or recovery would run it a second time.
 *
 * A call that has begun cannot be refused any more. While its mark cannot be recorded it waits, for as long as it was
 * given, as it would wait for a slot.
 */
export class Marks {
  readonly #options: MarkOptions

  constructor (options: MarkOptions) {
    this.#options = options
  }

  /**
   * Never throws or rejects. Whoever goes on looks whether the call has settled meanwhile.
   * @returns true, so that a mark can be told from none
   */
  set (call: Call): Maybe<true> {
    try {
      const marked = this.#options.store.mark(call.invocationId)
      return marked instanceof Promise ? marked.then(() => true, () => this.#tryAgain(call)) : true
    } catch {
      return this.#tryAgain(call)
    }
  }

  async #tryAgain (call: Call): Promise<true> {
    const { store, clock } = this.#options
    while (!call.isSettled) {
      await new Promise<void>((resolve) => { clock.after(STORE_RETRY_MS, resolve) })
      try {
        if (!call.isSettled) await store.mark(call.invocationId)
        return true
      } catch {
        // The store says why, where it is asked.
      }
    }
    return true
  }
}
