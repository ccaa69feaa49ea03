import type { Case } from '../case.ts'
import { differing, gives, subject, throws, usage, words } from './subject.ts'

const invalid = (path: string, message: string) => ({
  content: words(`The output of tool "subject" is invalid:\n- ${path === '' ? '' : `${path}: `}${message}`),
  details: { errors: [{ path, keyword: 'json', message }] },
  isError: true
})

const cycle: { self?: unknown } = {}
cycle.self = cycle

/** A success in pi that is none on the wire. */
const notJson = (name: string, value: unknown, path: string, message: string): Case => ({
  name: `details: ${name}`,
  tools: gives(() => ({ content: words('x'), details: value })),
  ...differing('not-json', { content: words('x'), details: value, isError: false }, invalid(path, message))
})

const bent = (name: string, value: unknown, wire: unknown): Case => ({
  name: `details: ${name}`,
  tools: gives(() => ({ content: words('x'), details: value })),
  ...differing('as-json', { details: value }, { details: wire })
})

const nasty = { 'U+2028 and U+2029': '\u2028\u2029', 'a lone surrogate': 'a\ud800b', NUL: 'a\0b', 'line ends': 'a\r\n\r\ndata: x\n\nb', 'a byte order mark': '\ufeffx', 'an emoji': '\u{1F600}', 'very long text': 'é'.repeat(20_000) }

/** What JSON has to say of a result. */
export const json: Case[] = [
  { name: 'details: nested, with each kind of JSON', tools: gives(() => ({ content: words('x'), details: { a: [null, true, { '': [] }], ключ: 5e-324, n: -1.5e300 } })) },
  { name: 'details: the order of keys', tools: gives(() => ({ content: words('x'), details: JSON.stringify({ b: 1, a: 2 }) })) },
  { name: 'details: a key __proto__ in what the tool gives', tools: gives(() => ({ content: words('x'), details: JSON.parse('{"__proto__":{"a":1},"b":2}') })) },
  bent('a Date', { at: new Date(0) }, { at: '1970-01-01T00:00:00.000Z' }),
  bent('members that are undefined', { a: undefined, list: [undefined, 1] }, { list: [null, 1] }),
  bent('-0', [-0], [0]),
  bent('a Map and a Set, which JSON knows nothing of', { map: new Map([['a', 1]]), set: new Set([1]) }, { map: {}, set: {} }),
  bent('bytes', new Uint8Array([1, 2]), { 0: 1, 1: 2 }),
  notJson('NaN', { n: NaN }, '/details/n', 'details is not JSON: NaN has no JSON form'),
  notJson('Infinity', [Infinity], '/details/0', 'details is not JSON: Infinity has no JSON form'),
  notJson('a BigInt', { n: 1n }, '/details', 'details is not JSON: holds a BigInt'),
  notJson('a cycle', cycle, '/details', 'details is not JSON: holds a cycle'),
  {
    name: 'NaN in the structuredContent of a failure: the failure stays, without it',
    tools: gives(() => ({ content: words('no'), details: 1, structuredContent: NaN as never, isError: true })),
    ...differing('not-json', { structuredContent: NaN }, {})
  },
  {
    name: 'a block of no kind',
    tools: gives(() => ({ content: [{ type: 'smoke' }], details: null })),
    ...differing('result-checked',
      { content: [{ type: 'smoke' }], details: null, isError: false },
      {
        content: words('The output of tool "subject" is invalid:\n- /content/0/type: expected one of ["text","image","audio","resource","resource_link"]'),
        details: { errors: [{ path: '/content/0/type', keyword: 'anyOf', message: 'expected one of ["text","image","audio","resource","resource_link"]' }] },
        isError: true
      })
  },
  {
    name: 'content that is text',
    tools: gives(() => ({ content: 'x', details: null })),
    ...differing('result-checked',
      { content: 'x', details: null, isError: false },
      {
        content: words('The output of tool "subject" is invalid:\n- /content: expected array, got string'),
        details: { errors: [{ path: '/content', keyword: 'type', message: 'expected array, got string' }] },
        isError: true
      })
  },
  {
    name: 'usage that has not all of its fields',
    tools: gives(() => ({ content: words('x'), details: null, usage: { ...usage(1), output: 'two' } })),
    ...differing('result-checked',
      { content: words('x'), details: null, usage: { ...usage(1), output: 'two' }, isError: false },
      {
        content: words('The output of tool "subject" is invalid:\n- /usage/output: expected number, got string'),
        details: { errors: [{ path: '/usage/output', keyword: 'type', message: 'expected number, got string' }] },
        isError: true
      })
  },
  {
    name: 'a result that is text',
    tools: gives(() => 'done'),
    ...differing('result-checked',
      { isError: false },
      {
        content: words('The output of tool "subject" is invalid:\n- a result is an object, not a string'),
        details: { errors: [{ path: '', keyword: 'type', message: 'a result is an object, not a string' }] },
        isError: true
      })
  },
  {
    name: 'no result at all',
    tools: gives(() => undefined),
    ...differing('no-result', { content: words("Cannot read properties of undefined (reading 'isError')"), details: {}, isError: true }, { content: [], details: null, isError: false })
  },
  {
    name: 'a result of null',
    tools: gives(() => null),
    ...differing('no-result', { content: words("Cannot read properties of null (reading 'isError')"), details: {}, isError: true }, { content: [], details: null, isError: false })
  },
  {
    name: 'a result over the size limit',
    gateway: { maxResultBytes: 2000 },
    tools: gives(() => ({ content: words('x'.repeat(3000)), details: 1 })),
    ...differing('limits',
      { content: words('x'.repeat(3000)), details: 1, isError: false },
      { content: words('The result of tool "subject" is over the limit of 2000 bytes.'), details: null, isError: true })
  },
  ...Object.entries(nasty).flatMap(([what, text]): Case[] => [
    { name: `text: ${what}`, tools: gives(() => ({ content: words(text), details: { [text]: text }, structuredContent: [text] })) },
    {
      name: `thrown text and arguments: ${what}`,
      calls: [{ args: { [text]: text } }],
      tools: throws(() => new Error(text)),
      ...differing('details-null', { details: {} }, { details: null })
    }
  ]),
  { name: 'a call id of odd characters', calls: [{ id: 'a|b:c/d\u2028"\\\ud83d' }], tools: (scene) => [subject(async (id) => { scene.note('id', id); return { content: [], details: 1 } })] },
  { name: 'keys that objects have of themselves', calls: [{ args: { constructor: 1, toString: 'x', hasOwnProperty: null } }], tools: () => [subject(async (_id, params) => ({ content: [], details: params }))] }
]
