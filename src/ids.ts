import { randomFillSync } from 'node:crypto'

/** Where ids come from. Tests pass their own. */
export interface IdSource {
  /** 32 hex digits, rising with time, unique; their last 16 are random and serve as the call's span id. */
  invocationId (nowMs: number): string
  /** 16 hex digits: 64 random bits. */
  epoch (): string
}

const POOL_BYTES = 4096

/** Ids from the system's randomness, drawn and turned into digits in bulk. */
export function createIdSource (): IdSource {
  const pool = Buffer.allocUnsafe(POOL_BYTES)
  let digits = ''
  let used = 0
  function randomHex (length: number): string {
    if (used + length > digits.length) {
      digits = randomFillSync(pool).toString('hex')
      used = 0
    }
    used += length
    return digits.slice(used - length, used)
  }
  let lastMs = -1
  let prefix = ''
  return {
    invocationId (nowMs) {
      if (nowMs !== lastMs) {
        lastMs = nowMs
        prefix = nowMs.toString(16).padStart(12, '0')
      }
      return prefix + randomHex(20)
    },
    epoch: () => randomHex(16)
  }
}

/** The span of an invocation is the random half of its id. */
export function spanIdOf (invocationId: string): string {
  return invocationId.slice(-16)
}
