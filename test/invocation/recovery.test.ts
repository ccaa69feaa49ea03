import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Type } from '@sinclair/typebox'
import { GatewayError } from '../../src/errors.ts'
import type { Call, Settlement } from '../../src/invocation/call.ts'
import { recover } from '../../src/invocation/recovery.ts'
import { Replay } from '../../src/invocation/replay.ts'
import type { MemoryStore } from '../../src/store/memory.ts'
import type { Store } from '../../src/store/store.ts'
import type { AnyTool } from '../../src/tools/registry.ts'
import type { ToolContext } from '../../src/tools/tool.ts'
import { turns } from '../conformance/until.ts'
import { gate, setUp, withMethods, withWrites, type Setting } from './harness.ts'

const anything = { description: 'd', kind: 'read', parameters: Type.Any() }
type Execute = (id: string, args: any, signal: AbortSignal, update: any, context: ToolContext) => unknown
const tool = (id: string, execute: Execute, more: object = {}) => ({ ...anything, id, execute, ...more }) as unknown as AnyTool
const hanging = (id: string, more: object = {}) => tool(id, () => new Promise<never>(() => {}), more)
const echo = (id: string, more: object = {}) => tool(id, (_id, input, _signal, _update, context) => ({ structuredContent: input, details: { attempt: context.attempt } }), more)
const safe = { replay: 'safe' }
const forbidden = (id: string, more: object = {}) => tool(id, () => assert.fail(`${id} was run`), more)
const beforeExecuting = { beforeToolCall: () => new Promise<undefined>(() => {}) }
const all = { events: 100_000, bytes: Infinity }

type World = ReturnType<typeof setUp>

/** A gateway that dies: what it had begun stays on record as it is. */
async function dead (setting: Setting, ...requests: Parameters<World['start']>[0][]) {
  const world = setUp(setting)
  const calls: Call[] = []
  for (const request of requests) calls.push(await world.start(request))
  await turns()
  return { ...world, calls, ids: calls.map(({ invocationId }) => invocationId) }
}

/** The next gateway over the same store, which takes up what it finds. */
async function next (memory: MemoryStore, setting: Setting, { maxAttempts = 3, store = memory as Store } = {}) {
  const world = setUp({ ...setting, memory })
  const told: any[] = []
  const tell = (fields: object) => { told.push(fields) }
  const recovered = recover(world.invoker, { store, log: { debug: tell, info: tell, warn: tell, error: tell }, maxAttempts })
  /** How a call ends, checked as every call's end is; also one that recovery itself ended. */
  async function end (id: string) {
    const settlement = await world.invoker.find(id)?.settled ?? settlementOf(memory, id)
    return await world.outcome({ invocationId: id }, settlement)
  }
  return { ...world, told, recovered, end }
}

function settlementOf (memory: MemoryStore, id: string): Settlement {
  const { settled } = new Replay(memory.get(id)!, undefined, memory)
  assert.ok(!(settled instanceof Promise), 'it has settled')
  return settled
}

describe('recovery', () => {
  it('of nothing does nothing, and says nothing', async () => {
    const { store } = await dead({ tools: [echo('t')] }, { toolId: 't' })
    const { recovered, told, invoker } = await next(store, { tools: [echo('t')] })
    await recovered
    assert.deepEqual([told, invoker.running, store.head], [[], 0, 2])
  })

  it('says how many calls it runs and how many it ends, and of each of these how', async () => {
    const { store, ids } = await dead({ tools: [hanging('never'), hanging('safe', safe)] }, { toolId: 'never' }, { toolId: 'safe' }, { toolId: 'safe' })
    const { recovered, told } = await next(store, { tools: [hanging('never'), hanging('safe', safe)] })
    await recovered
    assert.deepEqual(told, [
      { tool: 'never', invocation: ids[0], principal: 'test', status: 'failed', durationMs: 0, errorCode: 'outcome_unknown' },
      { run: 2, settled: 1 }
    ])
  })

  describe('of a call never marked as about to execute', () => {
    it('runs it: the same call, with the same input, under the same start', async () => {
      const { store, ids: [id] } = await dead({ tools: [forbidden('t')], hooks: [beforeExecuting] },
        { toolId: 't', input: { a: [1, null] }, toolCallId: 'mine', runId: 'run', parentInvocationId: 'theirs', trace: { traceId: 'a'.repeat(32), parentSpanId: 'b'.repeat(16) } })
      const { recovered, end } = await next(store, { tools: [echo('t')] })
      await recovered
      const { response, events, record, status } = await end(id!)
      assert.deepEqual([status, response.structuredContent, response.details], ['succeeded', { a: [1, null] }, { attempt: 1 }])
      assert.deepEqual(events.map(({ type }) => type), ['tool_execution_start', 'tool_execution_end'])
      const { toolCallId, runId, parentInvocationId, traceId, parentSpanId } = response.invocation
      assert.deepEqual([toolCallId, runId, parentInvocationId, traceId, parentSpanId], ['mine', 'run', 'theirs', 'a'.repeat(32), 'b'.repeat(16)])
      assert.deepEqual([record.attempts, record.end!.executed], [1, true])
    })

    it('runs it whatever the tool says of replay, and whatever the bound of runs', async () => {
      const { store, ids: [id] } = await dead({ tools: [forbidden('t')], hooks: [beforeExecuting] }, { toolId: 't' })
      const { recovered, end } = await next(store, { tools: [echo('t', { replay: 'never' })] }, { maxAttempts: 0 })
      await recovered
      assert.equal((await end(id!)).status, 'succeeded')
    })

    it('runs those that waited for a slot, in their order, however many wait', async () => {
      const one = { executionMode: 'sequential', replay: 'safe' }
      const ran: number[] = []
      const { store, ids } = await dead({ tools: [hanging('one', one)] }, ...Array.from({ length: 10 }, (_, n) => ({ toolId: 'one', input: n })))
      const { recovered, end, invoker, call } = await next(store, {
        tools: [echo('other'), tool('one', async (_id, input) => { ran.push(input); await turns(1); return {} }, one)],
        limits: { maxWaitingCalls: 0, maxAsyncBacklog: 0, maxConcurrentCalls: 1, maxConcurrentAsyncCalls: 1 }
      })
      await recovered
      assert.deepEqual(invoker.slots(), { taken: 1, pending: 9 })
      assert.equal((await call({ toolId: 'other' })).response.invocation.queuedMs, undefined, 'they keep nobody waiting who waits for an answer')
      for (const id of ids) assert.equal((await end(id)).status, 'succeeded')
      assert.deepEqual([ran, invoker.slots()], [[0, 1, 2, 3, 4, 5, 6, 7, 8, 9], { taken: 0, pending: 0 }])
      assert.equal((await call({ toolId: 'other', isAsync: true })).status, 'succeeded', 'and the backlog is empty')
    })
  })

  describe('of a call that was marked', () => {
    it('of a tool that is never to be run again, ends it: outcome_unknown, and it may have run', async () => {
      for (const more of [{}, { replay: 'never' }]) {
        const { store, ids: [id] } = await dead({ tools: [hanging('t', more)] }, { toolId: 't' })
        const { recovered, end } = await next(store, { tools: [forbidden('t', more)] })
        await recovered
        const { status, errorCode, httpStatus, record, response } = await end(id!)
        assert.deepEqual([status, errorCode, httpStatus, record.end!.executed, response.invocation.durationMs], ['failed', 'outcome_unknown', 200, true, 0])
        assert.match(response.content[0].text, /"t".*not known/)
      }
    })

    it('of a tool that may be run again, runs it: no second start, and the tool is told which run it is', async () => {
      const { store, ids: [id] } = await dead({ tools: [tool('t', (_id, _input, _signal, update) => { update({ details: 'first' }); return new Promise(() => {}) }, safe)] }, { toolId: 't', input: 5 })
      const { recovered, end } = await next(store, {
        tools: [tool('t', (_id, input, _signal, update, { attempt, invocationId }) => { update({ details: 'second' }); return { structuredContent: [input, attempt, invocationId] } }, safe)]
      })
      await recovered
      const { response, events, record } = await end(id!)
      assert.deepEqual([response.structuredContent, record.attempts], [[5, 2, id], 2])
      assert.deepEqual(events.map(({ type, partialResult }) => [type.slice(15), partialResult?.details]), [['start', undefined], ['update', 'first'], ['update', 'second'], ['end', undefined]])
    })

    it('runs it so often in all, and not once more', async () => {
      const attempts: number[] = []
      const deadly = tool('t', (_id, _input, _signal, _update, { attempt }) => { attempts.push(attempt); return new Promise(() => {}) }, safe)
      const { store, ids: [id] } = await dead({ tools: [deadly] }, { toolId: 't' })
      for (let starts = 0; starts < 5; starts++) await (await next(store, { tools: [deadly] })).recovered
      const { end } = await next(store, { tools: [deadly] })
      assert.deepEqual(attempts, [1, 2, 3])
      const { errorCode, record } = await end(id!)
      assert.deepEqual([errorCode, record.attempts], ['outcome_unknown', 3])
    })

    it('counts a run of which only the mark is on record', async () => {
      const marking = gate()
      const { store, ids: [id] } = await dead({ tools: [forbidden('t')], wrap: (memory) => withMethods(memory, { mark: async (id) => { memory.mark(id); await marking.promise } }) }, { toolId: 't' })
      const { recovered, end } = await next(store, { tools: [forbidden('t')] })
      await recovered
      assert.equal((await end(id!)).errorCode, 'outcome_unknown')
    })
  })

  describe('of child calls', () => {
    const asking = (id: string, more: object = {}) => tool(id, async (_id, input, _signal, _update, { invoke }) => {
      const { structuredContent } = await invoke('child', input)
      return { structuredContent }
    }, more)

    it('ends them, and runs the call that made them again, which makes others', async () => {
      const { store, ids: [id] } = await dead({ tools: [asking('parent', safe), hanging('child', safe)] }, { toolId: 'parent', input: 5 })
      const { recovered, end, events } = await next(store, { tools: [asking('parent', safe), echo('child', safe)] })
      await recovered
      assert.equal((await end(id!)).response.structuredContent, 5)
      assert.deepEqual(events().map(({ type, toolId, errorCode }) => [toolId, type.slice(15), errorCode]), [
        ['parent', 'start', undefined], ['child', 'start', undefined], ['child', 'end', 'outcome_unknown'],
        ['child', 'start', undefined], ['child', 'end', undefined], ['parent', 'end', undefined]
      ])
    })

    it('ends those that never ran as stopped before, although they could be run', async () => {
      const one = { executionMode: 'sequential', replay: 'safe' }
      const { store, events } = await dead({ tools: [asking('parent', safe), hanging('child', one)] }, { toolId: 'child' }, { toolId: 'parent' })
      const child = events().find(({ toolId, parentInvocationId }) => toolId === 'child' && parentInvocationId !== undefined).invocationId
      const { recovered, end } = await next(store, { tools: [hanging('parent', safe), hanging('child', one)] })
      await recovered
      const { errorCode, httpStatus, record } = await end(child)
      assert.deepEqual([errorCode, httpStatus, record.end!.executed], ['shutdown', 503, false])
    })

    it('ends them before the call that made them, at any depth', async () => {
      const nested = tool('nested', (_id, depth: number, _signal, _update, { invoke }) => depth === 0 ? new Promise(() => {}) : invoke('nested', depth - 1))
      const { store } = await dead({ tools: [nested] }, { toolId: 'nested', input: 3 })
      const { recovered, events } = await next(store, { tools: [nested] })
      await recovered
      const [starts, ends] = ['tool_execution_start', 'tool_execution_end'].map((wanted) => events().filter(({ type }) => type === wanted).map(({ invocationId }) => invocationId))
      assert.equal(starts!.length, 4)
      assert.deepEqual(ends, starts!.toReversed())
    })

    it('runs a call that only names another as its parent: that one did not make it', async () => {
      const { store, ids: [first, second] } = await dead({ tools: [hanging('never'), hanging('safe', safe)] }, { toolId: 'never' }, { toolId: 'safe', parentInvocationId: 'x' })
      assert.ok(first !== undefined)
      const { recovered, end } = await next(store, { tools: [forbidden('never'), echo('safe', safe)] })
      await recovered
      assert.equal((await end(second!)).status, 'succeeded')
    })
  })

  describe('of a call that cannot be run', () => {
    it('as its tool is gone, ends it: stopped before it ran, or unknown where it may have', async () => {
      const { store, ids: [waiting, running] } = await dead({ tools: [forbidden('held'), hanging('t', safe)], hooks: [{ beforeToolCall: ({ tool: { id } }) => id === 'held' ? new Promise(() => {}) : undefined }] }, { toolId: 'held' }, { toolId: 't' })
      const { recovered, end } = await next(store, { tools: [] })
      await recovered
      const ends = [await end(waiting!), await end(running!)]
      assert.deepEqual(ends.map(({ status, errorCode, httpStatus }) => [status, errorCode, httpStatus]), [['cancelled', 'shutdown', 503], ['failed', 'outcome_unknown', 200]])
    })

    it('as its input was withheld, ends it the same, with nothing told of it', async () => {
      const secret = { sensitive: true, replay: 'safe' }
      // Also where the tool withholds nothing by now.
      for (const more of [secret, safe]) {
        const { store, ids: [running] } = await dead({ tools: [hanging('t', secret)] }, { toolId: 't', input: 'hunter2' })
        const { ids: [waiting] } = await dead({ tools: [forbidden('t', secret)], hooks: [beforeExecuting], memory: store }, { toolId: 't', input: 'hunter2' })
        const { recovered, end, events, logged } = await next(store, { tools: [forbidden('t', more)] })
        await recovered
        const ends = [await end(running!), await end(waiting!)]
        assert.deepEqual(ends.map(({ errorCode, response }) => [errorCode, response.redacted, response.content]), [['outcome_unknown', true, []], ['shutdown', true, []]])
        assert.ok(!JSON.stringify([events(), logged]).includes('hunter2'))
      }
    })

    it('as a value of its input was masked, ends it: nobody knows the input any more', async () => {
      const masking = { mask: ['/input/pin'], replay: 'safe' }
      // Also where nothing is masked by now.
      for (const more of [masking, safe]) {
        const { store, ids: [running] } = await dead({ tools: [hanging('t', masking)] }, { toolId: 't', input: { pin: 'hunter2' } })
        const { ids: [waiting] } = await dead({ tools: [forbidden('t', masking)], hooks: [beforeExecuting], memory: store }, { toolId: 't', input: { pin: 'hunter2' }, isAsync: true })
        const { recovered, end, events, logged } = await next(store, { tools: [forbidden('t', more)] })
        await recovered
        const ends = [await end(running!), await end(waiting!)]
        assert.deepEqual(ends.map(({ errorCode, response, record }) => [errorCode, 'redacted' in response, record.start.input]), [['outcome_unknown', false, '{"pin":"[masked]"}'], ['shutdown', false, '{"pin":"[masked]"}']])
        assert.ok(!JSON.stringify([events(), logged]).includes('hunter2'))
      }
    })

    it('but with a mask that has hidden nothing of its input, runs it, and masks what comes of it', async () => {
      const masking = { mask: ['/input/pin', '/result/structuredContent/pin'], replay: 'safe' }
      // The second one was recorded before there was a mask.
      const { store, ids: [first] } = await dead({ tools: [hanging('t', masking)] }, { toolId: 't', input: { a: 1 } })
      const { ids: [second] } = await dead({ tools: [hanging('t', safe)], memory: store }, { toolId: 't', input: { pin: 'hunter2' } })
      const { recovered } = await next(store, { tools: [tool('t', (_id, input) => ({ structuredContent: { pin: 'hunter3', input } }), masking)] })
      await recovered
      assert.deepEqual([first, second].map((id) => JSON.parse(store.get(id!)!.end!.result).structuredContent), [{ pin: '[masked]', input: { a: 1 } }, { pin: '[masked]', input: { pin: '[masked]' } }])
    })

    it('as its tool is sensitive by now, ends it: who would be given the result?', async () => {
      const { store, ids: [id] } = await dead({ tools: [hanging('t', safe)] }, { toolId: 't', input: 5 })
      const { recovered, end } = await next(store, { tools: [forbidden('t', { sensitive: true, replay: 'safe' })] })
      await recovered
      assert.equal((await end(id!)).errorCode, 'outcome_unknown')
    })
  })

  describe('of a call that ran before', () => {
    const ran = { tools: [hanging('t', safe)] }
    const again: [what: string, errorCode: string, setting: Setting][] = [
      ['and is blocked now', 'blocked', { tools: [forbidden('t', safe)], hooks: [{ beforeToolCall: () => ({ block: true }) }] }],
      ['and at which a hook throws now', 'hook_error', { tools: [forbidden('t', safe)], hooks: [{ beforeToolCall: () => { throw new Error('no') } }] }],
      ['and whose input its tool refuses now', 'invalid_input', { tools: [forbidden('t', { ...safe, parameters: Type.Object({ more: Type.String() }) })] }]
    ]
    for (const [what, errorCode, setting] of again) {
      it(`${what}: ${errorCode}, and not as if it had never run`, async () => {
        const { store, ids: [id] } = await dead(ran, { toolId: 't' })
        const { recovered, end } = await next(store, setting)
        await recovered
        const answer = await end(id!)
        assert.deepEqual([answer.errorCode, answer.httpStatus, answer.record.end!.executed, answer.response.invocation.durationMs], [errorCode, 200, true, 0])
      })

      it(`${what}: a call that never did is told so`, async () => {
        const { store, ids: [id] } = await dead({ ...ran, hooks: [beforeExecuting] }, { toolId: 't' })
        const { recovered, end } = await next(store, setting)
        await recovered
        const answer = await end(id!)
        assert.equal(answer.errorCode, errorCode)
        assert.ok(answer.httpStatus >= 400)
      })
    }

    for (const [reason, stop] of [
      ['cancelled', ({ invoker }: World, id: string) => invoker.cancel(invoker.find(id)!)],
      ['timeout', ({ clock }: World) => clock.advance(60_000)],
      ['shutdown', ({ invoker, clock }: World) => { void invoker.drain(10); clock.advance(10) }]
    ] as const) {
      it(`and is stopped (${reason}) before it runs again: it may have run`, async () => {
        const { store, ids: [id] } = await dead(ran, { toolId: 't' })
        const { ids: [other] } = await dead({ tools: [forbidden('t', safe)], hooks: [beforeExecuting], memory: store }, { toolId: 't' })
        const world = await next(store, { tools: [forbidden('t', safe)], hooks: [beforeExecuting] })
        await world.recovered
        const ends = [id!, other!].map((call) => world.end(call))
        for (const call of [id!, other!]) if (world.invoker.find(call)?.isSettled === false) stop(world, call)
        const [before, never] = await Promise.all(ends)
        assert.deepEqual([before!.errorCode, before!.httpStatus, never!.errorCode], [reason, 200, reason])
        assert.ok(never!.httpStatus >= 400)
      })
    }
  })

  it('runs the hooks again, for the same caller', async () => {
    const seen: unknown[] = []
    const { store, ids: [id] } = await dead({ tools: [hanging('t', safe)] }, { toolId: 't', input: 5, principal: { id: 'somebody' } })
    const { recovered, end } = await next(store, {
      tools: [echo('t', safe)],
      hooks: [{
        beforeToolCall: ({ args, principal, invocation }) => { seen.push([args, principal, invocation.invocationId, invocation.status]) },
        afterToolCall: () => ({ details: 'hooked' })
      }]
    })
    await recovered
    assert.equal((await end(id!)).response.details, 'hooked')
    assert.deepEqual(seen, [[5, { id: 'somebody' }, id, 'running']])
  })

  it('gives a call its whole time anew', async () => {
    const { store, clock, ids: [id] } = await dead({ tools: [hanging('t', safe)] }, { toolId: 't', timeoutMs: 100 })
    clock.advance(90)
    const { recovered, end, invoker, clock: later } = await next(store, { tools: [hanging('t', safe)] })
    await recovered
    later.advance(99)
    assert.equal(invoker.running, 1)
    later.advance(1)
    assert.equal((await end(id!)).errorCode, 'timeout')
  })

  it('knows of a call that it runs where it began', async () => {
    const { store, ids } = await dead({ tools: [hanging('t', safe)] }, { toolId: 't' }, { toolId: 't' })
    const { recovered, invoker } = await next(store, { tools: [hanging('t', safe)] })
    await recovered
    assert.deepEqual(ids.map((id) => invoker.find(id)!.startsAfter), [0, 1])
  })

  it('tells subscribers that read on of each end, once', async () => {
    const { store } = await dead({ tools: [hanging('never'), hanging('safe', safe)] }, { toolId: 'never' }, { toolId: 'safe' })
    const after = store.head
    const heard: string[] = []
    store.follow(({ type, start }) => heard.push(`${start.toolId} ${type.slice(15)}`))
    await (await next(store, { tools: [echo('never'), echo('safe', safe)] })).recovered
    await turns()
    assert.deepEqual(heard, ['never end', 'safe end'])
    assert.equal(store.readEvents(after, all).events.length, 2)
  })

  describe('and idempotency keys', () => {
    async function deadWith (setting: Setting, toolId = 't') {
      const world = setUp(setting)
      const call = await world.send({ toolId, input: 5, idempotencyKey: 'key' })
      await turns()
      return { memory: world.store, id: call.invocationId }
    }

    it('a retry joins the call that is run again', async () => {
      const { memory, id } = await deadWith({ tools: [hanging('t', safe)] })
      const held = gate()
      const { recovered, send, end, invoker } = await next(memory, { tools: [tool('t', async () => { await held.promise; return { structuredContent: 'once' } }, safe)] })
      await recovered
      const joined = await send({ toolId: 't', input: 5, idempotencyKey: 'key' })
      assert.ok(joined instanceof Replay && !joined.isSettled)
      assert.deepEqual([joined.invocationId, invoker.running], [id, 1])
      held.resolve()
      const { response } = await end(id)
      assert.equal(JSON.parse((await joined.settled).responseText).structuredContent, response.structuredContent)
    })

    it('a retry that comes before the call is taken up waits for it', async () => {
      const { memory, id } = await deadWith({ tools: [hanging('t', safe)] })
      const unsettled = gate()
      const { recovered, send } = await next(memory, { tools: [echo('t', safe)] }, { store: withMethods(memory, { unsettled: async () => { await unsettled.promise; return memory.unsettled() } }) })
      const joined = await send({ toolId: 't', input: 5, idempotencyKey: 'key' })
      assert.ok(joined instanceof Replay)
      unsettled.resolve()
      await recovered
      const { start, end } = await joined.settled
      assert.deepEqual([start.invocationId, JSON.parse(end.result).structuredContent], [id, 5])
    })

    it('a call whose outcome is unknown keeps its key: a retry would run it twice', async () => {
      const { memory, id } = await deadWith({ tools: [hanging('t')] })
      const { recovered, send } = await next(memory, { tools: [forbidden('t')] })
      await recovered
      const replayed = await send({ toolId: 't', input: 5, idempotencyKey: 'key' })
      assert.ok(replayed instanceof Replay && replayed.isSettled)
      assert.deepEqual([replayed.invocationId, (await replayed.settled).end.errorCode], [id, 'outcome_unknown'])
    })

    it('a call that never ran lets go of it', async () => {
      const { memory, id } = await deadWith({ tools: [forbidden('t')], hooks: [beforeExecuting] })
      await (await next(memory, { tools: [] })).recovered
      const { send } = await next(memory, { tools: [echo('t')] })
      const retried = await send({ toolId: 't', input: 5, idempotencyKey: 'key' })
      assert.ok(!(retried instanceof Replay))
      assert.notEqual(retried.invocationId, id)
    })

    it('a call that ran before and is blocked now keeps it', async () => {
      const { memory, id } = await deadWith({ tools: [hanging('t', safe)] })
      const { recovered, send, end } = await next(memory, { tools: [forbidden('t', safe)], hooks: [{ beforeToolCall: () => ({ block: true }) }] })
      await recovered
      await end(id)
      assert.equal((await send({ toolId: 't', input: 5, idempotencyKey: 'key' })).invocationId, id)
    })
  })

  describe('where the gateway is shut down meanwhile', () => {
    it('runs nothing more: that is left to the next start', async () => {
      const { store, ids: [never, again] } = await dead({ tools: [hanging('never'), hanging('safe', safe)] }, { toolId: 'never' }, { toolId: 'safe' })
      const settling = gate()
      const { recovered, invoker } = await next(store, { tools: [forbidden('never'), forbidden('safe', safe)] }, { store: withWrites(store, () => settling.promise) })
      await invoker.drain(1000)
      settling.resolve()
      await recovered
      await turns()
      assert.deepEqual([invoker.running, store.unsettled().map(({ start }) => start.invocationId)], [0, [again]])
      const last = await next(store, { tools: [echo('safe', safe)] })
      await last.recovered
      assert.deepEqual([(await last.end(again!)).status, (await last.end(never!)).errorCode], ['succeeded', 'outcome_unknown'])
    })

    it('gives those that run already their time, and then ends them', async () => {
      const { store, ids } = await dead({ tools: [hanging('t', safe)] }, { toolId: 't' }, { toolId: 't' })
      const { recovered, invoker, clock, end } = await next(store, { tools: [hanging('t', safe)] })
      await recovered
      const drained = invoker.drain(100)
      clock.advance(99)
      assert.equal(invoker.running, 2)
      clock.advance(1)
      await drained
      for (const id of ids) assert.equal((await end(id)).errorCode, 'shutdown')
    })
  })

  it('of a store that cannot record is refused, and nothing is run', async () => {
    const { store } = await dead({ tools: [hanging('never'), hanging('safe', safe)] }, { toolId: 'safe' }, { toolId: 'never' })
    const full = () => Promise.reject(new GatewayError('store_unavailable', 'The disk is full.'))
    const { recovered, invoker } = await next(store, { tools: [forbidden('never'), forbidden('safe', safe)] }, { store: withWrites(store, full) })
    await assert.rejects(recovered, { code: 'store_unavailable' })
    assert.deepEqual([invoker.running, store.unsettled().length], [0, 2])
  })
})
