import { TypeBoxValidatorCompiler } from '@fastify/type-provider-typebox'
import type { FastifySchemaCompiler } from 'fastify'
import type { TSchema } from '@sinclair/typebox'

/**
 * Checks requests by TypeBox's own compiler. A body is taken as it came; only a query, which is all text, is converted
 * to what its schema says. No body at all is an empty object; Fastify gives it as null. Path parameters are texts, and
 * what they name is looked up: there is nothing to check.
 */
export const validatorCompiler: FastifySchemaCompiler<TSchema> = (definition) => {
  const { httpPart, schema } = definition
  if (httpPart === 'params') return () => true
  const isConverted = httpPart === 'querystring' && Object.keys(schema.properties as object).length > 0
  const validate = TypeBoxValidatorCompiler({ ...definition, httpPart: isConverted ? httpPart : 'body' })
  return httpPart === 'body' ? (body: unknown) => validate(body ?? {}) : validate
}
