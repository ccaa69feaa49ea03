import { compileJsonSchema, type CompiledSchema } from '../contract/json-schema.ts'
import { GatewayError } from '../errors.ts'

/**
 * Compiles a tool's schema.
 *
 * @param what names the schema in refusals, e.g. `parameters`
 * @throws {GatewayError} `invalid_tool` with the reason
 */
export function compileSchema (source: unknown, what: string): CompiledSchema {
  try {
    return compileJsonSchema(source)
  } catch (error) {
    const { message, cause } = error as Error
    throw new GatewayError('invalid_tool', `${what}: ${message}`, { cause })
  }
}
