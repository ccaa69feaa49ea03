import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { Mask, MASKED, replaceScalars } from '../../src/json/mask.ts'

const replacement = JSON.stringify(MASKED)

/** The text of an input with what the pointers point at replaced. */
function masked (text: string, ...pointers: string[]): string {
  let result = ''
  let done = 0
  for (const { start, end } of new Mask(pointers).find('input', text)) {
    result += text.slice(done, start) + replacement
    done = end
  }
  return result + text.slice(done)
}

const escaped = (key: string) => key.replaceAll('~', '~0').replaceAll('/', '~1')

/** The same by the book: each value of the tree, with the path to it, is held against each pointer. */
function byTheBook (value: unknown, pointers: readonly string[], path: readonly string[] = []): string {
  const fits = pointers.some((pointer) => {
    const segments = pointer.split('/').slice(2)
    return segments.length === path.length && segments.every((segment, at) => segment === '*' || segment === escaped(path[at]!))
  })
  if (fits) return replacement
  if (Array.isArray(value)) return `[${value.map((item, at) => byTheBook(item, pointers, [...path, String(at)])).join(',')}]`
  if (typeof value !== 'object' || value === null) return JSON.stringify(value)
  return `{${Object.entries(value).map(([key, item]) => `${JSON.stringify(key)}:${byTheBook(item, pointers, [...path, key])}`).join(',')}}`
}

function pathsOf (value: unknown, path = '/input'): string[] {
  return typeof value !== 'object' || value === null ? [path] : [path, ...Object.entries(value).flatMap(([key, item]) => pathsOf(item, `${path}/${escaped(key)}`))]
}

/** JSON with the keys that are awkward, and pointers into it, some of them with stars. */
const cases = fc.json({ maxDepth: 5, stringUnit: 'binary' }).chain((text) => {
  const value: unknown = JSON.parse(text)
  const pointer = fc.tuple(fc.constantFrom(...pathsOf(value)), fc.array(fc.boolean(), { maxLength: 6 }))
    .map(([path, stars]) => path.split('/').map((segment, at) => at > 1 && stars[at - 2] === true ? '*' : segment).join('/'))
    .filter((path) => path.length <= 1000)
  return fc.record({ value: fc.constant(value), pointers: fc.array(pointer, { minLength: 1, maxLength: 4 }) })
})

describe('a mask', () => {
  const table: [pointer: string, text: string, result: string][] = [
    ['/input/a', '{"a":1,"b":{"a":2}}', '{"a":"[masked]","b":{"a":2}}'],
    ['/input/b/a', '{"a":1,"b":{"a":[{}]}}', '{"a":1,"b":{"a":"[masked]"}}'],
    ['/input/items/*/card', '{"items":[{"card":1},{"card":"x","n":2},3,[4]]}', '{"items":[{"card":"[masked]"},{"card":"[masked]","n":2},3,[4]]}'],
    ['/input/*/x', '{"a":{"x":1},"b":{"x":null}}', '{"a":{"x":"[masked]"},"b":{"x":"[masked]"}}'],
    ['/input/1', '[0,true,2]', '[0,"[masked]",2]'],
    ['/input/01', '[0,1]', '[0,1]'],
    ['/input', '{"a":1}', '"[masked]"'],
    ['/input/', '{"":1," ":2}', '{"":"[masked]"," ":2}'],
    ['/input/a~1b~0c', '{"a/b~c":"x","a/b":1}', '{"a/b~c":"[masked]","a/b":1}'],
    ['/input/~01', '{"~1":1,"/":2}', '{"~1":"[masked]","/":2}'],
    ['/input/__proto__', '{"__proto__":{"a":1},"a":2}', '{"__proto__":"[masked]","a":2}'],
    ['/input/constructor', '{}', '{}'],
    ['/input/a', '{"a\\u0000":1,"\\ud800":2,"a":"]}\\"\\\\"}', '{"a\\u0000":1,"\\ud800":2,"a":"[masked]"}'],
    ['/input/a/b', '{"a":"b"}', '{"a":"b"}'],
    ['/result/details', '{"details":1}', '{"details":1}']
  ]
  for (const [pointer, text, result] of table) it(`${pointer} of ${text}`, () => assert.equal(masked(text, pointer), result))

  it('takes the outer of two values, and no value twice', () => {
    assert.equal(masked('{"a":{"b":1},"c":2}', '/input/a/b', '/input/a', '/input/*', '/input/c'), '{"a":"[masked]","c":"[masked]"}')
  })

  it('takes what the pointers point at, and changes nothing else to the letter', () => {
    fc.assert(fc.property(cases, ({ value, pointers }) => {
      assert.equal(masked(JSON.stringify(value), ...pointers), byTheBook(value, pointers))
    }), { numRuns: 1000 })
  })

  it('is made of the pointers of two', () => {
    const both = new Mask(['/input/a', '/input/b']).and(new Mask(['/input/b', '/result/details']))
    assert.deepEqual([both.pointers, both.isAbout('input'), both.isAbout('result')], [['/input/a', '/input/b', '/result/details'], true, true])
    assert.deepEqual([Mask.of([]), Mask.of(['/input/a'])!.isAbout('result')], [undefined, false])
  })

  for (const pointer of ['', '/', 'input/a', '/inputs', '/result', '/result/usage', '/result/isError', '/input/~', '/input/~2', '#/input/a', `/input/${'a'.repeat(1000)}`, 5, null]) {
    it(`refuses ${JSON.stringify(pointer).slice(0, 40)}`, () => {
      assert.throws(() => new Mask([pointer as string]), { code: 'invalid_config', message: /JSON Pointer that begins with/ })
    })
  }

  it('takes its time from the text alone, however deep that is and however many stars there are', () => {
    const deep = `${'['.repeat(1000)}"x"${']'.repeat(1000)}`
    const wide = JSON.stringify(Array.from({ length: 200_000 }, (_, n) => ({ n, text: '"\\' })))
    const pointers = Array.from({ length: 100 }, (_, n) => `/input/*/*${'/*'.repeat(n % 50)}/${n}`)
    const began = performance.now()
    assert.equal(masked(deep, `/input${'/*'.repeat(400)}`), `${'['.repeat(400)}"[masked]"${']'.repeat(400)}`)
    assert.equal(masked(wide, ...pointers), wide)
    assert.ok(performance.now() - began < 5000)
  })
})

describe('scalars in a text', () => {
  it('are given in their order, keys told apart; what stays leaves the text as it is', () => {
    fc.assert(fc.property(fc.json({ maxDepth: 5, stringUnit: 'binary' }), (json) => {
      const value: unknown = JSON.parse(json)
      const text = JSON.stringify(value)
      const found: [string, boolean][] = []
      const visit = (replace: boolean) => replaceScalars(text, { start: 0, end: text.length }, (scalar, isKey) => {
        if (!replace) found.push([scalar, isKey])
        return replace ? scalar : undefined
      })
      assert.deepEqual([visit(false), visit(true)], [text, text])
      assert.deepEqual(found, scalarsOf(value))
    }), { numRuns: 500 })
  })

  it('are replaced where they stand', () => {
    const text = '{"a":[1,-2.5e-7,true,false,null,"a"],"b":"\\"b\\""}'
    const given = (scalar: string, isKey: boolean) => isKey ? undefined : JSON.stringify(`<${scalar}>`)
    assert.equal(replaceScalars(text, { start: 0, end: text.length }, given), '{"a":["<1>","<-2.5e-7>",true,false,null,"<\\"a\\">"],"b":"<\\"\\\\\\"b\\\\\\"\\">"}')
    assert.equal(replaceScalars(text, { start: 5, end: 15 }, given), '["<1>","<-2.5e-7>"')
  })
})

function scalarsOf (value: unknown): [string, boolean][] {
  if (typeof value === 'string' || typeof value === 'number') return [[JSON.stringify(value), false]]
  if (Array.isArray(value)) return value.flatMap(scalarsOf)
  if (typeof value !== 'object' || value === null) return []
  return Object.entries(value).flatMap(([key, item]) => [[JSON.stringify(key), true] as [string, boolean], ...scalarsOf(item)])
}
