import type { StoredEvent } from '../store.ts'
import { Batch, type Operation, type RunningCalls } from './operations.ts'

export interface TurnsOptions {
  running: RunningCalls
  /** Whether writes have to wait; then `flush` is to be called once they need not. */
  isHeld: () => boolean
  /** Writes to the file: all of it, or nothing and it throws. */
  commit: (operations: readonly Operation[]) => void
  /** @returns what the writers are told */
  onFailed: (cause: unknown) => Error
}

/** Bytes of text that wait for the end of a turn: one turn of a tool that reports without a pause can bring any number. */
const MOST_BYTES = 16 * 2 ** 20
/** Bytes that wait while writes are held. */
const MOST_HELD_BYTES = 64 * 2 ** 20

/** Gathers the writes of each turn of the event loop, and commits them as one; or as several, where there are so many. */
export class Turns {
  readonly #options: TurnsOptions
  readonly listeners = new Set<(event: StoredEvent) => void>()
  #batch: Batch | undefined

  constructor (options: TurnsOptions) {
    this.#options = options
  }

  /** What is written and not committed yet. */
  get batch (): Batch | undefined {
    return this.#batch
  }

  add (operation: Operation): Batch {
    if (this.#batch === undefined) {
      this.#batch = new Batch()
      setImmediate(this.flush)
    }
    const batch = this.#batch
    batch.add(operation)
    if (batch.bytes >= MOST_BYTES) this.flush()
    return batch
  }

  /** Whether so much waits already that what can be done without is better left. */
  get isFull (): boolean {
    return this.#batch !== undefined && this.#batch.bytes >= MOST_HELD_BYTES
  }

  /** Commits, tells the listeners in order, and then the writers. */
  readonly flush = (): void => {
    const batch = this.#batch
    const { running, isHeld, commit, onFailed } = this.#options
    if (batch === undefined || isHeld()) return
    this.#batch = undefined
    try {
      commit(batch.operations)
    } catch (cause) {
      for (const operation of batch.operations.reverse()) operation.undo(running)
      return batch.reject(onFailed(cause))
    }
    if (this.listeners.size > 0) this.#tell(batch)
    batch.resolve(undefined)
  }

  #tell (batch: Batch): void {
    for (const { event } of batch.operations) {
      if (event === undefined) continue
      for (const listener of this.listeners) listener(event)
    }
  }
}
