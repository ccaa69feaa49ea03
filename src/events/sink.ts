import type { ServerResponse } from 'node:http'
import type { Burst } from './burst.ts'

/** Where a subscriber's bytes go. */
export interface Sink {
  /** Bytes handed over and not yet taken by the operating system, beyond the write that it is working on. */
  readonly backlog: number
  write (burst: Burst): void
  /** Resolves once nothing waits any more, or the receiver is gone. */
  drained (): Promise<void> | undefined
  /** Ends the stream as a complete one. */
  end (): void
  /** Cuts the connection. */
  destroy (): void
  /** Calls `listener` once, when the receiver is gone for whatever reason. */
  onClose (listener: () => void): void
}

/**
 * Writes to a response whose headers are flushed. Chunks go straight to the socket, framed already: per receiver that
 * costs one socket write and nothing else. Where the response has no socket of its own yet (pipelined requests), or
 * its body is not chunked (HTTP/1.0), it goes the ordinary way.
 */
export class ResponseSink implements Sink {
  readonly #response: ServerResponse
  readonly #direct: boolean
  #underWay = 0

  constructor (response: ServerResponse) {
    this.#response = response
    this.#direct = response.socket !== null && response.chunkedEncoding
    response.socket?.setKeepAlive(true, 30_000)
    // A receiver that vanishes is an ordinary end of a stream; 'close' tells of it.
    response.on('error', () => {})
  }

  get #waiting (): number {
    return this.#direct ? this.#response.socket?.writableLength ?? 0 : this.#response.writableLength
  }

  get backlog (): number {
    return Math.max(0, this.#waiting - this.#underWay)
  }

  write (burst: Burst): void {
    const bytes = this.#direct ? burst.chunked : burst.plain
    if (this.#waiting === 0) this.#underWay = bytes.length
    if (this.#direct) this.#response.socket?.write(bytes)
    else this.#response.write(bytes)
  }

  drained (): Promise<void> | undefined {
    const target = this.#direct ? this.#response.socket : this.#response
    if (target === null || target.destroyed || !target.writableNeedDrain) return undefined
    return new Promise((resolve) => {
      const done = () => {
        target.off('drain', done)
        this.#response.off('close', done)
        resolve()
      }
      target.on('drain', done)
      this.#response.on('close', done)
    })
  }

  end (): void {
    this.#response.end()
  }

  destroy (): void {
    this.#response.destroy()
  }

  onClose (listener: () => void): void {
    if (this.#response.destroyed || this.#response.closed) listener()
    else this.#response.once('close', listener)
  }
}
