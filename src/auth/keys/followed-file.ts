import { stat } from 'node:fs/promises'
import type { Clock } from '../../clock.ts'

/** How often it is looked whether the file has changed, milliseconds. */
export const LOOK_MS = 250
/**
 * Time after a change in which the file is read at every look, milliseconds. Two writes can have one stamp where the file
 * system tells time in steps, of a second on some.
 */
const SETTLE_MS = 2000

export interface FollowedFileOptions {
  path: string
  clock: Clock
  /** Reads the file and uses what is in it. Rejects where it cannot. */
  read: () => Promise<void>
  /** Told once for each reason, in words, in which `read` rejects. */
  onFault: (reason: string) => void
  /** Told when it can be read again. */
  onMended: () => void
}

/**
 * Reads a file again when it has changed, in whatever way: written in place, replaced, a link on the way to it swapped, as
 * Kubernetes does with what it mounts. It is looked at in place of being watched, as watching misses changes on mounts
 * and behind links.
 */
export class FollowedFile {
  readonly #options: FollowedFileOptions
  #stamp = ''
  #settledAt = -Infinity
  /** Set by one look that failed: the file may be half written. The next one tells. */
  #isSuspect = false
  #fault: string | undefined
  #callOff: () => void = () => {}
  #look: Promise<void> = Promise.resolve()
  #isClosed = false

  constructor (options: FollowedFileOptions) {
    this.#options = options
  }

  /** Reads the file for the first time, and follows it from then on. Rejects where it cannot be read. */
  async open (): Promise<void> {
    // Before the file: what changes in between is seen at the next look.
    await this.#hasChanged()
    await this.#options.read()
    this.#schedule()
  }

  /** Why the file cannot be used at the moment. */
  get fault (): string | undefined {
    return this.#fault
  }

  /** Nothing is read any more. */
  async close (): Promise<void> {
    this.#isClosed = true
    this.#callOff()
    await this.#look
  }

  #schedule (): void {
    if (this.#isClosed) return
    this.#callOff = this.#options.clock.after(LOOK_MS, () => {
      this.#look = this.#lookAgain().then(() => this.#schedule())
    })
  }

  async #lookAgain (): Promise<void> {
    const isDue = await this.#hasChanged() || this.#isSuspect || this.#options.clock.monotonic() <= this.#settledAt
    if (!isDue || this.#isClosed) return
    try {
      await this.#options.read()
      if (this.#fault !== undefined) this.#options.onMended()
      this.#fault = undefined
      this.#isSuspect = false
    } catch (error) {
      const reason = (error as Error).message
      if (this.#isSuspect && reason !== this.#fault) {
        this.#fault = reason
        this.#options.onFault(reason)
      }
      this.#isSuspect = true
    }
  }

  async #hasChanged (): Promise<boolean> {
    const stamp = await stampOf(this.#options.path)
    if (stamp === this.#stamp) return false
    this.#stamp = stamp
    this.#settledAt = this.#options.clock.monotonic() + SETTLE_MS
    return true
  }
}

async function stampOf (path: string): Promise<string> {
  try {
    const { dev, ino, size, mtimeNs, ctimeNs } = await stat(path, { bigint: true })
    return [dev, ino, size, mtimeNs, ctimeNs].join(' ')
  } catch (error) {
    return (error as NodeJS.ErrnoException).code ?? ''
  }
}
