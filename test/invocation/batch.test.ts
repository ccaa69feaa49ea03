import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { GatewayError } from '../../src/errors.ts'
import { Batch } from '../../src/invocation/batch.ts'
import type { AnyTool } from '../../src/tools/registry.ts'
import { ToolRegistry } from '../../src/tools/registry.ts'
import { turns } from '../conformance/until.ts'
import { gate, setUp, withMethods, type Setting } from './harness.ts'

const tool = (id: string, execute: (...args: any[]) => unknown, more: object = {}) => ({ id, description: id, kind: 'test', parameters: {}, execute, ...more }) as unknown as AnyTool
const echo = tool('echo', (_id, input) => ({ structuredContent: input }))
const never = tool('never', () => new Promise(() => {}))
const principal = { id: 'test' }
const request = (toolId: string, input: unknown = {}) => ({ toolId, input, principal })

function setUpBatch (setting: Setting) {
  const made = setUp(setting)
  const logged: any[] = []
  const note = (fields: object) => { logged.push(fields) }
  const batch = new Batch(made.invoker, { debug: note, info: note, warn: note, error: note })
  const run = async (toolIds: string[], mode: 'parallel' | 'sequential' = 'parallel') => JSON.parse((await batch.run(toolIds.map((toolId, index) => request(toolId, index)), mode)).join(''))
  return { ...made, batch, run, errors: logged }
}

describe('batch', () => {
  it('of tools that do not wait has run when the next step comes, in order', async () => {
    const { run, events } = setUpBatch({ tools: [echo] })
    const { results, terminate } = await run(['echo', 'echo'])
    assert.deepEqual([results.map(({ structuredContent }: any) => structuredContent), terminate], [[0, 1], false])
    assert.deepEqual(events().map(({ type, args }) => [type.slice(15), args]), [['start', 0], ['end', undefined], ['start', 1], ['end', undefined]])
  })

  it('whose store refuses one call gives its problem, and runs the others', async () => {
    const { run } = setUpBatch({
      tools: [echo, tool('unlucky', () => assert.fail('run'))],
      wrap: (store) => withMethods(store, { begin: (start) => { if (start.toolId === 'unlucky') throw new GatewayError('store_unavailable', 'The disk is full.'); store.begin(start) } })
    })
    const { results } = await run(['echo', 'unlucky', 'echo'])
    assert.deepEqual(results.map(({ problem, structuredContent }: any) => problem?.code ?? structuredContent), [0, 'store_unavailable', 2])
  })

  it('in which one call fails as nobody foresaw gives internal_error for that one, without the cause, which is logged', async () => {
    const { run, errors } = setUpBatch({
      tools: [echo, tool('unlucky', () => assert.fail('run'))],
      wrap: (store) => withMethods(store, { begin: (start) => start.toolId === 'unlucky' ? Promise.reject(new Error('/secret/path broke')) : store.begin(start) })
    })
    for (const mode of ['parallel', 'sequential'] as const) {
      const { results, terminate } = await run(['echo', 'unlucky', 'echo'], mode)
      assert.deepEqual([results.map(({ problem, structuredContent }: any) => problem?.code ?? structuredContent), terminate], [[0, 'internal_error', 2], false])
      assert.doesNotMatch(JSON.stringify(results), /secret/)
    }
    assert.deepEqual(errors.map(({ tool, err }) => [tool, err.message]), [['unlucky', '/secret/path broke'], ['unlucky', '/secret/path broke']])
  })

  it('asks for terminate in what the caller gets: of a sensitive tool as well, and never by what a result merely quotes', async () => {
    const tricky = tool('tricky', () => ({ content: [{ type: 'text', text: ',"terminate":true}' }], details: { a: 1, terminate: true }, structuredContent: { b: 1, terminate: true } }))
    const usage = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, totalTokens: 0, cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 } }
    const { run } = setUpBatch({
      tools: [
        tricky, tool('using', () => ({ usage: { ...usage, terminate: true } })),
        tool('secret', () => ({ terminate: true }), { sensitive: true }), tool('loose', () => ({ terminate: 'true' })), tool('null', () => ({ terminate: null }))
      ]
    })
    assert.equal((await run(['secret', 'secret'])).terminate, true)
    for (const other of ['tricky', 'using', 'loose', 'null']) assert.equal((await run(['secret', other])).terminate, false, other)
  })

  it('goes by the tools that there are when it begins, whose mode may have changed', async () => {
    const order: string[] = []
    const slow = (more: object) => tool('slow', async (_id, input) => { order.push(`begin ${input}`); await turns(2); order.push(`end ${input}`); return {} }, more)
    const { invoker, run } = setUpBatch({ tools: [slow({})] })
    await run(['slow', 'slow'])
    assert.deepEqual(order.splice(0), ['begin 0', 'begin 1', 'end 0', 'end 1'])
    invoker.use(new ToolRegistry<any>().register(slow({ executionMode: 'sequential' })))
    await run(['slow', 'slow'])
    assert.deepEqual(order, ['begin 0', 'end 0', 'begin 1', 'end 1'])
  })

  describe('that is cancelled', () => {
    it('ends the calls that run', async () => {
      const { run, batch, invoker } = setUpBatch({ tools: [echo, never] })
      const running = run(['never', 'echo', 'never'])
      await turns()
      assert.equal(invoker.running, 2)
      batch.cancel()
      const { results } = await running
      assert.deepEqual(results.map(({ invocation }: any) => invocation.errorCode), ['cancelled', undefined, 'cancelled'])
      assert.equal(invoker.running, 0)
    })

    it('begins no more', async () => {
      const { run, batch, events } = setUpBatch({ tools: [echo, never] })
      const running = run(['never', 'echo'], 'sequential')
      await turns()
      batch.cancel()
      await running
      assert.equal(events().length, 2)
    })

    it('before its calls are on record ends them as soon as they are: no tool runs', async () => {
      const begun = gate()
      let ran = 0
      const { run, batch, invoker, events } = setUpBatch({
        tools: [tool('counts', () => { ran++; return {} })],
        hooks: [{ beforeToolCall: async () => { await turns() } }],
        wrap: (store) => withMethods(store, { begin: async (start) => { await begun.promise; store.begin(start) } })
      })
      const running = run(['counts', 'counts'])
      batch.cancel()
      begun.resolve()
      const { results } = await running
      await turns()
      assert.deepEqual(results.map(({ invocation }: any) => invocation.errorCode), ['cancelled', 'cancelled'])
      assert.deepEqual([ran, invoker.running, events().length], [0, 0, 4])
    })

    it('after all have ended, changes nothing', async () => {
      const { run, batch, events } = setUpBatch({ tools: [echo] })
      await run(['echo'])
      batch.cancel()
      await turns()
      assert.equal(events().at(-1).status, 'succeeded')
    })
  })
})
