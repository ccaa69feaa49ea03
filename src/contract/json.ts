import { Type } from '@sinclair/typebox'

/** Any JSON value, at any depth. */
export type JsonValue = null | boolean | number | string | readonly JsonValue[] | { readonly [key: string]: JsonValue }

/** A place for any JSON value. It is passed on as it came: never coerced, never pruned. */
export const JsonValue = Type.Unsafe<JsonValue>(Type.Unknown({ description: 'Any JSON value' }))

/** Epoch milliseconds. */
export const EpochMs = Type.Number({ description: 'Epoch milliseconds' })

/** A duration in milliseconds. */
export const DurationMs = Type.Number({ minimum: 0, description: 'Milliseconds' })
