import assert from 'node:assert/strict'
import { getEventListeners } from 'node:events'
import { describe, it, type TestContext } from 'node:test'
import { ConnectionError, ProblemError, ProtocolError, type Client, type InvokeOptions } from '../../../src/client.ts'
import { Transport } from '../../../src/client/transport.ts'
import { heldTool } from '../../e2e/calls.ts'
import { echo, startGateway, tool, waitFor } from '../../e2e/harness.ts'
import { answer, atOnce, byteProxy, clientOf, httpProxy, receipt, rejection, sendJson, serverOf, socketsOf } from './servers.ts'

const keyed = { idempotencyKey: 'k' }
const streamed = { onUpdate: () => {} }

/** A gateway with a tool that counts its runs. */
async function counting (t: TestContext) {
  let runs = 0
  const gateway = await startGateway(t, { tools: [tool('count', () => ({ structuredContent: ++runs }))] })
  return { ...gateway, get runs () { return runs } }
}

function assertInterrupted (error: unknown): asserts error is ConnectionError {
  assert.ok(error instanceof ConnectionError, String(error))
  assert.equal(error.code, 'interrupted')
}

describe('a connection that cannot be made', () => {
  it('is tried again, for any call, as nothing was sent', async (t) => {
    const server = await serverOf(t, (_request, response) => sendJson(response, answer()))
    const { port, url } = server
    await new Promise((resolve) => server.server.close(resolve))
    let tries = 0
    const client = clientOf({ url }, {
      fetch: async (input, init) => {
        // Up again by the third try.
        if (++tries === 3) await serverOf(t, (_request, response) => sendJson(response, answer()), port)
        return await fetch(input, init)
      }
    })
    assert.equal((await client.invoke('echo')).isError, false)
    assert.equal(tries, 3)
  })

  it('is told as unreachable in the end', async (t) => {
    const { url, server } = await serverOf(t, () => {})
    await new Promise((resolve) => server.close(resolve))
    for (const options of [{}, keyed, streamed]) {
      const error = await rejection(clientOf({ url }).invoke('echo', 1, options))
      assert.ok(error instanceof ConnectionError)
      assert.deepEqual([error.code, error.invocationId], ['unreachable', undefined])
      assert.match(error.message, /ECONNREFUSED/)
      assert.ok(error.cause instanceof TypeError)
    }
    // Two addresses, and nobody at either.
    assert.equal((await rejection(clientOf({ url: url.replace('127.0.0.1', 'localhost') }).tools())).code, 'unreachable')
  })
})

describe('a connection that is reset before the request was read', () => {
  for (const [name, options, isAnswered] of [['plain', {}, false], ['streamed', streamed, false], ['with a key', keyed, true], ['streamed with a key', { ...keyed, ...streamed }, true]] as const) {
    it(`${name}: ${isAnswered ? 'is tried again' : 'may have been taken, so it is not'}`, async (t) => {
      const gateway = await counting(t)
      const proxy = await byteProxy(t, gateway.port, (count) => count === 1 ? { isReset: true } : undefined)
      const asked = clientOf(proxy).invoke('count', 1, options)
      if (isAnswered) assert.equal((await asked).structuredContent, 1)
      else assertInterrupted(await rejection(asked))
      assert.deepEqual([proxy.connections, gateway.runs], isAnswered ? [2, 1] : [1, 0])
    })
  }

  it('what changes nothing is tried again, as often as is set', async (t) => {
    const gateway = await counting(t)
    const proxy = await byteProxy(t, gateway.port, (count) => count <= 2 ? { isReset: true } : undefined)
    assert.equal((await clientOf(proxy).tools()).length, 1)
    assert.equal(proxy.connections, 3)
    const never = await byteProxy(t, gateway.port, () => ({ isReset: true }))
    assertInterrupted(await rejection(clientOf(never, { retry: { ...atOnce, retries: 1 } }).invocation('x')))
    assert.equal(never.connections, 2)
  })

  it('a batch and an async call are not tried again', async (t) => {
    const gateway = await counting(t)
    const proxy = await byteProxy(t, gateway.port, () => ({ isReset: true }))
    assertInterrupted(await rejection(clientOf(proxy).batch([{ toolId: 'count' }])))
    assertInterrupted(await rejection(clientOf(proxy).invokeAsync('count')))
    assert.deepEqual([proxy.connections, gateway.runs], [2, 0])
  })
})

describe('an answer that is lost after the tool ran', () => {
  /** Cut once the gateway has begun to answer; none of it is passed on. */
  const lossy = (t: TestContext, gateway: { port: number }) => byteProxy(t, gateway.port, (count) => count === 1 ? { cutAfterBytes: 0 } : undefined)

  it('without a key: interrupted, and it ran once', async (t) => {
    const gateway = await counting(t)
    const proxy = await lossy(t, gateway)
    assertInterrupted(await rejection(clientOf(proxy).invoke('count')))
    assert.deepEqual([proxy.connections, gateway.runs], [1, 1])
  })

  it('with a key: answered, and it ran once', async (t) => {
    for (const options of [keyed, { ...keyed, ...streamed }, { ...keyed, signal: new AbortController().signal }]) {
      const gateway = await counting(t)
      const proxy = await lossy(t, gateway)
      assert.equal((await clientOf(proxy).invoke('count', 1, options)).structuredContent, 1)
      assert.deepEqual([proxy.connections, gateway.runs], [2, 1])
    }
  })

  it('an async call with a key has one invocation', async (t) => {
    const gateway = await counting(t)
    const proxy = await lossy(t, gateway)
    const { invocationId } = await clientOf(proxy).invokeAsync('count', 1, keyed)
    assert.equal((await clientOf(gateway).wait(invocationId)).structuredContent, 1)
    assert.equal((await clientOf(gateway).invocations()).invocations.length, 1)
  })

  it('cut in its middle: its record tells the rest, without a key as well', async (t) => {
    const big = tool('big', () => ({ structuredContent: 'x'.repeat(100_000) }))
    const gateway = await startGateway(t, { tools: [big] })
    for (const options of [{}, keyed]) {
      const proxy = await byteProxy(t, gateway.port, (count) => count === 1 ? { cutAfterBytes: 5000 } : undefined)
      assert.equal((await clientOf(proxy).invoke('big', 1, options)).structuredContent, 'x'.repeat(100_000))
    }
    assert.equal((await clientOf(gateway).invocations()).invocations.length, 2)
  })

  it('cut in its middle, and no record to be had: interrupted, and who knows the id may ask later', async (t) => {
    const ways: [string, (response: any) => void][] = [
      ['it is gone', (response) => response.writeHead(404, { 'content-type': 'application/problem+json' }).end(JSON.stringify({ type: 'urn:toolgate:problem:unknown_invocation', title: '', status: 404, detail: 'None.', code: 'unknown_invocation' }))],
      ['nobody answers any more', (response) => response.destroy()]
    ]
    for (const [name, tell] of ways) {
      for (const options of [{}, streamed]) {
        const server = await serverOf(t, ({ method }, response) => {
          if (method === 'GET') return tell(response)
          response.writeHead(200, { 'content-type': options === streamed ? 'text/event-stream' : 'application/json', 'toolgate-invocation-id': 'i1' })
          response.write(options === streamed ? ': connected\n\n' : '{"content":', () => response.destroy())
        })
        const error = await rejection(clientOf(server).invoke('echo', 1, options))
        assertInterrupted(error)
        assert.equal(error.invocationId, 'i1', name)
        assert.ok(error.cause instanceof ProblemError || error.cause instanceof ConnectionError)
        assert.equal(server.seen.filter(({ method }) => method === 'POST').length, 1)
      }
    }
  })

  it('the receipt of an async call, cut in its middle, is that of its record', async (t) => {
    const server = await serverOf(t, ({ method }, response) => {
      if (method === 'GET') return sendJson(response, { invocation: receipt({ status: 'running' }) })
      response.writeHead(202, { 'content-type': 'application/json', 'toolgate-invocation-id': 'i1' })
      response.write('{"invocation":', () => response.destroy())
    })
    assert.equal((await clientOf(server).invokeAsync('echo')).invocationId, 'i1')
  })
})

describe('a stream that is cut', () => {
  const count = 3
  const talking = tool('talking', async (_id: string, _input: unknown, _signal: unknown, onUpdate: any) => {
    for (let n = 0; n < count; n++) onUpdate({ content: [{ type: 'text', text: `${n}` }] })
    return { structuredContent: 'done' }
  })

  for (const [name, more] of [['without a key', {}], ['with a key', keyed]] as const) {
    it(`${name}, after any number of bytes: the end is the true one, and each update comes once and in order`, { timeout: 60_000 }, async (t) => {
      let runs = 0
      const counted = tool('talking', (...args: any[]) => { runs++; return (talking as any).execute(...args) })
      const gateway = await startGateway(t, { tools: [counted] })
      // Of a whole answer.
      let length = 0
      const measured = clientOf(gateway, {
        fetch: async (input, init) => {
          const response = await fetch(input, init)
          length = (await response.clone().arrayBuffer()).byteLength + 500
          return response
        }
      })
      await measured.invoke('talking', 0, streamed)
      assert.ok(length > 1500, `${length} bytes`)
      let expectedRuns = 1
      const bytes = Array.from({ length: Math.ceil(length / 7) }, (_, n) => n * 7)
      const one = async (cutAfterBytes: number) => {
        const proxy = await byteProxy(t, gateway.port, (connection) => connection === 1 ? { cutAfterBytes } : undefined)
        const seen: string[] = []
        const options: InvokeOptions = { ...more, onUpdate: ({ content }) => { seen.push((content[0] as any).text) } }
        if ('idempotencyKey' in options) options.idempotencyKey = `k ${cutAfterBytes}`
        const client = clientOf(proxy)
        let end: unknown
        try {
          end = (await client.invoke('talking', cutAfterBytes, options)).structuredContent
        } catch (error) {
          end = error
        }
        return { end, seen, cutAfterBytes }
      }
      for (let at = 0; at < bytes.length; at += 8) {
        for (const { end, seen, cutAfterBytes } of await Promise.all(bytes.slice(at, at + 8).map(one))) {
          expectedRuns++
          if (end instanceof ConnectionError) {
            // Of the headers not even the id had come, so nobody knows, and it is not run again.
            assert.ok(cutAfterBytes < 600 && !('idempotencyKey' in more), `${cutAfterBytes}: ${end.message}`)
            assertInterrupted(end)
            assert.deepEqual(seen, [])
          } else {
            assert.equal(end, 'done', `cut after ${cutAfterBytes} bytes`)
            assert.deepEqual(seen, ['0', '1', '2'], `cut after ${cutAfterBytes} bytes`)
          }
        }
      }
      assert.equal(runs, expectedRuns)
    })
  }

  it('while the tool runs, without a key: hanging up cancels it, and that is what is told', async (t) => {
    const held = heldTool()
    const gateway = await startGateway(t, { tools: [held.subject] })
    const proxy = await byteProxy(t, gateway.port, (connection) => connection === 1 ? { cutAfterBytes: 900 } : undefined)
    const error = await rejection(clientOf(proxy).invoke('held', 'x'.repeat(2000), streamed))
    assert.equal(error.code, 'cancelled')
    assert.equal(held.inputs.length, 1)
  })

  it('a gateway that is full of subscribers is asked for the record', async (t) => {
    const held = heldTool()
    const gateway = await startGateway(t, { tools: [held.subject] })
    const proxy = await httpProxy(t, gateway.url, {
      intercept: ({ url }, response) => {
        if (!url.endsWith('/events')) return undefined
        response.writeHead(429, { 'content-type': 'application/problem+json' }).end(JSON.stringify({ type: 'urn:toolgate:problem:too_many_subscribers', title: '', status: 429, detail: '', code: 'too_many_subscribers' }))
        return 'instead'
      }
    })
    const cut = await byteProxy(t, proxy.port, (connection) => connection === 1 ? { cutAfterBytes: 900 } : undefined)
    const asked = clientOf(cut).invoke('held', 'x'.repeat(2000), { ...keyed, ...streamed })
    await waitFor(() => proxy.seen.some(({ url, method }) => method === 'GET' && !url.endsWith('/events')), 'the record to be asked for')
    held.release()
    assert.deepEqual((await asked).details, { run: 1 })
  })
})

describe('what stands between here and there', () => {
  const foreign = [502, 503, 504].flatMap((status) => [
    { status, type: 'text/html', body: '<h1>Bad</h1>' },
    { status, type: 'application/problem+json', body: JSON.stringify({ type: 'about:blank', title: 'Bad', status, detail: 'x', code: 'overloaded' }) },
    { status, type: 'application/problem+json', body: JSON.stringify({ title: 'Bad' }) },
    { status, type: 'application/json', body: JSON.stringify({ message: 'Service Unavailable' }) }
  ])
  for (const { status, type, body } of foreign) {
    it(`${status} as ${type} ${body}: a call is tried again with a key only, what changes nothing always`, async (t) => {
      const gateway = await counting(t)
      const start = () => httpProxy(t, gateway.url, {
        intercept: (_request, response, count) => {
          if (count !== 1) return undefined
          response.on('answered', () => response.writeHead(status, { 'content-type': type }).end(body))
          return 'after'
        }
      })
      for (const options of [{}, streamed]) {
        const before = gateway.runs
        const proxy = await start()
        const error = await rejection(clientOf(proxy).invoke('count', 1, options))
        assert.ok(error instanceof ProtocolError)
        assert.equal(error.status, status)
        assert.deepEqual([proxy.seen.length, gateway.runs - before], [1, 1])
      }
      for (const ask of [(client: Client) => client.tools(), (client: Client) => client.invoke('count', 1, keyed), (client: Client) => client.invoke('count', 1, { ...keyed, ...streamed })]) {
        const proxy = await start()
        await ask(clientOf(proxy))
        assert.equal(proxy.seen.length, 2)
      }
      assert.equal(gateway.runs, 3)
      const asked = await start()
      assert.ok(await rejection(clientOf(asked).batch([{ toolId: 'count' }])) instanceof ProtocolError)
      assert.equal(asked.seen.length, 1)
    })
  }

  for (const [code, status] of [['overloaded', 503], ['shutting_down', 503], ['store_unavailable', 503], ['rate_limited', 429], ['request_timeout', 408]] as const) {
    it(`${code} is the gateway's own word that nothing ran: any call is tried again`, async (t) => {
      const server = await serverOf(t, (_request, response, count) => {
        if (count % 2 === 0) return sendJson(response, answer())
        sendJson(response, { type: `urn:toolgate:problem:${code}`, title: '', status, detail: '', code }, status, { 'content-type': 'application/problem+json' })
      })
      const client = clientOf(server)
      await client.invoke('echo')
      assert.equal(server.seen.length, 2)
    })
  }

  it('Retry-After is waited for, and one that is absurd is not', async (t) => {
    let retryAfter = () => '1'
    const server = await serverOf(t, (_request, response, count) => {
      if (count % 2 === 0) return sendJson(response, answer())
      sendJson(response, { type: 'urn:toolgate:problem:overloaded', title: '', status: 503, detail: 'Later.', code: 'overloaded' }, 503, { 'content-type': 'application/problem+json', 'retry-after': retryAfter() })
    })
    const client = clientOf(server)
    const spent = async () => {
      const from = performance.now()
      await client.invoke('echo')
      return performance.now() - from
    }
    assert.ok(await spent() >= 990)
    retryAfter = () => new Date(Date.now() + 2000).toUTCString()
    assert.ok(await spent() >= 990)
    for (const absurd of ['61', '86400', '99999999999999999999999999', 'Fri, 01 Jan 2100 00:00:00 GMT']) {
      retryAfter = () => absurd
      const asked = server.seen.length
      const error = await rejection(client.invoke('echo'))
      assert.ok(error instanceof ProblemError)
      assert.ok(error.retryAfterMs! > 60_000)
      assert.equal(server.seen.length, asked + 1)
      await client.invoke('echo') // keeps the count even
    }
  })

  it('a refusal that will not pass is not tried again', async (t) => {
    const server = await serverOf(t, (_request, response) => {
      sendJson(response, { type: 'urn:toolgate:problem:internal_error', title: '', status: 500, detail: '', code: 'internal_error' }, 500, { 'content-type': 'application/problem+json' })
    })
    for (const options of [{}, keyed]) assert.equal((await rejection(clientOf(server).invoke('echo', 1, options))).code, 'internal_error')
    assert.equal(server.seen.length, 2)
  })
})

describe('a stream that is asked for again and again', () => {
  it('leaves nothing of a failed try behind', async (t) => {
    const server = await serverOf(t, (_request, response) => { response.destroy() })
    const transport = new Transport({ url: server.url, fetch, retry: { ...atOnce, retries: 20 } })
    const { signal } = new AbortController()
    assertInterrupted(await rejection(transport.stream({ method: 'GET', path: 'events', isRepeatable: true, signal })))
    assert.equal(server.seen.length, 21)
    assert.equal(getEventListeners(signal, 'abort').length, 0)
  })
})

describe('a server that is silent', () => {
  it('is given up after the time of the call, and what it is given beyond that', async (t) => {
    t.mock.timers.enable({ apis: ['setTimeout'] })
    const server = await serverOf(t, () => {})
    const ways: [number, (client: Client) => Promise<unknown>][] = [
      [30_000, (client) => client.tools()],
      [55_000, (client) => client.wait('x')],
      [31_000, (client) => client.invoke('echo', 1, { timeoutMs: 1000 })],
      [30_000, (client) => client.invoke('echo', 1, { timeoutMs: 1000, ...streamed })],
      [30_000, (client) => client.invokeAsync('echo')]
    ]
    for (const [ms, ask] of ways) {
      const count = server.seen.length
      const errors: unknown[] = []
      const asked = rejection(ask(clientOf(server, { retry: { retries: 0 } }))).then((error) => errors.push(error))
      while (server.seen.length === count) await new Promise(setImmediate)
      t.mock.timers.tick(ms - 1)
      await new Promise(setImmediate)
      assert.equal(errors.length, 0)
      t.mock.timers.tick(1)
      await asked
      const [error] = errors
      assertInterrupted(error)
      assert.match(error.message, new RegExp(`within ${ms} ms`))
    }
  })

  it('a runtime that gives up by itself is explained', async (t) => {
    const server = await serverOf(t, () => {})
    // Node's own, with less patience than its five minutes.
    const Dispatcher = (globalThis as any)[Symbol.for('undici.globalDispatcher.1')].constructor
    const dispatcher = new Dispatcher({ headersTimeout: 50 })
    t.after(() => dispatcher.destroy())
    const client = clientOf(server, { fetch: (input, init) => fetch(input, { ...init, dispatcher } as RequestInit) })
    const error = await rejection(client.invoke('echo'))
    assertInterrupted(error)
    assert.match(error.message, /timeoutMs.*onUpdate/)
    assert.equal(server.seen.length, 1)
  })

  it('a record that is never waited for is not asked for without a pause', async (t) => {
    const server = await serverOf(t, (_request, response, count) => sendJson(response, count < 4 ? { invocation: receipt({ status: 'running' }) } : { invocation: receipt(), result: { content: [], details: null, isError: false } }))
    const pauses: number[] = []
    t.mock.method(globalThis, 'setTimeout', ((original) => (run: () => void, ms: number) => { pauses.push(ms); return original(run, ms) })(globalThis.setTimeout))
    await clientOf(server, { retry: { minDelayMs: 17 } }).wait('i1')
    assert.equal(server.seen.length, 4)
    assert.equal(pauses.filter((ms) => ms === 17).length, 3)
  })
})

describe('a kept connection that the server closes', () => {
  it('in silence: the next call goes over a new one', async (t) => {
    const gateway = await startGateway(t, { tools: [echo] })
    const client = clientOf(gateway)
    const sockets = () => process.getActiveResourcesInfo().filter((name) => name === 'TCPSocketWrap').length
    const before = sockets()
    await client.invoke('echo')
    await waitFor(() => {
      gateway.app.server.closeIdleConnections()
      return sockets() <= before
    }, 'both sides to know of the end')
    assert.equal((await client.invoke('echo', 2)).structuredContent, 2)
  })

  it('just as a call is sent: interrupted without a key, answered with one', async (t) => {
    const body = JSON.stringify(answer())
    const requests: number[] = []
    const server = await socketsOf(t, (socket, connection) => {
      let text = ''
      socket.on('data', (chunk) => {
        text += chunk
        if (!text.endsWith('}')) return
        text = ''
        // The first request of a connection is answered; at the second the server has just closed it.
        if (requests.includes(connection)) socket.destroy()
        else socket.write(`HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`)
        requests.push(connection)
      })
    })
    const client = clientOf(server)
    // Until the runtime has the connection back.
    const kept = async () => { for (let turn = 0; turn < 10; turn++) await new Promise(setImmediate) }
    await client.invoke('echo')
    await kept()
    assertInterrupted(await rejection(client.invoke('echo')))
    assert.deepEqual(requests, [1, 1])
    await client.invoke('echo')
    await kept()
    assert.equal((await client.invoke('echo', 1, keyed)).isError, false)
    assert.deepEqual(requests, [1, 1, 2, 2, 3])
  })
})
