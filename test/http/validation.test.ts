import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Type, type TSchema } from '@sinclair/typebox'
import { validatorCompiler } from '../../src/http/validation.ts'

const compile = (httpPart: string, schema: TSchema) => validatorCompiler({ schema, httpPart, method: 'POST', url: '/' }) as (value: unknown) => any
const Mode = Type.Union([Type.Literal('fast'), Type.Literal('slow')])
const Body = Type.Object({ mode: Type.Optional(Mode), times: Type.Optional(Type.Integer()) }, { additionalProperties: false })
const told = (result: any) => result.error.map(({ instancePath, message }: any) => [instancePath, message])

describe('validation of requests', () => {
  it('gives a body back as it came, and no body as an empty object', () => {
    const validate = compile('body', Body)
    const body = { mode: 'fast' }
    assert.equal(validate(body).value, body)
    assert.deepEqual(validate(null).value, {})
    assert.ok('error' in validate({ times: '3' }), 'nothing is converted')
  })

  it('names every fault by its place, and the choices that there are', () => {
    assert.deepEqual(told(compile('body', Body)({ mode: 'quick', times: 'x', more: 1 })), [
      ['/more', 'Unexpected property'],
      ['/mode', 'Expected one of fast, slow'],
      ['/times', 'Expected integer']
    ])
  })

  it('reads a query, which is all text, as what it is to be, and judges that', () => {
    const validate = compile('querystring', Type.Object({ mode: Type.Optional(Type.Array(Mode)), times: Type.Optional(Type.Integer()) }))
    assert.deepEqual(validate({ mode: 'slow', times: '3' }).value, { mode: ['slow'], times: 3 })
    assert.deepEqual(told(validate({ mode: ['slow', 'quick'], times: 'x' })), [['/mode/1', 'Expected one of fast, slow'], ['/times', 'Expected integer']])
  })

  it('takes digits in a query for a number, and rounds or guesses nothing', () => {
    const validate = compile('querystring', Type.Object({ times: Type.Optional(Type.Integer({ minimum: 1 })) }, { additionalProperties: false }))
    assert.deepEqual(validate({ times: '12' }).value, { times: 12 })
    for (const times of ['1.5', 'true', '', ' 1', '1e3', '0x1', '1_000', 'null', ['1', '2'], ['1'], '0', '-1']) assert.deepEqual(told(validate({ times })).map(([path]: any) => path), ['/times'], String(times))
    assert.deepEqual(told(validate(JSON.parse('{"__proto__":"1","toString":"1"}'))).map(([path]: any) => path), ['/__proto__', '/toString'])
  })

  it('of a path is left to whoever looks up what it names', () => {
    assert.equal(compile('params', Type.Object({ id: Type.Integer() }))({ id: 'x' }), true)
  })
})
