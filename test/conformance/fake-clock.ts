import type { Clock } from '../../src/clock.ts'

interface Timer { dueAt: number, order: number, run: () => void }

/** Time that moves only when a test says so. `now` and `monotonic` differ on purpose: a deadline is no date. */
export class FakeClock implements Clock {
  #elapsed = 0
  #order = 0
  #timers: Timer[] = []
  readonly #startMs: number

  constructor (startMs = 1_700_000_000_000) {
    this.#startMs = startMs
  }

  now (): number {
    return this.#startMs + this.#elapsed
  }

  monotonic (): number {
    return this.#elapsed + 5
  }

  after (delayMs: number, run: () => void): () => void {
    const timer: Timer = { dueAt: this.#elapsed + delayMs, order: this.#order++, run }
    this.#timers.push(timer)
    return () => { this.#timers = this.#timers.filter((other) => other !== timer) }
  }

  /** Timers that stand. */
  get pending (): number {
    return this.#timers.length
  }

  /** Moves on by `ms`, running what falls due on the way, in order. */
  advance (ms: number): void {
    const end = this.#elapsed + ms
    for (;;) {
      const next = this.#timers.filter((timer) => timer.dueAt <= end).sort((a, b) => a.dueAt - b.dueAt || a.order - b.order)[0]
      if (next === undefined) break
      this.#timers = this.#timers.filter((timer) => timer !== next)
      this.#elapsed = Math.max(this.#elapsed, next.dueAt)
      next.run()
    }
    this.#elapsed = end
  }
}
