import assert from 'node:assert/strict'
import { once } from 'node:events'
import { Agent, request } from 'node:http'
import type { Socket } from 'node:net'
import { describe, it, type TestContext } from 'node:test'
import { assertProblem, echo, invoke, send, startGateway, waitFor, within } from './harness.ts'
import { accepted, cancel, heldTool, prefer, record } from './calls.ts'
import { directoryOf, sleeper, startCli, type Cli } from './cli.ts'
import { openStream } from './sse-client.ts'
import { overStores, stores, type StoreCase } from './stores.ts'

async function serve (t: TestContext, { options }: StoreCase, graceMs: number) {
  const { store } = await options(t)
  const tools = await directoryOf(t, { 'sleep.mjs': sleeper })
  const program = await startCli(t, ['--tools', tools, '--shutdown-grace-ms', String(graceMs)], { TOOLGATE_STORE: store! })
  return { program, store: store! }
}

async function stop (program: Cli, signal: NodeJS.Signals = 'SIGTERM') {
  const began = performance.now()
  program.kill(signal)
  const exit = await within(program.exited, 'the exit', 20_000)
  return { ...exit, tookMs: performance.now() - began }
}

/** A keep-alive connection that was used once and is idle now. */
async function idleConnection (t: TestContext, url: string): Promise<Socket> {
  const agent = new Agent({ keepAlive: true })
  t.after(() => agent.destroy())
  const call = request(`${url}/livez`, { agent }).end()
  const [response] = await once(call, 'response')
  await once(response.resume(), 'end')
  return call.socket!
}

const unready = (program: Cli) => waitFor(async () => (await send(`${program.url}/readyz`)).status === 503, '/readyz to fail', 1000)

describe('shutdown of the program with async calls', { concurrency: 4 }, () => {
  for (const storeCase of stores) {
    it(`trap 14 (${storeCase.name}): the 3 s call answered, the 60 s async call told, streams ended cleanly, exit 0 in the grace time`, async (t) => {
      const graceMs = 4000
      const { program, store } = await serve(t, storeCase, graceMs)
      const listener = await openStream(t, program.url)
      const idle = await idleConnection(t, program.url)
      const short = invoke(program, 'sleep', { ms: 3000 })
      const shortAsync = await accepted(program, 'sleep', { ms: 2000 })
      const id = await accepted(program, 'sleep', { ms: 60_000 })
      const own = await openStream(t, program.url, { path: `/invocations/${id}/events` })
      const waiting = record(program, id, { prefer: 'wait=60' })
      await waitFor(() => listener.of('tool_execution_start').length === 3 && own.events.length === 1, 'all to run')

      const stopping = stop(program)
      await unready(program)
      const refused = await prefer(program, 'respond-async', 'sleep')
      assertProblem(refused, 503, 'shutting_down')
      assert.match(refused.headers.get('retry-after')!, /^\d+$/)
      assert.equal((await record(program, id)).body.invocation.status, 'running', 'records can still be read')

      assert.deepEqual([(await short).status, (await short).body.structuredContent], [200, 3000])
      const { body } = await waiting
      assert.deepEqual([body.invocation.status, body.invocation.errorCode, body.result.isError], ['cancelled', 'shutdown', true])
      for (const stream of [listener, own]) assert.equal(await stream.closed(), 'ended')
      assert.deepEqual(own.ends.map(({ status, errorCode }) => [status, errorCode]), [['cancelled', 'shutdown']])
      assert.deepEqual(listener.ends.map(({ invocationId, status }) => [invocationId, status]), [
        [shortAsync, 'succeeded'], [(await short).body.invocation.invocationId, 'succeeded'], [id, 'cancelled']
      ])
      const { code, tookMs } = await stopping
      assert.equal(code, 0, program.stderr)
      assert.ok(tookMs < graceMs + 1000, `${tookMs} ms`)
      await waitFor(() => idle.destroyed, 'the idle connection to close')

      if (!storeCase.isDurable) return
      const again = await startGateway(t, { store, tools: [echo] })
      assert.deepEqual((await record(again, id)).body, body)
      assert.equal((await record(again, shortAsync)).body.invocation.status, 'succeeded')
    })

    it(`a second signal (${storeCase.name}) exits at once, and not with 0`, async (t) => {
      const { program } = await serve(t, storeCase, 30_000)
      await accepted(program, 'sleep', { ms: 60_000 })
      program.kill('SIGTERM')
      await unready(program)
      const { code, tookMs } = await stop(program)
      assert.notEqual(code, 0)
      assert.ok(tookMs < 1000, `${tookMs} ms`)
    })
  }

  it('with nothing but an async call, it exits as soon as that has ended', async (t) => {
    const { program } = await serve(t, stores[0]!, 20_000)
    await accepted(program, 'sleep', { ms: 500 })
    const { code, tookMs } = await stop(program)
    assert.equal(code, 0)
    assert.ok(tookMs < 5000, `${tookMs} ms`)
  })

  it('and as soon as that was cancelled', async (t) => {
    const { program } = await serve(t, stores[0]!, 20_000)
    const id = await accepted(program, 'sleep', { ms: 60_000 })
    const stopping = stop(program)
    await unready(program)
    assert.equal((await cancel(program, id)).status, 202)
    const { code, tookMs } = await stopping
    assert.equal(code, 0)
    assert.ok(tookMs < 5000, `${tookMs} ms`)
  })
})

overStores('a gateway that closes, with async calls', (start) => {
  it('those in the backlog get their turn in the grace time', async (t) => {
    const { subject, inputs, running, release } = heldTool()
    const gateway = await start(t, { tools: [subject], maxConcurrentAsyncCalls: 1, shutdownGraceMs: 10_000 })
    for (const n of [0, 1, 2]) await accepted(gateway, 'held', n)
    await running(1)
    const listener = await openStream(t, gateway.url)
    const closing = gateway.app.close()
    await waitFor(() => !gateway.app.toolgate.invoker.accepting, 'the gateway to close')
    release()
    await within(closing, 'the close')
    assert.equal(await listener.closed(), 'ended')
    assert.deepEqual([inputs, listener.ends.map(({ status }) => status)], [[0, 1, 2], ['succeeded', 'succeeded', 'succeeded']])
  })

  it('after it all are told, those that ran and those that never did, each once', async (t) => {
    const { subject, inputs, running } = heldTool()
    const gateway = await start(t, { tools: [subject], maxConcurrentAsyncCalls: 1, shutdownGraceMs: 100 })
    const ids = []
    for (const n of [0, 1, 2]) ids.push(await accepted(gateway, 'held', n))
    await running(1)
    const listener = await openStream(t, gateway.url)
    const waiting = ids.map(async (id) => (await record(gateway, id, { prefer: 'wait=20' })).body)
    await within(gateway.app.close(), 'the close')
    assert.equal(await listener.closed(), 'ended')
    assert.deepEqual(inputs, [0])
    assert.deepEqual(listener.ends.map(({ invocationId }) => invocationId).sort(), ids.toSorted())
    for (const body of await Promise.all(waiting)) assert.deepEqual([body.invocation.status, body.invocation.errorCode], ['cancelled', 'shutdown'])
  })

  it('who waits for one with wait=S is answered with how it ended, not put off', async (t) => {
    const { subject, running } = heldTool()
    const gateway = await start(t, { tools: [subject], shutdownGraceMs: 100 })
    const waiting = prefer(gateway, 'wait=20', 'held')
    await running(1)
    await within(gateway.app.close(), 'the close')
    assert.deepEqual([(await waiting).status, (await waiting).body.invocation.errorCode], [200, 'shutdown'])
  })
})
