import assert from 'node:assert/strict'
import { request, Agent } from 'node:http'
import { connect } from 'node:net'
import { describe, it } from 'node:test'
import { echo, exchange, gate, invoke, rawInvoke, send, startGateway, tool, waitFor, within } from './harness.ts'
import { openStream } from './sse-client.ts'

const subject = (execute: (...args: any[]) => unknown, more: object = {}) => tool('subject', execute, more)

describe('trap 8: a hang-up is told from a body that was read', () => {
  /** Says for each call whether its signal aborted, also well after it was answered. */
  const watching = () => {
    const aborted: boolean[] = []
    const watcher = subject(async (_id, _input, signal: AbortSignal) => {
      const call = aborted.push(signal.aborted) - 1
      signal.addEventListener('abort', () => { aborted[call] = true })
      await new Promise((resolve) => setTimeout(resolve, 2))
      return { structuredContent: signal.aborted }
    })
    return { aborted, watcher }
  }

  it('100 POSTs in a row over one keep-alive connection never abort', async (t) => {
    const { aborted, watcher } = watching()
    const gateway = await startGateway(t, { tools: [watcher] })
    let connections = 0
    gateway.app.server.on('connection', () => connections++)
    const agent = new Agent({ keepAlive: true, maxSockets: 1 })
    t.after(() => agent.destroy())
    for (let at = 0; at < 100; at++) {
      const { promise, resolve } = Promise.withResolvers<string>()
      const call = request({ port: gateway.port, path: '/tools/subject/invoke', method: 'POST', agent, headers: { 'content-type': 'application/json' } }, (response) => {
        let text = ''
        response.on('data', (chunk) => { text += chunk }).on('end', () => resolve(text))
      })
      call.end(JSON.stringify({ input: 'x'.repeat(at * 500) }))
      assert.equal(JSON.parse(await within(promise, 'an answer')).structuredContent, false)
    }
    assert.equal(connections, 1)
    assert.deepEqual(aborted, Array(100).fill(false))
  })

  it('connections that close after their answer never abort', async (t) => {
    const { aborted, watcher } = watching()
    const gateway = await startGateway(t, { tools: [watcher] })
    for (let at = 0; at < 20; at++) assert.equal((await invoke(gateway, 'subject', at, { headers: { connection: 'close' } })).body.structuredContent, false)
    await waitFor(async () => await connectionsOf(gateway.app) === 0, 'the connections to close')
    assert.deepEqual(aborted, Array(20).fill(false))
  })

  for (const accept of ['application/json', 'text/event-stream']) {
    it(`a socket destroyed half-way aborts within 100 ms (Accept: ${accept})`, async (t) => {
      const began = gate()
      const aborted = gate<number>()
      const gateway = await startGateway(t, {
        tools: [subject((_id, _input, signal: AbortSignal) => new Promise((_resolve, reject) => {
          began.open()
          signal.addEventListener('abort', () => {
            aborted.open(performance.now())
            reject(signal.reason)
          })
        }))]
      })
      const call = rawInvoke(gateway.port, 'subject', '{}', { accept })
      await began.reached('the tool to run')
      const destroyed = performance.now()
      call.destroy()
      const took = await aborted.reached('the abort') - destroyed
      assert.ok(took < 100, `${took} ms`)
      await waitFor(() => gateway.app.toolgate.invoker.running === 0, 'the call to settle')
    })
  }
})

describe('trap 9: timeouts race with what the tool does', () => {
  const timeoutMs = 20
  const racers: Record<string, (signal: AbortSignal) => Promise<unknown>> = {
    'throws when aborted': (signal) => new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(new Error('late')))),
    'throws well after its timeout': (signal) => new Promise((_resolve, reject) => signal.addEventListener('abort', () => setTimeout(() => reject(new Error('late')), 30))),
    'answers after its timeout': (signal) => new Promise((resolve) => signal.addEventListener('abort', () => setTimeout(resolve, 30, { structuredContent: 'late' }))),
    'never settles': () => new Promise(() => {}),
    'settles twice': (signal) => new Promise((resolve, reject) => signal.addEventListener('abort', () => { resolve({ structuredContent: 1 }); reject(new Error('late')) })),
    'throws in its abort listener': (signal) => new Promise((_resolve, reject) => signal.addEventListener('abort', () => { reject(new Error('late')) }, { once: true }))
  }
  for (const [name, execute] of Object.entries(racers)) {
    it(`a tool that ${name}: timeout, one end event, nothing unhandled, no late effect`, async (t) => {
      const unhandled: unknown[] = []
      const note = (error: unknown) => { unhandled.push(error) }
      process.on('unhandledRejection', note)
      t.after(() => process.off('unhandledRejection', note))
      let over: Promise<unknown> = Promise.resolve()
      const gateway = await startGateway(t, { tools: [subject((_id, _input, signal) => { over = execute(signal); return over }, { timeoutMs }), echo] })
      const listener = await openStream(t, gateway.url)
      const { status, body } = await invoke(gateway, 'subject')
      assert.deepEqual([status, body.invocation.errorCode], [200, 'timeout'])
      if (name !== 'never settles') await over.catch(() => {})
      await new Promise(setImmediate)
      const marker = await invoke(gateway, 'echo')
      await listener.endOf(marker.body.invocation.invocationId)
      const ends = listener.ends.filter(({ invocationId }) => invocationId === body.invocation.invocationId)
      assert.deepEqual(ends.map(({ errorCode }) => errorCode), ['timeout'])
      assert.deepEqual(unhandled, [])
    })
  }

  it('results that come at the very deadline are one thing or the other, everywhere the same', async (t) => {
    const gateway = await startGateway(t, { tools: [subject(() => new Promise((resolve) => setTimeout(resolve, timeoutMs, { structuredContent: 1 })), { timeoutMs })] })
    const listener = await openStream(t, gateway.url)
    const answers = await Promise.all(Array.from({ length: 100 }, () => invoke(gateway, 'subject')))
    await waitFor(() => listener.ends.length >= 100, 'all end events')
    assert.equal(listener.ends.length, 100)
    for (const { body } of answers) {
      const end = await listener.endOf(body.invocation.invocationId)
      assert.deepEqual([end.status, end.errorCode], [body.invocation.status, body.invocation.errorCode])
      assert.ok(end.status === 'succeeded' || end.errorCode === 'timeout')
    }
  })
})

describe('trap 11: the first byte of a stream', () => {
  it('of an idle gateway: status, headers and first comment within 200 ms, nothing compressed or held back', async (t) => {
    const gateway = await startGateway(t, { tools: [echo] })
    await send(`${gateway.url}/livez`) // the first request of a process warms it up
    const began = performance.now()
    const text = await exchange(gateway.port, 'GET /events HTTP/1.1\r\nHost: localhost\r\nAccept-Encoding: gzip, br\r\n\r\n', (so) => so.includes(': connected\n'))
    const took = performance.now() - began
    assert.ok(took < 200, `${took} ms`)
    assert.match(text, /^HTTP\/1\.1 200 /)
    assert.match(text, /\r\ncontent-type: text\/event-stream\r\n/)
    assert.match(text, /\r\ncache-control: no-store, no-transform\r\n/)
    assert.match(text, /\r\nx-accel-buffering: no\r\n/)
    assert.doesNotMatch(text, /content-encoding/i)
    assert.match(text, /: connected\nretry: 2000\n\n/)
  })

  it('HEAD answers with the same headers and ends, taking no place', async (t) => {
    const gateway = await startGateway(t, { tools: [echo], maxSubscribers: 0 })
    const { status, headers, text } = await within(send(`${gateway.url}/events`, { method: 'HEAD' }), 'HEAD to end')
    assert.deepEqual([status, text, headers.get('content-type'), headers.get('x-accel-buffering')], [200, '', 'text/event-stream', 'no'])
    assert.equal(gateway.app.toolgate.hub.size, 0)
  })

  it('an HTTP/1.0 client gets a plain body without chunks, and its end', async (t) => {
    const gateway = await startGateway(t, { tools: [echo] })
    const { promise, resolve } = Promise.withResolvers<void>()
    let text = ''
    const socket = connect(gateway.port, '127.0.0.1')
    t.after(() => socket.destroy())
    socket.on('data', (chunk) => { text += chunk }).on('end', resolve)
    socket.write('GET /events HTTP/1.0\r\n\r\n')
    await waitFor(() => text.includes(': connected'), 'the opening')
    await invoke(gateway, 'echo', 'for all')
    await waitFor(() => text.includes('event: tool_execution_end'), 'the end event')
    await within(gateway.app.close(), 'the close')
    await within(promise, 'the end of the stream')
    const [head, body] = [text.slice(0, text.indexOf('\r\n\r\n')), text.slice(text.indexOf('\r\n\r\n') + 4)]
    assert.doesNotMatch(head, /transfer-encoding/i)
    assert.match(body, /^: connected\nretry: 2000\n\nid: \S+\n\nid: \S+\nevent: tool_execution_start\ndata: \{.*\}\n\nid: \S+\nevent: tool_execution_end\ndata: \{.*\}\n\n$/)
  })
})

describe('requests pipelined on one socket', () => {
  const post = (input: unknown, close = '') => {
    const body = JSON.stringify({ input })
    return `POST /tools/subject/invoke HTTP/1.1\r\nHost: localhost\r\n${close}Content-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`
  }
  it('each get their own answer, in order, though the second is done first', async (t) => {
    const first = gate()
    const aborted: unknown[] = []
    const gateway = await startGateway(t, {
      tools: [subject(async (_id, input, signal: AbortSignal) => {
        signal.addEventListener('abort', () => aborted.push(input))
        if (input === 1) await first.promise
        else first.open()
        return { structuredContent: input }
      })]
    })
    const text = await exchange(gateway.port, post(1) + post(2, 'Connection: close\r\n'))
    assert.deepEqual(text.match(/HTTP\/1\.1 \d+/g), ['HTTP/1.1 200', 'HTTP/1.1 200'])
    assert.deepEqual([...text.matchAll(/"structuredContent":(\d)/g)].map(([, value]) => value), ['1', '2'])
    assert.deepEqual(aborted, [])
  })

  it('a stream behind an invoke begins once that is answered', async (t) => {
    const gateway = await startGateway(t, { tools: [subject((_id, input) => ({ structuredContent: input })), echo] })
    const reading = exchange(gateway.port, post(1) + 'GET /events?toolId=echo HTTP/1.1\r\nHost: localhost\r\n\r\n', (text) => text.includes('event: tool_execution_end'))
    await waitFor(() => gateway.app.toolgate.hub.size === 1, 'the subscriber')
    await invoke(gateway, 'echo', 'heard')
    const text = await reading
    assert.ok(text.indexOf('"structuredContent":1') < text.indexOf(': connected'))
    assert.match(text, /"args":"heard"/)
  })
})

function connectionsOf (app: { server: { getConnections: (done: (error: Error | null, count: number) => void) => void } }): Promise<number> {
  return new Promise((resolve, reject) => app.server.getConnections((error, count) => error === null ? resolve(count) : reject(error)))
}
