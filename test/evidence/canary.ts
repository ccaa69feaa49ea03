import { randomBytes } from 'node:crypto'
import { witness } from './witness.ts'

/**
 * A value for a field that is to be masked. Wherever one appears that is no answer to the caller itself, `npm test` fails.
 */
export function canary (): string {
  const value = `canary-${randomBytes(8).toString('hex')}`
  witness.inUse('masked field', value)
  return value
}

export function isCanary (value: unknown): boolean {
  return typeof value === 'string' && /^canary-[0-9a-f]{16}$/.test(value)
}
