import type { Clock } from '../../clock.ts'
import type { Checkpoints } from './checkpoints.ts'
import type { Database } from './database.ts'
import { faultOf, isFull } from './faults.ts'
import { TOUCH } from './schema.ts'
import type { StoreFile } from './store-file.ts'

/** Between looks at whether a fault is over, milliseconds. */
const PROBE_MS = 1000

/** Whether the store can record, and the way back where it cannot: by the next write that succeeds, or a look from time to time. */
export class Health {
  readonly #file: StoreFile
  readonly #database: Database
  readonly #checkpoints: Checkpoints
  readonly #clock: Clock
  readonly #onFault: (fault: string | undefined) => void
  #fault: string | undefined
  #callOff: (() => void) | undefined
  #isClosed = false
  /** Whether room is to be looked for in the log: once a fault. */
  #isCramped = false
  /** The last look; it never rejects. */
  last: Promise<void> = Promise.resolve()

  /** @param onFault called when a fault begins, changes, or is over */
  constructor (file: StoreFile, database: Database, checkpoints: Checkpoints, clock: Clock, onFault: (fault: string | undefined) => void) {
    this.#file = file
    this.#database = database
    this.#checkpoints = checkpoints
    this.#clock = clock
    this.#onFault = onFault
  }

  /** Why nothing can be recorded, for people. */
  get fault (): string | undefined {
    return this.#fault
  }

  /** @returns the fault that it is */
  fail (error: unknown): string {
    const fault = faultOf(error)
    if (fault !== this.#fault) this.#isCramped = isFull(error)
    this.#set(fault)
    if (!this.#isClosed) this.#callOff ??= this.#clock.after(PROBE_MS, this.#probe)
    return fault
  }

  /** Something was written. */
  recover (): void {
    if (this.#fault === undefined) return
    this.#callOff?.()
    this.#callOff = undefined
    this.#set(undefined)
  }

  #set (fault: string | undefined): void {
    if (fault === this.#fault) return
    this.#fault = fault
    this.#onFault(fault)
  }

  /** Looks no more, but for a file that is gone: what was in it is put back even now. */
  close (): void {
    this.#isClosed = true
    this.#callOff?.()
    if (this.#file.isMissing) this.last = this.last.then(() => this.#look())
  }

  readonly #probe = (): void => {
    this.last = this.#look()
  }

  async #look (): Promise<void> {
    try {
      await this.#checkpoints.stop()
      await this.#file.repair()
      if (this.#database.connection !== this.#file.connection) this.#database.use(this.#file.connection)
      // What fills the disk may be the log itself, with pages that stand in it many times over.
      if (this.#isCramped) await this.#checkpoints.relieve()
      this.#isCramped = false
      this.#database.execute(TOUCH)
      this.#callOff = undefined
      this.#set(undefined)
    } catch (error) {
      this.#callOff = undefined
      this.fail(error)
    }
  }
}
