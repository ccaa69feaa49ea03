import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { AnyTool } from '../../src/tools/registry.ts'
import type { ToolContext } from '../../src/tools/tool.ts'
import { turns } from '../conformance/until.ts'
import { gate, setUp, type Setting } from './harness.ts'

/** A sequential tool whose calls end when the test says so, whatever their signal says. */
function setUpDeaf (limits: Setting['limits'] = {}, more: object = {}) {
  const gates: PromiseWithResolvers<void>[] = []
  const deaf = {
    id: 'deaf',
    description: 'd',
    kind: 'test',
    parameters: {},
    executionMode: 'sequential',
    async execute () {
      const end = gate()
      gates.push(end)
      await end.promise
      return {}
    },
    ...more
  } as unknown as AnyTool
  const setting = setUp({ tools: [deaf], limits: { slotReleaseMs: 5000, ...limits } })
  const counted = () => {
    const { signalsIgnored, slotsGivenAway } = setting.invoker.counters
    return { signalsIgnored, slotsGivenAway }
  }
  const warnings = () => setting.logged.filter(({ level }) => level === 'warn')
  /** Two calls, the first of which is stopped while the second waits. */
  const stopped = async () => {
    const first = await setting.start({ toolId: 'deaf', timeoutMs: 100 })
    const second = await setting.start({ toolId: 'deaf' })
    setting.clock.advance(100)
    assert.equal((await setting.outcome(first, await first.settled)).errorCode, 'timeout', 'it is answered without waiting')
    return { first, second }
  }
  return { ...setting, gates, counted, warnings, stopped }
}

describe('a call that ignores its signal', () => {
  it('keeps its slot until it ends', async () => {
    const { gates, stopped, invoker, clock } = setUpDeaf()
    const { second } = await stopped()
    clock.advance(4999)
    await turns()
    assert.deepEqual([gates.length, invoker.slots('deaf'), invoker.slots().taken], [1, { taken: 1, pending: 1 }, 1])
    gates[0]!.resolve()
    await turns()
    assert.deepEqual([gates.length, second.standing], [2, 'holding'])
    gates[1]!.resolve()
    assert.equal((await second.settled).end.status, 'succeeded')
    assert.deepEqual([invoker.slots('deaf'), invoker.slots()], [{ taken: 0, pending: 0 }, { taken: 0, pending: 0 }])
  })

  it('keeps it no longer than the limit says; who waits is served then', async () => {
    const { gates, stopped, invoker, clock } = setUpDeaf()
    await stopped()
    clock.advance(5000)
    await turns()
    assert.deepEqual([gates.length, invoker.slots('deaf'), invoker.slots().taken], [2, { taken: 1, pending: 0 }, 1])
  })

  it('and whose slot was given away, does not give it back when it ends', async () => {
    const { gates, stopped, start, invoker, clock } = setUpDeaf()
    await stopped()
    const third = await start({ toolId: 'deaf' })
    clock.advance(5000)
    await turns()
    gates[0]!.resolve()
    await turns()
    assert.deepEqual([gates.length, third.standing, invoker.slots('deaf'), invoker.slots().taken], [2, 'waiting', { taken: 1, pending: 1 }, 1])
    gates[1]!.resolve()
    await turns()
    assert.deepEqual([gates.length, third.standing], [3, 'holding'])
  })

  it('is told of after a second, and again when its slot is given away; both are counted', async () => {
    const { stopped, counted, warnings, clock } = setUpDeaf()
    const { first } = await stopped()
    clock.advance(999)
    assert.deepEqual([counted(), warnings()], [{ signalsIgnored: 0, slotsGivenAway: 0 }, []])
    clock.advance(1)
    const fields = { tool: 'deaf', invocation: first.invocationId }
    assert.deepEqual(counted(), { signalsIgnored: 1, slotsGivenAway: 0 })
    assert.deepEqual(warnings().map(({ fields, message }) => [fields, message]), [[fields, 'a call goes on although it was stopped; it keeps its slot']])
    clock.advance(3999)
    assert.deepEqual(counted(), { signalsIgnored: 1, slotsGivenAway: 0 })
    clock.advance(1)
    assert.deepEqual(counted(), { signalsIgnored: 1, slotsGivenAway: 1 })
    assert.deepEqual(warnings().map(({ fields, message }) => [fields, message])[1], [fields, 'a call still goes on although it was stopped; its slot is given away'])
    clock.advance(30_000)
    assert.deepEqual([counted(), warnings().length], [{ signalsIgnored: 1, slotsGivenAway: 1 }, 2])
  })

  it('and ends within the second, is neither told of nor counted', async () => {
    const { gates, stopped, counted, warnings, clock } = setUpDeaf()
    await stopped()
    clock.advance(999)
    gates[0]!.resolve()
    await turns()
    clock.advance(30_000)
    assert.deepEqual([counted(), warnings()], [{ signalsIgnored: 0, slotsGivenAway: 0 }, []])
  })

  it('and ends after it was told of, is not told of again', async () => {
    const { gates, stopped, counted, warnings, clock } = setUpDeaf()
    await stopped()
    clock.advance(1000)
    gates[0]!.resolve()
    await turns()
    clock.advance(30_000)
    assert.deepEqual([counted(), warnings().length], [{ signalsIgnored: 1, slotsGivenAway: 0 }, 1])
  })

  it('by throwing late, is as well over', async () => {
    const { gates, stopped, invoker } = setUpDeaf()
    await stopped()
    gates[0]!.reject(new Error('late'))
    await turns()
    assert.deepEqual([gates.length, invoker.slots('deaf')], [2, { taken: 1, pending: 0 }])
  })

  for (const [slotReleaseMs, what] of [[0, 'at once'], [300, 'before the second is over']] as const) {
    it(`gives its slot away ${what}, where the limit is ${slotReleaseMs}; both lines are logged`, async () => {
      const { gates, stopped, counted, warnings, clock } = setUpDeaf({ slotReleaseMs })
      await stopped()
      if (slotReleaseMs > 0) {
        clock.advance(slotReleaseMs - 1)
        assert.deepEqual(counted(), { signalsIgnored: 0, slotsGivenAway: 0 })
      }
      clock.advance(1)
      await turns()
      assert.deepEqual([counted(), warnings().length, gates.length], [{ signalsIgnored: 1, slotsGivenAway: 1 }, 2, 2])
    })
  }

  it('however it was stopped: by a cancel, or because its parent ended', async () => {
    const parent = { id: 'parent', description: 'd', kind: 'test', parameters: {}, execute: (...args: any[]) => { void (args[4] as ToolContext).invoke('deaf'); return {} } } as unknown as AnyTool
    const gates: PromiseWithResolvers<void>[] = []
    const deaf = { id: 'deaf', description: 'd', kind: 'test', parameters: {}, maxConcurrent: 2, async execute () { const end = gate(); gates.push(end); await end.promise; return {} } } as unknown as AnyTool
    const { start, invoker, clock } = setUp({ tools: [parent, deaf], limits: { slotReleaseMs: 5000 } })
    const cancelled = await start({ toolId: 'deaf' })
    invoker.cancel(cancelled)
    const returned = await start({ toolId: 'parent' })
    assert.equal((await returned.settled).end.status, 'succeeded')
    assert.deepEqual([gates.length, invoker.slots('deaf'), invoker.running], [2, { taken: 2, pending: 0 }, 0])
    clock.advance(5000)
    assert.deepEqual([invoker.slots('deaf'), invoker.counters.slotsGivenAway], [{ taken: 0, pending: 0 }, 2])
  })

  it('as a child call, keeps the slot of its ancestor taken after that one has ended', async () => {
    const gates: PromiseWithResolvers<void>[] = []
    const tool = {
      id: 'a',
      description: 'd',
      kind: 'test',
      parameters: {},
      executionMode: 'sequential',
      async execute (_id: string, input: any, signal: AbortSignal, _onUpdate: unknown, { invoke }: ToolContext) {
        const end = gate()
        gates.push(end)
        if (input.deaf !== true) {
          void invoke('a', { deaf: true })
          signal.addEventListener('abort', () => end.resolve())
        }
        await end.promise
        return {}
      }
    } as unknown as AnyTool
    const { start, invoker, clock } = setUp({ tools: [tool], limits: { slotReleaseMs: 5000 } })
    const parent = await start({ toolId: 'a' })
    const next = await start({ toolId: 'a' })
    await turns()
    invoker.cancel(parent)
    await turns()
    assert.deepEqual([gates.length, invoker.slots('a'), invoker.slots().taken], [2, { taken: 1, pending: 1 }, 1])
    clock.advance(5000)
    await turns()
    assert.deepEqual([next.standing, invoker.slots('a'), invoker.slots().taken], ['holding', { taken: 1, pending: 0 }, 1])
    gates[1]!.resolve()
    await turns()
    assert.deepEqual([invoker.slots('a'), invoker.slots().taken], [{ taken: 1, pending: 0 }, 1], 'and gives back nothing when it ends')
  })
})

describe('a call that is stopped', () => {
  it('before it executes is not watched: there is nothing that could go on', async () => {
    const { start, invoker, clock, counted, gates } = setUpDeaf()
    await start({ toolId: 'deaf' })
    const waiting = await start({ toolId: 'deaf' })
    invoker.cancel(waiting)
    clock.advance(10_000)
    gates[0]!.resolve()
    await turns()
    assert.deepEqual([counted(), invoker.slots('deaf')], [{ signalsIgnored: 0, slotsGivenAway: 0 }, { taken: 0, pending: 0 }])
  })

  it('and ends at its signal leaves no timer behind', async () => {
    const { start, invoker, clock, counted } = setUpDeaf({}, {
      execute: async (_id: string, _input: unknown, signal: AbortSignal) => await new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
    })
    const call = await start({ toolId: 'deaf' })
    const before = clock.pending
    invoker.cancel(call)
    await turns()
    assert.equal(clock.pending, before)
    clock.advance(30_000)
    assert.deepEqual(counted(), { signalsIgnored: 0, slotsGivenAway: 0 })
  })

  it('while an after-hook goes on, keeps its slot until that ends', async () => {
    const hook = gate()
    const { start, invoker, clock } = setUp({
      tools: [{ id: 'one', description: 'd', kind: 'test', parameters: {}, executionMode: 'sequential', execute: () => ({}) } as unknown as AnyTool],
      hooks: [{ afterToolCall: async () => { await hook.promise } }]
    })
    const call = await start({ toolId: 'one' })
    await turns()
    invoker.cancel(call)
    assert.equal(invoker.slots('one').taken, 1)
    hook.resolve()
    await turns()
    assert.equal(invoker.slots('one').taken, 0)
    clock.advance(30_000)
    assert.equal(invoker.counters.signalsIgnored, 0)
  })
})
