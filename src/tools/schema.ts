import { compile, type CoercingValidator } from '@earendil-works/pi-schema'
import { formats } from '@earendil-works/pi-schema/formats'
import { schemaDrafts } from '../contract/tool.ts'
import { GatewayError } from '../errors.ts'

type Draft = '2020-12' | '7'

/** What a keyword holds; `any` is data that no rule looks into. */
type Holds = 'schema' | 'schemas' | 'map' | 'schema or schemas' | 'map or strings' | 'number' | 'string' | 'strings' | 'boolean' | 'type' | 'array' | 'any'

const keywords: Record<string, Holds> = {
  $schema: 'string', $id: 'string', $ref: 'string', $anchor: 'string', $dynamicRef: 'string', $dynamicAnchor: 'string',
  $comment: 'string', $defs: 'map', definitions: 'map',
  type: 'type', const: 'any', enum: 'array',
  multipleOf: 'number', minimum: 'number', maximum: 'number', exclusiveMinimum: 'number', exclusiveMaximum: 'number',
  minLength: 'number', maxLength: 'number', pattern: 'string', format: 'string',
  items: 'schema or schemas', prefixItems: 'schemas', additionalItems: 'schema', contains: 'schema',
  minContains: 'number', maxContains: 'number', minItems: 'number', maxItems: 'number', uniqueItems: 'boolean',
  unevaluatedItems: 'schema',
  properties: 'map', patternProperties: 'map', additionalProperties: 'schema', propertyNames: 'schema',
  unevaluatedProperties: 'schema', required: 'strings', minProperties: 'number', maxProperties: 'number',
  dependencies: 'map or strings', dependentSchemas: 'map', dependentRequired: 'map or strings',
  allOf: 'schemas', anyOf: 'schemas', oneOf: 'schemas', not: 'schema', if: 'schema', then: 'schema', else: 'schema',
  title: 'string', description: 'string', default: 'any', examples: 'any', deprecated: 'any', readOnly: 'any', writeOnly: 'any',
  contentEncoding: 'string', contentMediaType: 'string', contentSchema: 'any'
}

/** Keywords that assert in 2020-12 and mean nothing in draft-07: there they would be accepted and ignored. */
const notInDraft7 = new Set([
  'prefixItems', 'minContains', 'maxContains', 'unevaluatedItems', 'unevaluatedProperties', 'dependentSchemas',
  'dependentRequired', '$anchor', '$dynamicRef', '$dynamicAnchor'
])

/** Keywords of other drafts that assert there and that this validator does not know. */
const unsupported = new Set(['$recursiveRef', '$recursiveAnchor', '$vocabulary', 'extends', 'disallow', 'divisibleBy'])

const types = new Set(['object', 'array', 'string', 'number', 'integer', 'boolean', 'null'])

export interface CompiledSchema {
  /** The schema as plain JSON, independent of what its author does to the original later. */
  readonly schema: Record<string, unknown>
  readonly validator: CoercingValidator
  /** Keywords and formats that are let pass without effect, for one log line. */
  readonly ignored: readonly string[]
}

/**
 * Compiles a tool's schema: TypeBox or any JSON Schema, draft 2020-12 unless `$schema` says draft-07.
 * Known formats are asserted, as pi does; nothing is ever fetched.
 *
 * @param what names the schema in refusals, e.g. `parameters`
 * @throws {GatewayError} `invalid_tool` with the reason: a dangling or remote `$ref`, an unknown `$schema`,
 *   `Type.Transform`, a keyword that would be accepted and ignored, or one that holds the wrong thing
 */
export function compileSchema (source: unknown, what: string): CompiledSchema {
  const refuse = (reason: string, cause?: unknown) => new GatewayError('invalid_tool', `${what}: ${reason}`, { cause })
  if (typeof source !== 'object' || source === null || Array.isArray(source)) throw refuse('must be a JSON Schema object')
  refuseTransforms(source, refuse)

  let schema: Record<string, unknown>
  try {
    schema = JSON.parse(JSON.stringify(source)) as Record<string, unknown>
  } catch (cause) {
    throw refuse(`is not JSON (${(cause as Error).message})`, cause)
  }

  const draft = draftOf(schema, refuse)
  const { ignored, definitions } = inspect(schema, draft, refuse)
  try {
    const validator = compile(schema, { draft, formats, coerce: true }) as CoercingValidator
    // Compiling looks at what is reachable; a definition that nothing uses yet must hold, too.
    if (definitions.length > 0) compile({ ...schema, allOf: definitions.map(($ref) => ({ $ref })) }, { draft, formats })
    validator.check({})
    return { schema, validator, ignored }
  } catch (cause) {
    const reason = cause instanceof RangeError ? 'refers to itself without end' : (cause as Error).message
    throw refuse(reason.replace('https://json-schema.invalid/root.json', 'the schema'), cause)
  }
}

type Refuse = (reason: string, cause?: unknown) => GatewayError

function draftOf (schema: Record<string, unknown>, refuse: Refuse): Draft {
  if (schema.$schema === undefined) return '2020-12'
  const uri = typeof schema.$schema === 'string' ? schema.$schema.replace(/#$/, '') : ''
  const draft = Object.hasOwn(schemaDrafts, uri) ? schemaDrafts[uri] : undefined
  if (draft === undefined) throw refuse(`unknown $schema ${JSON.stringify(schema.$schema)}; draft 2020-12 and draft-07 are known`)
  return draft
}

/** `Type.Transform` runs code on values, which no JSON Schema can say. TypeBox marks it with a symbol. */
function refuseTransforms (source: object, refuse: Refuse): void {
  const seen = new Set<object>([source])
  for (const node of seen) {
    if (Object.getOwnPropertySymbols(node).some((symbol) => symbol.description === 'TypeBox.Transform')) {
      throw refuse('Type.Transform cannot be expressed in JSON Schema')
    }
    for (const child of Object.values(node)) if (typeof child === 'object' && child !== null) seen.add(child)
  }
}

/** Walks every subschema, refusing what validation would silently ignore and noting what it harmlessly does. */
function inspect (root: unknown, draft: Draft, refuse: Refuse): { ignored: string[], definitions: string[] } {
  const ignored = new Set<string>()
  const definitions: string[] = []
  const seen = new Set<unknown>()
  const pending: { node: unknown, path: string }[] = [{ node: root, path: '' }]
  while (pending.length > 0) {
    const { node, path } = pending.pop()!
    if (typeof node === 'boolean' || seen.has(node)) continue
    seen.add(node)
    if (!isRecord(node)) throw refuse(`${path || '/'} must be a schema (an object or a boolean)`)
    for (const [keyword, value] of Object.entries(node)) {
      const place = `${path}/${escape(keyword)}`
      const holds = Object.hasOwn(keywords, keyword) ? keywords[keyword]! : undefined
      if (holds === undefined) {
        if (unsupported.has(keyword)) throw refuse(`${place} is not supported`)
        ignored.add(keyword)
        continue
      }
      if (draft === '7' && notInDraft7.has(keyword)) throw refuse(`${place} has no meaning in draft-07`)
      if (keyword === 'format' && !Object.hasOwn(formats, String(value))) ignored.add(`format "${String(value)}"`)
      if (!fits(holds, value)) throw refuse(`${place} must hold ${expectation[holds]}`)
      for (const [name, child] of subschemas(holds, value)) {
        const at = name === undefined ? place : `${place}/${escape(name)}`
        pending.push({ node: child, path: at })
        if (keyword === '$defs' || keyword === 'definitions') definitions.push(`#${encodeURI(at).replaceAll('#', '%23')}`)
      }
      // A reference may lead to where no keyword does.
      if (keyword === '$ref' && (value as string).startsWith('#/')) {
        const target = follow(root, value as string)
        if (target !== undefined) pending.push({ node: target, path: (value as string).slice(1) })
      }
    }
  }
  return { ignored: [...ignored], definitions }
}

function escape (name: string): string {
  return name.replaceAll('~', '~0').replaceAll('/', '~1')
}

/** What a JSON Pointer in a URI fragment leads to, or undefined where that is nothing. */
function follow (root: unknown, fragment: string): unknown {
  let node: unknown = root
  for (const part of fragment.slice(2).split('/')) {
    let name: string
    try {
      name = decodeURIComponent(part).replaceAll('~1', '/').replaceAll('~0', '~')
    } catch {
      return undefined
    }
    if (typeof node !== 'object' || node === null || !Object.hasOwn(node, name)) return undefined
    node = (node as Record<string, unknown>)[name]
  }
  return node
}

const isRecord = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null && !Array.isArray(value)
const isSchema = (value: unknown): boolean => typeof value === 'boolean' || isRecord(value)
const isStrings = (value: unknown): boolean => Array.isArray(value) && value.every((item) => typeof item === 'string')

const expectation: Record<Holds, string> = {
  schema: 'a schema',
  schemas: 'an array of schemas',
  map: 'an object of schemas',
  'schema or schemas': 'a schema or an array of schemas',
  'map or strings': 'an object of schemas or arrays of names',
  number: 'a number',
  string: 'a string',
  strings: 'an array of strings',
  boolean: 'a boolean',
  type: 'a JSON type, or an array of them',
  array: 'an array',
  any: 'anything'
}

function fits (holds: Holds, value: unknown): boolean {
  switch (holds) {
    case 'schema': return isSchema(value)
    case 'schemas': return Array.isArray(value) && value.every(isSchema)
    case 'map': return isRecord(value) && Object.values(value).every(isSchema)
    case 'schema or schemas': return fits('schema', value) || fits('schemas', value)
    case 'map or strings': return isRecord(value) && Object.values(value).every((member) => isSchema(member) || isStrings(member))
    case 'number': return typeof value === 'number'
    case 'string': return typeof value === 'string'
    case 'strings': return isStrings(value)
    case 'boolean': return typeof value === 'boolean'
    case 'type': return types.has(value as string) || (isStrings(value) && (value as string[]).every((type) => types.has(type)))
    case 'array': return Array.isArray(value)
    case 'any': return true
  }
}

function subschemas (holds: Holds, value: unknown): [name: string | undefined, node: unknown][] {
  switch (holds) {
    case 'schema': return [[undefined, value]]
    case 'schemas': return (value as unknown[]).map((node, index) => [String(index), node])
    case 'schema or schemas': return Array.isArray(value) ? subschemas('schemas', value) : [[undefined, value]]
    case 'map':
    case 'map or strings': return Object.entries(value as object).filter(([, node]) => !Array.isArray(node))
    default: return []
  }
}
