import assert from 'node:assert/strict'
import { describe, it, type TestContext } from 'node:test'
import type { GatewayOptions } from '../../src/gateway.ts'
import { assertProblem, echo, invoke, send, startGateway, tool, within } from './harness.ts'
import { accepted, cancel, heldTool, keyed, list, logged, record, settledRecord } from './calls.ts'
import { openStream } from './sse-client.ts'
import { stores } from './stores.ts'

// A clean stop and another start, with the same options. What a crash leaves behind is tested on its own.
for (const { name, isDurable, options } of stores) {
  /** Starts gateways one after the other that record in one place. */
  const life = async (t: TestContext, given: GatewayOptions) => {
    const place = await options(t)
    const start = () => startGateway(t, { ...place, ...given })
    let gateway = await start()
    return {
      get gateway () { return gateway },
      restart: async () => {
        await within(gateway.app.close(), 'the close')
        gateway = await start()
        return gateway
      }
    }
  }

  describe(`after a restart (${name})`, () => {
    if (!isDurable) {
      it('nothing is left: a record is gone, a key is free, a cursor is none of this log', async (t) => {
        const { gateway, restart } = await life(t, { tools: [echo] })
        const first = await keyed(gateway, 'k', 'echo', { n: 1 })
        await invoke(gateway, 'echo')
        const { nextCursor } = await list(gateway, '?limit=1')
        const again = await restart()
        assertProblem(await record(again, first.body.invocation.invocationId), 404, 'unknown_invocation')
        assert.deepEqual(await list(again), { invocations: [] })
        assertProblem(await send(`${again.url}/invocations?cursor=${nextCursor}`), 400, 'invalid_request')
        const next = await keyed(again, 'k', 'echo', { n: 2 })
        assert.deepEqual([next.status, next.headers.get('idempotency-replayed')], [200, null])
      })
      return
    }

    it('a key still gives its answer, whatever that was, and refuses another input', async (t) => {
      let runs = 0
      const subject = tool('subject', (_id, { fails }: any) => {
        runs++
        if (fails) throw new Error('it broke')
        return { content: [{ type: 'text', text: 'ä\u2028' }], details: [1], structuredContent: null }
      })
      const { gateway, restart } = await life(t, { tools: [subject] })
      const first = [await keyed(gateway, 'k', 'subject', { fails: false }), await keyed(gateway, 'l', 'subject', { fails: true })]
      const again = await restart()
      for (const [at, key] of ['k', 'l'].entries()) {
        const replay = await keyed(again, key, 'subject', { fails: at === 1 })
        assert.deepEqual([replay.status, replay.body, replay.headers.get('idempotency-replayed')], [200, first[at]!.body, 'true'])
        assert.equal(replay.headers.get('toolgate-error-code'), first[at]!.headers.get('toolgate-error-code'))
        assertProblem(await keyed(again, key, 'subject', { fails: at === 0 }), 422, 'idempotency_key_reused')
      }
      assert.equal(runs, 2)
    })

    it('the answer of a key can be had as a stream, with the ids from before', async (t) => {
      const { gateway, restart } = await life(t, { tools: [echo] })
      await keyed(gateway, 'k', 'echo', { n: 1 })
      const before = await logged(gateway)
      const stream = await openStream(t, (await restart()).url, { path: '/tools/echo/invoke', method: 'POST', headers: { accept: 'text/event-stream', 'idempotency-key': 'k' }, body: '{"input":{"n":1}}' })
      assert.equal(await stream.closed(), 'ended')
      assert.deepEqual(stream.events.map(({ id, data }) => ({ id, event: data })), before)
    })

    it('of a sensitive tool a key gives what is on record: that it was withheld', async (t) => {
      const { gateway, restart } = await life(t, { tools: [tool('secret', (_id, input) => ({ structuredContent: input }), { sensitive: true })] })
      const { body } = await keyed(gateway, 'k', 'secret', { secret: 'hunter2' })
      const again = await restart()
      const replay = await keyed(again, 'k', 'secret', { secret: 'hunter2' })
      assert.deepEqual(replay.body, { content: [], details: null, isError: false, redacted: true, invocation: body.invocation })
      assertProblem(await keyed(again, 'k', 'secret', { secret: 'hunter3' }), 422, 'idempotency_key_reused')
    })

    it('a key whose call never executed is free, one stopped with the gateway while it executed is not', async (t) => {
      const { subject, inputs, running, release } = heldTool('held', { executionMode: 'sequential' })
      const { gateway, restart } = await life(t, { tools: [subject], shutdownGraceMs: 50 })
      const executing = keyed(gateway, 'executing', 'held', 1)
      await running(1)
      const queued = accepted(gateway, 'held', 2, { headers: { 'idempotency-key': 'queued' } })
      await queued
      const again = await restart()
      release()
      assert.deepEqual([(await executing).status, (await executing).body.invocation.errorCode, inputs], [200, 'shutdown', [1]])
      const replay = await keyed(again, 'executing', 'held', 1)
      assert.deepEqual([replay.body, replay.headers.get('idempotency-replayed')], [(await executing).body, 'true'])
      const next = await keyed(again, 'queued', 'held', 2)
      assert.deepEqual([next.body.structuredContent, next.headers.get('idempotency-replayed'), inputs], [2, null, [1, 2]])
      assert.notEqual(next.body.invocation.invocationId, await queued)
    })

    it('records are what they were, settled for good', async (t) => {
      const { subject, running } = heldTool()
      const { gateway, restart } = await life(t, { tools: [echo, subject], shutdownGraceMs: 50 })
      const { invocation } = (await invoke(gateway, 'echo', 'ä'.repeat(300_000))).body
      const before = await record(gateway, invocation.invocationId)
      const stopped = await accepted(gateway, 'held')
      await running(1)
      const again = await restart()
      assert.equal((await record(again, invocation.invocationId)).text, before.text)
      const { invocation: { status, errorCode } } = await settledRecord(again, stopped)
      assert.deepEqual([status, errorCode], ['cancelled', 'shutdown'])
      for (const id of [invocation.invocationId, stopped]) assertProblem(await cancel(again, id), 409, 'already_settled')
      assert.equal((await logged(again)).length, 4, 'no second end')
    })

    it('a list goes on where it was, and begins with what came since', async (t) => {
      const { gateway, restart } = await life(t, { tools: [echo] })
      const ids: string[] = []
      for (let n = 0; n < 5; n++) ids.unshift((await invoke(gateway, 'echo')).body.invocation.invocationId)
      const { nextCursor, invocations } = await list(gateway, '?limit=2')
      const again = await restart()
      const newer = (await invoke(again, 'echo')).body.invocation.invocationId
      const rest = await list(again, `?limit=10&cursor=${nextCursor}`)
      assert.deepEqual([...invocations, ...rest.invocations].map(({ invocationId }) => invocationId), ids)
      assert.deepEqual((await list(again)).invocations.map(({ invocationId }) => invocationId), [newer, ...ids])
    })

    it('the events of a call are still there, and a stream goes on by an id from before', async (t) => {
      const { gateway, restart } = await life(t, { tools: [echo] })
      const { invocation: { invocationId } } = (await invoke(gateway, 'echo')).body
      const before = await logged(gateway)
      const again = await restart()
      const path = `/invocations/${invocationId}/events`
      const whole = await openStream(t, again.url, { path })
      assert.equal(await whole.closed(), 'ended')
      assert.deepEqual(whole.events.map(({ id, data }) => ({ id, event: data })), before)
      const rest = await openStream(t, again.url, { path, headers: { 'last-event-id': before[0]!.id } })
      assert.equal(await rest.closed(), 'ended')
      assert.deepEqual(rest.events.map(({ id }) => id), [before[1]!.id])
      assert.equal((await send(`${again.url}${path}`, { headers: { 'last-event-id': before[1]!.id } })).status, 204)
    })
  })
}
