import { compile, type Validator } from '@earendil-works/pi-schema'
import { formats } from '@earendil-works/pi-schema/formats'
import type { Fault } from '../contract/problem.ts'
import { schemaDrafts } from '../contract/tool.ts'
import { ProtocolError } from './errors.ts'

const validators = new WeakMap<object, Validator>()

/** A schema, compiled once. */
function validatorOf (schema: object): Validator {
  let validator = validators.get(schema)
  if (validator === undefined) validators.set(schema, validator = compile(schema, { formats, draft: draftOf(schema) }) as Validator)
  return validator
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
 * Finds out whether values can be held to a caller's schema, before anything depends on it.
 * @throws {TypeError} where they cannot: a `$ref` that leads nowhere, a draft that is not known, no schema at all
 */
export function assertSchema (schema: object): void {
  try {
    if ('~standard' in schema) throw new Error('it is no JSON Schema, but may be convertible to one')
    validatorOf(schema).check({})
  } catch (cause) {
    const reason = cause instanceof RangeError ? 'it refers to itself without end' : (cause as Error).message
    throw new TypeError(`The schema given as \`output\` cannot be used: ${reason}`, { cause })
  }
}

function draftOf ({ $schema }: { $schema?: unknown }): '2020-12' | '7' {
  if ($schema === undefined) return '2020-12'
  const uri = typeof $schema === 'string' ? $schema.replace(/#$/, '') : ''
  const draft = Object.hasOwn(schemaDrafts, uri) ? schemaDrafts[uri] : undefined
  if (draft === undefined) throw new Error(`$schema is ${JSON.stringify($schema)}; draft 2020-12 and draft-07 are known`)
  return draft
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
