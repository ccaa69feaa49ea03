import { statfsSync } from 'node:fs'
import { Worker } from 'node:worker_threads'

/** What a checkpoint came to: whether it did all it was to do. */
export interface Checkpointed {
  readonly isDone: boolean
}

export type CheckpointMode = 'PASSIVE' | 'TRUNCATE'

/** Growth of the write-ahead log after which what is in it is moved into the file, bytes. */
const WORTH_BYTES = 16 * 2 ** 20
/** Its size from which on it is made to begin anew also while writes come, bytes: they wait for as long as the disk takes. */
const FULL_BYTES = 64 * 2 ** 20
/** Room on the disk below which it is made to begin anew each time: what fills the disk must not be the log. */
const SCARCE_BYTES = 2 * FULL_BYTES

/** The same file that stands beside this one, in the sources and in what is built of them. */
const workerUrl = new URL(`./checkpoint-worker${import.meta.url.endsWith('.ts') ? '.ts' : '.js'}`, import.meta.url)

/**
 * Moves the write-ahead log into the file by a thread of its own, so that the loop does not wait for the disk.
 *
 * What is there is moved while writing goes on. As a log to which somebody writes all the while never begins anew by
 * itself, one that has become long is finished while writes are held. They wait, and nothing else does.
 */
export class Checkpoints {
  readonly #path: string
  readonly #onReleased: () => void
  #worker: Worker | undefined
  #ended: Promise<unknown> | undefined
  #isBusy = false
  #isHolding = false
  /** Where the log could not be moved as a whole, it is tried again only once it has grown. */
  #worthBytes = WORTH_BYTES
  #logBytes = 0
  /** What it was when it began to be moved. */
  #movedBytes = 0
  #whenIdle: (() => void)[] = []
  #stopping: Promise<void> | undefined
  #isClosed = false

  /** @param onReleased called when writes need wait no longer */
  constructor (path: string, onReleased: () => void) {
    this.#path = path
    this.#onReleased = onReleased
  }

  /** Whether writes have to wait. */
  get isHolding (): boolean {
    return this.#isHolding
  }

  /** To be called after a commit, with the size of the log. */
  consider (logBytes: number): void {
    this.#logBytes = logBytes
    if (logBytes < this.#worthBytes || this.#isBusy || this.#isClosed) return
    this.#movedBytes = logBytes
    this.#ask('PASSIVE')
  }

  /** Lets go of the file for good: it may be another's soon. */
  close (): Promise<void> {
    this.#isClosed = true
    return this.stop()
  }

  /** Lets go of the file. Goes on at the next need. */
  stop (): Promise<void> {
    this.#stopping ??= this.#stop().finally(() => { this.#stopping = undefined })
    return this.#stopping
  }

  /** Makes the log begin anew, if that can be. Resolves once it has been tried; writes are held meanwhile. */
  async relieve (): Promise<void> {
    await this.#idle()
    if (this.#isClosed) return
    this.#ask('TRUNCATE')
    await this.#idle()
  }

  async #idle (): Promise<void> {
    while (this.#isBusy) await new Promise<void>((resolve) => { this.#whenIdle.push(resolve) })
  }

  async #stop (): Promise<void> {
    await this.#idle()
    if (this.#worker === undefined) return
    this.#worker.ref()
    this.#worker.postMessage('close')
    await this.#ended
  }

  #ask (mode: CheckpointMode): void {
    this.#isBusy = true
    this.#isHolding = mode === 'TRUNCATE'
    this.#worker ??= this.#start()
    // Who waits for a write waits for this.
    this.#worker.ref()
    this.#worker.postMessage(mode)
  }

  #start (): Worker {
    const worker = new Worker(workerUrl, { workerData: this.#path })
    worker.on('message', ({ isDone }: Checkpointed) => {
      const isQuiet = this.#logBytes === this.#movedBytes
      if (!this.#isHolding && isDone && (isQuiet || this.#logBytes >= FULL_BYTES || this.#isScarce())) return this.#ask('TRUNCATE')
      this.#worthBytes = this.#isHolding && isDone ? WORTH_BYTES : this.#logBytes + WORTH_BYTES
      this.#rest()
    })
    worker.on('error', () => {})
    this.#ended = new Promise((resolve) => worker.once('exit', () => {
      this.#worker = undefined
      this.#worthBytes = this.#logBytes + WORTH_BYTES
      if (this.#isBusy) this.#rest()
      resolve(undefined)
    }))
    return worker
  }

  #isScarce (): boolean {
    try {
      const { bavail, bsize } = statfsSync(this.#path)
      return bavail * bsize < SCARCE_BYTES
    } catch {
      return false
    }
  }

  #rest (): void {
    const wasHolding = this.#isHolding
    this.#isBusy = false
    this.#isHolding = false
    // An idle one keeps no process alive.
    this.#worker?.unref()
    for (const tell of this.#whenIdle.splice(0)) tell()
    if (wasHolding) this.#onReleased()
  }
}
