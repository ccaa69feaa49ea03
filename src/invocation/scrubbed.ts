import { isNativeError } from 'node:util/types'
import { MASKED } from '../json/mask.ts'
import type { Secrets } from './secrets.ts'

/** Arrays and objects inside one another that a line has; what lies deeper is masked unseen. */
const MAX_DEPTH = 100

/**
 * A copy of a value that is to be logged, without the secrets, as deep as it goes. Errors stay errors of their class, with
 * their causes. What cannot be looked into, as bytes cannot, is masked as a whole. Never throws.
 */
export function scrubbed (value: unknown, secrets: Secrets): unknown {
  return copyOf(value, secrets, new Map(), 0)
}

const errorFields = ['name', 'message', 'stack', 'cause', 'errors']

type Copies = Map<object, unknown>

function copyOf (value: unknown, secrets: Secrets, copies: Copies, depth: number): unknown {
  if (typeof value === 'string') return secrets.scrub(value)
  if (typeof value === 'number' || typeof value === 'bigint') return secrets.hasNumber(String(value)) ? MASKED : value
  if (typeof value !== 'object' || value === null) return value
  if (copies.has(value)) return copies.get(value)
  if (depth === MAX_DEPTH || ArrayBuffer.isView(value)) return MASKED
  try {
    return copyOfObject(value, secrets, copies, depth)
  } catch {
    return MASKED
  }
}

function copyOfObject (value: object, secrets: Secrets, copies: Copies, depth: number): unknown {
  const isError = isNativeError(value) || value instanceof Error
  const { toJSON } = value as { toJSON?: unknown }
  const shown: unknown = !isError && typeof toJSON === 'function' ? toJSON.call(value, '') : value
  if (typeof shown !== 'object' || shown === null) return copyOf(shown, secrets, copies, depth)
  const isList = Array.isArray(shown)
  const copy = (isError ? Object.create(Object.getPrototypeOf(value)) : isList ? [] : {}) as object
  copies.set(value, copy)
  const set = (key: string, name: string, enumerable: boolean) => Object.defineProperty(copy, name, {
    value: copyOf((shown as Record<string, unknown>)[key], secrets, copies, depth + 1), enumerable, configurable: true, writable: true
  })
  // They are not enumerable, or getters of the class, which a copy could not answer.
  if (isError) for (const key of errorFields) if (key in value) set(key, key, false)
  for (const key of Object.keys(shown)) set(key, isList || isError ? key : secrets.scrub(key), true)
  return copy
}
