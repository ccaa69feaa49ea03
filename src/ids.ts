import { randomFillSync } from 'node:crypto'

/** Where ids come from. Tests pass their own. */
export interface IdSource {
  /** 32 hex digits, rising with time, unique; their last 16 are random and serve as the call's span id. */
  invocationId (nowMs: number): string
  /** 16 hex digits: 64 random bits. */
  epoch (): string
}

const POOL_BYTES = 4096

/** Ids from the system's randomness, drawn in bulk. */
export function createIdSource (): IdSource {
  const pool = Buffer.allocUnsafe(POOL_BYTES)
  let used = POOL_BYTES
  function randomHex (bytes: number): string {
    if (used + bytes > POOL_BYTES) {
      randomFillSync(pool)
      used = 0
    }
    const hex = pool.toString('hex', used, used + bytes)
    used += bytes
    return hex
  }
  return {
    invocationId: (nowMs) => nowMs.toString(16).padStart(12, '0') + randomHex(10),
    epoch: () => randomHex(8)
  }
}

/** The span of an invocation is the random half of its id. */
export function spanIdOf (invocationId: string): string {
  return invocationId.slice(-16)
}
