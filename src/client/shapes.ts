import { compile, type Validator } from '@earendil-works/pi-schema'
import { formats } from '@earendil-works/pi-schema/formats'
import type { Fault } from '../contract/problem.ts'
import { ProtocolError } from './errors.ts'

const validators = new WeakMap<object, Validator>()

/** Where `value` breaks a schema; empty where it does not. A schema is compiled once. */
export function faultsOf (schema: object, value: unknown): Fault[] {
  let validator = validators.get(schema)
  if (validator === undefined) validators.set(schema, validator = compile(schema, { formats, draft: isDraft7(schema) ? '7' : '2020-12' }) as Validator)
  if (validator.check(value)) return []
  return validator.errors(value).map(({ path, keyword, message }) => ({ path, keyword, message }))
}

function isDraft7 ({ $schema }: { $schema?: unknown }): boolean {
  return typeof $schema === 'string' && $schema.includes('draft-07')
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
