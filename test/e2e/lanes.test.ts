import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { describe, it, type TestContext } from 'node:test'
import type { GatewayOptions } from '../../src/gateway.ts'
import type { Call } from '../../src/invocation/call.ts'
import { assertProblem, gate, invoke, startGateway, tool, waitFor, within, type RunningGateway } from './harness.ts'

/** A tool that counts its own overlap, in the order in which it was called. */
function counting (more: object = {}, work: (input: any, signal: AbortSignal) => Promise<unknown> = () => new Promise(setImmediate)) {
  const count = { now: 0, most: 0, served: [] as unknown[] }
  return {
    count,
    subject: tool('subject', async (_id: string, input: any, signal: AbortSignal) => {
      count.served.push(input)
      count.now++
      count.most = Math.max(count.most, count.now)
      try {
        await work(input, signal)
      } finally {
        count.now--
      }
      return { structuredContent: input }
    }, more)
  }
}

/** One request of one connection: sent, and what came back. */
class Caller {
  readonly socket: Socket
  #text = ''

  constructor (socket: Socket) {
    this.socket = socket
    socket.on('data', (chunk: Buffer) => { this.#text += chunk.toString() })
    socket.on('error', () => {}) // hung up on purpose
  }

  send (body: object): void {
    const text = JSON.stringify(body)
    this.socket.write(`POST /tools/subject/invoke HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: ${Buffer.byteLength(text)}\r\n\r\n${text}`)
  }

  /** The answer, once it is whole. */
  get answer (): { status: number, body: any } | undefined {
    const [head, body] = this.#text.split('\r\n\r\n')
    const length = /^content-length: (\d+)$/im.exec(head!)?.[1]
    if (body === undefined || length === undefined || Buffer.byteLength(body) < Number(length)) return undefined
    return { status: Number(head!.split(' ')[1]), body: JSON.parse(body) }
  }
}

async function callers (t: TestContext, { port }: RunningGateway, count: number): Promise<Caller[]> {
  const made: Caller[] = []
  t.after(() => made.forEach(({ socket }) => socket.destroy()))
  for (let n = 0; n < count; n++) {
    const socket = connect(port, '127.0.0.1').setNoDelay()
    made.push(new Caller(socket))
    await once(socket, 'connect')
  }
  return made
}

/** The calls of the subject by the events of the log, each with one start and one end. */
async function told ({ app }: RunningGateway) {
  const { events } = await app.toolgate.store.readEvents(0, { events: 100_000, bytes: Infinity })
  const starts = events.filter(({ type, start }) => type === 'tool_execution_start' && start.toolId === 'subject')
  const ends = new Map<string, any>()
  for (const { type, start, end } of events) {
    if (type !== 'tool_execution_end') continue
    assert.ok(!ends.has(start.invocationId), 'one end')
    ends.set(start.invocationId, end)
  }
  assert.equal(new Set(starts.map(({ start }) => start.invocationId)).size, starts.length, 'one start')
  return starts.map(({ start }) => ({ input: start.input === undefined ? undefined : JSON.parse(start.input), end: ends.get(start.invocationId) }))
}

function assertIdle ({ app }: RunningGateway): void {
  const { invoker } = app.toolgate
  assert.deepEqual([invoker.slots(), invoker.slots('subject'), invoker.running], [{ taken: 0, pending: 0 }, { taken: 0, pending: 0 }, 0])
}

/** Starts a gateway and tells of its calls as they arrive. */
async function startWatched (t: TestContext, options: GatewayOptions) {
  const gateway = await startGateway(t, options)
  const calls = new Map<unknown, Call>()
  const { invoker } = gateway.app.toolgate
  const start = invoker.start.bind(invoker)
  invoker.start = (request) => {
    const call = start(request) as Call
    calls.set(request.input, call)
    return call
  }
  return { gateway, calls, invoker }
}

const CALLS = 500

describe('500 calls at once of a tool of maxConcurrent 3', () => {
  it('never overlap more than that, are served in the order of their arrival, and are all answered', async (t) => {
    const open = gate()
    const { subject, count } = counting({ maxConcurrent: 3 }, async () => { await open.promise; await new Promise(setImmediate) })
    const { gateway, calls, invoker } = await startWatched(t, { tools: [subject], maxWaitingCalls: CALLS })
    const clients = await callers(t, gateway, CALLS)
    clients.forEach((client, input) => client.send({ input }))
    await waitFor(() => calls.size === CALLS, 'all calls to arrive', 30_000)
    assert.deepEqual([invoker.slots('subject'), invoker.slots().taken, count.now], [{ taken: 3, pending: CALLS - 3 }, 3, 3])
    open.open()
    await waitFor(() => clients.every(({ answer }) => answer !== undefined), 'all answers', 30_000)

    assert.equal(count.most, 3)
    const calm = await told(gateway)
    assert.deepEqual(count.served, calm.map(({ input }) => input), 'in the order of the start events')
    clients.forEach(({ answer }, input) => assert.deepEqual([answer!.status, answer!.body.structuredContent], [200, input]))
    const waited = clients.filter(({ answer }) => 'queuedMs' in answer!.body.invocation)
    assert.equal(waited.length, CALLS - 3)
    const unqueued = calm.filter(({ end }) => end.queuedMs === undefined).map(({ input }) => input)
    assert.deepEqual(unqueued, count.served.slice(0, 3), 'told of those that waited, and of no others')
    for (const { answer } of waited) assert.ok(answer!.body.invocation.queuedMs > 0)
    assertIdle(gateway)
  })

  it('a third of them cancelled or timed out in line and a third hung up: the others are served, in order, and nothing is left', async (t) => {
    const open = gate()
    const { subject, count } = counting({ maxConcurrent: 3 }, async () => { await open.promise; await new Promise(setImmediate) })
    const { gateway, calls, invoker } = await startWatched(t, { tools: [subject], maxWaitingCalls: CALLS })
    const clients = await callers(t, gateway, CALLS)
    // The first three hold the slots. Of the rest, by threes: served, stopped (every other one by its own timeout), hung up.
    const fate = (input: number) => input < 3 ? 'served' : (['served', input % 2 === 0 ? 'cancelled' : 'timeout', 'hung up'] as const)[input % 3]!
    const of = (wanted: string) => clients.map((_client, input) => input).filter((input) => fate(input) === wanted)
    for (const input of [0, 1, 2]) {
      clients[input]!.send({ input })
      await waitFor(() => calls.has(input), 'the holders')
    }
    clients.forEach((client, input) => {
      if (input >= 3) client.send({ input, ...(fate(input) === 'timeout' ? { timeoutMs: 50 } : {}) })
    })
    await waitFor(() => calls.size === CALLS, 'all calls to arrive', 30_000)
    for (const input of of('hung up')) clients[input]!.socket.destroy()
    for (const input of of('cancelled')) invoker.cancel(calls.get(input)!)
    await waitFor(() => [...of('hung up'), ...of('cancelled'), ...of('timeout')].every((input) => calls.get(input)!.isSettled), 'the stopped ones to settle', 30_000)
    assert.deepEqual(invoker.slots('subject'), { taken: 3, pending: of('served').length - 3 })
    open.open()
    const answered = clients.filter((_client, input) => fate(input) !== 'hung up')
    await waitFor(() => answered.every(({ answer }) => answer !== undefined), 'all answers', 30_000)

    assert.equal(count.most, 3)
    const all = await told(gateway)
    assert.equal(all.length, CALLS)
    assert.deepEqual(count.served, all.map(({ input }) => input).filter((input) => fate(input) === 'served'))
    const expected = { served: [200, 'succeeded', undefined], cancelled: [409, 'cancelled', 'cancelled'], timeout: [504, 'failed', 'timeout'] } as const
    clients.forEach(({ answer }, input) => {
      const how = fate(input)
      if (how === 'hung up') return
      const { invocation } = answer!.body
      assert.deepEqual([answer!.status, invocation.status, invocation.errorCode], expected[how], `call ${input}`)
      if (how !== 'served') assert.deepEqual([invocation.durationMs, invocation.queuedMs > 0], [0, true])
    })
    for (const { input, end } of all) {
      const how = fate(input)
      const [, status, errorCode] = how === 'hung up' ? expected.cancelled : expected[how]
      assert.deepEqual([end.status, end.errorCode, end.executed], [status, errorCode, how === 'served'])
      if (how !== 'served') assert.deepEqual([end.durationMs, end.queuedMs > 0], [0, true])
    }
    assertIdle(gateway)
  })

  it('half of those that execute hung up: their places go to the next in line', async (t) => {
    const { subject, count } = counting({ maxConcurrent: 3 }, (input, signal) => new Promise<void>((resolve) => {
      if (input % 2 === 0) setImmediate(resolve)
      else signal.addEventListener('abort', () => resolve())
    }))
    const { gateway, calls } = await startWatched(t, { tools: [subject], maxWaitingCalls: CALLS })
    const clients = await callers(t, gateway, 60)
    clients.forEach((client, input) => client.send({ input }))
    await waitFor(() => calls.size === 60, 'all calls to arrive')
    const odd = clients.map((client, input) => ({ client, input })).filter(({ input }) => input % 2 === 1)
    for (const { client, input } of odd) {
      await waitFor(() => count.served.includes(input), `call ${input} to be served`)
      client.socket.destroy()
    }
    await waitFor(() => clients.every(({ answer }, input) => input % 2 === 1 || answer?.status === 200), 'the answers of the others')
    await waitFor(() => gateway.app.toolgate.invoker.running === 0, 'the end of all calls')
    assert.deepEqual([count.most, count.served.length], [3, 60])
    assert.deepEqual(count.served, (await told(gateway)).map(({ input }) => input))
    await waitFor(() => gateway.app.toolgate.invoker.slots().taken === 0, 'the last slots')
    assertIdle(gateway)
  })
})

describe('a sequential tool', () => {
  it('runs one call at a time, in the order of their arrival; other tools do not wait for it', async (t) => {
    const open = gate()
    const { subject, count } = counting({ executionMode: 'sequential' }, async () => await open.promise)
    const { gateway, calls } = await startWatched(t, { tools: [subject, tool('other', () => ({}))] })
    const clients = await callers(t, gateway, 20)
    clients.forEach((client, input) => client.send({ input }))
    await waitFor(() => calls.size === 20, 'all calls to arrive')
    const { status, body } = await invoke(gateway, 'other')
    assert.deepEqual([status, 'queuedMs' in body.invocation], [200, false])
    open.open()
    await waitFor(() => clients.every(({ answer }) => answer?.status === 200), 'all answers')
    assert.equal(count.most, 1)
    assert.deepEqual(count.served, (await told(gateway)).map(({ input }) => input))
    assertIdle(gateway)
  })

  it('has one slot, whatever its settings say; maxConcurrent can be set for any tool', async (t) => {
    const open = gate()
    const sequential = counting({ executionMode: 'sequential', maxConcurrent: 5 }, async () => await open.promise)
    const plain = counting({ id: 'plain' }, async () => await open.promise)
    const gateway = await startGateway(t, { tools: [sequential.subject, plain.subject], toolSettings: { plain: { maxConcurrent: 2 } } })
    const { invoker } = gateway.app.toolgate
    const answers = Array.from({ length: 10 }, () => [invoke(gateway, 'subject'), invoke(gateway, 'plain')]).flat()
    await waitFor(() => invoker.running === 20, 'all calls to arrive')
    assert.deepEqual([invoker.slots('subject'), invoker.slots('plain')], [{ taken: 1, pending: 9 }, { taken: 2, pending: 8 }])
    open.open()
    await within(Promise.all(answers), 'the answers')
    assert.deepEqual([sequential.count.most, plain.count.most], [1, 2])
  })
})

describe('the gateway as a whole', () => {
  it('executes as many calls at once as its limit says, whatever their tools, in the order of their arrival', async (t) => {
    const open = gate()
    const { subject, count } = counting({}, async () => { await open.promise; await new Promise(setImmediate) })
    const { gateway, calls, invoker } = await startWatched(t, { tools: [subject], maxConcurrentCalls: 4 })
    const clients = await callers(t, gateway, 40)
    clients.forEach((client, input) => client.send({ input }))
    await waitFor(() => calls.size === 40, 'all calls to arrive')
    assert.deepEqual(invoker.slots(), { taken: 4, pending: 36 })
    open.open()
    await waitFor(() => clients.every(({ answer }) => answer?.status === 200), 'all answers')
    assert.equal(count.most, 4)
    assert.deepEqual(count.served, (await told(gateway)).map(({ input }) => input))
    assertIdle(gateway)
  })
})

describe('a line that is full', () => {
  it('refuses: 503 `overloaded` with Retry-After, no event and no record; those in the line stay, and are served', async (t) => {
    const open = gate()
    const { subject, count } = counting({ maxConcurrent: 1 }, async () => await open.promise)
    const { gateway, calls, invoker } = await startWatched(t, { tools: [subject, tool('other', () => ({}))], maxWaitingCalls: 2 })
    const waiting = [1, 2, 3].map((input) => invoke(gateway, 'subject', input))
    await waitFor(() => calls.size === 3, 'the line to fill')
    const { head } = gateway.app.toolgate.store
    for (const headers of [{}, { accept: 'text/event-stream' }]) {
      const refused = await invoke(gateway, 'subject', 4, { headers })
      assertProblem(refused, 503, 'overloaded')
      assert.match(refused.headers.get('retry-after')!, /^[1-9]\d*$/)
      assert.equal(refused.headers.get('toolgate-invocation-id'), null)
    }
    assert.deepEqual([gateway.app.toolgate.store.head, invoker.running, invoker.slots('subject'), invoker.counters.overloaded], [head, 3, { taken: 1, pending: 2 }, 2])
    assert.equal((await invoke(gateway, 'other')).status, 200, 'other tools have lines of their own')
    open.open()
    assert.deepEqual((await within(Promise.all(waiting), 'the answers')).map(({ status }) => status), [200, 200, 200])
    assert.deepEqual([count.served.length, count.most], [3, 1])
    assert.equal((await invoke(gateway, 'subject', 5)).status, 200, 'and there is room again')
    assertIdle(gateway)
  })

  it('of no places at all refuses whoever would have to wait', async (t) => {
    const open = gate()
    const { subject } = counting({ maxConcurrent: 1 }, async () => await open.promise)
    const { gateway, calls } = await startWatched(t, { tools: [subject], maxWaitingCalls: 0 })
    const first = invoke(gateway, 'subject', 1)
    await waitFor(() => calls.size === 1, 'the first call')
    assertProblem(await invoke(gateway, 'subject', 2), 503, 'overloaded')
    open.open()
    assert.equal((await first).status, 200)
  })
})

describe('a gateway that stops', () => {
  it('serves the line as long as the grace time lasts; then who executes ends with 200, who waits with 503, both with `shutdown`', async (t) => {
    const open = gate()
    const { subject, count } = counting({ maxConcurrent: 1 }, async (input, signal) => {
      if (input === 1) return await open.promise
      await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve()))
    })
    const { gateway, calls } = await startWatched(t, { tools: [subject], shutdownGraceMs: 300 })
    const answers: ReturnType<typeof invoke>[] = []
    for (const input of [1, 2, 3]) {
      answers.push(invoke(gateway, 'subject', input))
      await waitFor(() => calls.has(input), `call ${input}`)
    }
    const closing = gateway.app.close()
    open.open()
    const settled = await within(Promise.all(answers), 'the answers')
    await within(closing, 'the close')
    assert.deepEqual(settled.map(({ status, body }) => [status, body.invocation.errorCode]), [[200, undefined], [200, 'shutdown'], [503, 'shutdown']])
    assert.deepEqual(count.served, [1, 2])
  })
})
