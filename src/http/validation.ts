import { TypeBoxValidatorCompiler } from '@fastify/type-provider-typebox'
import type { FastifySchemaCompiler } from 'fastify'
import type { TSchema } from '@sinclair/typebox'
import { Value, type ValueError } from '@sinclair/typebox/value'

/**
 * Checks requests by TypeBox's own compiler. A body is taken as it came; only a query, which is all text, is converted
 * to what its schema says. No body at all is an empty object; Fastify gives it as null. Path parameters are texts, and
 * what they name is looked up: there is nothing to check.
 */
export const validatorCompiler: FastifySchemaCompiler<TSchema> = (definition) => {
  const { httpPart, schema } = definition
  if (httpPart === 'params') return () => true
  const isConverted = httpPart === 'querystring' && Object.keys(schema.properties as object).length > 0
  const check = TypeBoxValidatorCompiler({ ...definition, httpPart: isConverted ? httpPart : 'body' })
  return (given: unknown) => {
    const value = httpPart === 'body' ? given ?? {} : given
    const result = check(value)
    const isRefused = typeof result === 'object' && 'error' in result
    return isRefused ? { error: faultsOf(schema, isConverted ? Value.Convert(schema, value) : value) } : result
  }
}

/** The library's own, but for choices: it does not say what there is to choose from. */
function faultsOf (schema: TSchema, value: unknown) {
  return [...Value.Errors(schema, value)].map((error) =>
    ({ keyword: 'schema', instancePath: error.path, schemaPath: '', params: {}, message: choicesOf(error) ?? error.message }))
}

function choicesOf ({ schema }: ValueError): string | undefined {
  const choices = (schema.anyOf as TSchema[] | undefined)?.map((option) => option.const as unknown)
  return choices?.every((choice) => choice !== undefined) ? `Expected one of ${choices.join(', ')}` : undefined
}
