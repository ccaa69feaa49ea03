import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { getEventListeners } from 'node:events'
import { describe, it } from 'node:test'
import { fileURLToPath } from 'node:url'
import { ToolError, type Client, type InvokeOptions } from '../../../src/client.ts'
import { heldTool, settledRecord, watchArrivals } from '../../e2e/calls.ts'
import { echo, gate, startGateway, tool, waitFor, within, type RunningGateway } from '../../e2e/harness.ts'
import { atOnce, clientOf, httpProxy, rejection, serverOf, socketsOf } from './servers.ts'

const ways: [string, Partial<InvokeOptions>][] = [
  ['plain', {}],
  ['with a key', { idempotencyKey: 'k' }],
  ['streamed', { onUpdate: () => {} }],
  ['streamed with a key', { idempotencyKey: 'l', onUpdate: () => {} }],
  ['long', { timeoutMs: 300_000 }]
]
const reason = new Error('changed my mind')

function abortable () {
  const controller = new AbortController()
  return { signal: controller.signal, abort: () => controller.abort(reason) }
}

/** The only call that there is, once it has settled. */
async function onlyEnd (client: Client, gateway: RunningGateway): Promise<any> {
  const { invocations } = await client.invocations()
  assert.equal(invocations.length, 1)
  return (await settledRecord(gateway, invocations[0]!.invocationId)).invocation
}

describe('an abort', () => {
  for (const [name, options] of ways) {
    it(`before a call, ${name}: nothing is sent`, async (t) => {
      const server = await serverOf(t, (_request, response) => response.end())
      assert.equal(await rejection(clientOf(server).invoke('echo', 1, { ...options, signal: AbortSignal.abort(reason) })), reason)
      assert.equal(server.seen.length, 0)
    })

    it(`while the tool runs, ${name}: its signal aborts, and the call ends as cancelled`, async (t) => {
      const held = heldTool()
      const gateway = await startGateway(t, { tools: [held.subject] })
      const client = clientOf(gateway)
      const controller = new AbortController()
      const asked = rejection(client.invoke('held', 1, { ...options, signal: controller.signal, throwOnError: false }))
      await held.running(1)
      controller.abort(reason)
      assert.equal(await asked, reason)
      await waitFor(() => held.aborted.length === 1, 'the tool to be told')
      const end = await onlyEnd(client, gateway)
      assert.deepEqual([end.status, end.errorCode], ['cancelled', 'cancelled'])
      assert.equal(getEventListeners(controller.signal, 'abort').length, 0)
    })

    it(`while the call waits in line, ${name}: it never runs`, async (t) => {
      const held = heldTool('held', { executionMode: 'sequential' })
      const gateway = await startGateway(t, { tools: [held.subject] })
      const client = clientOf(gateway)
      const arrivals = watchArrivals(gateway)
      const first = client.invoke('held', 'first')
      await held.running(1)
      const controller = new AbortController()
      const asked = rejection(client.invoke('held', 'second', { ...options, signal: controller.signal }))
      await arrivals.reached(2)
      controller.abort(reason)
      assert.equal(await asked, reason)
      await waitFor(async () => (await client.invocations({ status: 'cancelled' })).invocations.length === 1, 'the call to leave the line')
      held.release()
      await first
      assert.deepEqual(held.inputs, ['first'])
    })
  }

  // What goes on when its caller hangs up is cancelled by its id, which only an answer has.
  const goingOn: [string, (client: Client, signal: AbortSignal) => Promise<unknown>][] = [
    ['a call with a key', (client, signal) => client.invoke('held', 1, { idempotencyKey: 'k', signal })],
    ['an async call', (client, signal) => client.invokeAsync('held', 1, { signal })],
    ['an async call with a key', (client, signal) => client.invokeAsync('held', 1, { idempotencyKey: 'k', signal })]
  ]
  for (const [name, call] of goingOn) {
    it(`before the id of ${name} has come: it is cancelled all the same`, async (t) => {
      const held = heldTool()
      const gateway = await startGateway(t, { tools: [held.subject] })
      const released = gate()
      const proxy = await serverOf(t, async ({ method, url, headers, body }, response) => {
        // The gateway has the request, and its answer stays here for a while.
        const answer = await fetch(gateway.url + url, { method, headers: { ...headers as any, connection: 'close' }, ...(body === '' ? {} : { body }) })
        if (url.endsWith('/invoke')) await released.promise
        response.writeHead(answer.status, { 'content-type': answer.headers.get('content-type')!, 'toolgate-invocation-id': answer.headers.get('toolgate-invocation-id') ?? '' })
        response.flushHeaders()
        response.end(url.endsWith('/invoke') && answer.headers.get('content-type')!.startsWith('text/event-stream') ? undefined : await answer.text())
      })
      const controller = new AbortController()
      const asked = rejection(call(clientOf(proxy), controller.signal))
      await held.running(1)
      controller.abort(reason)
      assert.equal(await within(asked, 'the rejection'), reason)
      assert.deepEqual(held.aborted, [])
      released.open()
      await waitFor(() => held.aborted.length === 1, 'the tool to be told')
      assert.equal((await onlyEnd(clientOf(gateway), gateway)).status, 'cancelled')
      assert.deepEqual(proxy.seen.map(({ url }) => url.replace(/[0-9a-f]{20,}/, ':id')), ['/tools/held/invoke', '/invocations/:id/cancel'])
    })
  }

  it('an async call that was answered goes on', async (t) => {
    const held = heldTool()
    const client = clientOf(await startGateway(t, { tools: [held.subject] }))
    const controller = new AbortController()
    const { invocationId } = await client.invokeAsync('held', 1, { signal: controller.signal })
    controller.abort(reason)
    held.release()
    assert.equal((await client.wait(invocationId)).structuredContent, 1)
  })

  it('of a batch: what runs is cancelled, and what has not begun does not', async (t) => {
    const held = heldTool()
    const client = clientOf(await startGateway(t, { tools: [held.subject] }))
    const controller = new AbortController()
    const asked = rejection(client.batch([{ toolId: 'held', input: 1 }, { toolId: 'held', input: 2 }], { mode: 'sequential', signal: controller.signal }))
    await held.running(1)
    controller.abort(reason)
    assert.equal(await asked, reason)
    await waitFor(() => held.aborted.length === 1, 'the tool to be told')
    assert.deepEqual(held.inputs, [1])
  })

  it('while it waits to try again: it is not tried again', async (t) => {
    const server = await serverOf(t, (_request, response) => {
      response.writeHead(503, { 'content-type': 'application/problem+json', 'retry-after': '50' })
        .end(JSON.stringify({ type: 'urn:toolgate:problem:overloaded', title: '', status: 503, detail: '', code: 'overloaded' }))
    })
    for (const [, options] of ways) {
      const controller = new AbortController()
      const asked = rejection(clientOf(server).invoke('echo', 1, { ...options, signal: controller.signal }))
      const count = server.seen.length + 1
      await waitFor(() => server.seen.length === count, 'the first try')
      setImmediate(() => controller.abort(reason))
      assert.equal(await within(asked, 'the rejection'), reason)
      assert.equal(server.seen.length, count)
    }
  })

  it('after the answer: nothing happens', async (t) => {
    const client = clientOf(await startGateway(t, { tools: [echo] }))
    for (const [, options] of ways) {
      const controller = new AbortController()
      const { invocation } = await client.invoke('echo', 1, { ...options, signal: controller.signal })
      controller.abort()
      assert.equal((await client.invocation(invocation.invocationId)).invocation.status, 'succeeded')
    }
  })

  it('without a reason it rejects with an AbortError, of every method', async (t) => {
    const client = clientOf(await startGateway(t, { tools: [echo] }))
    const signal = AbortSignal.abort()
    for (const asked of [
      () => client.tools({ signal }), () => client.tool('echo', { signal }), () => client.invokeAsync('echo', 1, { signal }), () => client.invocation('x', { signal }),
      () => client.invocations({}, { signal }), () => client.wait('x', { signal }), () => client.cancel('x', { signal }), () => client.batch([], { signal })
    ]) assert.equal((await rejection(asked())).name, 'AbortError')
  })

  it('of a server that never answers', async (t) => {
    const server = await socketsOf(t, () => {})
    for (const [, options] of ways) {
      const controller = new AbortController()
      const asked = rejection(clientOf(server).invoke('echo', 1, { ...options, signal: controller.signal }))
      controller.abort(reason)
      assert.equal(await within(asked, 'the rejection'), reason)
    }
  })

  it('of a key, or of a fetch, that never comes and heeds no signal: of every method', async (t) => {
    const never = () => new Promise<never>(() => {})
    for (const options of [{ auth: never }, { fetch: never }]) {
      const client = clientOf({ url: 'http://127.0.0.1:9' }, options)
      const { signal, abort } = abortable()
      const asked = [
        ...ways.map(([, more]) => client.invoke('echo', 1, { ...more, signal })), client.invokeAsync('echo', 1, { signal }), client.batch([], { signal }),
        client.tools({ signal }), client.tool('echo', { signal }), client.invocation('x', { signal }), client.wait('x', { signal }), client.cancel('x', { signal })
      ].map(rejection)
      const loop = (async () => { for await (const event of client.events({ signal })) assert.fail(event.type) })()
      const leaving = client.events()[Symbol.asyncIterator]()
      const next = leaving.next()
      setImmediate(abort)
      for (const error of await within(Promise.all(asked), 'the rejections')) assert.equal(error, reason)
      await within(loop, 'the end of the loop')
      await within(leaving.return(), 'the end of an iterator')
      assert.deepEqual(await next, { done: true, value: undefined })
      assert.equal(getEventListeners(signal, 'abort').length, 0)
    }
  })

  it('an answer that is waited for behind the back of its caller is given up after five seconds', async (t) => {
    let closed = 0
    const server = await serverOf(t, (_request, response) => response.on('close', () => { closed++ }))
    t.mock.timers.enable({ apis: ['setTimeout'] })
    const client = clientOf(server)
    for (const ask of [(signal: AbortSignal) => client.invoke('echo', 1, { idempotencyKey: 'k', signal }), (signal: AbortSignal) => client.invokeAsync('echo', 1, { signal })]) {
      const [seen, before] = [server.seen.length, closed]
      const controller = new AbortController()
      const asked = rejection(ask(controller.signal))
      while (server.seen.length === seen) await new Promise(setImmediate)
      controller.abort(reason)
      assert.equal(await asked, reason)
      t.mock.timers.tick(4999)
      for (let turn = 0; turn < 20; turn++) await new Promise(setImmediate)
      assert.equal(closed, before)
      t.mock.timers.tick(1)
      const isClosed = () => closed > before
      while (!isClosed()) await new Promise(setImmediate)
    }
    assert.equal(server.seen.length, 2, 'and nothing is sent any more')
  })

  it('AbortSignal.timeout is a reason as any other', async (t) => {
    const gateway = await startGateway(t, { tools: [tool('slow', () => new Promise(() => {}))] })
    const error = await rejection(clientOf(gateway).invoke('slow', 1, { signal: AbortSignal.timeout(50) }))
    assert.equal(error.name, 'TimeoutError')
  })
})

describe('what is left behind', () => {
  it('10,000 calls with one signal leave no listener, and there is never more than one for each that runs', async () => {
    const text = JSON.stringify({ content: [], details: null, isError: false, invocation: { invocationId: 'i', toolId: 'echo', toolCallId: 'i', kind: '', status: 'succeeded', startedAtMs: 1, durationMs: 1, spanId: '' } })
    const client = clientOf({ url: 'http://127.0.0.1:9' }, {
      fetch: async (_input, init) => {
        assert.equal(getEventListeners(init!.signal!, 'abort').length, 0)
        return new Response(text, { headers: { 'content-type': 'application/json' } })
      }
    })
    const { signal } = new AbortController()
    let most = 0
    for (let n = 0; n < 10_000; n++) {
      const asked = client.invoke('echo', n, { signal })
      most = Math.max(most, getEventListeners(signal, 'abort').length)
      await asked
    }
    assert.equal(getEventListeners(signal, 'abort').length, 0)
    assert.ok(most <= 1, `${most} listeners`)
  })

  it('against a gateway, in every way, one signal keeps no listener', async (t) => {
    const warnings: Error[] = []
    const onWarning = (warning: Error) => warnings.push(warning)
    process.on('warning', onWarning)
    t.after(() => process.off('warning', onWarning))
    const failing = tool('failing', () => { throw new Error('no') })
    const client = clientOf(await startGateway(t, { tools: [echo, failing] }))
    const { signal } = new AbortController()
    await Promise.all(Array.from({ length: 50 }, async (_, n) => {
      const key = `k ${n}`
      await client.invoke('echo', n, { signal })
      await client.invoke('echo', n, { signal, idempotencyKey: key })
      await client.invoke('echo', n, { signal, onUpdate: () => {} })
      assert.ok(await rejection(client.invoke('failing', n, { signal, onUpdate: () => {} })) instanceof ToolError)
      assert.equal((await rejection(client.invoke('none', n, { signal, onUpdate: () => {} }))).code, 'unknown_tool')
      const { invocationId } = await client.invokeAsync('echo', n, { signal })
      await client.wait(invocationId, { signal })
      await client.batch([{ toolId: 'echo' }], { signal })
      await client.tools({ signal })
    }))
    assert.equal(getEventListeners(signal, 'abort').length, 0)
    await new Promise(setImmediate)
    assert.deepEqual(warnings.map(({ message }) => message), [])
  })

  it('no timer stays, neither after an answer nor after an abort', async (t) => {
    const held = heldTool()
    const gateway = await startGateway(t, { tools: [held.subject, echo] })
    const timers = () => process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length
    const client = clientOf(gateway)
    await client.invoke('echo', 0)
    const before = timers()
    for (const [, options] of ways) {
      const controller = new AbortController()
      await client.invoke('echo', 1, { ...options })
      const asked = rejection(client.invoke('held', 1, { ...options, signal: controller.signal }))
      await waitFor(() => held.inputs.length > held.aborted.length, 'the tool to run')
      controller.abort(reason)
      await asked
      await waitFor(() => held.inputs.length === held.aborted.length, 'the tool to be told')
    }
    await waitFor(() => timers() <= before + 1, 'the timers to be gone') // the one is waitFor's own
  })

  it('a program whose calls were aborted, or answered, ends by itself', async (t) => {
    const held = heldTool()
    const gateway = await startGateway(t, { tools: [held.subject, echo] })
    const silent = await socketsOf(t, () => {})
    const program = `
      import { createClient } from ${JSON.stringify(fileURLToPath(new URL('../../../src/client.ts', import.meta.url)))}
      const client = createClient({ url: process.argv[1] })
      const controller = new AbortController()
      const { signal } = controller
      const calls = [{}, { onUpdate: () => {} }, { idempotencyKey: 'k' }, { timeoutMs: 300000 }].map((options) => client.invoke('held', 1, { ...options, signal }))
      calls.push(createClient({ url: process.argv[2] }).invoke('held', 1, { signal }), createClient({ url: process.argv[2] }).tools({ signal }))
      await client.invoke('echo', 1)
      const { invocationId } = await client.invokeAsync('held', 1)
      calls.push(client.wait(invocationId, { signal }))
      setTimeout(() => controller.abort(new Error('enough')), 200)
      const ends = await Promise.allSettled(calls)
      console.log(ends.map(({ reason }) => reason.message).join())
      process.on('exit', () => console.log('exit'))`
    const child = spawn(process.execPath, ['--input-type=module', '-e', program, gateway.url, silent.url], { stdio: ['ignore', 'pipe', 'inherit'] })
    t.after(() => child.kill('SIGKILL'))
    let out = ''
    child.stdout.on('data', (chunk) => { out += chunk })
    const code = await within(new Promise((resolve) => child.once('close', resolve)), 'the end of the program', 15_000)
    assert.deepEqual([code, out], [0, `${Array(7).fill('enough').join()}\nexit\n`])
  })
})

describe('an abort through a proxy that notices nothing', () => {
  it('a call whose connection was lost on the way is cancelled by its id', async (t) => {
    const held = heldTool()
    const gateway = await startGateway(t, { tools: [held.subject] })
    const proxy = await httpProxy(t, gateway.url, {
      intercept: ({ url, body, headers }, response) => {
        if (!url.endsWith('/invoke')) return undefined
        // Keeps its own connection to the gateway, and cuts the caller's once the call has begun.
        fetch(gateway.url + url, { method: 'POST', body, headers: { 'content-type': 'application/json', accept: headers.accept! } }).then((answer) => {
          response.writeHead(200, { 'content-type': 'text/event-stream', 'toolgate-invocation-id': answer.headers.get('toolgate-invocation-id')! })
          response.flushHeaders()
          response.write(': connected\n\n', () => response.destroy())
        }, () => {})
        return 'instead'
      }
    })
    const controller = new AbortController()
    const asked = rejection(clientOf(proxy, { retry: atOnce }).invoke('held', 1, { onUpdate: () => {}, signal: controller.signal }))
    await held.running(1)
    await waitFor(() => proxy.seen.some(({ url }) => url.endsWith('/events')), 'the events to be asked for')
    assert.deepEqual(held.aborted, [])
    controller.abort(reason)
    assert.equal(await asked, reason)
    await waitFor(() => held.aborted.length === 1, 'the tool to be told')
  })
})
