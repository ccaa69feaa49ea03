import { TypeBoxValidatorCompiler } from '@fastify/type-provider-typebox'
import type { FastifySchemaCompiler } from 'fastify'
import type { TSchema } from '@sinclair/typebox'
import { Value, type ValueError } from '@sinclair/typebox/value'

/**
 * Checks requests by TypeBox's own compiler. A body is taken as it came; only a query, which is all text, is read as what
 * its schema says. No body at all is an empty object; Fastify gives it as null. Path parameters are texts, and what they
 * name is looked up: there is nothing to check.
 */
export const validatorCompiler: FastifySchemaCompiler<TSchema> = (definition) => {
  const { httpPart, schema } = definition
  if (httpPart === 'params') return () => true
  // As a body, which the library does not convert: it would round numbers, and take texts for them that are none.
  const check = TypeBoxValidatorCompiler({ ...definition, httpPart: 'body' })
  return (given: unknown) => {
    const value = httpPart === 'querystring' ? readQuery(schema, given as Query) : given ?? {}
    const result = check(value)
    const isRefused = typeof result === 'object' && 'error' in result
    return isRefused ? { error: faultsOf(schema, value) } : result
  }
}

type Query = Record<string, string | string[]>

/** One text is a list of one where a list is wanted, and digits are a number; everything else stays what it is. */
function readQuery ({ properties }: TSchema, query: Query): unknown {
  return Object.fromEntries(Object.entries(query).map(([name, value]) => {
    const type: unknown = Object.hasOwn(properties, name) ? properties[name].type : undefined
    if (type === 'array') return [name, [value].flat()]
    return [name, type === 'integer' && typeof value === 'string' && /^-?[0-9]+$/.test(value) ? Number(value) : value]
  }))
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
