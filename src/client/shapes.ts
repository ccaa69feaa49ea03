import type { Fault } from '../contract/problem.ts'
import { compileJsonSchema, type CompiledSchema } from '../contract/json-schema.ts'
import { ProtocolError } from './errors.ts'

const compiled = new WeakMap<object, CompiledSchema>()

/** A schema's validator, compiled once. */
function validatorOf (schema: object): CompiledSchema['validator'] {
  let found = compiled.get(schema)
  if (found === undefined) compiled.set(schema, found = compileJsonSchema(schema))
  return found.validator
}

/** Where `value` breaks a schema; empty where it does not. */
export function faultsOf (schema: object, value: unknown): Fault[] {
  const validator = validatorOf(schema)
  try {
    if (validator.check(value)) return []
    return validator.errors(value).map(({ path, keyword, message }) => ({ path, keyword, message }))
  } catch (error) {
    if (!(error instanceof RangeError)) throw error
    return [{ path: '', keyword: 'depth', message: 'nested too deeply to be checked' }]
  }
}

/**
 * Finds out whether values can be held to a caller's schema, before anything depends on it: by the rules for tools' schemas,
 * so that no rule of it is accepted and ignored.
 * @throws {TypeError} where they cannot
 */
export function assertSchema (schema: object): void {
  try {
    if (typeof schema === 'object' && '~standard' in schema) throw new Error('is no JSON Schema, but may be convertible to one')
    validatorOf(schema)
  } catch (cause) {
    throw new TypeError(`The schema given as \`output\` cannot be used: ${(cause as Error).message}`, { cause })
  }
}

/**
 * What a gateway sent, held to the contract before anybody relies on it.
 * @throws {ProtocolError} where it is something else
 */
export function assertShape<T> (schema: { static: T } & object, value: unknown, what: string, status: number): T {
  const faults = faultsOf(schema, value)
  if (faults.length === 0) return value as T
  const [{ path, message }] = faults as [Fault]
  throw new ProtocolError(`${what} is not what a gateway sends: ${path === '' ? '' : `${path}: `}${message}`, status, { faults })
}
