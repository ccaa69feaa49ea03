import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Type } from '@sinclair/typebox'
import { RefusedValueError } from '../../../src/tools/registered-tool.ts'
import { registerAgentTool, type AgentTool } from '../../../src/tools/shapes/agent-tool.ts'
import { registerSchemaTool, type SchemaTool } from '../../../src/tools/shapes/schema-tool.ts'
import type { ToolContext } from '../../../src/tools/tool.ts'

const options = { settings: {}, defaultTimeoutMs: 1000, source: 'code' }
const parameters = Type.Object({ n: Type.Integer() }, { additionalProperties: false })
const register = (fields: Partial<SchemaTool> = {}) => registerSchemaTool({ id: 's', description: 'd', parameters, execute: () => ({}), source: {}, ...fields }, options)

function refusedFaults (run: () => unknown) {
  try {
    run()
  } catch (error) {
    assert.ok(error instanceof RefusedValueError, String(error))
    return error.faults.map(({ path, keyword }) => `${path} ${keyword}`)
  }
  return assert.fail('it was taken')
}

describe('a tool with schemas', () => {
  it('strict, takes input as sent or refuses it', () => {
    const tool = register()
    const input = { n: 1 }
    assert.equal(tool.parseInput(input), input)
    assert.deepEqual(refusedFaults(() => tool.parseInput({ n: '1' })), ['/n type'])
    assert.deepEqual(refusedFaults(() => tool.parseInput({ n: 1.5, m: 1 })), ['/n type', '/m additionalProperties'])
    assert.deepEqual(refusedFaults(() => tool.parseInput(null)), [' type'])
  })

  it('coercing, makes of the input what can be made of it, or refuses it', () => {
    const tool = register({ inputMode: 'coerce' })
    assert.deepEqual(tool.parseInput({ n: '1' }), { n: 1 })
    const fitting = { n: 1 }
    assert.equal(tool.parseInput(fitting), fitting)
    assert.deepEqual(refusedFaults(() => tool.parseInput({ n: 'one' })), ['/n type'])
  })

  it('prepares the raw input before it is validated', () => {
    const tool = register({ prepareArguments: (input) => ({ n: (input as { old: number }).old }) })
    assert.deepEqual(tool.parseInput({ old: 5 }), { n: 5 })
    assert.deepEqual(refusedFaults(() => tool.parseInput({ old: 'x' })), ['/n type'])
  })

  it('a preparation that throws refuses the input, its cause kept', () => {
    const cause = new Error('cannot')
    const tool = register({ prepareArguments: () => { throw cause } })
    assert.throws(() => tool.parseInput({}), (error: RefusedValueError) => {
      assert.deepEqual(error.faults, [{ path: '', keyword: 'prepareArguments', message: 'cannot' }])
      return error.cause === cause
    })
  })

  it('what comes out of it is a result, nothing, or refused', () => {
    const tool = register()
    for (const nothing of [undefined, null]) assert.deepEqual(tool.toOutput(nothing), {})
    for (const odd of ['text', 0, false, 1n, [], [{ type: 'text', text: 'x' }]]) assert.throws(() => tool.toOutput(odd), RefusedValueError)
    const result = { content: [], isError: true }
    assert.equal(tool.toOutput(result), result)
  })

  it('reports what its three schemas ignore', () => {
    const tool = register({ parameters: { 'x-a': 1 }, outputSchema: { 'x-b': 1 }, errorSchema: { format: 'x-c' } })
    assert.deepEqual(tool.ignoredKeywords, ['x-a', 'x-b', 'format "x-c"'])
  })
})

describe('an agent tool', () => {
  it('is run as pi runs it: by itself, with four arguments', async () => {
    const given: unknown[] = []
    const tool: AgentTool = {
      name: 'pi',
      description: 'd',
      parameters: {},
      async execute (this: unknown, ...args: unknown[]) { given.push(this, ...args) }
    }
    const { signal } = new AbortController()
    const onUpdate = () => {}
    const context = {} as ToolContext
    await registerAgentTool(tool, options).execute('call', { a: 1 }, signal, onUpdate, context)
    assert.deepEqual(given, [tool, 'call', { a: 1 }, signal, onUpdate])
  })

  it('owns what is prepared for it: a copy, unless that is its input', () => {
    const shared = { n: 1 }
    const preparing = (prepareArguments: (input: unknown) => unknown) =>
      registerAgentTool({ name: 'pi', description: 'd', parameters: {}, prepareArguments, execute: async () => {} }, options)
    const copy = preparing(() => shared).parseInput({})
    assert.deepEqual(copy, shared)
    assert.notEqual(copy, shared)
    const input = {}
    assert.equal(preparing((given) => given).parseInput(input), input)
    assert.deepEqual(refusedFaults(() => preparing(() => ({ run () {} })).parseInput({})), [' prepareArguments'])
    assert.deepEqual(refusedFaults(() => preparing(async () => ({})).parseInput({})), [' prepareArguments'])
  })

  it('may be made strict from outside', () => {
    const tool: AgentTool = { name: 'pi', description: 'd', parameters, execute: async () => {} }
    assert.deepEqual(registerAgentTool(tool, options).parseInput({ n: '1' }), { n: 1 })
    const strict = registerAgentTool(tool, { ...options, settings: { inputMode: 'strict', kind: 'write' } })
    assert.deepEqual(refusedFaults(() => strict.parseInput({ n: '1' })), ['/n type'])
    assert.equal(strict.descriptor.kind, 'write')
  })
})
