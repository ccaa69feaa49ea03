import assert from 'node:assert/strict'
import { describe, it, type TestContext } from 'node:test'
import { GatewayError } from '../../src/errors.ts'
import type { KeyedRequest } from '../../src/invocation/arrival.ts'
import type { Call } from '../../src/invocation/call.ts'
import { claimOf, KEY_LIFE_MS } from '../../src/invocation/idempotency.ts'
import { Replay } from '../../src/invocation/replay.ts'
import type { MemoryStore } from '../../src/store/memory.ts'
import type { Store } from '../../src/store/store.ts'
import type { AnyTool } from '../../src/tools/registry.ts'
import type { ToolContext } from '../../src/tools/tool.ts'
import { endOf, startOf } from '../conformance/calls.ts'
import { turns } from '../conformance/until.ts'
import { gate, setUp, withMethods, withWrites, type Setting } from './harness.ts'

type Execute = (id: string, args: any, signal: AbortSignal, update: any, context: ToolContext) => unknown
const tool = (id: string, execute: Execute, more: object = {}) => ({ id, description: id, kind: 'test', parameters: {}, execute, ...more }) as unknown as AnyTool

describe('what a call claims by its key', () => {
  const claim = (key = 'key', principal = 'p', toolId = 't', text = '{}') => claimOf(key, principal, toolId, text, 1000)

  it('holds neither key nor input nor caller', () => {
    const text = JSON.stringify(claim('key-0815', 'somebody', 'tool', '{"word":"xyzzy"}'))
    for (const word of ['key-0815', 'xyzzy', 'somebody']) assert.ok(!text.includes(word))
  })

  it('is of one scope for the same key, caller and tool, whatever the input, and of another for any other', () => {
    assert.equal(claim().scope, claim('key', 'p', 't', '5').scope)
    const scopes = [claim(), claim('key2'), claim('key', 'q'), claim('key', 'p', 'u'), claim('p', 'key'), claim('key","p', 'p'), claim('key', 'p","t', ''), claim('key', 'p', 't","key')].map(({ scope }) => scope)
    assert.equal(new Set(scopes).size, scopes.length)
  })

  it('has one fingerprint for JSON-equal inputs, and another for any other', () => {
    assert.equal(claim('key', 'p', 't', '{"a":1,"b":[2]}').fingerprint, claim('key', 'p', 't', ' {"b":[2.0],\n"a":1e0} ').fingerprint)
    assert.notEqual(claim('key', 'p', 't', '{"a":1}').fingerprint, claim('key', 'p', 't', '{"a":"1"}').fingerprint)
  })

  it('tells by no fingerprint that two keys were sent with one input', () => {
    assert.notEqual(claim('key').fingerprint, claim('other').fingerprint)
  })

  it('ends after 24 hours', () => {
    assert.equal(claim().untilMs, 1000 + 24 * 60 * 60 * 1000)
  })
})

/** A gateway whose tools count their runs, and go on when a test says so. */
function setUpCounting (setting: Partial<Setting> & { more?: object, isHeld?: boolean } = {}) {
  const runs: unknown[] = []
  const held = gate()
  const execute: Execute = (_id, input) => {
    runs.push(input)
    const result = { structuredContent: runs.length }
    return setting.isHeld === true ? held.promise.then(() => result) : result
  }
  const world = setUp({ tools: [tool('t', execute, setting.more), tool('other', execute)], ...setting })
  const send = (more: Partial<KeyedRequest> & { idempotencyKey?: string } = {}) => world.send({ toolId: 't', input: 5, idempotencyKey: 'key', ...more })
  const answerOf = async (call: Call | Replay) => JSON.parse((await call.settled).responseText)
  return { ...world, send, answerOf, held, runs }
}

/** How stores answer. */
const stores: Record<string, (store: MemoryStore) => Store> = {
  'answers now': (store) => store,
  'answers later': (store) => withWrites(store, () => turns(1)),
  'writes now and answers later': (store) => withMethods(store, {
    begin: async (start, key) => { const earlier = store.begin(start, key); await turns(1); return earlier },
    mark: async (id) => { store.mark(id); await turns(1) },
    settle: async (id, end) => { const isNew = store.settle(id, end); await turns(1); return isNew }
  })
}

function watchRejections (t: TestContext): void {
  const rejected = (cause: unknown) => assert.fail(`unhandled rejection: ${String(cause)}`)
  process.on('unhandledRejection', rejected)
  t.after(() => process.off('unhandledRejection', rejected))
}

describe('idempotency keys', () => {
  for (const [how, wrap] of Object.entries(stores)) {
    describe(`over a store that ${how}`, () => {
      it('sent again after the call has settled: its answer, and no second run', async () => {
        const { send, answerOf, runs, events } = setUpCounting({ wrap })
        const first = await send()
        const answer = await answerOf(first)
        const second = await send()
        assert.ok(first instanceof Replay === false && second instanceof Replay && second.isSettled)
        assert.deepEqual([await answerOf(second), runs, events().length], [answer, [5], 2])
        assert.equal((await second.settled).httpStatus, 200)
      })

      it('sent again while the call runs: joins it', async () => {
        const { send, answerOf, runs, held, events, invoker } = setUpCounting({ wrap, isHeld: true })
        const first = await send()
        await turns(5)
        const joined = [await send(), await send()]
        assert.ok(joined.every((call) => call instanceof Replay && !call.isSettled && call.invocationId === first.invocationId))
        assert.equal(invoker.running, 1)
        assert.equal(JSON.parse((joined[0] as Replay).runningReceipt).status, 'running')
        held.resolve()
        const answers = await Promise.all([first, ...joined].map(answerOf))
        assert.deepEqual([answers[1], answers[2], runs, events().length], [answers[0], answers[0], [5], 2])
      })

      it('sent several times at once: one run, one answer, and all slots are free', async () => {
        const { send, answerOf, runs, events, invoker } = setUpCounting({ wrap })
        const calls = await Promise.all(Array.from({ length: 5 }, () => send()))
        const answers = await Promise.all(calls.map(answerOf))
        assert.deepEqual([answers.map(({ structuredContent }) => structuredContent), runs, events().length], [[1, 1, 1, 1, 1], [5], 2])
        assert.equal(calls.filter((call) => call instanceof Replay).length, 4)
        assert.deepEqual([invoker.slots(), invoker.running], [{ taken: 0, pending: 0 }, 0])
      })

      it('sent with another input: refused, with nothing recorded', async () => {
        const { send, runs, events, invoker } = setUpCounting({ wrap })
        await (await send()).settled
        for (const input of [6, '5', null, [5], { a: 5 }]) await assert.rejects(send({ input }), { code: 'idempotency_key_reused' })
        assert.deepEqual([runs, events().length, invoker.slots(), invoker.running], [[5], 2, { taken: 0, pending: 0 }, 0])
      })

      it('sent with another input while the call runs: refused, and the call goes on', async () => {
        const { send, answerOf, held, invoker } = setUpCounting({ wrap, isHeld: true })
        const first = await send()
        await assert.rejects(send({ input: 6 }), { code: 'idempotency_key_reused' })
        assert.equal(invoker.running, 1)
        held.resolve()
        assert.equal((await answerOf(first)).structuredContent, 1)
      })

      it('sent with a JSON-equal input: the same call', async () => {
        const { send, runs } = setUpCounting({ wrap })
        await (await send({ input: { a: 1, b: [2] } })).settled
        assert.ok(await send({ input: { b: [2], a: 1 } }) instanceof Replay)
        assert.equal(runs.length, 1)
      })

      it('of other callers and of other tools are others', async () => {
        const { send, runs } = setUpCounting({ wrap })
        for (const more of [{}, { principal: { id: 'somebody' } }, { toolId: 'other' }]) {
          const call = await send(more)
          assert.ok(!(call instanceof Replay))
          await call.settled
        }
        assert.equal(runs.length, 3)
      })

      it('stand for their call for 24 hours, and for a new one then', async () => {
        const { send, clock, runs } = setUpCounting({ wrap })
        const first = await send()
        await first.settled
        clock.advance(KEY_LIFE_MS - 1)
        assert.equal((await send()).invocationId, first.invocationId)
        clock.advance(1)
        const call = await send({ input: 6 })
        assert.ok(!(call instanceof Replay))
        await call.settled
        assert.deepEqual(runs, [5, 6])
        assert.equal((await send({ input: 6 })).invocationId, call.invocationId, 'and that one holds it anew')
      })

      const refusals: [what: string, setting: Partial<Setting> & { more?: object }][] = [
        ['that was blocked', { hooks: [{ beforeToolCall: () => ({ block: true }) }] }],
        ['at which a hook threw', { hooks: [{ beforeToolCall: () => { throw new Error('no') } }] }],
        ['whose input was refused', { more: { parameters: { type: 'string' } } }]
      ]
      for (const [what, setting] of refusals) {
        it(`of a call ${what} are free again: it did not run`, async () => {
          const { send, runs } = setUpCounting({ wrap, ...setting })
          const first = await send()
          assert.equal((await first.settled).end.executed, false)
          const second = await send({ input: 6 })
          assert.ok(!(second instanceof Replay) && second.invocationId !== first.invocationId)
          await second.settled
          assert.deepEqual(runs, [])
        })
      }

      it('of a call that the tool failed are kept', async () => {
        let runs = 0
        const { send } = setUp({ tools: [tool('t', () => { runs++; throw new Error('broken') })], wrap })
        const request = { toolId: 't', idempotencyKey: 'key' }
        await (await send(request)).settled
        assert.equal((await (await send(request)).settled).end.errorCode, 'tool_error')
        assert.equal(runs, 1)
      })

      it('of a call that was cancelled are kept where it ran, and free where it did not', async () => {
        const { send, invoker } = setUp({ tools: [tool('t', () => new Promise(() => {}), { executionMode: 'sequential' })], wrap })
        const [ran, waited] = [await send({ toolId: 't', idempotencyKey: 'ran' }), await send({ toolId: 't', idempotencyKey: 'waited' })]
        await turns(5)
        for (const call of [waited, ran]) invoker.cancel(call as Call)
        for (const call of [waited, ran]) assert.equal((await call.settled).end.errorCode, 'cancelled')
        assert.equal((await send({ toolId: 't', idempotencyKey: 'ran' })).invocationId, ran.invocationId)
        assert.ok(!(await send({ toolId: 't', idempotencyKey: 'waited' }) instanceof Replay))
      })
    })
  }

  it('of a call that settles in the turn in which it arrives, are replayed in that turn', () => {
    const { invoker, runs } = setUpCounting()
    const request = { toolId: 't', principal: { id: 'p' }, idempotencyKey: 'key' }
    const calls = [invoker.start(request), invoker.start(request)]
    assert.ok(calls.every((call) => !(call instanceof Promise) && !(call.settled instanceof Promise)))
    assert.equal(runs.length, 1)
  })

  it('of an overloaded call claim nothing', async () => {
    const { send, held, runs } = setUpCounting({ isHeld: true, more: { executionMode: 'sequential' }, limits: { maxWaitingCalls: 0 } })
    await send({ idempotencyKey: 'first' })
    await assert.rejects(send(), { code: 'overloaded' })
    held.resolve()
    await turns()
    assert.ok(!(await send() instanceof Replay))
    assert.equal(runs.length, 2)
  })

  it('that cannot be claimed are refused, with nothing taken', async () => {
    for (const begin of [() => { throw new GatewayError('overloaded', 'full') }, () => Promise.reject(new GatewayError('overloaded', 'full'))]) {
      const { send, runs, invoker } = setUpCounting({ wrap: (store) => withMethods(store, { begin }) })
      await assert.rejects(send(), { code: 'overloaded' })
      assert.deepEqual([runs, invoker.slots(), invoker.running], [[], { taken: 0, pending: 0 }, 0])
    }
  })

  it('tell where the call began, for who follows its events', async () => {
    const { send, call, store } = setUpCounting()
    await call({ toolId: 'other' })
    const first = await send()
    const second = await send()
    assert.deepEqual([first.startsAfter, second.startsAfter], [2, 2])
    assert.equal(store.readEvents(second.startsAfter, { events: 1, bytes: 1 }).events[0]!.start.invocationId, second.invocationId)
  })

  describe('of a sensitive tool', () => {
    const more = { sensitive: true }

    it('sent again after the call has settled: what became of it, without what came out', async () => {
      const { send, answerOf, runs } = setUpCounting({ more })
      const answer = await answerOf(await send({ input: 'hunter2' }))
      assert.equal(answer.structuredContent, 1)
      const again = await send({ input: 'hunter2' })
      const { content, details, redacted, structuredContent, invocation } = await answerOf(again)
      assert.deepEqual([content, details, redacted, structuredContent, invocation], [[], null, true, undefined, answer.invocation])
      assert.equal(runs.length, 1)
    })

    it('sent again while the call runs: everything, as its caller gets it', async () => {
      const { send, answerOf, held } = setUpCounting({ more, isHeld: true })
      const [first, joined] = [await send(), await send()]
      held.resolve()
      assert.deepEqual(await answerOf(joined), await answerOf(first))
    })

    it('sent with another input: refused, though the input is on record nowhere', async () => {
      const { send, store } = setUpCounting({ more })
      const first = await send({ input: 'hunter2' })
      assert.equal(store.get(first.invocationId)!.start.input, undefined)
      await assert.rejects(send({ input: 'hunter3' }), { code: 'idempotency_key_reused' })
    })
  })

  describe('of a call that is on record and does not run here', () => {
    /** A gateway over a store in which a call of the same key has begun elsewhere. */
    async function setUpElsewhere (wrap?: Setting['wrap']) {
      const world = setUpCounting(wrap === undefined ? {} : { wrap })
      const start = startOf({ toolId: 't', principalId: 'test' })
      world.store.begin(start, claimOf('key', 'test', 't', '5', start.startedAtMs))
      return { ...world, start, end: () => world.store.settle(start.invocationId, endOf({ result: '{"content":[],"details":"elsewhere","isError":false}' })) }
    }

    it('are waited for, and answered once its end is on record', async () => {
      const { send, answerOf, runs, start, end, store } = await setUpElsewhere()
      const joined = await send()
      assert.ok(joined instanceof Replay && !joined.isSettled)
      let isAnswered = false
      void answerOf(joined).then(() => { isAnswered = true })
      store.begin(startOf())
      await turns()
      assert.equal(isAnswered, false)
      end()
      const { details, invocation } = await answerOf(joined)
      assert.deepEqual([details, invocation.invocationId, runs], ['elsewhere', start.invocationId, []])
    })

    it('are answered where it ends while that is being found out', async () => {
      for (const when of ['with the key', 'before', 'after'] as const) {
        const { send, answerOf, end } = await setUpElsewhere((store) => withMethods(store, {
          begin: (start, key) => {
            const { call, fingerprint } = store.begin(start, key)!
            const found = { ...call }
            if (when === 'with the key') end()
            return { call: found, fingerprint }
          },
          get: async (id) => {
            if (when === 'before') end()
            const found = { ...store.get(id)! }
            if (when === 'after') end()
            await turns(1)
            return found
          }
        }))
        const joined = await send()
        assert.equal((await answerOf(joined)).details, 'elsewhere')
      }
    })

    it('are followed no longer than it takes', async () => {
      let following = 0
      const { send, answerOf, end } = await setUpElsewhere((store) => withMethods(store, {
        follow (listener) {
          const stop = store.follow(listener)
          following++
          return () => { following--; stop() }
        }
      }))
      const joined = await send()
      assert.equal(following, 1)
      end()
      await answerOf(joined)
      assert.equal(following, 0)
    })

    it('are told to who waits where the store fails, and to nobody else', async (t) => {
      watchRejections(t)
      const { send } = await setUpElsewhere((store) => withMethods(store, { get: () => Promise.reject(new GatewayError('store_unavailable', 'The disk is gone.')) }))
      const joined = await send()
      await turns()
      assert.ok(joined instanceof Replay)
      assert.equal(JSON.parse(joined.runningReceipt).status, 'running')
      await assert.rejects(async () => joined.settled, { code: 'store_unavailable' })
    })
  })
})
