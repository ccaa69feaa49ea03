import assert from 'node:assert/strict'
import { describe, it, type TestContext } from 'node:test'
import { GatewayError } from '../../src/errors.ts'
import { Replay } from '../../src/invocation/replay.ts'
import type { CallEnd } from '../../src/store/store.ts'
import type { AnyTool } from '../../src/tools/registry.ts'
import type { ToolContext } from '../../src/tools/tool.ts'
import { turns } from '../conformance/until.ts'
import { gate, setUp, withMethods, type Setting } from './harness.ts'

type Execute = (id: string, args: any, signal: AbortSignal, update: any, context: ToolContext) => unknown
const tool = (id: string, execute: Execute, more: object = {}) => ({ id, description: id, kind: 'test', parameters: {}, execute, ...more }) as unknown as AnyTool
const echo = tool('echo', (_id, input) => ({ structuredContent: input }))
const never = tool('never', () => new Promise(() => {}))
const diskFull = () => new GatewayError('store_unavailable', 'The disk is full.')

/** How a store tells that it cannot record an end. */
const ways = { rejects: () => Promise.reject(diskFull()), 'rejects in a later turn': async () => { await turns(1); throw diskFull() }, throws: () => { throw diskFull() } }

/** A gateway whose store records no ends, of some tools or of all, until it is told to. */
function setUpFull ({ fail = ways.rejects, of, ...setting }: Setting & { fail?: () => Promise<never>, of?: string }) {
  const disk = { isFull: true, tries: [] as string[] }
  const world = setUp({
    ...setting,
    wrap: (memory) => withMethods(memory, {
      settle (id: string, end: CallEnd) {
        const { toolId } = memory.get(id)!.start
        disk.tries.push(toolId)
        return disk.isFull && (of === undefined || of === toolId) ? fail() : memory.settle(id, end)
      }
    })
  })
  const answers: string[] = []
  /** Starts a call whose answer is noted. */
  async function start (toolId: string, more: object = {}) {
    const call = await world.start({ toolId, ...more })
    void Promise.resolve(call.settled).then(({ end }) => answers.push(`${toolId} ${end.errorCode ?? end.status}`), ({ code }) => answers.push(`${toolId} ${code}`))
    return call
  }
  const ends = () => world.events().filter(({ type }) => type === 'tool_execution_end').map(({ toolId, errorCode, status }) => `${toolId} ${errorCode ?? status}`)
  /** Lets the time for so many tries pass. */
  async function pass (tries = 1) {
    for (let time = 0; time < tries; time++) {
      await turns()
      world.clock.advance(500)
    }
    await turns()
  }
  return { ...world, start, disk, answers, ends, pass }
}

function watchRejections (t: TestContext): void {
  const rejected = (cause: unknown) => assert.fail(`unhandled rejection: ${String(cause)}`)
  process.on('unhandledRejection', rejected)
  t.after(() => process.off('unhandledRejection', rejected))
}

describe('ends that cannot be recorded', () => {
  for (const [way, fail] of Object.entries(ways)) {
    describe(`by a store that ${way}`, () => {
      it('are told to nobody before they are on record, and then once', async (t) => {
        watchRejections(t)
        const { start, answers, ends, pass, disk, invoker, outcome } = setUpFull({ tools: [echo], fail })
        const call = await start('echo', { input: 5 })
        await pass(4)
        assert.deepEqual([answers, ends(), invoker.running, invoker.find(call.invocationId)], [[], [], 1, call])
        disk.isFull = false
        await pass()
        assert.deepEqual([answers, ends(), invoker.running, invoker.find(call.invocationId)], [['echo succeeded'], ['echo succeeded'], 0, undefined])
        assert.equal((await outcome(call, await call.settled)).response.structuredContent, 5)
        await pass(3)
        assert.equal(disk.tries.length, 6, 'and are not tried again')
      })

      it('stand in the log in the order in which the calls ended', async () => {
        const { start, ends, pass, disk } = setUpFull({ tools: ['a', 'b', 'c', 'd'].map((id) => tool(id, () => ({}))), fail })
        for (const id of ['c', 'a', 'd', 'b']) await start(id)
        await pass(2)
        disk.isFull = false
        await pass()
        assert.deepEqual(ends(), ['c', 'a', 'd', 'b'].map((id) => `${id} succeeded`))
      })

      it('of child calls stand before those of the calls that made them, also where these could be recorded', async (t) => {
        watchRejections(t)
        const { start, answers, ends, pass, disk, invoker } = setUpFull({ tools: [tool('parent', (_id, _input, _signal, _update, { invoke }) => invoke('child')), tool('child', () => ({}))], fail, of: 'child' })
        const parent = await start('parent', { timeoutMs: 100 })
        await pass()
        assert.equal(parent.isSettled, true, 'it has run into its timeout')
        await pass(2)
        assert.deepEqual([answers, ends(), invoker.running], [[], [], 2])
        disk.isFull = false
        await pass()
        assert.deepEqual([answers, ends()], [['parent timeout'], ['child succeeded', 'parent timeout']])
      })

      it('of child calls that end together with their parents, stand before them at any depth', async () => {
        const nested = tool('nested', (_id, depth: number, _signal, _update, { invoke }) => depth === 0 ? new Promise(() => {}) : invoke(depth === 1 ? 'last' : 'nested', depth - 1))
        const { start, events, ends, pass, disk, invoker } = setUpFull({ tools: [nested, { ...nested, id: 'last' }], fail, of: 'last' })
        const call = await start('nested', { input: 3 })
        await turns()
        invoker.cancel(call)
        await pass(2)
        assert.deepEqual(ends(), [])
        disk.isFull = false
        await pass()
        const [started, ended] = ['tool_execution_start', 'tool_execution_end'].map((wanted) => events().filter(({ type }) => type === wanted).map(({ invocationId }) => invocationId))
        assert.equal(started!.length, 4)
        assert.deepEqual(ended, started!.toReversed())
      })
    })
  }

  it('are told to the log once, and tried one at a time twice a second', async () => {
    const { start, logged, disk, pass } = setUpFull({ tools: [echo] })
    for (let n = 0; n < 5; n++) await start('echo')
    await turns()
    assert.equal(disk.tries.length, 5)
    await pass(4)
    assert.equal(disk.tries.length, 9)
    assert.deepEqual(logged.map(({ level }) => level), Array.from({ length: 5 }, () => 'warn'))
  })

  it('hold up no other call, nor its slot', async () => {
    const { start, answers, pass, invoker } = setUpFull({ tools: [tool('one', () => ({}), { executionMode: 'sequential' }), echo], of: 'one' })
    await start('one')
    await pass()
    assert.deepEqual(invoker.slots(), { taken: 0, pending: 0 })
    await start('echo')
    await start('one')
    await turns()
    assert.deepEqual([answers, invoker.running], [['echo succeeded'], 2])
  })

  it('do not change any more: neither by a cancel nor by a timeout', async () => {
    const { start, answers, ends, pass, disk, invoker, clock } = setUpFull({ tools: [echo] })
    const call = await start('echo', { timeoutMs: 1000 })
    await pass()
    invoker.cancel(call)
    clock.advance(10_000)
    assert.equal(call.signal.aborted, false)
    disk.isFull = false
    await pass()
    assert.deepEqual([answers, ends(), invoker.counters.signalsIgnored], [['echo succeeded'], ['echo succeeded'], 0])
  })

  it('of a sensitive tool are told in full, and recorded withheld', async () => {
    const { start, pass, disk, outcome, events } = setUpFull({ tools: [tool('t', () => ({ structuredContent: 'hunter2' }), { sensitive: true })] })
    const call = await start('t')
    await pass()
    disk.isFull = false
    await pass()
    assert.equal((await outcome(call, await call.settled)).response.structuredContent, 'hunter2')
    assert.ok(!JSON.stringify(events()).includes('hunter2'))
  })

  it('are waited for by those who join the call', async () => {
    const { send, pass, disk } = setUpFull({ tools: [echo] })
    const call = await send({ toolId: 'echo', input: 5, idempotencyKey: 'key' })
    await pass()
    const joined = await send({ toolId: 'echo', input: 5, idempotencyKey: 'key' })
    assert.ok(joined instanceof Replay && !joined.isSettled)
    disk.isFull = false
    await pass()
    assert.equal(await joined.settled, await call.settled)
  })

  it('are not tried again where the store has them after all', async () => {
    let fails = true
    const { start, outcome, clock } = setUp({
      tools: [echo],
      // The record is there; the answer is lost.
      wrap: (memory) => withMethods(memory, { settle: async (id, end) => { const isNew = memory.settle(id, end); if (fails) throw diskFull(); return isNew } })
    })
    const call = await start({ toolId: 'echo' })
    await turns()
    fails = false
    clock.advance(500)
    await outcome(call, await call.settled)
  })

  describe('and a gateway that is shut down', () => {
    it('has its grace time to record them', async () => {
      const { start, answers, ends, pass, disk, invoker } = setUpFull({ tools: [echo] })
      await start('echo')
      let isDrained = false
      void invoker.drain(5000).then(() => { isDrained = true })
      await pass(3)
      assert.deepEqual([isDrained, answers], [false, []])
      disk.isFull = false
      await pass()
      assert.deepEqual([isDrained, answers, ends()], [true, ['echo succeeded'], ['echo succeeded']])
    })

    it('past it tells the callers nothing but that, once, in the order in which the calls ended; and the log, an error each', async (t) => {
      watchRejections(t)
      const { start, answers, ends, pass, invoker, logged } = setUpFull({ tools: [echo, never] })
      await start('never')
      await start('echo')
      const drained = invoker.drain(1000)
      await pass(2)
      await drained
      assert.deepEqual([answers, ends(), invoker.running], [['echo not_recorded', 'never not_recorded'], [], 0])
      assert.deepEqual(logged.filter(({ level }) => level === 'error').map(({ fields, message }) => [fields.tool, message]), [['echo', 'the end of a call was not recorded'], ['never', 'the end of a call was not recorded']])
      await pass(3)
      assert.equal(answers.length, 2)
    })

    it('past it ends a tree of calls, too: child calls first', async (t) => {
      watchRejections(t)
      for (const fail of Object.values(ways)) {
        const { start, answers, pass, invoker, logged } = setUpFull({ tools: [tool('parent', (_id, _input, _signal, _update, { invoke }) => invoke('never')), never], fail })
        await start('parent')
        await turns()
        const drained = invoker.drain(1000)
        await pass(2)
        await drained
        assert.deepEqual(answers, ['parent not_recorded'])
        assert.deepEqual(logged.filter(({ level }) => level === 'error').map(({ fields }) => fields.tool), ['never', 'parent'])
      }
    })

    it('records those that the store takes at the last moment, and answers nobody twice', async (t) => {
      watchRejections(t)
      const late = gate()
      let tries = 0
      const { start, invoker, clock, events, logged } = setUp({
        tools: [echo],
        wrap: (memory) => withMethods(memory, { settle: async (id, end) => { if (++tries === 1) throw diskFull(); await late.promise; return memory.settle(id, end) } })
      })
      const call = await start({ toolId: 'echo' })
      let answers = 0
      void Promise.resolve(call.settled).catch(() => { answers++ })
      await turns()
      clock.advance(500)
      const drained = invoker.drain(100)
      clock.advance(100)
      await drained
      assert.deepEqual([tries, answers, events().length], [2, 1, 1])
      late.resolve()
      await turns()
      assert.deepEqual([answers, events().length, invoker.running], [1, 2, 0])
      assert.equal(logged.filter(({ message }) => message === 'the end of a call was not recorded').length, 1)
    })

    it('waits for a record that is being written', async () => {
      const writing = gate()
      const { start, invoker, clock, events } = setUp({ tools: [echo], wrap: (memory) => withMethods(memory, { settle: async (id, end) => { await writing.promise; return memory.settle(id, end) } }) })
      await start({ toolId: 'echo' })
      let isDrained = false
      void invoker.drain(100).then(() => { isDrained = true })
      clock.advance(1000)
      await turns()
      assert.equal(isDrained, false)
      writing.resolve()
      await turns()
      assert.deepEqual([isDrained, events().length], [true, 2])
    })
  })
})
