import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { RefusedValueError } from '../../../src/tools/registered-tool.ts'
import { registerRegistryTool, type RegistryTool } from '../../../src/tools/shapes/registry-tool.ts'
import type { ToolContext } from '../../../src/tools/tool.ts'

const options = { settings: {}, defaultTimeoutMs: 1000, source: 'code' }
const base: RegistryTool = { id: 'r', kind: 'read', parseInput: (value) => value, execute: (input) => input, parseOutput: (value) => value }
const context: ToolContext = { invocationId: 'i', spanId: 's', principal: { id: 'p' }, log: { debug () {}, info () {}, warn () {}, error () {} }, attempt: 1, invoke: () => Promise.reject(new Error('no child calls here')) }
const register = (fields: Partial<RegistryTool> = {}) => registerRegistryTool({ ...base, ...fields }, options)

describe('a registry tool', () => {
  it('is described as it is: no parameters, its id for a label', () => {
    assert.deepEqual(register().descriptor, {
      id: 'r', label: 'r', description: '', kind: 'read', parameters: {}, executionMode: 'parallel', replay: 'never', inputMode: 'strict', timeoutMs: 1000, source: 'code'
    })
  })

  it('gets what parseInput gives, and with it context and signal', () => {
    const { signal } = new AbortController()
    let given: unknown[] = []
    const tool = register({ parseInput: (value) => ({ parsed: value }), execute: (...args) => { given = args } })
    tool.execute('call', tool.parseInput({ a: 1 }), signal, () => {}, context)
    assert.deepEqual(given[0], { parsed: { a: 1 } })
    assert.equal((given[1] as { signal: AbortSignal }).signal, signal)
    assert.equal((given[1] as ToolContext).invocationId, 'i')
    assert.equal(given.length, 2)
  })

  it('refuses what its parsers throw at, whatever they throw', () => {
    for (const [thrown, message] of [[new TypeError('no'), 'no'], ['text', 'text'], [undefined, /without a message/], [{ message: 'bare' }, 'bare']] as const) {
      const tool = register({ parseInput: () => { throw thrown }, parseOutput: () => { throw thrown } })
      for (const [keyword, parse] of [['parseInput', () => tool.parseInput(1)], ['parseOutput', () => tool.parseOutput!({})]] as const) {
        assert.throws(parse, (error: RefusedValueError) => {
          assert.ok(error instanceof RefusedValueError)
          assert.equal(error.cause, thrown)
          assert.equal(error.faults.length, 1)
          assert.deepEqual([error.faults[0]!.path, error.faults[0]!.keyword], ['', keyword])
          assert.match(error.faults[0]!.message, message instanceof RegExp ? message : new RegExp(`^${message}$`))
          return true
        })
      }
    }
  })

  describe('its value', () => {
    const cases: [value: unknown, text: string | undefined][] = [
      ['text', 'text'], ['', ''], [{ a: 1 }, '{"a":1}'], [[1, 2], '[1,2]'], [0, '0'], [false, 'false'], [null, 'null'], [undefined, undefined], [1n, undefined], [() => {}, undefined]
    ]
    for (const [value, text] of cases) {
      it(`${typeof value === 'bigint' ? '1n' : typeof value === 'function' ? 'a function' : JSON.stringify(value)} is structured content, and ${text === undefined ? 'no text' : `the text ${JSON.stringify(text)}`}`, () => {
        const output = register().toOutput(value)
        assert.equal(output.structuredContent, value)
        assert.deepEqual(output.content, text === undefined ? [] : [{ type: 'text', text }])
        assert.equal(output.isError, undefined)
      })
    }

    it('that is a cycle is no text, and no exception', () => {
      const cycle: { self?: unknown } = {}
      cycle.self = cycle
      assert.deepEqual(register().toOutput(cycle).content, [])
    })

    it('is what parseOutput makes of it, its text with it', () => {
      const tool = register({ parseOutput: (value) => ({ wrapped: value }) })
      const output = tool.parseOutput!(tool.toOutput('x'))
      assert.deepEqual(output, { content: [{ type: 'text', text: '{"wrapped":"x"}' }], structuredContent: { wrapped: 'x' } })
    })

    it('has the text that a hook gave it', () => {
      const tool = register({ parseOutput: (value) => ({ wrapped: value }) })
      const output = tool.parseOutput!({ ...tool.toOutput('x'), content: [{ type: 'text', text: 'by a hook' }] })
      assert.deepEqual(output.content, [{ type: 'text', text: 'by a hook' }])
      assert.deepEqual(output.structuredContent, { wrapped: 'x' })
    })

    it('with a field isError is a value like any other', () => {
      const output = register().toOutput({ isError: true, content: 'x' })
      assert.deepEqual([output.isError, output.structuredContent], [undefined, { isError: true, content: 'x' }])
    })
  })
})
