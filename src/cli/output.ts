import type { Writable } from 'node:stream'
import type { WriteStream } from 'node:tty'
import { UsageError } from './exit-codes.ts'
import { plainJson, plainText } from './plain-text.ts'

const USUAL_COLUMNS = 80

export type Screen = Writable & Partial<Pick<WriteStream, 'isTTY' | 'columns'>>

/**
 * Where a command writes: results to standard output, everything else to standard error. On a terminal results are for
 * people, unless JSON was asked for; anywhere else they are JSON. What reaches a terminal cannot control it.
 */
export class Output {
  readonly isForPeople: boolean
  readonly #stdout: Screen
  readonly #stderr: Screen

  /** @param onReaderGone told when nobody reads the results any more */
  constructor (stdout: Screen, stderr: Screen, json: boolean, onReaderGone: () => void) {
    this.#stdout = stdout
    this.#stderr = stderr
    this.isForPeople = !json && stdout.isTTY === true
    stdout.on('error', (error) => { if (isReaderGone(error)) onReaderGone() })
    // Nobody hears that nobody hears.
    stderr.on('error', () => {})
  }

  get columns (): number {
    return this.#stdout.columns || USUAL_COLUMNS
  }

  get notes (): Screen {
    return this.#stderr
  }

  /** A result for people: text of any number of lines. */
  async text (text: string): Promise<void> {
    if (text !== '') await this.#write(plainText(text).replace(/\n?$/, '\n'))
  }

  /** A result for programs, on one line; laid out where a person asked for it on a terminal. */
  async json (value: unknown): Promise<void> {
    await this.#write(`${this.#stdout.isTTY === true ? jsonForTerminals(value) : JSON.stringify(value)}\n`)
  }

  /** One of a row of results for programs: a line. */
  async jsonLine (value: unknown): Promise<void> {
    const line = JSON.stringify(value)
    await this.#write(`${this.#stdout.isTTY === true ? plainJson(line) : line}\n`)
  }

  /** What is no result: progress, advice, errors. */
  note (text: string): void {
    if (text !== '') this.#stderr.write(plainText(text).replace(/\n?$/, '\n'))
  }

  /**
   * Waits until the text is taken, so that a slow reader is not run over.
   * @throws {UsageError} where there is no room for it
   */
  async #write (text: string): Promise<void> {
    await new Promise<void>((resolve, reject) => this.#stdout.write(text, (error) => {
      if (error == null || isReaderGone(error)) resolve()
      else reject(new UsageError(`the result cannot be written to standard output (${(error as NodeJS.ErrnoException).code ?? error.message})`))
    }))
  }
}

function isReaderGone (error: NodeJS.ErrnoException): boolean {
  return error.code === 'EPIPE' || error.code === 'ECONNRESET' || error.code === 'EIO'
}

export function jsonForTerminals (value: unknown): string {
  return plainJson(JSON.stringify(value, undefined, 2))
}
