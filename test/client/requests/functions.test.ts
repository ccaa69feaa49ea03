import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { responseOfEnd, responseOfRecord, conclude } from '../../../src/client/answers.ts'
import { ConnectionError, OutputError, ProblemError, ProtocolError, ToolError } from '../../../src/client/errors.ts'
import { lossOf } from '../../../src/client/losses.ts'
import { requestText } from '../../../src/client/request-text.ts'
import { backoffMs, elapsed, isPassing, retryAfterMs, retryPolicy } from '../../../src/client/retry.ts'
import { mayTryAgain } from '../../../src/client/transport.ts'
import { pathText, queryText } from '../../../src/client/url-text.ts'
import { problems } from '../../../src/errors.ts'
import { answer, receipt } from './servers.ts'

describe('backoffMs', () => {
  const policy = { minDelayMs: 100, maxDelayMs: 1000 }

  it('doubles up to the longest', () => {
    assert.deepEqual([1, 2, 3, 4, 5, 6, 1000].map((failures) => backoffMs(failures, policy, 0)), [100, 200, 400, 800, 1000, 1000, 1000])
  })

  it('is cut by up to a half at random', () => {
    assert.deepEqual([0, 0.5, 0.999].map((random) => backoffMs(1, policy, random)), [100, 75, 50])
  })
})

describe('retryPolicy', () => {
  it('has defaults, for what is undefined as well', () => {
    assert.deepEqual(retryPolicy(), { retries: 3, minDelayMs: 250, maxDelayMs: 10_000 })
    assert.deepEqual(retryPolicy({ retries: undefined, minDelayMs: 0, maxDelayMs: undefined }), { retries: 3, minDelayMs: 0, maxDelayMs: 10_000 })
  })
})

describe('retryAfterMs', () => {
  const now = Date.parse('2026-01-01T00:00:00Z')
  const cases: [string | null, number | undefined][] = [
    [null, undefined], ['', undefined], ['0', 0], ['5', 5000], ['86400', 86_400_000],
    ['Thu, 01 Jan 2026 00:00:07 GMT', 7000], ['Wed, 31 Dec 2025 23:59:59 GMT', 0],
    ['soon', undefined], ['-5', undefined], ['1.5', undefined], ['5, 6', undefined], ['May 5', undefined]
  ]
  for (const [header, expected] of cases) {
    it(`${JSON.stringify(header)} is ${expected}`, () => assert.equal(retryAfterMs(header, now), expected))
  }
})

describe('mayTryAgain', () => {
  const problem = (code: string) => new ProblemError({ type: `urn:toolgate:problem:${code}`, title: '', status: 503, detail: '', code }, undefined)
  const cases: [string, unknown, boolean, boolean][] = [
    ['a gateway that is overloaded', problem('overloaded'), true, true],
    ['a gateway that shuts down', problem('shutting_down'), true, true],
    ['an unknown tool', problem('unknown_tool'), false, false],
    ['a failure of the gateway', problem('internal_error'), false, false],
    ['nobody there', new ConnectionError('unreachable', ''), true, true],
    ['a lost connection', new ConnectionError('interrupted', ''), false, true],
    ['a 502 of somebody else', new ProtocolError('', 502), false, true],
    ['a 503 of somebody else', new ProtocolError('', 503), false, true],
    ['a 504 of somebody else', new ProtocolError('', 504), false, true],
    ['a 500 of somebody else', new ProtocolError('', 500), false, false],
    ['a 404 of somebody else', new ProtocolError('', 404), false, false],
    ['a 200 of somebody else', new ProtocolError('', 200), false, false],
    ['a fault of the caller', new TypeError(''), false, false]
  ]
  for (const [name, error, once, repeatable] of cases) {
    it(`${name}: ${once ? 'yes' : 'no'} for a call, ${repeatable ? 'yes' : 'no'} for what is repeatable`, () => {
      assert.deepEqual([mayTryAgain(error, false), mayTryAgain(error, true)], [once, repeatable])
    })
  }

  it('the codes that pass are those that the gateway tells to try again', () => {
    // Something went wrong that nobody foresaw: trying again is for a person to decide.
    const expected = Object.entries(problems).filter(([code, { retryable }]) => retryable && code !== 'internal_error').map(([code]) => code)
    assert.deepEqual(Object.keys(problems).filter(isPassing).sort(), expected.sort())
  })
})

describe('elapsed', () => {
  it('is true after the time, and false where the signal aborts', async () => {
    assert.equal(await elapsed(1, undefined), true)
    assert.equal(await elapsed(100_000, AbortSignal.abort()), false)
    const controller = new AbortController()
    const waiting = elapsed(100_000, controller.signal)
    controller.abort()
    assert.equal(await waiting, false)
  })
})

describe('a wait that no timer can hold', () => {
  it('is a long one', async () => {
    const controller = new AbortController()
    const waiting = elapsed(backoffMs(40, { minDelayMs: 250, maxDelayMs: Infinity }, 0), controller.signal)
    // Set later and for longer than the millisecond that a timer makes of too much.
    await elapsed(20, undefined)
    controller.abort()
    assert.equal(await waiting, false)
  })
})

describe('lossOf', () => {
  it('makes a lost connection of whatever a fetch throws', () => {
    for (const thrown of [undefined, null, 5, 'x', {}, new Error('x'), { cause: null }]) {
      const { code, cause } = lossOf(thrown, 'http://there', 'id') as ConnectionError
      assert.deepEqual([code, cause], ['interrupted', thrown])
    }
  })
})

describe('queryText', () => {
  it('repeats a name for several values, and leaves out what is undefined', () => {
    assert.equal(queryText({ toolId: ['a', 'b'], kind: 'read', runId: undefined, limit: 5 }), '?toolId=a&toolId=b&kind=read&limit=5')
    assert.equal(queryText({}), '')
    assert.equal(queryText({ a: undefined, b: [] }), '')
  })

  it('escapes', () => {
    assert.equal(queryText({ runId: 'a&b=c #+é' }), '?runId=a%26b%3Dc+%23%2B%C3%A9')
  })
})

describe('pathText', () => {
  it('escapes an id', () => {
    assert.equal(pathText('tools', 'a/b?c#d é', '/invoke'), 'tools/a%2Fb%3Fc%23d%20%C3%A9/invoke')
    assert.equal(pathText('tools', '\ud800'), 'tools/%EF%BF%BD')
  })

  for (const id of ['', '.', '..']) {
    it(`refuses "${id}", which would lead somewhere else`, () => assert.throws(() => pathText('tools', id), TypeError))
  }
})

describe('requestText', () => {
  it('is JSON, without what is undefined', () => {
    assert.equal(requestText({ input: { a: undefined, b: [1, 'x', null, true, { c: [] }] }, runId: undefined }), '{"input":{"b":[1,"x",null,true,{"c":[]}]}}')
  })

  it('takes what says itself what it is in JSON, and instances of classes', () => {
    class Point { x = 1 }
    assert.equal(requestText({ at: new Date(0), url: new URL('http://a.b/'), point: new Point(), bare: Object.create(null) }),
      '{"at":"1970-01-01T00:00:00.000Z","url":"http://a.b/","point":{"x":1},"bare":{}}')
  })

  for (const number of [0.1, -0.5, 2 ** 53 - 1, -(2 ** 53 - 1), 1e21, 1e300, 5e-324]) {
    it(`takes ${number}`, () => assert.equal(requestText({ number }), `{"number":${JSON.stringify(number)}}`))
  }

  for (const number of [NaN, Infinity, -Infinity, 2 ** 53, 2 ** 53 + 1, -(2 ** 53), 1e20]) {
    it(`refuses ${number}, deep inside as well`, () => {
      assert.throws(() => requestText({ number }), { name: 'TypeError', message: /cannot be sent/ })
      assert.throws(() => requestText({ input: [{ a: [number] }] }), TypeError)
    })
  }

  const cyclic: Record<string, unknown> = {}
  cyclic.self = cyclic
  const lost: [string, unknown][] = [
    ['a BigInt', 1n], ['a cycle', cyclic], ['a function', () => 1], ['a symbol', Symbol('x')], ['a map', new Map()], ['a set', new Set()],
    ['a promise', Promise.resolve(1)], ['bytes', new Uint8Array(1)], ['an error', new Error('x')], ['a regular expression', /x/],
    ['undefined in an array', [undefined]], ['a hole in an array', Array(1)]
  ]
  for (const [name, value] of lost) it(`refuses ${name}`, () => assert.throws(() => requestText({ input: { value } }), TypeError))
})

describe('conclude', () => {
  const failed = answer({ isError: true, content: [{ type: 'text', text: 'No.' }, { type: 'image', data: '', mimeType: 'a/b' }, { type: 'text', text: 'Never.' }], structuredContent: 1 },
    { status: 'failed', errorCode: 'tool_error' }) as any

  it('gives a success back as it is', () => {
    const response = answer({ structuredContent: null }) as any
    assert.equal(conclude(response, {}), response)
    assert.equal(conclude(response, { output: { type: 'null' } }), response)
  })

  it('throws a failure with all of it, however its data looks', () => {
    assert.throws(() => conclude(failed, { output: { type: 'number' } }), (error) => {
      assert.ok(error instanceof ToolError)
      assert.deepEqual([error.name, error.code, error.message, error.response], ['ToolError', 'tool_error', 'No.\nNever.', failed])
      return true
    })
  })

  it('gives a failure back where it is not to be thrown, and holds it to nothing', () => {
    assert.equal(conclude(failed, { throwOnError: false, output: { type: 'string' } }), failed)
  })

  it('a failure without a word has a message all the same', () => {
    assert.throws(() => conclude(answer({ isError: true }, { status: 'failed', errorCode: 'timeout' }) as any, {}), { message: 'Tool "echo" failed (timeout), and said nothing more.' })
  })

  it('a success without the data is told from one that breaks its schema, and from one that is withheld', () => {
    const faultsOf = (response: any) => {
      try {
        conclude(response, { output: { type: 'object', required: ['a', 'b'] } })
      } catch (error) {
        assert.ok(error instanceof OutputError)
        assert.equal(error.response, response)
        return error.faults
      }
    }
    assert.deepEqual(faultsOf(answer()), [{ path: '', keyword: 'required', message: 'structuredContent is missing' }])
    assert.deepEqual(faultsOf(answer({ redacted: true })), [{ path: '', keyword: 'required', message: 'structuredContent is withheld, as the tool is sensitive' }])
    assert.deepEqual(faultsOf(answer({ structuredContent: {} }))!.map(({ path }) => path), ['/a', '/b'])
    assert.equal(faultsOf(answer({ structuredContent: { a: 1, b: 2 } })), undefined)
  })
})

describe('responseOfRecord, responseOfEnd', () => {
  const result = { content: [], details: { a: 1 }, structuredContent: [1], isError: false, terminate: true }

  it('a record that is settled is an answer', () => {
    assert.deepEqual(responseOfRecord({ invocation: receipt() as any, input: 1, result: result as any }), { ...result, invocation: receipt() })
    assert.equal(responseOfRecord({ invocation: receipt({ status: 'running' }) as any }), undefined)
  })

  it('an end event is the same answer, unless its result was left out', () => {
    const event = { type: 'tool_execution_end', toolName: 'echo', isError: false, ...receipt({ runId: 'r', queuedMs: 2 }) } as any
    assert.deepEqual(responseOfEnd({ ...event, result }), { ...result, invocation: receipt({ runId: 'r', queuedMs: 2 }) })
    assert.equal(responseOfEnd({ ...event, omitted: ['result'] }), undefined)
  })
})
