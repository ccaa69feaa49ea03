import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Type } from '@sinclair/typebox'
import type { Hooks } from '../../src/invocation/hooks.ts'
import { assertProblem, gate, invoke, tool, waitFor, type Answer, type RunningGateway } from './harness.ts'
import { cancel, heldTool, keyed, logged, record, watchArrivals } from './calls.ts'
import { overStores } from './stores.ts'

const never = () => new Promise<never>(() => {})

/** The call that waits for its slot or its hook, by the only record that has not ended. */
async function runningId ({ app }: RunningGateway, toolId: string): Promise<string> {
  const found = await waitFor(async () => [...await app.toolgate.store.unsettled()].find(({ start }) => start.toolId === toolId), `a call of ${toolId}`)
  return found.start.invocationId
}

overStores('an Idempotency-Key is for calls that began to execute', (start) => {
  describe('a first try that did not leaves the key free', () => {
    /** A hook that does `first` for the first call of the tool, and nothing for later ones. */
    const once = (first: () => unknown): Hooks => {
      let calls = 0
      return { beforeToolCall: () => (calls++ === 0 ? first() as undefined : undefined) }
    }

    const hooked: Record<string, { hook: Hooks, timeoutMs?: number, status: number, errorCode: string }> = {
      'blocked by a hook': { hook: once(() => ({ block: true, reason: 'not yet' })), status: 403, errorCode: 'blocked' },
      'ended by a hook that threw': { hook: once(() => { throw new Error('it broke') }), status: 500, errorCode: 'hook_error' },
      'timed out in a hook': { hook: once(never), timeoutMs: 30, status: 504, errorCode: 'timeout' }
    }
    for (const [name, { hook, timeoutMs, status, errorCode }] of Object.entries(hooked)) {
      it(`${name}: the tool runs at the next`, async (t) => {
        const { subject, inputs, release } = heldTool()
        release()
        const gateway = await start(t, { tools: [subject], hooks: hook })
        const more = timeoutMs === undefined ? {} : { timeoutMs }
        await assertFree(gateway, await keyed(gateway, 'k', 'held', { n: 1 }, more), status, errorCode)
        assert.deepEqual(inputs, [{ n: 1 }])
      })
    }

    it('refused for its input: the corrected input runs', async (t) => {
      const picky = tool('held', (_id, input) => ({ structuredContent: input }), { parameters: Type.Object({ n: Type.Integer() }) })
      const gateway = await start(t, { tools: [picky] })
      const refused = await keyed(gateway, 'k', 'held', { n: 'one' })
      await assertFree(gateway, refused, 422, 'invalid_input')
    })

    it('refused since the line was full: runs once there is room', async (t) => {
      const { subject, inputs, running, release } = heldTool('held', { executionMode: 'sequential' })
      const gateway = await start(t, { tools: [subject], maxWaitingCalls: 0 })
      const ahead = invoke(gateway, 'held', 'ahead')
      await running(1)
      const refused = await keyed(gateway, 'k', 'held', { n: 1 })
      assertProblem(refused, 503, 'overloaded')
      assert.match(refused.headers.get('retry-after')!, /^[1-9]\d*$/)
      release()
      await ahead
      const again = await keyed(gateway, 'k', 'held', { n: 1 })
      assert.deepEqual([again.status, again.headers.get('idempotency-replayed'), inputs], [200, null, ['ahead', { n: 1 }]])
    })

    it('timed out in line: runs once there is room', async (t) => {
      const { subject, running, release } = heldTool('held', { executionMode: 'sequential' })
      const gateway = await start(t, { tools: [subject] })
      const ahead = invoke(gateway, 'held', 'ahead')
      await running(1)
      const refused = await keyed(gateway, 'k', 'held', { n: 1 }, { timeoutMs: 20 })
      release()
      await ahead
      await assertFree(gateway, refused, 504, 'timeout')
    })

    it('cancelled in line: both who wait for it are told, and it runs at the next', async (t) => {
      const { subject, running, release } = heldTool('held', { executionMode: 'sequential' })
      const gateway = await start(t, { tools: [subject, tool('other', () => ({}))] })
      const ahead = invoke(gateway, 'held', 'ahead')
      await running(1)
      const arrivals = watchArrivals(gateway)
      const first = keyed(gateway, 'k', 'held', { n: 1 })
      await arrivals.reached(1)
      const joined = keyed(gateway, 'k', 'held', { n: 1 })
      await arrivals.reached(2)
      const waiting = [...await gateway.app.toolgate.store.unsettled()][1]!
      assert.equal((await cancel(gateway, waiting.start.invocationId)).status, 202)
      assert.deepEqual([(await first).status, (await joined).status, (await joined).body], [409, 409, (await first).body])
      release()
      await ahead
      await assertFree(gateway, await first, 409, 'cancelled')
    })

    it('while it has not ended it is joined, and its refusal is for both', async (t) => {
      const open = gate()
      const gateway = await start(t, { tools: [tool('held', () => ({}))], hooks: { beforeToolCall: async () => { await open.promise; return { block: true } } } })
      const arrivals = watchArrivals(gateway)
      const first = keyed(gateway, 'k', 'held')
      await arrivals.reached(1)
      const second = keyed(gateway, 'k', 'held')
      await arrivals.reached(2)
      open.open()
      assert.deepEqual([(await first).status, (await second).status], [403, 403])
      assert.deepEqual([(await second).body, (await second).headers.get('idempotency-replayed')], [(await first).body, 'true'])
    })

    /** The first try ended so, and the next two, with another input, are one new call. */
    async function assertFree (gateway: RunningGateway, first: Answer, status: number, errorCode: string): Promise<void> {
      assert.deepEqual([first.status, first.body.invocation.errorCode, first.headers.get('toolgate-error-code'), first.body.invocation.durationMs], [status, errorCode, errorCode, 0])
      const next = await keyed(gateway, 'k', 'held', { n: 1 })
      assert.deepEqual([next.status, next.headers.get('idempotency-replayed'), next.body.isError], [200, null, false])
      assert.notEqual(next.body.invocation.invocationId, first.body.invocation.invocationId)
      const replay = await keyed(gateway, 'k', 'held', { n: 1 })
      assert.deepEqual([replay.body, replay.headers.get('idempotency-replayed')], [next.body, 'true'])
      // The record of the first try is what it was.
      assert.equal((await record(gateway, first.body.invocation.invocationId)).body.invocation.errorCode, errorCode)
    }
  })

  describe('one that did keeps it, however it ended', () => {
    const executed: Record<string, { execute: (...args: any[]) => unknown, more?: object, errorCode: string, status?: string, timeoutMs?: number, hooks?: Hooks }> = {
      'the tool threw': { execute: () => { throw new Error('it broke') }, errorCode: 'tool_error' },
      'the tool returned a failure': { execute: () => ({ isError: true, structuredContent: { code: 'declared' } }), errorCode: 'tool_error' },
      'its output broke its schema': { execute: () => ({ structuredContent: 1 }), more: { outputSchema: Type.String() }, errorCode: 'invalid_output' },
      'its result was too large': { execute: () => ({ structuredContent: 'x'.repeat(2000) }), errorCode: 'result_too_large' },
      'an after-hook threw': { execute: () => ({}), hooks: { afterToolCall: () => { throw new Error('it broke') } }, errorCode: 'hook_error' },
      'it timed out': { execute: never, timeoutMs: 30, errorCode: 'timeout' }
    }
    for (const [name, { execute, more, errorCode, timeoutMs, hooks = [] }] of Object.entries(executed)) {
      it(`${name}: the same failure again, and no second run`, async (t) => {
        let runs = 0
        const subject = tool('subject', (...args) => { runs++; return execute(...args) }, more)
        const gateway = await start(t, { tools: [subject], hooks, maxResultBytes: 1024 })
        const first = await keyed(gateway, 'k', 'subject', {}, timeoutMs === undefined ? {} : { timeoutMs })
        assert.deepEqual([first.status, first.body.invocation.status, first.body.invocation.errorCode], [200, 'failed', errorCode])
        const again = await keyed(gateway, 'k', 'subject')
        assert.deepEqual([again.status, again.body, again.headers.get('idempotency-replayed'), runs], [200, first.body, 'true', 1])
        for (const header of ['toolgate-status', 'toolgate-error-code']) assert.equal(again.headers.get(header), first.headers.get(header))
        assert.equal((await logged(gateway)).length, 2)
      })
    }

    it('it was cancelled while it executed: the same answer again, and no second run', async (t) => {
      const { subject, inputs, running } = heldTool()
      const gateway = await start(t, { tools: [subject] })
      const first = keyed(gateway, 'k', 'held')
      await running(1)
      assert.equal((await cancel(gateway, await runningId(gateway, 'held'))).status, 202)
      assert.deepEqual([(await first).status, (await first).body.invocation.errorCode], [200, 'cancelled'])
      const again = await keyed(gateway, 'k', 'held')
      assert.deepEqual([again.status, again.body, again.headers.get('idempotency-replayed'), inputs.length], [200, (await first).body, 'true', 1])
    })
  })

  describe('a sensitive tool', () => {
    it('answers a replay with input and result withheld; who joins in flight gets all of it', async (t) => {
      const { subject, running, release } = heldTool('held', { sensitive: true })
      const gateway = await start(t, { tools: [subject] })
      const arrivals = watchArrivals(gateway)
      const first = keyed(gateway, 'k', 'held', { secret: 'hunter2' })
      await running(1)
      const joined = keyed(gateway, 'k', 'held', { secret: 'hunter2' })
      await arrivals.reached(2)
      assertProblem(await keyed(gateway, 'k', 'held', { secret: 'hunter3' }), 422, 'idempotency_key_reused')
      release()
      assert.deepEqual([(await first).body.structuredContent, (await joined).body], [{ secret: 'hunter2' }, (await first).body])
      const replay = await keyed(gateway, 'k', 'held', { secret: 'hunter2' })
      assert.deepEqual([replay.status, replay.headers.get('idempotency-replayed')], [200, 'true'])
      assert.deepEqual(replay.body, { content: [], details: null, isError: false, redacted: true, invocation: (await first).body.invocation })
      assertProblem(await keyed(gateway, 'k', 'held', { secret: 'hunter3' }), 422, 'idempotency_key_reused')
    })
  })
})
