import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Type } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { ToolResult } from '../../src/contract/result.ts'
import { failure, partialText, redactedResult, refusal, settleOutput } from '../../src/invocation/outcome.ts'
import { ToolRegistry, type AnyTool } from '../../src/tools/registry.ts'
import { RefusedValueError, type ToolOutput } from '../../src/tools/registered-tool.ts'

const limits = { maxResultBytes: 2000, maxJsonDepth: 20, maxUpdates: 10, maxTimeoutMs: 1000 }
const plain = { id: 't', description: 'd', kind: 'read', parameters: {}, execute: () => ({}) }
const numbered = { ...plain, outputSchema: Type.Object({ n: Type.Integer(), at: Type.Optional(Type.String()) }, { additionalProperties: false }), errorSchema: Type.Object({ code: Type.String() }) }

function settle (output: ToolOutput, isError = false, tool: AnyTool = plain) {
  const registered = new ToolRegistry().register(tool)[Symbol.iterator]().next().value!
  const counted: string[] = []
  const logged: object[] = []
  const log = { debug () {}, info () {}, error () {}, warn: (fields: object) => { logged.push(fields) } }
  const outcome = settleOutput(registered, output, isError, { limits, log, count: (event) => { counted.push(event) } })
  const result: any = JSON.parse(outcome.result)
  assert.deepEqual([...Value.Errors(ToolResult, result)].map(({ path, message }) => `${path} ${message}`), [], 'a ToolResult, whatever came in')
  assert.equal(result.isError, outcome.isError)
  assert.equal(outcome.isError, outcome.status !== 'succeeded')
  return { ...outcome, result, counted, logged }
}

const faultsOf = (result: any) => result.details.errors.map((fault: { path: string, keyword: string }) => `${fault.path} ${fault.keyword}`)

function nest (depth: number): unknown {
  let value: unknown = 1
  for (let level = 0; level < depth; level++) value = [value]
  return value
}

describe('how a success settles', () => {
  const kept: [what: string, output: ToolOutput, result: object][] = [
    ['nothing', {}, { content: [], details: null, isError: false }],
    ['null in its fields', { content: null, details: null, usage: null, terminate: null } as ToolOutput, { content: [], details: null, isError: false }],
    ['text', { content: [{ type: 'text', text: 'hi' }] }, { content: [{ type: 'text', text: 'hi' }], details: null, isError: false }],
    ['blocks of every type, other keys kept', {
      content: [
        { type: 'text', text: '', annotations: { a: 1 } }, { type: 'image', data: 'AA==', mimeType: 'image/png', x: 1 }, { type: 'audio', data: '', mimeType: 'audio/wav' },
        { type: 'resource', resource: { uri: 'a:b', text: 't' } }, { type: 'resource_link', uri: 'a:b', name: 'n' }
      ]
    }, {
      content: [
        { type: 'text', text: '', annotations: { a: 1 } }, { type: 'image', data: 'AA==', mimeType: 'image/png', x: 1 }, { type: 'audio', data: '', mimeType: 'audio/wav' },
        { type: 'resource', resource: { uri: 'a:b', text: 't' } }, { type: 'resource_link', uri: 'a:b', name: 'n' }
      ],
      details: null,
      isError: false
    }],
    ['structured content of null, which is not absent', { structuredContent: null }, { content: [], details: null, structuredContent: null, isError: false }],
    ['structured content that is no object', { structuredContent: [1, 2] }, { content: [], details: null, structuredContent: [1, 2], isError: false }],
    ['structured content that is falsy', { structuredContent: 0 }, { content: [], details: null, structuredContent: 0, isError: false }],
    ['details of any sort', { details: { a: [{ b: null }] } }, { content: [], details: { a: [{ b: null }] }, isError: false }],
    ['falsy details', { details: false }, { content: [], details: false, isError: false }],
    ['terminate', { terminate: true }, { content: [], details: null, isError: false, terminate: true }],
    ['a terminate that is no boolean', { terminate: 'yes' }, { content: [], details: null, isError: false }],
    ['a Date', { details: new Date(0) }, { content: [], details: '1970-01-01T00:00:00.000Z', isError: false }],
    ['content that becomes blocks only as JSON', { content: { toJSON: () => [{ type: 'text', text: new Date(0) }] } }, { content: [{ type: 'text', text: '1970-01-01T00:00:00.000Z' }], details: null, isError: false }],
    ['fields that results do not have', { extra: 1, isError: 'yes' } as ToolOutput, { content: [], details: null, isError: false }]
  ]
  for (const [what, output, result] of kept) {
    it(`with ${what}`, () => {
      const settled = settle(output)
      assert.deepEqual([settled.status, settled.errorCode, settled.result], ['succeeded', undefined, result])
    })
  }

  it('with usage in pi\'s shape, other keys kept', () => {
    const usage = { input: 1, output: 2, cacheRead: 0, cacheWrite: 0, totalTokens: 3, cost: { input: 0.1, output: 0, cacheRead: 0, cacheWrite: 0, total: 0.1 }, other: 'kept' }
    assert.deepEqual(settle({ usage }).result.usage, usage)
  })

  it('keeps the order of keys', () => {
    assert.match(settleOutputText({ details: { z: 1, a: 2 }, structuredContent: { z: { y: 1, b: 2 }, a: 1 } }), /"details":\{"z":1,"a":2\},"structuredContent":\{"z":\{"y":1,"b":2\},"a":1\}/)
  })

  function settleOutputText (output: ToolOutput): string {
    const registered = new ToolRegistry().register(plain)[Symbol.iterator]().next().value!
    return settleOutput(registered, output, false, { limits, log: { debug () {}, info () {}, warn () {}, error () {} }, count () {} }).result
  }

  const refused: [what: string, output: ToolOutput, faults: string[]][] = [
    ['content that is no list', { content: 'text' }, ['/content type']],
    ['content that is a number', { content: 5 }, ['/content type']],
    ['a block without a type', { content: [{ text: 'x' }] }, ['/content/0/type anyOf']],
    ['a text block without text', { content: [{ type: 'text' }] }, ['/content/0/text required']],
    ['a block that is nothing', { content: [undefined] }, ['/content/0 type']],
    ['an image without data', { content: [{ type: 'image', mimeType: 'image/png' }] }, ['/content/0/data required']],
    ['usage of another shape', { usage: { tokens: 5 } }, ['/usage/input required']],
    ['NaN in structured content', { structuredContent: { a: [NaN] } }, ['/a/0 json']],
    ['NaN as structured content', { structuredContent: NaN }, [' json']],
    ['Infinity in details', { details: { a: Infinity } }, ['/details/a json']],
    ['a BigInt', { structuredContent: 1n }, [' json']],
    ['a function as structured content', { structuredContent: () => {} }, [' json']],
    ['a getter that throws', { structuredContent: { get a () { throw new Error('no') } } }, [' json']],
    ['structured content one level too deep', { structuredContent: nest(21) }, [' json']],
    ['details far too deep', { details: nest(20_000) }, ['/details json']]
  ]
  for (const [what, output, faults] of refused) {
    it(`with ${what} is invalid_output`, () => {
      const settled = settle(output)
      assert.deepEqual([settled.status, settled.errorCode], ['failed', 'invalid_output'])
      const found = faultsOf(settled.result)
      for (const fault of faults) assert.ok(found.includes(fault), `${fault} in ${JSON.stringify(found)}`)
      assert.match(settled.result.content[0].text, /^The output of tool "t" is invalid:\n- /)
    })
  }

  it('at the depth limit succeeds', () => assert.equal(settle({ structuredContent: nest(20), details: nest(20) }).status, 'succeeded'))

  it('with a cycle is invalid_output', () => {
    const cycle: unknown[] = []
    cycle.push(cycle)
    assert.equal(settle({ details: cycle }).errorCode, 'invalid_output')
  })

  it('that cannot even be looked at is invalid_output', () => {
    const output = new Proxy({}, { get () { throw new Error('no') } })
    assert.equal(settle(output).errorCode, 'invalid_output')
  })

  describe('of a tool with an outputSchema', () => {
    it('keeps it, or is invalid_output with every fault', () => {
      assert.equal(settle({ structuredContent: { n: 1 } }, false, numbered).status, 'succeeded')
      const settled = settle({ structuredContent: { n: 'x', m: 1 } }, false, numbered)
      assert.equal(settled.errorCode, 'invalid_output')
      assert.deepEqual(faultsOf(settled.result).sort(), ['/m additionalProperties', '/n type'])
    })

    it('needs structured content', () => {
      for (const output of [{}, { content: [{ type: 'text', text: 'words' }] }, { structuredContent: undefined }]) {
        const settled = settle(output, false, numbered)
        assert.equal(settled.errorCode, 'invalid_output')
        assert.deepEqual(faultsOf(settled.result), [' required'])
      }
    })

    it('is held to it as it goes on the wire: a Date is text, undefined is absent', () => {
      assert.equal(settle({ structuredContent: { n: 1, at: new Date(0) } }, false, numbered).status, 'succeeded')
      assert.equal(settle({ structuredContent: { n: 1, at: undefined, more: undefined } }, false, numbered).status, 'succeeded')
      assert.equal(settle({ structuredContent: { n: { toJSON: () => 5 } } }, false, numbered).status, 'succeeded')
    })

    it('that only warns, is delivered as it is, logged without its values, and counted', () => {
      const settled = settle({ structuredContent: { n: 'secret' } }, false, { ...numbered, outputValidation: 'warn' })
      assert.deepEqual([settled.status, settled.result.structuredContent, settled.counted], ['succeeded', { n: 'secret' }, ['outputWarnings']])
      assert.deepEqual(settled.logged, [{ tool: 't', faults: [{ path: '/n', keyword: 'type' }] }])
      assert.deepEqual(settle({}, false, { ...numbered, outputValidation: 'warn' }).counted, ['outputWarnings'])
    })

    it('that only warns, still has no way to carry what is not JSON', () => {
      assert.equal(settle({ structuredContent: NaN }, false, { ...numbered, outputValidation: 'warn' }).errorCode, 'invalid_output')
    })
  })

  describe('of a registry tool', () => {
    const registry = { id: 't', kind: 'read', parseInput: (v: unknown) => v, execute: () => 1, parseOutput: (v: unknown) => { if (v === 'bad') throw new TypeError('it is bad'); return { parsed: v } } }

    it('is what parseOutput gives', () => {
      assert.deepEqual(settle({ structuredContent: 'x' }, false, registry).result.structuredContent, { parsed: 'x' })
    })

    it('that parseOutput refuses is invalid_output', () => {
      const settled = settle({ structuredContent: 'bad' }, false, registry)
      assert.equal(settled.errorCode, 'invalid_output')
      assert.deepEqual(settled.result.details.errors, [{ path: '', keyword: 'parseOutput', message: 'it is bad' }])
    })
  })

  describe('over the size limit', () => {
    // {"content":[],"details":"…","isError":false}
    const room = limits.maxResultBytes - '{"content":[],"details":"","isError":false}'.length

    it('by one byte is result_too_large, at it is fine', () => {
      assert.equal(settle({ details: 'x'.repeat(room) }).status, 'succeeded')
      const settled = settle({ details: 'x'.repeat(room + 1) })
      assert.deepEqual([settled.status, settled.errorCode, settled.result.details], ['failed', 'result_too_large', null])
      assert.match(settled.result.content[0].text, /2000 bytes/)
    })

    it('is measured in bytes', () => {
      const fitting = Math.floor(room / 2)
      assert.equal(settle({ details: 'é'.repeat(fitting) }).errorCode, undefined)
      assert.equal(settle({ details: 'é'.repeat(fitting + 1) }).errorCode, 'result_too_large')
    })

    it('a failure is, too', () => assert.equal(settle({ details: 'x'.repeat(3000) }, true).errorCode, 'result_too_large'))
  })
})

describe('how a failure settles', () => {
  it('keeps text, details and structured content, whatever schemas say', () => {
    const output = { content: [{ type: 'text', text: 'why' }], details: { d: 1 }, structuredContent: { n: 'no number' } }
    const settled = settle(output, true, { ...numbered, errorSchema: undefined } as AnyTool)
    assert.deepEqual([settled.status, settled.errorCode, settled.result], ['failed', 'tool_error', { ...output, isError: true }])
    assert.deepEqual(settled.counted, [])
  })

  it('that breaks its errorSchema is counted and logged without its values, and kept', () => {
    const settled = settle({ structuredContent: { code: 5 } }, true, numbered)
    assert.deepEqual([settled.errorCode, settled.result.structuredContent, settled.counted], ['tool_error', { code: 5 }, ['errorSchemaMismatches']])
    assert.deepEqual(settled.logged, [{ tool: 't', faults: [{ path: '/code', keyword: 'type' }] }])
  })

  it('that keeps its errorSchema, or has no structured content, is not counted', () => {
    assert.deepEqual(settle({ structuredContent: { code: 'x' } }, true, numbered).counted, [])
    assert.deepEqual(settle({}, true, numbered).counted, [])
  })

  it('loses only the fields that cannot be carried', () => {
    const settled = settle({ content: [{ type: 'text', text: 'why' }], details: 1n, structuredContent: { n: NaN }, usage: 'none' }, true)
    assert.equal(settled.errorCode, 'tool_error')
    assert.deepEqual(settled.result, { content: [{ type: 'text', text: 'why' }], details: null, isError: true })
    assert.deepEqual(settled.logged.map((fields) => (fields as { field: string }).field), ['details', 'structuredContent', 'usage'])
  })

  it('with content that is none has words all the same', () => {
    assert.deepEqual(settle({ content: 'why' }, true).result.content, [{ type: 'text', text: 'The tool failed without a message.' }])
  })

  it('of a registry tool is not parsed as a success', () => {
    const registry = { id: 't', kind: 'read', parseInput: (v: unknown) => v, execute: () => 1, parseOutput: () => assert.fail('parsed') }
    assert.equal(settle({ content: [{ type: 'text', text: 'x' }] }, true, registry).errorCode, 'tool_error')
  })
})

describe('what the gateway itself says', () => {
  it('is one text block, whatever the text holds', () => {
    for (const text of ['plain', '"quoted"\n\u2028', '\ud800', '']) {
      const outcome = failure('timeout', text)
      const result = JSON.parse(outcome.result)
      assert.ok(Value.Check(ToolResult, result))
      assert.deepEqual([result.content, result.details, outcome.status, outcome.errorCode, outcome.isError], [[{ type: 'text', text }], null, 'failed', 'timeout', true])
    }
    assert.equal(failure('cancelled', 'x').status, 'cancelled')
  })

  it('of bad input lists every fault, with its place', () => {
    const result = JSON.parse(refusal('invalid_input', 't', [{ path: '/a', keyword: 'type', message: 'expected string' }, { path: '', keyword: 'x', message: 'whole' }]).result)
    assert.equal(result.content[0].text, 'The input for tool "t" is invalid:\n- /a: expected string\n- whole')
    assert.equal(result.details.errors.length, 2)
  })

  it('of a sensitive result is that it was withheld', () => {
    for (const isError of [true, false]) {
      const result = JSON.parse(redactedResult(isError))
      assert.ok(Value.Check(ToolResult, result))
      assert.deepEqual(result, { content: [], details: null, isError, redacted: true })
    }
  })

  it('of refused values joins their faults', () => {
    assert.equal(new RefusedValueError([{ path: '/a', keyword: 'k', message: 'm' }, { path: '', keyword: 'k', message: 'n' }]).message, '/a: m\n/: n')
  })
})

describe('a partial result', () => {
  const text = (partial: unknown) => partialText(partial, { ...limits, maxJsonDepth: 20 })

  it('is a whole ToolResult', () => {
    for (const partial of [{}, { content: null, details: undefined }, { content: [{ type: 'text', text: 'x' }], details: { n: 1 }, structuredContent: null }]) {
      assert.ok(Value.Check(ToolResult, JSON.parse(text(partial)!)))
    }
    assert.deepEqual(JSON.parse(text({ details: 0 })!), { content: [], details: 0, isError: false })
    assert.deepEqual(JSON.parse(text({ structuredContent: false })!), { content: [], details: null, structuredContent: false, isError: false })
    const usage = { input: 1, output: 2, cacheRead: 0, cacheWrite: 0, totalTokens: 3, cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 } }
    const whole = { content: [], details: 1, structuredContent: 2, isError: true, usage, terminate: false }
    assert.deepEqual(JSON.parse(text({ ...whole, more: 1 })!), whole)
  })

  it('that is none, or no JSON, is dropped', () => {
    for (const partial of [undefined, null, 'text', 5, { details: 1n }, { structuredContent: NaN }, { details: nest(30) }]) assert.equal(text(partial), undefined)
  })

  it('whose content is no list of blocks is dropped: an event must keep its contract', () => {
    for (const content of ['text', 5, {}, [5], [{ type: 'text' }], [{ text: 'x' }]]) assert.equal(text({ content }), undefined, JSON.stringify(content))
  })

  it('that cannot be read is dropped, and throws nothing at the tool', () => {
    assert.equal(text({ get content () { throw new Error('no') } }), undefined)
    assert.equal(text({ details: { get a () { throw new Error('no') } } }), undefined)
  })
})
