import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { InvokerLimits } from '../../src/invocation/limits.ts'
import type { AnyTool } from '../../src/tools/registry.ts'
import type { ToolContext } from '../../src/tools/tool.ts'
import { turns, until } from '../conformance/until.ts'
import { setUp } from './harness.ts'

/** What a call does: its child calls, one step after the other, those of one step together. */
interface Plan { calls?: Step[] }
type Step = [toolId: string, plan?: Plan] | [toolId: string, plan?: Plan][]

const isOne = (step: Step): step is [toolId: string, plan?: Plan] => typeof step[0] === 'string'

/**
 * Tools that do what their input says, and an account of who executes: `busy` are the calls of a tool that neither have
 * ended nor stand still for a child call.
 */
function planned (limits: Record<string, object>, invokerLimits: Partial<InvokerLimits> = {}) {
  const busy: Record<string, number> = {}
  const most: Record<string, number> = {}
  const change = (id: string, by: number) => {
    busy[id] = (busy[id] ?? 0) + by
    most[id] = Math.max(most[id] ?? 0, busy[id])
  }
  const failures: string[] = []
  const tools = Object.entries(limits).map(([id, more]) => ({
    id,
    description: id,
    kind: 'test',
    parameters: {},
    ...more,
    async execute (_id: string, { calls = [] }: Plan, _signal: AbortSignal, _onUpdate: unknown, { invoke }: ToolContext) {
      change(id, 1)
      await turns(1) // so that all roots of a test are there before one goes on
      for (const step of calls) {
        change(id, -1)
        const answers = await Promise.all((isOne(step) ? [step] : step).map(async ([toolId, plan = {}]) => await invoke(toolId, plan)))
        change(id, 1)
        for (const { isError, content } of answers) if (isError) failures.push(JSON.stringify(content))
      }
      await turns(1)
      change(id, -1)
      return {}
    }
  } as unknown as AnyTool))
  const invoker = setUp({ tools, limits: invokerLimits })

  /** Runs the roots at once, to their ends: the clock stands, so that no timeout helps. */
  async function run (...roots: [toolId: string, plan?: Plan][]): Promise<{ calls: number, most: Record<string, number> }> {
    const started = await Promise.all(roots.map(async ([toolId, input = {}]) => await invoker.start({ toolId, input })))
    await until(() => invoker.invoker.running === 0, 'all calls to end', 3000)
    for (const call of started) assert.equal((await call.settled).end.status, 'succeeded')
    assert.deepEqual(failures, [])
    await turns()
    for (const id of [undefined, ...Object.keys(limits)]) assert.deepEqual(invoker.invoker.slots(id), { taken: 0, pending: 0 }, id)
    const events = invoker.events()
    const ended = events.filter(({ type }) => type === 'tool_execution_end')
    assert.deepEqual([events.length, new Set(ended.map(({ invocationId }) => invocationId)).size], [2 * ended.length, ended.length])
    return { calls: ended.length, most }
  }
  return { ...invoker, run }
}

const sequential = { executionMode: 'sequential' }
const two = { maxConcurrent: 2 }

/** A call that calls itself, `depth` calls below it. */
const itself = (toolId: string, depth: number): [string, Plan] => [toolId, depth === 0 ? {} : { calls: [itself(toolId, depth - 1)] }]

/** Calls of these tools, each made by the one before. */
const chain = (...toolIds: string[]): [string, Plan] => [toolIds[0]!, toolIds.length === 1 ? {} : { calls: [chain(...toolIds.slice(1))] }]

describe('no deadlock', () => {
  it('where a sequential tool calls itself, 8 deep', async () => {
    const { calls, most } = await planned({ a: sequential }).run(itself('a', 8))
    assert.deepEqual([calls, most.a], [9, 1])
  })

  it('where many calls of a sequential tool call themselves', async () => {
    const { calls, most } = await planned({ a: sequential }).run(...Array.from({ length: 20 }, () => itself('a', 8)))
    assert.deepEqual([calls, most.a], [180, 1])
  })

  it('where a tool of maxConcurrent 2 calls itself, from more calls than it has slots', async () => {
    const { calls, most } = await planned({ a: two }).run(...Array.from({ length: 6 }, () => itself('a', 8)))
    assert.deepEqual([calls, most.a], [54, 2])
  })

  it('where two sequential tools call each other under one root', async () => {
    const { calls, most } = await planned({ a: sequential, b: sequential }).run(chain('a', 'b', 'a', 'b', 'a', 'b'))
    assert.deepEqual([calls, most.a, most.b], [6, 1, 1])
  })

  it('where two sequential tools call each other, with a root of each', async () => {
    const { calls, most } = await planned({ a: sequential, b: sequential }).run(chain('a', 'b'), chain('b', 'a'))
    assert.deepEqual([calls, most.a, most.b], [4, 1, 1])
  })

  it('where two sequential tools call each other over and over, with several roots of each', async () => {
    const { calls, most } = await planned({ a: sequential, b: sequential })
      .run(...Array.from({ length: 5 }, () => [chain('a', 'b', 'a', 'b'), chain('b', 'a', 'b', 'a')]).flat())
    assert.deepEqual([calls, most.a, most.b], [40, 1, 1])
  })

  it('where three tools wait in a circle', async () => {
    const { calls, most } = await planned({ a: sequential, b: sequential, c: sequential })
      .run(chain('a', 'b'), chain('b', 'c'), chain('c', 'a'), chain('a', 'c'), chain('c', 'b'), chain('b', 'a'))
    assert.deepEqual([calls, most.a, most.b, most.c], [12, 1, 1, 1])
  })

  it('where the circle goes through a tool without a limit', async () => {
    const { calls, most } = await planned({ a: sequential, b: sequential, free: {} }).run(chain('a', 'free', 'b'), chain('b', 'free', 'free', 'a'))
    assert.deepEqual([calls, most.a, most.b], [7, 1, 1])
  })

  it('where all slots of two tools of maxConcurrent 2 wait for each other', async () => {
    const { calls, most } = await planned({ a: two, b: two })
      .run(chain('a', 'b'), chain('a', 'b'), chain('b', 'a'), chain('b', 'a'), chain('a', 'b'), chain('b', 'a'))
    assert.deepEqual([calls, most.a, most.b], [12, 2, 2])
  })

  it('where one call that waits in the circle makes two calls that would close it', async () => {
    const { calls, most } = await planned({ a: sequential, b: sequential }).run(chain('a', 'b'), ['b', { calls: [[['a'], ['a']]] }])
    assert.deepEqual([calls, most.a, most.b], [5, 1, 1])
  })

  it('where many of them would close it, each in turn', async () => {
    const leaves = (toolId: string) => Array.from({ length: 10 }, (): [string] => [toolId])
    const { calls, most } = await planned({ a: sequential, b: sequential })
      .run(['a', { calls: [leaves('b')] }], ['b', { calls: [leaves('a')] }], ['a', { calls: [leaves('b')] }], ['b', { calls: [leaves('a')] }])
    assert.equal(calls, 44)
    assert.ok(most.a! <= 1 && most.b! <= 1, JSON.stringify(most))
  })

  it('where a call of the circle has another child call at work in its slot: they take turns', async () => {
    const { calls, most } = await planned({ a: sequential, b: sequential, free: {} })
      .run(['a', { calls: [[['a', { calls: [['free'], ['free'], ['free']] }], ['b']]] }], chain('b', 'a'))
    assert.deepEqual([calls, most.a, most.b], [8, 1, 1])
  })

  it('where a circle closes inside one slot', async () => {
    // Of the two child calls of `a`, one holds the slot of `a` and wants `b`, the other holds `b` and wants that slot.
    const { calls } = await planned({ a: sequential, b: sequential }).run(['a', { calls: [[chain('b', 'a'), chain('a', 'b')]] }])
    assert.equal(calls, 5)
  })

  it('where every slot of the gateway is taken by a call that wants child calls', async () => {
    const free = { free: {}, leaf: {} }
    const { calls } = await planned(free, { maxConcurrentCalls: 256, maxWaitingCalls: 300 }).run(...Array.from({ length: 256 }, (): [string, Plan] => ['free', { calls: [['leaf'], ['leaf']] }]))
    assert.equal(calls, 256 * 3)
    const small = planned({ free: {}, one: sequential }, { maxConcurrentCalls: 2 })
    const { calls: more, most } = await small.run(...Array.from({ length: 20 }, (): [string, Plan] => ['free', { calls: [['one'], ['free', { calls: [['one']] }]] }]))
    assert.deepEqual([more, most.one], [80, 1])
  })
})

describe('waiting goes on', () => {
  it('where there is no circle: a limit is not passed for a child call that can be served', async () => {
    const { calls, most } = await planned({ a: sequential, b: two, free: {} })
      .run(...Array.from({ length: 10 }, (): [string, Plan] => ['free', { calls: [[['a', { calls: [['b']] }], ['b'], ['b'], ['a']]] }]))
    assert.deepEqual([calls, most.a, most.b], [60, 1, 2])
  })

  it('where one of the slots that it waits for will be free: two tools, one call outside of the circle', async () => {
    const { calls, most } = await planned({ a: two, b: sequential }).run(chain('a', 'b'), ['a', {}], chain('b', 'a'))
    assert.deepEqual([calls, most.a, most.b], [5, 2, 1])
  })
})

describe("an ancestor's slot", () => {
  it('holds one child call at a time: two that are made together do not overlap', async () => {
    const { calls, most } = await planned({ a: sequential }).run(['a', { calls: [[['a'], ['a'], ['a', { calls: [[['a'], ['a']]] }]]] }])
    assert.deepEqual([calls, most.a], [6, 1])
  })

  it('is one of several: child calls of a tool of maxConcurrent 2 do not take the other one', async () => {
    const { calls, most } = await planned({ a: two }).run(['a', { calls: [[['a'], ['a'], ['a']]] }])
    assert.deepEqual([calls, most.a], [4, 1])
  })
})
