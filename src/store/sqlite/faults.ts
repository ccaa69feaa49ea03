import { GatewayError } from '../../errors.ts'
import { statSync } from 'node:fs'

const BUSY = 5
const READONLY = 8
const IOERR = 10
const CORRUPT = 11
const FULL = 13
const CANTOPEN = 14
const NOTADB = 26

/** SQLite's primary result code. */
function codeOf (error: unknown): number | undefined {
  const { errcode } = error as { errcode?: number }
  return errcode === undefined ? undefined : errcode & 0xff
}

export function isBusy (error: unknown): boolean {
  return codeOf(error) === BUSY
}

export function isFull (error: unknown): boolean {
  return codeOf(error) === FULL
}

/** Why the file is not what it was when it was opened. */
export class FileFault extends Error {}

/** What an error means for the people who run this: without paths, as routes show it. */
export function faultOf (error: unknown): string {
  if (error instanceof FileFault) return error.message
  switch (codeOf(error)) {
    case FULL: return 'the disk is full'
    case IOERR: return 'the file of the store cannot be read or written'
    case READONLY: return 'the file of the store cannot be written'
    case CANTOPEN: return 'the file of the store cannot be opened'
    case CORRUPT: case NOTADB: return 'the file of the store is damaged'
    case BUSY: return 'another program is writing to the file of the store'
    default: return 'writing to the store failed'
  }
}

export type FileState = 'same' | 'missing' | 'other'

/** Which file stands at a path: it may be deleted or replaced under a process that has it open. */
export class FileIdentity {
  readonly #path: string
  readonly #device: number
  readonly #inode: number
  /** Its size at the last look, in bytes. */
  size: number

  constructor (path: string) {
    const { dev, ino, size } = statSync(path)
    this.#path = path
    this.#device = dev
    this.#inode = ino
    this.size = size
  }

  get state (): FileState {
    const found = statSync(this.#path, { throwIfNoEntry: false })
    if (found === undefined) return 'missing'
    this.size = found.size
    return found.dev === this.#device && found.ino === this.#inode ? 'same' : 'other'
  }
}

export function unavailable (fault: string, cause?: unknown): GatewayError {
  return new GatewayError('store_unavailable', `The store cannot be used at the moment: ${fault}.`, { cause })
}
