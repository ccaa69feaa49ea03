import assert from 'node:assert/strict'
import { it } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { seeded } from '../conformance/seeded.ts'
import { assertProblem, gate, invoke, tool, waitFor, type Answer } from './harness.ts'
import { accepted, cancel, logged, record } from './calls.ts'
import { overStores } from './stores.ts'
import { openStream } from './sse-client.ts'

const SEED = 20_261_130
const CALLS = 1000
const AT_ONCE = 20
/** So many turns of the event loop, at most, lie between the sending of a cancel and the end of the tool: about what the cancel takes to arrive. */
const JITTER_TURNS = 6

interface Tried {
  id: string
  cancelled: Answer
  /** What the caller was told; nothing of an async call. */
  answer: Answer | undefined
  /** The status on record right after. */
  status: string
}

overStores(`${CALLS} calls, each cancelled at about the instant at which it ends`, (start) => {
  it('have one end event each and one status for good: cancelled exactly where the cancel was told 202', { timeout: 60_000 }, async (t) => {
    const random = seeded(SEED)
    const ids = new Map<number, string>()
    const open = new Map<number, () => void>()
    const aborts = new Set<number>()
    const brief = tool('brief', async (_id, n: number, signal: AbortSignal, _onUpdate, { invocationId }) => {
      const { promise, open: release } = gate()
      signal.addEventListener('abort', () => { aborts.add(n) })
      open.set(n, release)
      ids.set(n, invocationId)
      await promise
      if (n % 5 === 0) throw new Error('it broke')
      return { structuredContent: n }
    })
    const gateway = await start(t, { tools: [brief], storeMaxEvents: 10 * CALLS })
    const listener = await openStream(t, gateway.url)

    async function attempt (n: number): Promise<Tried> {
      const turns = Math.floor(random() * JITTER_TURNS)
      const isAsync = random() < 0.5
      const answering = isAsync ? undefined : invoke(gateway, 'brief', n)
      if (isAsync) await accepted(gateway, 'brief', n)
      const id = await waitFor(() => ids.get(n), `call ${n} to run`)
      const cancelling = cancel(gateway, id)
      for (let turn = 0; turn < turns; turn++) await nextTurn()
      open.get(n)!()
      const cancelled = await cancelling
      return { id, cancelled, answer: await answering, status: (await record(gateway, id)).body.invocation.status }
    }

    const tried: Tried[] = []
    let next = 0
    await Promise.all(Array.from({ length: AT_ONCE }, async () => {
      while (next < CALLS) {
        const n = next++
        tried[n] = await attempt(n)
      }
    }))

    const ends = new Map<string, any[]>()
    for (const { event } of await logged(gateway)) if (event.type === 'tool_execution_end') ends.set(event.invocationId, [...ends.get(event.invocationId) ?? [], event])
    const told = new Map<number, number>()
    for (const [n, { id, cancelled, answer, status }] of tried.entries()) {
      told.set(cancelled.status, (told.get(cancelled.status) ?? 0) + 1)
      const uncancelled = n % 5 === 0 ? 'failed' : 'succeeded'
      assert.equal(status, cancelled.status === 202 ? 'cancelled' : uncancelled, `call ${n}, whose cancel was told ${cancelled.text}`)
      if (cancelled.status === 202) assert.equal(cancelled.body.invocation.status, 'cancelled')
      else assertProblem(cancelled, 409, 'already_settled')
      assert.deepEqual(ends.get(id)!.map((end) => end.status), [status], 'one end event')
      if (answer !== undefined) assert.deepEqual([answer.status, answer.body.invocation.status], [200, status])
      assert.equal(aborts.has(n), status === 'cancelled')
      const later = (await record(gateway, id)).body
      assert.deepEqual([later.invocation.status, later.invocation.durationMs, later.result], [status, ends.get(id)![0].durationMs, ends.get(id)![0].result])
    }
    // The storm was one: both came about, and often.
    assert.deepEqual([...told.keys()].sort(), [202, 409])
    assert.ok(Math.min(...told.values()) > CALLS / 20, JSON.stringify([...told]))
    await waitFor(() => listener.ends.length >= CALLS, 'the end events')
    assert.deepEqual(Map.groupBy(listener.ends, ({ invocationId }) => invocationId).size, CALLS)
    assert.equal(listener.ends.length, CALLS)
    const { invoker } = gateway.app.toolgate
    assert.deepEqual([invoker.running, invoker.slots()], [0, { taken: 0, pending: 0 }])
    t.diagnostic(`cancelled ${told.get(202)}, too late for ${told.get(409)}`)
  })
})
