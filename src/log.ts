import { pino, type Logger } from 'pino'

export interface OpenLog {
  log: Logger<string>
  /** Drops what is logged from now on, and what waits to be written. */
  silence (): void
}

/**
 * The log on standard output, written in batches. A line that cannot be written is tried again, and is no reason to stop
 * serving; one that never can be, as its reader is gone, is dropped.
 */
export function openLog (level: string): OpenLog {
  const destination = pino.destination({ sync: false, minLength: 4096, periodicFlush: 100 })
  const silence = () => {
    // The stream would go on trying for as long as there is something to write, while it holds the process up.
    Object.assign(destination, { write () {}, flush () {}, flushSync () {}, end () {} })
  }
  destination.on('error', ({ code }: NodeJS.ErrnoException) => { if (code === 'EIO' || code === 'EPIPE') silence() })
  return { log: pino({ level, base: null }, destination), silence }
}
