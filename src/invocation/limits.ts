import type { SlotLimits } from './slots.ts'

/** Between tries of what the store could not record, milliseconds. */
export const STORE_RETRY_MS = 500

/** The bounds that one call is held to. `docs/configuration.md` says what a caller sees past each. */
export interface CallLimits {
  /** Bytes of a result's JSON text. */
  maxResultBytes: number
  /** Arrays and objects inside one another, in `structuredContent` and `details`. */
  maxJsonDepth: number
  /** Updates published a call. */
  maxUpdates: number
  /** The most time that a call can be given, milliseconds. */
  maxTimeoutMs: number
}

/** The bounds of all calls together as well. */
export interface InvokerLimits extends CallLimits, SlotLimits {
  /** Child calls inside one another. */
  maxChildDepth: number
  /** Time after which a call that goes on although it was stopped gives its slot away, milliseconds. */
  slotReleaseMs: number
}
