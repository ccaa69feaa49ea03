import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { parseJson } from '../../src/json/parse.ts'

const DEPTH = 100

function parse (text: string, maxDepth = DEPTH): unknown {
  return parseJson(Buffer.from(text), maxDepth)
}

function refused (text: string | Buffer, code: string, message?: RegExp): void {
  const label = text.toString().slice(0, 60)
  assert.throws(() => parseJson(Buffer.from(text), DEPTH), { name: 'GatewayError', code, ...(message === undefined ? {} : { message }) }, label)
}

const nested = (depth: number, core = '') => '['.repeat(depth) + core + ']'.repeat(depth)
const nestedObjects = (depth: number) => '{"a":'.repeat(depth) + '1' + '}'.repeat(depth)

describe('parseJson', () => {
  describe('depth', () => {
    it('at the limit is taken', () => {
      assert.ok(Array.isArray(parse(nested(DEPTH))))
      assert.equal(typeof parse(nestedObjects(DEPTH)), 'object')
    })

    it('one over is refused, with both numbers', () => {
      refused(nested(DEPTH + 1), 'too_deep', /101 .* 100/)
      refused(nestedObjects(DEPTH + 1), 'too_deep')
    })

    it('is what stands inside one another, not side by side', () => {
      assert.ok(parse(`[${Array.from({ length: 500 }, () => '[[]]').join(',')}]`, 3))
    })

    it('of 20,000 and of a million is refused without recursion', () => {
      for (const depth of [20_000, 1_000_000]) {
        refused(nested(depth), 'too_deep')
        refused('['.repeat(depth), 'too_deep')
      }
      refused(nestedObjects(20_000), 'too_deep')
    })

    it('counts no brackets in strings', () => {
      assert.deepEqual(parse('["[[[[{{{{", "\\"[[[[", "\\\\"]', 1), ['[[[[{{{{', '"[[[[', '\\'])
    })

    it('counts brackets that follow a string which ends in backslashes', () => {
      refused(`["\\\\",${nested(DEPTH)}]`, 'too_deep')
      refused(`["\\\\\\"",${nested(DEPTH)}]`, 'too_deep')
    })
  })

  describe('numbers', () => {
    const exact = [
      '0', '-0', '1', '-1', '0.1', '-0.1', '1.0', '3.0', '3.14159', '1e20', '1E5', '1e-5', '1e+5', '0e0', '0.0e-400', '-0.0', '1e300', '5e-324', '1.7976931348623157e308',
      '9007199254740991', '-9007199254740991', '9007199254740992', '-9007199254740992', '999999999999999', '1234567890123456', '0.30000000000000004', '123456789.123456789'
    ]
    for (const literal of exact) {
      it(`${literal} is carried`, () => {
        assert.equal(parse(literal), Number(literal))
        assert.deepEqual(parse(`{"n":[${literal}, ${literal}]}`), { n: [Number(literal), Number(literal)] })
      })
    }

    const inexact = [
      '9007199254740993', '-9007199254740993', '9007199254740994', '10000000000000000', '123456789012345678901234567890', '-99999999999999999999',
      '1e400', '-1e400', '1E+400', '1e-400', '-1e-400', '0.1e-500', '9007199254740993.0', '90071992547409930e-1', '9.007199254740993e15'
    ]
    for (const literal of inexact) {
      it(`${literal} is refused`, () => {
        refused(literal, 'number_not_exact')
        refused(`{"n":[1,${literal}]}`, 'number_not_exact', /send it as a string/)
        refused(`[${literal} ]`, 'number_not_exact')
      })
    }

    it('the refusal names the number, shortened where it is long', () => {
      refused('[1, 9007199254740993]', 'number_not_exact', /9007199254740993/)
      assert.throws(() => parse('1'.repeat(100_000)), (error: Error) => error.message.length < 200)
    })

    it('in strings and in keys are text', () => {
      const text = '{"9007199254740993":"9007199254740993","\\"1e400":"\\\\\\"1e400","a":"-1e-400"}'
      assert.deepEqual(parse(text), JSON.parse(text))
    })

    it('that are none are malformed, not inexact', () => {
      for (const text of ['01', '1.', '.5', '+1', '1e', '--1', '1-2', 'NaN', 'Infinity', '-Infinity', '0x10', '1_000']) refused(text, 'malformed_json')
    })
  })

  describe('forbidden keys', () => {
    it('__proto__ is refused wherever it stands and however it is written', () => {
      for (const text of [
        '{"__proto__":{"isAdmin":true}}', '{"__proto__":null}', '{"a":{"b":[{"__proto__":1}]}}', '[[{"__proto__":[]}]]',
        '{"\\u005f_proto__":{}}', '{"__pr\\u006fto__":{}}', '{"\\u005F\\u005F\\u0070\\u0072\\u006f\\u0074\\u006f\\u005f\\u005f":1}'
      ]) refused(text, 'forbidden_key', /__proto__/)
    })

    it('constructor.prototype is refused wherever it stands and however it is written', () => {
      for (const text of [
        '{"constructor":{"prototype":{"x":1}}}', '{"a":[{"constructor":{"b":1,"prototype":null}}]}',
        '{"c\\u006fnstructor":{"prototype":{}}}', '{"constructor":{"protot\\u0079pe":{}}}'
      ]) refused(text, 'forbidden_key', /constructor\.prototype/)
    })

    it('the same words as values, and constructor or prototype alone, are fine', () => {
      for (const text of [
        '"__proto__"', '["__proto__","constructor","prototype"]', '{"constructor":"Acme"}', '{"constructor":{"name":"Acme"}}', '{"prototype":{"constructor":{}}}',
        '{"constructor":["prototype"]}', '{"constructor":null}', '{"key":"\\u005f_proto__"}', '{"__proto___":1,"_proto_":2}', '{"toString":1,"hasOwnProperty":2}'
      ]) assert.deepEqual(parse(text), JSON.parse(text))
    })

    it('no prototype is ever polluted', () => {
      for (const text of ['{"__proto__":{"polluted":1}}', '{"constructor":{"prototype":{"polluted":1}}}', '{"\\u005f_proto__":{"polluted":1}}']) {
        assert.throws(() => parse(text))
        assert.equal(({} as { polluted?: number }).polluted, undefined)
      }
    })
  })

  describe('text', () => {
    it('that is no JSON is refused, with where', () => {
      for (const text of ['', ' ', '{', '[1,]', '{"a":1,}', "{'a':1}", '{"a"}', 'undefined', 'tru', '"', '"\\x"', '"\n"', '[1] [2]', '{}}', ']', '][', '\u0000']) refused(text, 'malformed_json', /not JSON/)
    })

    it('that is no UTF-8 is refused', () => {
      for (const bytes of [[0xff], [0x22, 0xc3, 0x22], [0x22, 0xed, 0xa0, 0x80, 0x22], [0x22, 0xc0, 0xaf, 0x22], [0x22, 0xf4, 0x90, 0x80, 0x80, 0x22]]) {
        refused(Buffer.from(bytes), 'malformed_json', /UTF-8/)
      }
      refused(Buffer.from('{"a":1}', 'utf16le'), 'malformed_json')
    })

    it('with a byte order mark is refused, as RFC 8259 lets a sender not send one', () => {
      refused('\ufeff{}', 'malformed_json')
    })

    it('with escaped lone surrogates is taken as it is', () => {
      assert.equal(parse('"\\ud800"'), '\ud800')
    })

    it('of any JSON value without extreme numbers comes back equal', () => {
      fc.assert(fc.property(fc.jsonValue({ maxDepth: 20, stringUnit: 'binary' }), (value) => {
        const text = JSON.stringify(value, (_key, member: unknown) => typeof member === 'number' && Math.abs(member) > 2 ** 53 ? 1 : member)
        if (/__proto__/.test(text)) return
        assert.equal(JSON.stringify(parse(text)), text)
      }), { numRuns: 500 })
    })

    it('of any sort is either JSON or refused with a code', () => {
      fc.assert(fc.property(fc.oneof(fc.string({ unit: fc.constantFrom(...'[]{}",:\\0123456789.eE+-trufalsn u"') }), fc.string({ unit: 'binary' })), (text) => {
        let expected: unknown
        try {
          expected = JSON.parse(text)
        } catch {
          return assert.throws(() => parse(text), { name: 'GatewayError' })
        }
        try {
          assert.deepEqual(parse(text), expected)
        } catch (error) {
          assert.match((error as { code: string }).code, /^(number_not_exact|forbidden_key)$/)
        }
      }), { numRuns: 1000 })
    })
  })
})
