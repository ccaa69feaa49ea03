import { closeSync, existsSync, openSync, rmSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'

/**
 * Keeps a second gateway away from a file for as long as this process lives: a lock that the operating system holds on an
 * empty database beside it, and lets go of however the process ends. SQLite's error tells whether somebody else has it.
 */
export class Lock {
  readonly #path: string
  readonly #connection: DatabaseSync
  readonly #isMade: boolean

  constructor (path: string) {
    this.#path = path
    // Not if it is there: closing a file lets go of every lock that this process has on it.
    this.#isMade = !existsSync(path)
    if (this.#isMade) make(path)
    this.#connection = new DatabaseSync(path)
    try {
      this.#connection.exec('PRAGMA journal_mode = MEMORY; BEGIN EXCLUSIVE')
    } catch (error) {
      this.#connection.close()
      throw error
    }
  }

  release (): void {
    this.#connection.close()
  }

  /** Leaves no trace of having tried. */
  abandon (): void {
    this.release()
    if (this.#isMade) rmSync(this.#path, { force: true })
  }
}

function make (path: string): void {
  try {
    closeSync(openSync(path, 'wx', 0o600))
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
  }
}
