import { createHash, createHmac } from 'node:crypto'
import { canonicalJson } from '../json/canonical.ts'
import type { KeyClaim } from '../store/store.ts'

/** How long a key stands for the call that it was first sent with, milliseconds. */
export const KEY_LIFE_MS = 86_400_000

/**
 * What a call claims by its key: apart for each caller and tool.
 *
 * Neither the key nor the input is in it. The fingerprint takes the key as its secret, so that who reads the store cannot
 * find out a short input by trying.
 *
 * @param text JSON text of the input, as it was sent
 */
export function claimOf (key: string, principalId: string, toolId: string, text: string, nowMs: number): KeyClaim {
  return {
    scope: createHash('sha256').update(JSON.stringify([principalId, toolId, key])).digest('hex'),
    fingerprint: createHmac('sha256', key).update(canonicalJson(JSON.parse(text))).digest('hex'),
    untilMs: nowMs + KEY_LIFE_MS
  }
}
