import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { messageOf } from '../../src/tools/error-message.ts'

const silent = 'The tool failed without a message.'
const hostile = new Error('x')
Object.defineProperty(hostile, 'message', { get () { throw new Error('no') } })

const cases: [what: string, thrown: unknown, message: string][] = [
  ['an error', new TypeError('broken'), 'broken'],
  ['a frozen error', Object.freeze(new Error('cold')), 'cold'],
  ['an error without words', new Error(''), silent],
  ['an error whose message getter throws', hostile, silent],
  ['an error whose message is no text', Object.assign(new Error('x'), { message: 5 }), '5'],
  ['an error whose message is undefined', Object.assign(new Error('x'), { message: undefined }), silent],
  ['an error whose message cannot be made text', Object.assign(new Error('x'), { message: Object.create(null) as unknown }), silent],
  ['a string', 'words', 'words'],
  ['an empty string', '', silent],
  ['undefined', undefined, silent],
  ['null', null, silent],
  ['a number', 7, '7'],
  ['a symbol', Symbol('s'), 'Symbol(s)'],
  ['an object with a message', { message: 'bare' }, 'bare'],
  ['an object without a prototype', Object.create(null), silent],
  ['a proxy that throws', new Proxy({}, { get () { throw new Error('no') }, getPrototypeOf () { throw new Error('no') } }), silent]
]

describe('the message of what was thrown', () => {
  for (const [what, thrown, message] of cases) it(`of ${what} is told without throwing`, () => assert.equal(messageOf(thrown), message))
})
