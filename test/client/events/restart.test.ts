import assert from 'node:assert/strict'
import { join } from 'node:path'
import { describe, it, type TestContext } from 'node:test'
import { createClient, type ToolExecutionEvent } from '../../../src/client.ts'
import { Cli, directoryOf, sleeper, startCli } from '../../e2e/cli.ts'
import { gate, waitFor, within } from '../../e2e/harness.ts'
import { logOf, Taken } from './logs.ts'

const retry = { minDelayMs: 5, maxDelayMs: 50 }

interface Follower {
  taken: Taken
  reconnects: number
}

/** A program that is stopped and started again on the same port, and a client that loops over its events all the while. */
async function begin (t: TestContext, storeOf: (folder: string) => string) {
  const folder = await directoryOf(t, { 'tools/sleep.ts': sleeper })
  const start = (port: number): Promise<Cli> => startCli(t, ['--port', String(port), '--tools', join(folder, 'tools')], {
    TOOLGATE_STORE: storeOf(folder), TOOLGATE_SHUTDOWN_GRACE_MS: '300', TOOLGATE_LOG_LEVEL: 'info'
  }, folder)
  let program = await start(0)
  const { url, port } = program
  const over = new AbortController()
  t.after(() => over.abort())
  const client = createClient({ url, retry })
  const follower: Follower = { taken: new Taken(), reconnects: 0 }
  const opened = gate()
  const subscription = client.events({ signal: over.signal, onOpen: () => opened.open(), onReconnect: () => follower.reconnects++ })
  const loop = (async () => {
    for await (const item of subscription) follower.taken.add(item, subscription.lastEventId)
  })()
  await opened.reached('the stream')
  return {
    url,
    client,
    follower,
    subscription,
    /** Stops the program while it works, and starts it again. */
    async restart (signal: NodeJS.Signals) {
      program.kill(signal)
      await within(program.exited, 'the end of the program', 20_000)
      program = await start(port)
    },
    async leave () {
      over.abort()
      await within(loop, 'the end of the loop')
    }
  }
}

const isEnd = ({ event }: { event: { type: string } }) => event.type === 'tool_execution_end'

describe('events over restarts of a gateway', () => {
  it('with a store in a file: each once and in order, after kills and after shutdowns', async (t) => {
    const { url, client, follower: { taken }, follower, restart, leave } = await begin(t, (folder) => `sqlite:${join(folder, 'toolgate.db')}`)
    const over = new AbortController()
    // Calls whose gateway goes away fail; what becomes of them stands in the log.
    const load = Promise.all([1, 2, 3].map(async (worker) => {
      for (let n = 0; !over.signal.aborted; n++) {
        const call = n % 3 === 0 ? client.invokeAsync('sleep', { ms: 40, n }) : client.invoke('sleep', { ms: n % 5, n }, { runId: `worker ${worker}`, ...(n % 2 === 0 ? { onUpdate: () => {} } : {}) })
        await call.catch(() => {})
      }
    }))
    for (const signal of ['SIGTERM', 'SIGKILL', 'SIGKILL'] as const) {
      const before = taken.ends
      await waitFor(() => taken.ends > before + 20, 'calls to be followed', 20_000)
      await restart(signal)
    }
    over.abort()
    await within(load, 'the end of the load', 30_000)
    const log = await waitFor(async () => {
      const all = await logOf({ url })
      return all.filter(isEnd).length * 2 === all.length && all
    }, 'every call to end', 20_000)
    await waitFor(() => taken.all.length >= log.length, 'the last event')
    await leave()
    assert.deepEqual(taken.all, log)
    assert.ok(follower.reconnects >= 3)
    t.diagnostic(`${log.length} events, ${follower.reconnects} tries to come back`)

    // Any place of any life is one to go on from.
    for (const at of [0, Math.floor(log.length / 3), log.length - 2]) {
      const later = new Taken()
      const subscription = client.events({ lastEventId: log[at]!.id })
      for await (const item of subscription) {
        later.add(item, subscription.lastEventId)
        if (later.all.length === log.length - at - 1) break
      }
      assert.deepEqual(later.all, log.slice(at + 1))
    }
  })

  it('with a store in memory: the loss is told, and then everything that is kept', async (t) => {
    const { url, client, follower: { taken }, restart, leave } = await begin(t, () => 'memory')
    await client.invoke('sleep', {})
    await waitFor(() => taken.all.length === 2, 'the first call to be followed')
    const before = [...taken.all]
    await restart('SIGKILL')
    const { invocation } = await client.invoke('sleep', {})
    await waitFor(() => taken.all.some((each) => isEnd(each) && (each.event as ToolExecutionEvent).invocationId === invocation.invocationId), 'the call to be followed')
    const log = await logOf({ url })
    const last = before.at(-1)!.id
    const lost = { id: last, event: { type: 'events_lost', requestedId: last, earliestId: log[0]!.id } }
    assert.deepEqual(taken.all, [...before, lost, ...log])
    await leave()
  })
})
