import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Type, type TSchema } from '@sinclair/typebox'
import { GatewayError } from '../../src/errors.ts'
import { compileSchema } from '../../src/tools/schema.ts'

const draft7 = 'http://json-schema.org/draft-07/schema#'
const draft2020 = 'https://json-schema.org/draft/2020-12/schema'

function refused (schema: unknown, reason: RegExp | string): void {
  assert.throws(() => compileSchema(schema, 'parameters'), (error: GatewayError) => {
    assert.ok(error instanceof GatewayError)
    assert.equal(error.code, 'invalid_tool')
    if (typeof reason === 'string') assert.ok(error.message.startsWith(`parameters: ${reason}`), error.message)
    else assert.match(error.message, reason)
    return true
  })
}

function faults (schema: object, value: unknown): string[] {
  const { validator } = compileSchema(schema, 'parameters')
  const found = validator.errors(value)
  assert.equal(validator.check(value), found.length === 0, 'check and errors agree')
  return found.map(({ path, keyword }) => `${path} ${keyword}`)
}

const takes = (schema: object, value: unknown) => faults(schema, value).length === 0

describe('tool schemas', () => {
  describe('refused, with the place', () => {
    it('what is no schema object', () => {
      for (const schema of [undefined, null, true, 'string', 7, [], [{}]]) refused(schema, /^parameters: must be a JSON Schema object$/)
    })

    it('a $ref that names nothing', () => {
      refused({ properties: { a: { $ref: '#/$defs/None' } } }, /^parameters: Unresolved \$ref #\/\$defs\/None in the schema$/)
      refused({ $ref: '#nowhere' }, /#nowhere/)
      refused({ items: { $dynamicRef: '#nowhere' } }, /#nowhere/)
      refused({ $defs: { a: {} }, properties: { a: { $ref: '#/$defs/a/b' } } }, /\$ref/)
      refused({ $schema: draft7, properties: { a: { $ref: '#/definitions/None' } } }, /None/)
    })

    it('a $ref that names nothing, also where nothing refers to its place', () => {
      refused({ type: 'object', $defs: { Unused: { $ref: '#/$defs/None' } } }, /None/)
    })

    it('a $ref that leads elsewhere: nothing is ever fetched', (t) => {
      const fetched = t.mock.method(globalThis, 'fetch', () => assert.fail('fetched'))
      for (const $ref of ['https://example.com/schema.json', 'http://127.0.0.1:1/x#/a', 'other.json', '/absolute.json', 'file:///etc/passwd', 'urn:x:y', draft2020]) {
        refused({ properties: { a: { $ref } } }, /Unresolved \$ref/)
      }
      assert.equal(fetched.mock.callCount(), 0)
    })

    it('a $ref that leads elsewhere, also where nothing refers to its place', () => {
      refused({ type: 'object', $defs: { Unused: { $ref: 'https://example.com/schema.json' } } }, /example/)
    })

    it('an unknown $schema', () => {
      for (const $schema of ['http://json-schema.org/draft-04/schema#', 'https://json-schema.org/draft/2019-09/schema', 'http://example.com', '']) {
        refused({ $schema }, /unknown \$schema/)
      }
      refused({ $schema: 7 }, /unknown \$schema/)
    })

    it('an unknown $schema that is the name of something inherited', () => {
      for (const $schema of ['constructor', 'toString', '__proto__']) refused({ $schema }, /unknown \$schema/)
    })

    it('Type.Transform, at any depth', () => {
      const transform = Type.Transform(Type.String()).Decode((text) => Number(text)).Encode(String)
      for (const schema of [transform, Type.Object({ a: transform }), Type.Object({ a: Type.Array(Type.Union([Type.Null(), transform])) }), Type.Record(Type.String(), transform), Type.Tuple([transform])]) {
        refused(schema, /Type\.Transform/)
      }
    })

    it("TypeBox's types of values that JSON does not have", () => {
      for (const type of [Type.Date(), Type.Uint8Array(), Type.Undefined(), Type.BigInt(), Type.Void(), Type.Symbol(), Type.RegExp(/a/), Type.Function([], Type.Null()), Type.Promise(Type.Null())] as TSchema[]) {
        refused(Type.Object({ a: type }), /^parameters: \/properties\/a\/type must hold a JSON type/)
      }
    })

    it('keywords that mean nothing in draft-07', () => {
      const foreign: Record<string, unknown> = {
        prefixItems: [{}],
        minContains: 1,
        maxContains: 1,
        unevaluatedItems: false,
        unevaluatedProperties: false,
        dependentSchemas: { a: {} },
        dependentRequired: { a: ['b'] },
        $anchor: 'a',
        $dynamicRef: '#',
        $dynamicAnchor: 'a'
      }
      for (const [keyword, value] of Object.entries(foreign)) {
        refused({ $schema: draft7, [keyword]: value }, /has no meaning in draft-07/)
        refused({ $schema: draft7, properties: { a: { items: { [keyword]: value } } } }, `/properties/a/items/${keyword} has no meaning in draft-07`)
        assert.ok(compileSchema({ $schema: draft2020, properties: { a: { [keyword]: value } } }, 'parameters'), 'in 2020-12 it has one')
      }
    })

    it('keywords that mean nothing in draft-07, also behind a $ref to a place of no keyword', () => {
      refused({ $schema: draft7, properties: { a: { $ref: '#/components/Pair' } }, components: { Pair: { prefixItems: [{ type: 'string' }] } } }, /prefixItems/)
    })

    it('keywords of other drafts that assert there', () => {
      for (const keyword of ['$recursiveRef', '$recursiveAnchor', '$vocabulary', 'extends', 'disallow', 'divisibleBy']) {
        refused({ properties: { a: { [keyword]: '#' } } }, `/properties/a/${keyword} is not supported`)
      }
    })

    const wrong: [schema: object, expected: string][] = [
      [{ type: 'strin' }, '/type must hold a JSON type'],
      [{ type: ['string', 'none'] }, '/type must hold a JSON type'],
      [{ type: 5 }, '/type must hold a JSON type'],
      [{ type: null }, '/type must hold a JSON type'],
      [{ minLength: '5' }, '/minLength must hold a number'],
      [{ minimum: null }, '/minimum must hold a number'],
      [{ minimum: Infinity }, '/minimum must hold a number'],
      [{ exclusiveMinimum: true }, '/exclusiveMinimum must hold a number'],
      [{ required: true }, '/required must hold an array of strings'],
      [{ required: 'a' }, '/required must hold an array of strings'],
      [{ required: [1] }, '/required must hold an array of strings'],
      [{ properties: [] }, '/properties must hold an object of schemas'],
      [{ properties: { a: 'string' } }, '/properties must hold an object of schemas'],
      [{ properties: { a: null } }, '/properties must hold an object of schemas'],
      [{ items: 'string' }, '/items must hold a schema or an array of schemas'],
      [{ items: [1] }, '/items must hold a schema or an array of schemas'],
      [{ prefixItems: {} }, '/prefixItems must hold an array of schemas'],
      [{ anyOf: {} }, '/anyOf must hold an array of schemas'],
      [{ not: [] }, '/not must hold a schema'],
      [{ additionalProperties: 'no' }, '/additionalProperties must hold a schema'],
      [{ enum: 'a' }, '/enum must hold an array'],
      [{ pattern: 5 }, '/pattern must hold a string'],
      [{ pattern: /a/ }, '/pattern must hold a string'],
      [{ format: 5 }, '/format must hold a string'],
      [{ uniqueItems: 'yes' }, '/uniqueItems must hold a boolean'],
      [{ $ref: {} }, '/$ref must hold a string'],
      [{ dependencies: { a: 'b' } }, '/dependencies must hold an object of schemas or arrays of names'],
      [{ properties: { 'a/b': { items: { '~c': 1, minItems: 'x' } } } }, '/properties/a~1b/items/minItems must hold a number']
    ]
    for (const [schema, expected] of wrong) {
      it(`a keyword that holds the wrong thing: ${JSON.stringify(schema)}`, () => {
        refused(schema, expected)
      })
    }

    it('a pattern that is no regular expression', () => {
      refused({ pattern: '(' }, /regular expression/i)
      refused({ patternProperties: { '(': {} } }, /regular expression/i)
    })

    it('what is no JSON', () => {
      const cyclic: Record<string, unknown> = {}
      cyclic.not = cyclic
      refused(cyclic, /is not JSON/)
      refused({ const: 1n }, /is not JSON/)
    })

    it('nesting that nothing could check, without taking the process down', () => {
      let deep: object = {}
      for (let level = 0; level < 20_000; level++) deep = { not: deep }
      refused(deep, /./)
    })
  })

  describe('tuples', () => {
    const good = ['a', 1]
    const bad = [[1, 'a'], ['a', 'a'], ['a', 1, 2]]

    function enforced (schema: object): void {
      assert.ok(takes(schema, good))
      for (const value of bad) assert.ok(!takes(schema, value), JSON.stringify(value))
    }

    it('as prefixItems are enforced without $schema and as 2020-12', () => {
      const tuple = { type: 'array', prefixItems: [{ type: 'string' }, { type: 'number' }], items: false }
      enforced(tuple)
      enforced({ $schema: draft2020, ...tuple })
    })

    it('as prefixItems are refused as draft-07', () => {
      refused({ $schema: draft7, type: 'array', prefixItems: [{ type: 'string' }], items: false }, /prefixItems has no meaning/)
    })

    it('as a list of items are enforced in either draft, and without $schema', () => {
      const tuple = { type: 'array', items: [{ type: 'string' }, { type: 'number' }], additionalItems: false }
      enforced(tuple)
      enforced({ $schema: draft7, ...tuple })
      enforced({ $schema: draft2020, ...tuple })
    })

    it("TypeBox's own are enforced", () => enforced(Type.Tuple([Type.String(), Type.Number()])))

    it('below other keywords are enforced', () => {
      assert.deepEqual(faults({ properties: { pair: { items: [{ type: 'string' }], additionalItems: { type: 'null' } } } }, { pair: ['a', 1] }), ['/pair/1 type'])
    })
  })

  describe('references', () => {
    const branch = { type: 'object', properties: { name: { type: 'string' }, kids: { type: 'array', items: { $ref: '#/$defs/Branch' } } }, required: ['name'], additionalProperties: false }

    it('through $defs, with the path of a fault far down', () => {
      const schema = { type: 'object', properties: { root: { $ref: '#/$defs/Branch' } }, $defs: { Branch: branch } }
      assert.ok(takes(schema, { root: { name: 'a', kids: [{ name: 'b', kids: [] }] } }))
      assert.deepEqual(faults(schema, { root: { name: 'a', kids: [{ name: 'b', kids: [{ name: 5 }] }] } }), ['/root/kids/0/kids/0/name type'])
      assert.deepEqual(faults(schema, { root: { name: 'a', kids: [{ name: 'b', kids: [5] }] } }), ['/root/kids/0/kids/0 type'])
    })

    it('through definitions, in either draft', () => {
      for (const $schema of [undefined, draft7, draft2020]) {
        const schema = { ...($schema === undefined ? {} : { $schema }), properties: { root: { $ref: '#/definitions/Branch' } }, definitions: { Branch: { ...branch, properties: { kids: { items: { $ref: '#/definitions/Branch' } } }, required: [] } } }
        assert.deepEqual(faults(schema, { root: { kids: [{ kids: [{ x: 1 }] }] } }), ['/root/kids/0/kids/0/x additionalProperties'])
      }
    })

    it('to a sibling property, and to the whole', () => {
      const schema = { properties: { a: { type: 'string' }, b: { $ref: '#/properties/a' }, again: { $ref: '#' } } }
      assert.deepEqual(faults(schema, { b: 1 }), ['/b type'])
      assert.deepEqual(faults(schema, { again: { again: { b: 1 } } }), ['/again/again/b type'])
    })

    it('by $anchor and $id within the schema', () => {
      assert.deepEqual(faults({ properties: { a: { $ref: '#word' } }, $defs: { w: { $anchor: 'word', type: 'string' } } }, { a: 1 }), ['/a type'])
      assert.deepEqual(faults({ $id: 'https://example.com/root', properties: { a: { $ref: 'https://example.com/root#/$defs/w' } }, $defs: { w: { type: 'string' } } }, { a: 1 }), ['/a type'])
    })

    it("of TypeBox's recursive types and modules", () => {
      const tree = Type.Recursive((Self) => Type.Object({ kids: Type.Array(Self), n: Type.Number() }))
      assert.deepEqual(faults(tree, { n: 1, kids: [{ n: 1, kids: [{ n: 'x', kids: [] }] }] }), ['/kids/0/kids/0/n type'])
      const module = Type.Module({ A: Type.Object({ b: Type.Optional(Type.Ref('B')) }), B: Type.Object({ n: Type.Number() }) })
      assert.deepEqual(faults(module.Import('A'), { b: { n: 'x' } }), ['/b/n type'])
    })

    it('of two schemas with the same $id do not meet', () => {
      const first = compileSchema({ $id: 'same', type: 'string' }, 'parameters')
      const second = compileSchema({ $id: 'same', type: 'number' }, 'parameters')
      assert.deepEqual([first.validator.check('a'), second.validator.check('a'), second.validator.check(1)], [true, false, true])
    })
  })

  describe('validation', () => {
    const legal = {
      type: 'object',
      additionalProperties: false,
      properties: {
        offset: { anyOf: [{ type: 'null' }, { type: 'number' }] },
        dryRun: { anyOf: [{ type: 'null' }, { type: 'boolean' }] },
        limit: { type: 'integer' },
        owner: { type: 'string' }
      }
    }

    it('takes legal input as it is', () => {
      assert.ok(takes(legal, { offset: 0, dryRun: false }))
      assert.ok(takes(legal, { limit: 3.0 }))
    })

    it('coerces nothing in checking', () => {
      for (const limit of ['7', true, null]) assert.deepEqual(faults(legal, { limit }), ['/limit type'])
      assert.deepEqual(faults(legal, { owner: 5 }), ['/owner type'])
    })

    it('knows own properties from inherited ones', () => {
      assert.deepEqual(faults({ type: 'object', required: ['constructor', 'toString'] }, {}), ['/constructor required', '/toString required'])
      assert.deepEqual(faults({ properties: { constructor: { type: 'string' } } }, {}), [])
      assert.deepEqual(faults({ properties: {}, additionalProperties: false }, { constructor: 1 }), ['/constructor additionalProperties'])
    })

    it('asserts the formats it knows', () => {
      for (const [format, bad] of [['email', 'x'], ['date-time', 'today'], ['uuid', '1'], ['uri', ':'], ['ipv4', '1.2.3']] as const) {
        assert.deepEqual(faults({ format, type: 'string' }, bad), [' format'], format)
      }
    })

    it('fills in no default', () => {
      const value = {}
      const { validator } = compileSchema({ properties: { a: { type: 'string', default: 'x' } } }, 'parameters')
      assert.ok(validator.check(value))
      assert.deepEqual(validator.coerce(value), {})
      assert.deepEqual(value, {})
    })

    it('finds every fault at once', () => {
      assert.deepEqual(faults({ properties: { a: { type: 'string' }, b: { minimum: 5 } }, required: ['c'] }, { a: 1, b: 1 }).sort(), ['/a type', '/b minimum', '/c required'])
    })
  })

  describe('what is let pass without effect', () => {
    it('is reported: unknown keywords and unknown formats, each once', () => {
      const { ignored } = compileSchema({
        'x-order': 1, properties: { a: { nullable: true, format: 'made-up' }, b: { format: 'made-up', format2: 1 }, 'x-not-a-keyword': { type: 'string' } }
      }, 'parameters')
      assert.deepEqual([...ignored].sort(), ['format "made-up"', 'format2', 'nullable', 'x-order'])
    })

    it('is not: annotations that the standard names', () => {
      const { ignored } = compileSchema({ title: 't', description: 'd', default: 1, examples: [1], deprecated: true, readOnly: true, writeOnly: false, $comment: 'c', contentEncoding: 'base64', contentMediaType: 'text/plain' }, 'parameters')
      assert.deepEqual(ignored, [])
    })

    it('is not: data, which is no schema', () => {
      const { ignored, validator } = compileSchema({ const: { type: 'nonsense', minLength: 'x', $ref: '#/nowhere' } }, 'parameters')
      assert.deepEqual(ignored, [])
      assert.ok(validator.check({ type: 'nonsense', minLength: 'x', $ref: '#/nowhere' }))
      assert.ok(compileSchema({ enum: [{ type: 5 }], default: { $schema: 'x' }, examples: [{ required: 1 }] }, 'parameters'))
    })
  })

  describe('the author keeps the schema', () => {
    it('which is not touched', () => {
      const schema = { type: 'object', properties: { a: { $ref: '#/$defs/a' } }, $defs: { a: { type: 'string', default: 'x' } } }
      const before = structuredClone(schema)
      const { validator } = compileSchema(schema, 'parameters')
      validator.errors({ a: 1 })
      validator.parse({ a: 1 })
      assert.deepEqual(schema, before)
    })

    it('and may change it without effect', () => {
      const schema = { type: 'object', properties: { a: { type: 'string' } } }
      const compiled = compileSchema(schema, 'parameters')
      schema.properties.a.type = 'number'
      ;(schema as Record<string, unknown>).required = ['b']
      assert.ok(compiled.validator.check({ a: 'x' }))
      assert.deepEqual(compiled.validator.errors({ a: 1 }).map(({ path }) => path), ['/a'])
      assert.deepEqual(compiled.schema, { type: 'object', properties: { a: { type: 'string' } } })
    })

    it('or have it frozen', () => {
      const schema = Object.freeze({ type: 'object', properties: Object.freeze({ a: Object.freeze({ type: 'string' }) }) })
      const { validator } = compileSchema(schema, 'parameters')
      assert.deepEqual(validator.errors({ a: 1 }).map(({ path }) => path), ['/a'])
      assert.deepEqual(validator.coerce({ a: 1 }), { a: '1' })
    })

    it('a key __proto__ in it is a key', () => {
      const schema = JSON.parse('{"properties":{"__proto__":{"type":"string"}},"required":["__proto__"]}') as object
      assert.deepEqual(faults(schema, {}), ['/__proto__ required'])
      assert.equal(({} as { type?: string }).type, undefined)
    })
  })
})
