/** How often and how soon the client tries again. */
export interface RetryOptions {
  /** Tries of a request after the first. Default 3. An event subscription comes back for as long as it takes. */
  retries?: number | undefined
  /** Wait before the first of them, milliseconds; doubled with each. Default 250. */
  minDelayMs?: number | undefined
  /** No wait is longer, milliseconds, but where the gateway asks for it. Default 10,000. */
  maxDelayMs?: number | undefined
}

/** Retry options with nothing left open. */
export type RetryPolicy = { [Name in keyof RetryOptions]-?: number }

export function retryPolicy ({ retries = 3, minDelayMs = 250, maxDelayMs = 10_000 }: RetryOptions = {}): RetryPolicy {
  return { retries, minDelayMs, maxDelayMs }
}

/**
 * The wait before the next try: doubling, at most `maxDelayMs`, and cut by up to a half at random, so that clients which
 * lost the same gateway do not come back as one.
 *
 * @param failures how many tries in a row have failed, at least 1
 * @param random from 0 up to but not including 1
 */
export function backoffMs (failures: number, { minDelayMs, maxDelayMs }: { minDelayMs: number, maxDelayMs: number }, random: number): number {
  const delay = Math.min(maxDelayMs, minDelayMs * 2 ** Math.min(failures - 1, 30))
  return Math.round(delay * (1 - random / 2))
}

/** What `Retry-After` asks for, milliseconds; a date is taken relative to `nowMs`. Undefined where it says nothing usable. */
export function retryAfterMs (header: string | null, nowMs: number): number | undefined {
  if (header === null) return undefined
  if (/^[0-9]+$/.test(header)) return Number(header) * 1000
  // `Date.parse` would make a date of almost anything.
  const at = / GMT$/.test(header) ? Date.parse(header) : NaN
  return Number.isNaN(at) ? undefined : Math.max(0, at - nowMs)
}

/** The codes of problems that a later try may not meet. A gateway has answered with them, so nothing was run. */
const passing = new Set(['overloaded', 'shutting_down', 'store_unavailable', 'auth_unavailable', 'rate_limited', 'too_many_subscribers', 'request_timeout'])

/** Whether a refusal of the gateway may be over soon. */
export function isPassing (code: string): boolean {
  return passing.has(code)
}

/** What a timer can hold: past it, one goes off at once. */
export const MAX_TIMER_MS = 2 ** 31 - 1

/** Resolves after `ms`, or as soon as `signal` aborts, with whether the time has passed. */
export function elapsed (ms: number, signal: AbortSignal | undefined): Promise<boolean> {
  return new Promise((resolve) => {
    if (signal?.aborted === true) return resolve(false)
    const end = () => {
      clearTimeout(timer)
      signal?.removeEventListener('abort', end)
      resolve(signal?.aborted !== true)
    }
    const timer = setTimeout(end, Math.min(ms, MAX_TIMER_MS))
    signal?.addEventListener('abort', end, { once: true })
  })
}
