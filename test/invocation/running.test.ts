import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { AnyTool } from '../../src/tools/registry.ts'
import { turns } from '../conformance/until.ts'
import { gate, setUp, withMethods } from './harness.ts'

const tool = (id: string, execute: (...args: any[]) => unknown, more: object = {}) => ({ id, description: id, kind: 'test', parameters: {}, execute, ...more }) as unknown as AnyTool
const never = tool('never', () => new Promise(() => {}))

describe('a running call', () => {
  it('is found by its id, from the start to the end', async () => {
    const held = gate<object>()
    const { start, invoker } = setUp({ tools: [tool('t', () => held.promise), never] })
    const [call, other] = [await start({ toolId: 't' }), await start({ toolId: 'never' })]
    assert.deepEqual([invoker.find(call!.invocationId), invoker.find(other!.invocationId), invoker.running], [call, other, 2])
    held.resolve({})
    await call!.settled
    assert.deepEqual([invoker.find(call!.invocationId), invoker.find(other!.invocationId), invoker.running], [undefined, other, 1])
  })

  it('is found while it waits for its slot, and while it is being recorded', async () => {
    const beginning = gate()
    const { start, invoker } = setUp({
      tools: [tool('one', () => new Promise(() => {}), { executionMode: 'sequential' }), never],
      wrap: (memory) => withMethods(memory, { begin: async (call) => { if (call.toolId === 'never') await beginning.promise; memory.begin(call) } })
    })
    await start({ toolId: 'one' })
    const waiting = await start({ toolId: 'one' })
    assert.equal(invoker.find(waiting.invocationId), waiting)
    const starting = start({ toolId: 'never' })
    assert.equal(invoker.running, 3)
    beginning.resolve()
    const call = await starting
    assert.equal(invoker.find(call.invocationId), call)
  })

  it('is found while its end is being recorded, and can be cancelled no more', async () => {
    const settling = gate()
    const { start, invoker, outcome } = setUp({ tools: [tool('t', () => ({}))], wrap: (memory) => withMethods(memory, { settle: async (id, end) => { await settling.promise; return memory.settle(id, end) } }) })
    const call = await start({ toolId: 't' })
    assert.deepEqual([invoker.find(call.invocationId), call.isSettled], [call, true])
    invoker.cancel(call)
    settling.resolve()
    assert.equal((await outcome(call, await call.settled)).status, 'succeeded')
    assert.equal(invoker.find(call.invocationId), undefined)
  })

  it('that another call made is found, too', async () => {
    const { start, invoker, events } = setUp({ tools: [tool('parent', (...[, , , , { invoke }]) => invoke('never')), never] })
    const call = await start({ toolId: 'parent' })
    await turns()
    const { invocationId } = events().find(({ toolId }) => toolId === 'never')
    assert.deepEqual([...call.children], [invoker.find(invocationId)])
    invoker.cancel(call)
    await turns()
    assert.deepEqual([invoker.find(invocationId), invoker.find(call.invocationId), invoker.running], [undefined, undefined, 0])
  })

  it('is found by no other name', async () => {
    const { start, invoker } = setUp({ tools: [never] })
    await start({ toolId: 'never', toolCallId: 'mine' })
    for (const id of ['mine', '', 'constructor', '__proto__', 'never']) assert.equal(invoker.find(id), undefined)
  })

  it('that could not be recorded is not found', async () => {
    const ids: string[] = []
    const { start, invoker } = setUp({ tools: [never], wrap: (memory) => withMethods(memory, { begin: ({ invocationId }) => { ids.push(invocationId); throw new Error('full') } }) })
    await assert.rejects(start({ toolId: 'never' }), /full/)
    assert.deepEqual([ids.map((id) => invoker.find(id)), invoker.running], [[undefined], 0])
  })
})
