import type { TSchema } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'

/** What is wrong with a value, and where: a JSON Pointer, empty for the value itself. Never quotes it: it may be a secret. */
export interface ValueFault {
  pointer: string
  message: string
}

export const unknownSetting: ValueFault = { pointer: '', message: 'there is no such setting' }

/** The value that a flag or a variable gives, still to be checked; `true` is a bare flag. */
export function valueOfText (schema: TSchema, given: string | boolean): unknown {
  if (typeof given === 'boolean') return given
  if (schema.type === 'integer') return /^\d+$/.test(given) ? Number(given) : given
  if (schema.type === 'boolean') return given === 'true' || given === '1' ? true : given === 'false' || given === '0' ? false : given
  if (schema.type === 'array') return given.split(',').map((item) => item.trim()).filter((item) => item !== '')
  return given
}

/** Every fault of a value, in lists and objects each where it is. None means that it has the schema's type. */
export function faultsOf (schema: TSchema, value: unknown): ValueFault[] {
  if (Value.Check(schema, value)) return []
  const inside = faultsInside(schema, value)
  return inside.length > 0 ? inside : [{ pointer: '', message: expectation(schema) }]
}

function faultsInside (schema: TSchema, value: unknown): ValueFault[] {
  if (schema.type === 'array' && Array.isArray(value)) return value.flatMap((item, index) => below(index, faultsOf(schema.items, item)))
  if (schema.type !== 'object' || !isObject(value)) return []
  return Object.entries(value).flatMap(([key, part]) => below(key, Object.hasOwn(schema.properties, key)
    ? faultsOf(schema.properties[key], part)
    : [unknownSetting]))
}

/** The same faults, seen from what holds the value under `key`. */
export function below (key: string | number, faults: readonly ValueFault[]): ValueFault[] {
  const step = `/${String(key).replaceAll('~', '~0').replaceAll('/', '~1')}`
  return faults.map(({ pointer, message }) => ({ pointer: step + pointer, message }))
}

export function isObject (value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** What a value of this schema must be; said of every value that is not. */
export function expectation (schema: TSchema): string {
  if (typeof schema.expected === 'string') return schema.expected
  if (schema.type === 'integer') {
    return schema.maximum === undefined ? `must be a whole number, ${schema.minimum} or more` : `must be a whole number from ${schema.minimum} to ${schema.maximum}`
  }
  if (schema.type === 'boolean') return 'must be true or false'
  if (schema.type === 'object') return 'must be an object'
  if (schema.type === 'array') return 'must be a list of texts, at least one'
  if (schema.anyOf !== undefined) return `must be one of ${(schema.anyOf as TSchema[]).map((option) => option.const).join(', ')}`
  return 'must be a text that is not empty'
}
