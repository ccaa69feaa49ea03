import assert from 'node:assert/strict'
import { Agent, request } from 'node:http'
import { connect, type Socket } from 'node:net'
import { describe, it, type TestContext } from 'node:test'
import { assertProblem, echo, exchange, gate, invoke, send, startGateway, tool, waitFor, within } from './harness.ts'
import { openStream } from './sse-client.ts'
import { directoryOf, sleeper, startCli, type Cli } from './cli.ts'

const signals = ['SIGTERM', 'SIGINT'] as const

async function start (t: TestContext, graceMs: number, more: string[] = []): Promise<Cli> {
  return await startCli(t, ['--tools', await directoryOf(t, { 'sleep.mjs': sleeper }), '--shutdown-grace-ms', String(graceMs), ...more])
}

/** A keep-alive connection that was used once and is idle now. */
async function idleConnection (t: TestContext, url: string): Promise<Socket> {
  const agent = new Agent({ keepAlive: true })
  t.after(() => agent.destroy())
  return await new Promise((resolve, reject) => {
    let socket: Socket
    const call = request(`${url}/livez`, { agent }, (response) => response.resume().on('end', () => resolve(socket)))
    call.on('error', reject).on('socket', (given) => { socket = given }).end()
  })
}

async function dialled (t: TestContext, port: number, bytes = ''): Promise<Socket> {
  const socket = connect(port, '127.0.0.1')
  socket.on('error', () => {}) // cut at the end
  t.after(() => socket.destroy())
  await new Promise<void>((resolve) => socket.once('connect', resolve))
  if (bytes !== '') socket.write(bytes)
  return socket
}

const running = (program: Cli, count: number, listener: { of: (type: string) => unknown[] }) =>
  waitFor(() => listener.of('tool_execution_start').length === count, `${count} calls to run on ${program.url}`)

/** Signals, and gives how it ended and how long that took. */
async function stop (program: Cli, signal: NodeJS.Signals = 'SIGTERM') {
  const began = performance.now()
  program.kill(signal)
  const exit = await within(program.exited, 'the exit', 20_000)
  return { ...exit, tookMs: performance.now() - began }
}

// Mostly waiting, so side by side.
describe('shutdown', { concurrency: 4 }, () => {
  describe('trap 14: everything open', () => {
    it('SIGTERM: not ready at once, no new calls, the 3 s call answered, the longer one told, the stream ended cleanly, exit 0', async (t) => {
      const graceMs = 4000
      const program = await start(t, graceMs)
      const listener = await openStream(t, program.url)
      const idle = await idleConnection(t, program.url)
      const short = invoke(program, 'sleep', { ms: 3000 })
      const long = invoke(program, 'sleep', { ms: 60_000 })
      await running(program, 2, listener)

      const stopping = stop(program)
      const readiness = await waitFor(async () => {
        const answer = await send(`${program.url}/readyz`)
        return answer.status === 503 && answer
      }, '/readyz to fail', 1000)
      assert.deepEqual(readiness.body.reasons.map(({ code }: any) => code), ['shutting_down'])
      assert.equal(typeof readiness.body.reasons[0].message, 'string')
      assert.equal((await send(`${program.url}/livez`)).status, 200, 'alive, only not ready')
      const refused = await invoke(program, 'sleep', { ms: 0 })
      assertProblem(refused, 503, 'shutting_down')
      assert.match(refused.headers.get('retry-after')!, /^\d+$/)
      // What is running can still be followed.
      const late = await openStream(t, program.url, { headers: { 'last-event-id': listener.lastId! } })

      const answered = await short
      assert.deepEqual([answered.status, answered.body.structuredContent, answered.body.invocation.status], [200, 3000, 'succeeded'])
      const told = await long
      assert.deepEqual([told.status, told.body.invocation.status, told.body.invocation.errorCode], [200, 'cancelled', 'shutdown'])
      assert.equal(told.headers.get('toolgate-error-code'), 'shutdown')

      for (const stream of [listener, late]) {
        assert.equal(await stream.closed(), 'ended')
        const ends = stream.ends.map(({ invocationId, status, errorCode }) => [invocationId, status, errorCode])
        assert.deepEqual(ends, [[answered.body.invocation.invocationId, 'succeeded', undefined], [told.body.invocation.invocationId, 'cancelled', 'shutdown']])
        assert.equal(stream.events.at(-1)!.event, 'tool_execution_end')
      }
      const { code, tookMs } = await stopping
      assert.equal(code, 0, program.stderr)
      assert.ok(tookMs < graceMs + 1000, `${tookMs} ms`)
      await waitFor(() => idle.destroyed, 'the idle connection to close')
    })

    it('the stream ends with the terminating chunk, right after the last end event', async (t) => {
      const program = await start(t, 5000)
      const reading = exchange(program.port, 'GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n')
      const listener = await openStream(t, program.url)
      void invoke(program, 'sleep', { ms: 300 })
      await running(program, 1, listener)
      const stopping = stop(program)
      const text = await reading
      assert.match(text, /event: tool_execution_end\ndata: \{[^\n]*\}\n\n\r\n0\r\n\r\n$/)
      assert.equal((await stopping).code, 0)
    })

    it('the stream of a call ends cleanly with the end event of that call', async (t) => {
      const program = await start(t, 200)
      const own = await openStream(t, program.url, { path: '/tools/sleep/invoke', method: 'POST', body: '{"input":{"ms":60000}}', headers: { accept: 'text/event-stream' } })
      await running(program, 1, own)
      const stopping = stop(program)
      assert.equal(await own.closed(), 'ended')
      assert.deepEqual(own.ends.map(({ errorCode }) => errorCode), ['shutdown'])
      assert.equal((await stopping).code, 0)
    })
  })

  describe('with no call running', () => {
    const graceMs = 1500
    const connections: Record<string, (t: TestContext, program: Cli) => Promise<unknown>> = {
      nobody: async () => {},
      'a listener': (t, program) => openStream(t, program.url),
      'an idle keep-alive connection': (t, program) => idleConnection(t, program.url),
      'a connection that never sent a byte': (t, program) => dialled(t, program.port),
      'a request whose headers never end': (t, program) => dialled(t, program.port, 'GET /tools HTTP/1.1\r\nHost: localhost\r\n'),
      'a request whose body never ends': (t, program) => dialled(t, program.port, 'POST /tools/sleep/invoke HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"input":')
    }
    for (const [name, connection] of Object.entries(connections)) {
      it(`${name} connected: exit 0 within the grace time`, async (t) => {
        const program = await start(t, graceMs)
        await connection(t, program)
        const { code, tookMs } = await stop(program)
        assert.equal(code, 0, program.stdout)
        assert.ok(tookMs < graceMs + 500, `${tookMs} ms`)
      })
    }

    it('a listener that stopped reading, with events waiting for it, holds nothing up either', async (t) => {
      const gateway = await startGateway(t, { tools: [echo], shutdownGraceMs: 500 })
      let waiting: Socket | undefined
      gateway.app.server.once('connection', (socket) => { waiting = socket })
      const deaf = await dialled(t, gateway.port)
      deaf.pause()
      deaf.write('GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n')
      await waitFor(() => gateway.app.toolgate.hub.size === 1, 'the subscriber')
      // Until the operating system takes no more, and the bytes wait with us.
      while (waiting!.writableLength < 500 * 1024) await invoke(gateway, 'echo', 'x'.repeat(100 * 1024))
      assert.deepEqual([gateway.app.toolgate.hub.size, waiting!.destroyed], [1, false], 'not cut yet')
      await within(gateway.app.close(), 'the close', 2500)
    })
  })

  describe('what is on its way at the end', () => {
    it('a call in process is refused at once, while another one still runs', async (t) => {
      const release = gate()
      const began = gate()
      const { app } = await startGateway(t, { tools: [echo, tool('held', async () => { began.open(); await release.promise; return {} })], shutdownGraceMs: 20_000 })
      const running = app.invoke({ toolId: 'held' })
      await began.reached('the tool to run')
      const closing = app.close()
      await waitFor(() => !app.toolgate.invoker.accepting, 'the gateway to close')
      await assert.rejects(within(app.invoke({ toolId: 'echo' }), 'the refusal'), { code: 'shutting_down' })
      release.open()
      assert.equal((await running).isError, false)
      await within(closing, 'the close')
    })

    it('a large answer to a slow reader arrives whole', async (t) => {
      const result = 'x'.repeat(7 * 2 ** 20)
      const release = gate()
      const began = gate()
      const large = tool('large', async () => { began.open(); await release.promise; return { structuredContent: result } })
      const gateway = await startGateway(t, { tools: [large], shutdownGraceMs: 20_000 })
      const { promise: received, resolve } = Promise.withResolvers<{ text: string, complete: boolean }>()
      const call = request(`${gateway.url}/tools/large/invoke`, { method: 'POST', agent: false }, (response) => {
        let text = ''
        response.pause()
        response.on('data', (chunk) => { text += chunk }).on('close', () => resolve({ text, complete: response.complete })).on('error', () => {})
        // Slow, not deaf: it begins to read while the gateway is closing.
        setTimeout(() => response.resume(), 200)
      })
      call.on('error', (error) => resolve({ text: String(error), complete: false }))
      t.after(() => call.destroy())
      call.end()
      await began.reached('the tool to run')
      const closing = gateway.app.close()
      release.open()
      const { text, complete } = await within(received, 'the answer', 20_000)
      assert.equal(complete, true, `cut after ${text.length} characters`)
      assert.equal(JSON.parse(text).structuredContent.length, result.length)
      await within(closing, 'the close')
    })

    it('events that wait for a slow listener arrive, and then the end of the stream', async (t) => {
      const gateway = await startGateway(t, { tools: [echo], shutdownGraceMs: 5000 })
      let waiting: Socket | undefined
      gateway.app.server.once('connection', (socket) => { waiting = socket })
      const slow = await openStream(t, gateway.url)
      slow.pause()
      let calls = 0
      for (; waiting!.writableLength < 500 * 1024; calls++) await invoke(gateway, 'echo', 'x'.repeat(100 * 1024))
      assert.equal(gateway.app.toolgate.hub.size, 1, 'not cut yet')
      const closing = gateway.app.close()
      await waitFor(() => gateway.app.toolgate.hub.size === 0, 'the streams to end')
      slow.resume()
      assert.equal(await slow.closed(), 'ended')
      assert.equal(slow.ends.length, calls)
      await within(closing, 'the close')
    })
  })

  describe('signals', () => {
    for (const signal of signals) {
      it(`${signal} drains: the running call is answered, exit 0`, async (t) => {
        const program = await start(t, 5000)
        const listener = await openStream(t, program.url)
        const answering = invoke(program, 'sleep', { ms: 400 })
        await running(program, 1, listener)
        const { code, signal: by } = await stop(program, signal)
        assert.deepEqual([code, by], [0, null])
        assert.equal((await answering).body.invocation.status, 'succeeded')
        assert.ok(program.log.some(({ msg }) => msg === 'shut down'), 'the log is flushed')
      })

      it(`a second ${signal} exits at once, and not with 0`, async (t) => {
        const program = await start(t, 30_000)
        const listener = await openStream(t, program.url)
        invoke(program, 'sleep', { ms: 60_000 }).catch(() => {})
        await running(program, 1, listener)
        program.kill(signal)
        await waitFor(async () => (await send(`${program.url}/readyz`)).status === 503, 'the drain to begin')
        const { code, tookMs } = await stop(program, signal)
        assert.notEqual(code, 0)
        assert.ok(tookMs < 1000, `${tookMs} ms`)
      })
    }

    it('a grace time of 0 stops running calls at once, and tells of it', async (t) => {
      const program = await start(t, 0)
      const listener = await openStream(t, program.url)
      const answering = invoke(program, 'sleep', { ms: 60_000 })
      await running(program, 1, listener)
      const { code, tookMs } = await stop(program)
      assert.equal(code, 0)
      assert.ok(tookMs < 1500, `${tookMs} ms`)
      assert.equal((await answering).body.invocation.errorCode, 'shutdown')
      assert.deepEqual(listener.ends.map(({ errorCode }) => errorCode), ['shutdown'])
    })
  })
})
