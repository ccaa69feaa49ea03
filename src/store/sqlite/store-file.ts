import { chmodSync, closeSync, existsSync, mkdirSync, openSync, realpathSync, renameSync, rmSync } from 'node:fs'
import { basename, dirname, join, resolve } from 'node:path'
import { backup, DatabaseSync } from 'node:sqlite'
import { GatewayError } from '../../errors.ts'
import { faultOf, FileFault, FileIdentity, isBusy } from './faults.ts'
import { Lock } from './lock.ts'
import { APPLICATION_ID, migrate } from './schema.ts'
import { refusalOfContent, refusalOfPlace, sizeOf } from './verification.ts'

export type Synchronous = 'normal' | 'full'

/** Memory for pages of the file, KiB. */
const CACHE_KIB = 16_384
/** Pages that are copied at a time: reads wait for as long. */
const COPIED_PAGES = 256

/** The file of a store, its write-ahead log, and the lock beside it. */
export class StoreFile {
  /** Without links. */
  readonly path: string
  readonly #synchronous: Synchronous
  #lock: Lock
  #lockFile: FileIdentity
  #connection: DatabaseSync
  #file: FileIdentity
  #log: FileIdentity

  private constructor (path: string, synchronous: Synchronous, lock: Lock) {
    this.path = path
    this.#synchronous = synchronous
    this.#lock = lock
    this.#lockFile = new FileIdentity(`${path}-lock`)
    this.#connection = this.#connect()
    this.#file = new FileIdentity(path)
    this.#log = new FileIdentity(`${path}-wal`)
  }

  /**
   * Opens the file, or makes it, with its folder. What cannot be used is left as it is.
   *
   * @param given the path as people know it
   * @throws {GatewayError} `store_refused`
   */
  static open (given: string, synchronous: Synchronous): StoreFile {
    let lock: Lock | undefined
    try {
      const path = realPathOf(resolve(given))
      const misplaced = refusalOfPlace(path)
      if (misplaced !== undefined) throw refused(given, misplaced)
      lock = new Lock(`${path}-lock`)
      const refusal = refusalOfContent(path)
      if (refusal !== undefined) throw refused(given, refusal)
      if (sizeOf(path) === 0) make(path)
      return new StoreFile(path, synchronous, lock)
    } catch (error) {
      lock?.abandon()
      if (error instanceof GatewayError) throw error
      throw refused(given, lock === undefined && isBusy(error) ? 'it is in use by another gateway' : reasonOf(error), error)
    }
  }

  get connection (): DatabaseSync {
    return this.#connection
  }

  /** Bytes of the write-ahead log when it was last looked at. */
  get logBytes (): number {
    return this.#log.size
  }

  /** @throws {FileFault} where what stands at the path is no longer what is open: then writes would be for nobody */
  check (): void {
    const { state } = this.#file
    if (state === 'missing') throw new FileFault('the file of the store was deleted')
    if (state === 'other') throw new FileFault('the file of the store was replaced by another one')
    if (this.#log.state !== 'same') throw new FileFault('the write-ahead log of the store was deleted or replaced')
    this.#keepLock()
  }

  /**
   * Somebody may have deleted the lock, as one that was left behind. Where another gateway has come since, the log is
   * that one's: two would write over each other.
   */
  #keepLock (): void {
    const { state } = this.#lockFile
    if (state === 'same') return
    const taken = new FileFault('another gateway has taken the file of the store')
    if (state === 'other') throw taken
    const path = `${this.path}-lock`
    let lock: Lock
    try {
      lock = new Lock(path)
    } catch (error) {
      throw isBusy(error) ? taken : error
    }
    this.#lock.release()
    this.#lock = lock
    this.#lockFile = new FileIdentity(path)
  }

  get isMissing (): boolean {
    return this.#file.state === 'missing'
  }

  /**
   * Makes what is open stand at the path again, with nothing lost, where somebody deleted the file or its log. Nobody else
   * may have the file open meanwhile; the connection may be another one afterwards.
   *
   * @throws where it cannot be, also where another file stands there
   */
  async repair (): Promise<void> {
    if (this.isMissing && this.#connection.isOpen) await this.#putBack()
    else if (this.#file.state !== 'same') this.check()
    else if (this.#connection.isOpen) {
      this.#keepLock()
      if (this.#log.state === 'same') return
      this.#saveLog()
    }
    this.#reopen()
  }

  /** Copies all that the connection has to the path. */
  async #putBack (): Promise<void> {
    const copy = `${this.path}-copy`
    mkdirSync(dirname(this.path), { recursive: true, mode: 0o700 })
    this.#keepLock()
    makeEmpty(copy)
    try {
      await backup(this.#connection, copy, { rate: COPIED_PAGES })
      this.#checkIsMissing()
      renameSync(copy, this.path)
    } finally {
      rmSync(copy, { force: true })
    }
    this.#file = new FileIdentity(this.path)
  }

  /** It may have come back while it was copied. */
  #checkIsMissing (): void {
    if (!this.isMissing) this.check()
  }

  /** What is in a log that has no name any more goes into the file. */
  #saveLog (): void {
    const { busy } = this.#connection.prepare('PRAGMA wal_checkpoint(TRUNCATE)').get() as { busy: number }
    if (busy !== 0) throw new FileFault('another program reads a write-ahead log of the store that was deleted')
  }

  #reopen (): void {
    if (this.#connection.isOpen) this.#connection.close()
    // One that was left behind is of a file that was there before.
    for (const rest of ['-wal', '-shm']) rmSync(this.path + rest, { force: true })
    this.#connection = this.#connect()
    this.#log = new FileIdentity(`${this.path}-wal`)
  }

  close (): void {
    if (this.#connection.isOpen) this.#connection.close()
    this.#lock.release()
  }

  #connect (): DatabaseSync {
    const connection = new DatabaseSync(this.path, { enableForeignKeyConstraints: false })
    try {
      connection.exec(`PRAGMA journal_mode = WAL; PRAGMA synchronous = ${this.#synchronous.toUpperCase()}; PRAGMA wal_autocheckpoint = 0;
        PRAGMA cache_size = -${CACHE_KIB}; PRAGMA temp_store = MEMORY`)
      // Takes a file that can only be read without a word, until it is written to.
      connection.exec('BEGIN IMMEDIATE; COMMIT')
      if (migrate(connection)) connection.exec('PRAGMA wal_checkpoint(TRUNCATE)')
      return connection
    } catch (error) {
      connection.close()
      throw error
    }
  }
}

/** @param given the path as people know it */
export function refused (given: string, reason: string, cause?: unknown): GatewayError {
  return new GatewayError('store_refused', `The store ${given} cannot be used: ${reason}.`, { cause })
}

/** The same for every name of a file, also for one that is still to be made. Makes its folder. */
function realPathOf (path: string): string {
  if (existsSync(path)) return realpathSync(path)
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 })
  return join(realpathSync(dirname(path)), basename(path))
}

/** Made under another name, so that a file that is there is whole; its header, without help of a log. */
function make (path: string): void {
  const draft = `${path}-new`
  try {
    makeEmpty(draft)
    const connection = new DatabaseSync(draft)
    try {
      connection.exec(`PRAGMA application_id = ${APPLICATION_ID}`)
      migrate(connection)
      connection.exec('PRAGMA journal_mode = WAL')
    } finally {
      connection.close()
    }
    renameSync(draft, path)
  } catch (error) {
    rmSync(draft, { force: true })
    throw error
  }
}

/** For the owner alone, whatever the umask; SQLite gives its other files the same mode. */
function makeEmpty (path: string): void {
  rmSync(path, { force: true })
  closeSync(openSync(path, 'wx', 0o600))
  chmodSync(path, 0o600)
}

function reasonOf (error: unknown): string {
  const { code, errcode } = error as NodeJS.ErrnoException & { errcode?: number }
  if (errcode !== undefined) return faultOf(error)
  return code === 'EACCES' || code === 'EPERM' ? 'the file or its folder cannot be written' : code === 'EROFS' ? 'its file system is read-only' : `opening it failed (${code ?? error})`
}
