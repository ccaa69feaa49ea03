import assert from 'node:assert/strict'
import { describe, it, type TestContext } from 'node:test'
import { GatewayError } from '../../src/errors.ts'
import type { Call } from '../../src/invocation/call.ts'
import { claimOf } from '../../src/invocation/idempotency.ts'
import { Replay } from '../../src/invocation/replay.ts'
import type { MemoryStore } from '../../src/store/memory.ts'
import type { AnyTool } from '../../src/tools/registry.ts'
import type { ToolContext } from '../../src/tools/tool.ts'
import { startOf } from '../conformance/calls.ts'
import { turns } from '../conformance/until.ts'
import { gate, setUp, withMethods, type Setting } from './harness.ts'

type Execute = (id: string, args: any, signal: AbortSignal, update: any, context: ToolContext) => unknown
const tool = (id: string, execute: Execute, more: object = {}) => ({ id, description: id, kind: 'test', parameters: {}, execute, ...more }) as unknown as AnyTool
const one = { executionMode: 'sequential' }
const diskFull = () => new GatewayError('store_unavailable', 'The disk is full.')
const idle = { taken: 0, pending: 0 }

/** A gateway over a store that writes at once, and answers when a test says so. */
function setUpLate (setting: Partial<Setting> & { answersMarksNow?: boolean } = {}) {
  const asked: string[] = []
  const ran: unknown[] = []
  const [beginning, marking] = [gate(), gate()]
  const world = setUp({
    tools: [tool('t', (_id, input) => { ran.push(input); return {} }, one)],
    wrap: (memory) => withMethods(memory, {
      begin: async (start, key) => {
        asked.push('begin')
        const earlier = memory.begin(start, key)
        await beginning.promise
        return earlier
      },
      mark (id) {
        asked.push('mark')
        memory.mark(id)
        return setting.answersMarksNow === true ? undefined : marking.promise
      },
      settle: (id, end) => { asked.push('settle'); return memory.settle(id, end) }
    }),
    ...setting
  })
  return { ...world, asked, ran, beginning, marking, attempts: () => world.store.unsettled().map(({ attempts }) => attempts) }
}

/** A gateway over a store of which the first `begin` fails, once a test says so. */
function setUpRefusing (setting: Partial<Setting> = {}) {
  const ran: unknown[] = []
  const [beginning, marking] = [gate<never>(), gate<never>()]
  let isFirst = true
  const world = setUp({
    tools: [tool('t', (_id, input) => { ran.push(input); return {} }, one)],
    wrap: (memory) => withMethods(memory, {
      begin: async (start, key) => {
        if (isFirst) {
          isFirst = false
          return await beginning.promise
        }
        return memory.begin(start, key)
      },
      mark: (id) => memory.get(id) === undefined ? marking.promise : memory.mark(id)
    }),
    ...setting
  })
  const refuse = async () => {
    beginning.reject(diskFull())
    marking.reject(diskFull())
    await turns()
  }
  return { ...world, ran, refuse }
}

function watchRejections (t: TestContext): void {
  const rejected = (cause: unknown) => assert.fail(`unhandled rejection: ${String(cause)}`)
  process.on('unhandledRejection', rejected)
  t.after(() => process.off('unhandledRejection', rejected))
}

describe('the beginning of a call and its mark', () => {
  it('are written in one turn, where nothing waits between them', async () => {
    const { start, asked } = setUpLate()
    void start({ toolId: 't' })
    assert.deepEqual(asked, ['begin', 'mark'])
  })

  it('are written in one turn where hooks wait for the result alone', async () => {
    const { start, asked } = setUpLate({ hooks: [{ afterToolCall: () => undefined }] })
    void start({ toolId: 't' })
    assert.deepEqual(asked, ['begin', 'mark'])
  })

  it('are both on record before the tool runs, whichever is told first', async () => {
    for (const order of [['beginning', 'marking'], ['marking', 'beginning']] as const) {
      const world = setUpLate()
      const starting = world.start({ toolId: 't', input: 5 })
      world[order[0]].resolve()
      await turns()
      assert.deepEqual(world.ran, [])
      world[order[1]].resolve()
      const call = await starting
      const { record } = await world.outcome(call, await call.settled)
      assert.deepEqual([world.ran, world.asked, record.attempts], [[5], ['begin', 'mark', 'settle'], 1])
    }
  })

  it('are written once each by a store that answers the one later and the other at once', async () => {
    const { start, asked, beginning, outcome } = setUpLate({ answersMarksNow: true })
    const starting = start({ toolId: 't' })
    beginning.resolve()
    const call = await starting
    assert.equal((await outcome(call, await call.settled)).record.attempts, 1)
    assert.deepEqual(asked, ['begin', 'mark', 'settle'])
  })

  it('are apart where hooks come first', async () => {
    const hook = gate<undefined>()
    const { start, asked, beginning, marking, ran } = setUpLate({ hooks: [{ beforeToolCall: () => hook.promise }] })
    const starting = start({ toolId: 't', input: 5 })
    beginning.resolve()
    const call = await starting
    await turns()
    assert.deepEqual(asked, ['begin'])
    hook.resolve(undefined)
    await turns()
    assert.deepEqual([asked, ran], [['begin', 'mark'], []])
    marking.resolve()
    await call.settled
    assert.deepEqual(ran, [5])
  })

  it('are apart where there is no slot yet, and no slot is marked for that is not there', async () => {
    const { start, asked, beginning, marking, invoker } = setUpLate()
    const calls = [start({ toolId: 't' }), start({ toolId: 't' })]
    assert.deepEqual([asked, invoker.slots('t')], [['begin', 'mark', 'begin'], { taken: 1, pending: 1 }])
    beginning.resolve()
    marking.resolve()
    for (const call of await Promise.all(calls)) await call.settled
    assert.deepEqual([asked, invoker.slots()], [['begin', 'mark', 'begin', 'settle', 'mark', 'settle'], idle])
  })

  it('of input that the tool refuses are a beginning alone', async () => {
    const { start, asked, beginning, outcome, invoker } = setUpLate({ tools: [tool('t', () => assert.fail('run'), { parameters: { type: 'string' } })] })
    const starting = start({ toolId: 't', input: 5 })
    assert.deepEqual([asked, invoker.slots()], [['begin'], { taken: 0, pending: 1 }])
    beginning.resolve()
    const call = await starting
    const { errorCode, record } = await outcome(call, await call.settled)
    assert.deepEqual([errorCode, record.attempts, invoker.slots()], ['invalid_input', 0, idle])
  })

  it('prepare the input once', async () => {
    let times = 0
    const { start, beginning, marking } = setUpLate({ tools: [tool('t', () => ({}), { prepareArguments: (input: unknown) => { times++; return input } })] })
    const starting = start({ toolId: 't' })
    beginning.resolve()
    marking.resolve()
    await (await starting).settled
    assert.equal(times, 1)
  })

  describe('that is refused by the store', () => {
    it('leave nothing: the tool has not run, the slot is free, and it is not tried again', async (t) => {
      watchRejections(t)
      const { start, ran, refuse, invoker, store, clock, logged, call } = setUpRefusing()
      const starting = start({ toolId: 't' })
      assert.deepEqual(invoker.slots(), { taken: 1, pending: 0 })
      const refused = assert.rejects(starting, { code: 'store_unavailable' })
      await refuse()
      await refused
      assert.deepEqual([ran, invoker.slots(), invoker.running, store.head, logged], [[], idle, 0, 0, []])
      clock.advance(5000)
      await turns()
      assert.deepEqual([ran, store.head], [[], 0])
      assert.equal((await call({ toolId: 't', input: 5 })).status, 'succeeded')
    })

    it('let the next in line have the slot', async () => {
      const { start, ran, refuse } = setUpRefusing()
      const refused = assert.rejects(start({ toolId: 't', input: 1 }), { code: 'store_unavailable' })
      const call = await start({ toolId: 't', input: 2 })
      await turns()
      assert.deepEqual(ran, [])
      await refuse()
      await refused
      await call.settled
      assert.deepEqual(ran, [2])
    })

    it('are told to the tool that made the call, which goes on', async () => {
      const beginning = gate<never>()
      const { call } = setUp({
        tools: [
          tool('parent', async (_id, _input, _signal, _update, { invoke }) => ({ structuredContent: await invoke('child').catch(({ code }: GatewayError) => code) })),
          tool('child', () => assert.fail('run'))
        ],
        wrap: (memory) => withMethods(memory, { begin: (start) => start.toolId === 'child' ? beginning.promise : memory.begin(start) })
      })
      const calling = call({ toolId: 'parent' })
      await turns()
      beginning.reject(diskFull())
      assert.equal((await calling).response.structuredContent, 'store_unavailable')
    })

    it('after the call was stopped, leave nothing either: no end, no warning, no slot taken', async (t) => {
      watchRejections(t)
      const { start, ran, refuse, invoker, store, clock, logged } = setUpRefusing()
      const refused = assert.rejects(start({ toolId: 't', timeoutMs: 100 }), { code: 'store_unavailable' })
      clock.advance(100)
      await refuse()
      await refused
      clock.advance(5000)
      await turns()
      assert.deepEqual([ran, invoker.slots(), invoker.running, store.head, invoker.counters.signalsIgnored], [[], idle, 0, 0, 0])
      assert.deepEqual(logged.filter(({ level }) => level !== 'info'), [])
    })

    it('after the call was stopped by a store that records no ends either, are not told of as an end that is missing', async (t) => {
      watchRejections(t)
      const disk = gate<never>()
      const { start, invoker, clock, logged } = setUp({ tools: [tool('t', () => assert.fail('run'))], wrap: (memory) => withMethods(memory, { begin: () => disk.promise, mark: () => disk.promise, settle: () => disk.promise }) })
      const refused = assert.rejects(start({ toolId: 't', timeoutMs: 100 }), { code: 'store_unavailable' })
      clock.advance(100)
      disk.reject(diskFull())
      await refused
      await turns()
      assert.deepEqual([invoker.running, logged], [0, []])
    })

    it('of a child call after it was stopped, do not keep its parent from ending', async (t) => {
      watchRejections(t)
      const disk = gate<never>()
      const { start, invoker, outcome, clock } = setUp({
        tools: [tool('parent', (_id, _input, _signal, _update, { invoke }) => invoke('child')), tool('child', () => assert.fail('run'))],
        wrap: (memory) => withMethods(memory, {
          begin: (start) => start.toolId === 'child' ? disk.promise : memory.begin(start),
          settle: (id, end) => memory.get(id) === undefined ? disk.promise : memory.settle(id, end)
        })
      })
      const call = await start({ toolId: 'parent' })
      invoker.cancel(call)
      await turns()
      assert.equal(invoker.running, 2)
      disk.reject(diskFull())
      await turns()
      assert.equal((await outcome(call, await call.settled)).errorCode, 'cancelled')
      clock.advance(5000)
      await turns()
      assert.equal(invoker.running, 0)
    })
  })

  describe('that another call holds the key of', () => {
    it('leave nothing: the tool has not run, and the slot is free', async () => {
      const { send, ran, beginning, invoker, store } = setUpLate()
      beginEarlier(store)
      const sending = send({ toolId: 't', idempotencyKey: 'key' })
      assert.deepEqual(invoker.slots(), { taken: 1, pending: 0 })
      beginning.resolve()
      const replay = await sending
      assert.ok(replay instanceof Replay)
      assert.deepEqual([ran, invoker.slots(), invoker.running, store.head], [[], idle, 0, 1])
    })

    it('after the call was stopped, leave nothing either', async () => {
      const { send, ran, beginning, invoker, store, clock } = setUpLate()
      beginEarlier(store)
      const sending = send({ toolId: 't', idempotencyKey: 'key', timeoutMs: 100 })
      clock.advance(100)
      beginning.resolve()
      assert.ok(await sending instanceof Replay)
      clock.advance(5000)
      await turns()
      assert.deepEqual([ran, invoker.slots(), invoker.running, store.head, invoker.counters.signalsIgnored], [[], idle, 0, 1, 0])
    })

    /** Records a call of the same key that does not run here. */
    function beginEarlier (store: MemoryStore) {
      const start = startOf({ toolId: 't' })
      store.begin(start, claimOf('key', 'test', 't', '{}', start.startedAtMs))
    }
  })

  describe('of a call that is stopped before they are on record', () => {
    const stops = {
      timeout: ({ clock }: Pick<ReturnType<typeof setUpLate>, 'clock'>) => clock.advance(60_000),
      shutdown: ({ invoker, clock }: Pick<ReturnType<typeof setUpLate>, 'clock' | 'invoker'>) => { void invoker.drain(10); clock.advance(10) }
    }
    for (const [reason, stop] of Object.entries(stops)) {
      it(`(${reason}) give the slot back at once, and the call one end; the tool never runs`, async () => {
        for (const order of [['beginning', 'marking'], ['marking', 'beginning']] as const) {
          const world = setUpLate()
          const starting = world.start({ toolId: 't' })
          stop(world)
          assert.deepEqual(world.invoker.slots(), idle)
          for (const which of order) {
            world[which].resolve()
            await turns()
          }
          const call: Call = await starting
          const { errorCode, httpStatus } = await world.outcome(call, await call.settled)
          assert.deepEqual([errorCode, httpStatus >= 400, world.ran, world.invoker.counters.signalsIgnored], [reason, true, [], 0])
        }
      })
    }

    it('while the mark alone is missing, give the slot back at once, and nobody says that the call goes on', async () => {
      const { start, beginning, marking, invoker, clock, outcome, ran, logged } = setUpLate()
      const starting = start({ toolId: 't' })
      beginning.resolve()
      const call = await starting
      invoker.cancel(call)
      assert.deepEqual(invoker.slots(), idle)
      clock.advance(120_000)
      assert.equal((await outcome(call, await call.settled)).httpStatus, 409)
      marking.resolve()
      await turns()
      assert.deepEqual([ran, invoker.slots(), invoker.counters.signalsIgnored, logged.map(({ level }) => level)], [[], idle, 0, ['info']])
    })

    it('hand the slot on, and take none back later', async () => {
      const ran: unknown[] = []
      const marking = gate()
      const { start, invoker } = setUp({
        tools: [tool('t', (_id, input) => { ran.push(input); return new Promise(() => {}) }, one)],
        wrap: (memory) => withMethods(memory, { mark: async (id) => { memory.mark(id); if (memory.get(id)!.start.input === '1') await marking.promise } })
      })
      const first = await start({ toolId: 't', input: 1 })
      await start({ toolId: 't', input: 2 })
      invoker.cancel(first)
      await turns()
      assert.deepEqual(ran, [2])
      marking.resolve()
      await turns()
      assert.deepEqual([ran, invoker.slots('t')], [[2], { taken: 1, pending: 0 }])
    })
  })

  it('of a call whose mark cannot be recorded, keep its slot while it waits, and run it in its turn', async () => {
    let isFull = true
    const ran: unknown[] = []
    const { start, invoker, clock } = setUp({
      tools: [tool('t', (_id, input) => { ran.push(input); return {} }, one)],
      wrap: (memory) => withMethods(memory, { mark: async (id) => { if (isFull) throw diskFull(); memory.mark(id) } })
    })
    const calls = [await start({ toolId: 't', input: 1 }), await start({ toolId: 't', input: 2 })]
    for (let tries = 0; tries < 3; tries++) {
      await turns()
      clock.advance(500)
    }
    assert.deepEqual([ran, invoker.slots('t')], [[], { taken: 1, pending: 1 }])
    isFull = false
    await turns()
    clock.advance(500)
    for (const call of calls) await call.settled
    assert.deepEqual([ran, invoker.slots()], [[1, 2], idle])
  })
})
