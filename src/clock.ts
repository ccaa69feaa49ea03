/** Time, passed in so that tests own it. */
export interface Clock {
  /** Epoch milliseconds. */
  now (): number
  /** Milliseconds that only ever rise, from an arbitrary start. */
  monotonic (): number
  /** Calls `run` once after `delayMs`, without keeping the process alive; returns how to call it off. */
  after (delayMs: number, run: () => void): () => void
}

export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  after (delayMs, run) {
    const timer = setTimeout(run, delayMs)
    timer.unref()
    return () => clearTimeout(timer)
  }
}
