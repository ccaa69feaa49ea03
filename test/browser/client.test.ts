import assert from 'node:assert/strict'
import type { Socket } from 'node:net'
import { after, before, describe, it, type TestContext } from 'node:test'
import { chromium, type Browser, type Page } from 'playwright-core'
import type { SubscriptionItem } from '../../src/client.ts'
import type { GatewayOptions } from '../../src/gateway.ts'
import { echo, gate, startGateway, tool, waitFor, type Gate } from '../e2e/harness.ts'
import { chromiumArguments, chromiumPath } from './chromium.ts'
import { serveSources, type ServedSources } from './served-sources.ts'

/** What the page's functions find there. They run in the page: nothing of this file is theirs. */
declare global {
  var toolgate: typeof import('../../src/client.ts')
  /** What one function leaves for the next. */
  var kept: any
}

const skip = chromiumPath === undefined ? 'there is no chromium in the PATH (Debian: apt-get install chromium)' : false

// A suite that is skipped is not counted as a test that was.
it('there is a browser for the client', { skip }, () => {})

describe('the client in a browser', { skip }, () => {
  const ends: (() => unknown)[] = []
  const faults: string[] = []
  let browser: Browser
  let sources: ServedSources
  let page: Page

  before(async () => {
    sources = await serveSources({ after: (run) => ends.push(run) })
    browser = await chromium.launch({ executablePath: chromiumPath!, args: chromiumArguments })
    page = await browser.newPage()
    page.on('pageerror', (error) => faults.push(String(error)))
    await page.goto(sources.url)
    await page.waitForFunction(() => globalThis.toolgate !== undefined)
  })
  after(async () => {
    await browser?.close()
    for (const end of ends) await end()
  })

  /** A gateway of another origin than the page's. */
  async function begin (t: TestContext, options: GatewayOptions = {}) {
    const sockets = new Set<Socket>()
    const requests: { method: string, url: string, headers: NodeJS.Dict<string | string[]> }[] = []
    const gateway = await startGateway(t, { corsOrigins: [sources.url], ...options })
    gateway.app.server.on('connection', (socket) => {
      sockets.add(socket)
      socket.once('close', () => sockets.delete(socket))
    })
    gateway.app.server.on('request', ({ method, url, headers }) => requests.push({ method: method!, url: url!, headers }))
    t.after(async () => {
      await page.evaluate(() => { globalThis.kept?.over?.abort() })
      assert.deepEqual(faults, [], 'errors that nobody caught')
    })
    return {
      gateway,
      requests,
      url: gateway.url,
      /** Requests with this method whose path begins so. */
      asked: (method: string, path: string) => requests.filter((request) => request.method === method && request.url.startsWith(path)),
      /** Cuts every connection. */
      cut: () => { for (const socket of sockets) socket.resetAndDestroy() }
    }
  }

  const waiter = (begun: Gate<AbortSignal>, go: Promise<unknown> = new Promise(() => {})) => tool('wait', async (_id: string, _input: unknown, signal: AbortSignal, onUpdate: (partial: object) => void) => {
    onUpdate({ content: [{ type: 'text', text: 'begun' }], details: null })
    begun.open(signal)
    await Promise.race([go, new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(signal.reason)))])
    return { structuredContent: 'done' }
  })
  const aborted = (signal: AbortSignal) => waitFor(() => signal.aborted, 'the tool to be told of the abort')

  it('is its own files and those of three packages, and nothing of Node', () => {
    const strays = sources.paths.filter((path) => !/^\/(src\/client\.ts$|src\/client\/|src\/contract\/|node_modules\/(@sinclair\/typebox|@earendil-works\/pi-schema|eventsource-parser)\/)/.test(path))
    assert.deepEqual(strays, [])
    assert.ok(sources.paths.includes('/src/client.ts') && sources.paths.includes('/src/contract/event.ts'))
  })

  it('lists tools, and does not have them sent again while they are the same', async (t) => {
    const { url, requests } = await begin(t, { tools: [echo] })
    const lists = await page.evaluate(async (url) => {
      const client = toolgate.createClient({ url })
      return [await client.tools(), await client.tools(), [await client.tool('echo')]]
    }, url)
    assert.deepEqual(lists.map((tools) => tools.map(({ id }) => id)), [['echo'], ['echo'], ['echo']])
    assert.ok(requests.some(({ headers }) => headers['if-none-match'] !== undefined), 'the second list was asked for with the ETag of the first')
  })

  it('calls: a result held to a schema, updates, failures, options', async (t) => {
    const talks = tool('talk', (_id: string, _input: unknown, _signal: unknown, onUpdate: (partial: object) => void) => {
      onUpdate({ content: [{ type: 'text', text: 'aé€😀' }], details: null })
      return { structuredContent: { n: 5 } }
    })
    const fails = tool('fail', () => { throw new Error('It rained.') })
    const { url } = await begin(t, { tools: [echo, talks, fails] })
    const outcome = await page.evaluate(async (url) => {
      const { createClient, OutputError, ProblemError, ToolError } = toolgate
      const client = createClient({ url })
      const output = { type: 'object', properties: { n: { type: 'number' } }, required: ['n'] }
      const updates: unknown[] = []
      const plain = await client.invoke('echo', { n: 1 }, { output, traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01', runId: 'run', toolCallId: 'mine' })
      const talked = await client.invoke('talk', {}, { onUpdate: ({ content }) => { updates.push(content[0]) } })
      const failures = await Promise.all([
        client.invoke('echo', { n: 'x' }, { output }).catch((error) => error instanceof OutputError && error.faults[0]!.path),
        client.invoke('fail').catch((error) => error instanceof ToolError && error.message),
        client.invoke('nothing').catch((error) => error instanceof ProblemError && error.code)
      ])
      return { plain, talked: talked.structuredContent, updates, failures, given: (await client.invoke('fail', {}, { throwOnError: false })).isError }
    }, url)
    const { structuredContent, invocation } = outcome.plain
    assert.deepEqual([structuredContent, invocation.runId, invocation.toolCallId, invocation.traceId], [{ n: 1 }, 'run', 'mine', '0af7651916cd43dd8448eb211c80319c'])
    assert.deepEqual([outcome.talked, outcome.updates], [{ n: 5 }, [{ type: 'text', text: 'aé€😀' }]])
    assert.deepEqual([outcome.failures, outcome.given], [['/n', 'It rained.', 'unknown_tool'], true])
  })

  for (const [what, options] of [['a call', {}], ['a call with updates', { updates: true }], ['a call with a key, once it is known,', { updates: true, key: 'k-1' }]] as [string, { updates?: boolean, key?: string }][]) {
    it(`aborting ${what} aborts the tool`, async (t) => {
      const begun = gate<AbortSignal>()
      const { url } = await begin(t, { tools: [waiter(begun)] })
      await page.evaluate(({ url, options: { updates, key } }) => {
        const over = new AbortController()
        const told: unknown[] = []
        const call = toolgate.createClient({ url }).invoke('wait', {}, {
          signal: over.signal, ...(updates === true ? { onUpdate: (partial) => { told.push(partial) } } : {}), ...(key === undefined ? {} : { idempotencyKey: key })
        })
        globalThis.kept = { over, told, end: call.then(() => 'it went on', (error) => error.message) }
      }, { url, options })
      const signal = await begun.reached('the tool')
      if (options.updates === true) await page.waitForFunction(() => kept.told.length === 1)
      assert.equal(await page.evaluate(async () => {
        kept.over.abort(new Error('enough'))
        return await kept.end
      }), 'enough')
      await aborted(signal)
    })
  }

  it('a call with a key runs once, and outlives its connection', async (t) => {
    const begun = gate<AbortSignal>()
    const go = gate()
    const { url, cut, asked } = await begin(t, { tools: [waiter(begun, go.promise)] })
    await page.evaluate((url) => {
      const client = toolgate.createClient({ url, retry: { minDelayMs: 1, maxDelayMs: 20 } })
      const updates: unknown[] = []
      const call = () => client.invoke('wait', {}, { idempotencyKey: 'once', onUpdate: ({ content }) => { updates.push(content) } })
      globalThis.kept = { call, updates, first: call() }
    }, url)
    await begun.reached('the tool')
    await page.waitForFunction(() => kept.updates.length === 1)
    cut()
    await waitFor(() => asked('GET', '/invocations/').length > 0, 'the page to follow the call')
    go.open()
    const [first, second] = await page.evaluate(async () => [await kept.first, await kept.call()])
    assert.equal(first.structuredContent, 'done')
    assert.equal(second.invocation.invocationId, first.invocation.invocationId)
    assert.ok(asked('GET', '/invocations/').some(({ headers }) => headers['last-event-id'] !== undefined), 'it went on from the last event')
  })

  it('calls that nobody waits for, waits, cancels, batches', async (t) => {
    const { url } = await begin(t, { tools: [echo, waiter(gate<AbortSignal>())] })
    const outcome = await page.evaluate(async (url) => {
      const client = toolgate.createClient({ url })
      const { invocationId } = await client.invokeAsync('echo', { n: 1 })
      const waited = await client.wait(invocationId)
      const running = await client.invokeAsync('wait', {})
      await client.cancel(running.invocationId)
      const cancelled = await client.wait(running.invocationId).catch((error) => error.code)
      const { results } = await client.batch([{ toolId: 'echo', input: 1 }, { toolId: 'none' }])
      const { invocations } = await client.invocations({ toolId: 'echo' })
      return { waited: waited.structuredContent, cancelled, results, count: invocations.length, record: (await client.invocation(invocationId)).invocation.status }
    }, url)
    const [one, none] = outcome.results as any[]
    assert.deepEqual([outcome.waited, outcome.cancelled, outcome.count, outcome.record], [{ n: 1 }, 'cancelled', 2, 'succeeded'])
    assert.deepEqual([one.structuredContent, none.problem.code], [1, 'unknown_tool'])
  })

  /** A loop in the page over the ends of calls of one tool. */
  async function follow (url: string, more: object = {}): Promise<void> {
    await page.evaluate(({ url, more }) => {
      const over = new AbortController()
      const items: unknown[] = []
      const told: string[] = []
      const subscription = toolgate.createClient({ url, retry: { minDelayMs: 1, maxDelayMs: 20 } }).events({
        filter: { type: 'tool_execution_end', toolId: ['echo'] },
        signal: over.signal,
        onOpen: () => told.push('open'),
        onReconnect: () => told.push('again'),
        ...more
      })
      const loop = (async () => { for await (const item of subscription) items.push(item) })()
      globalThis.kept = { over, items, told, subscription, end: loop.then(() => 'over', (error) => String(error)) }
    }, { url, more })
  }

  it('events: those asked for, each once, also where the stream is cut; the end closes the connection', async (t) => {
    const { url, gateway, cut } = await begin(t, { tools: [echo, tool('other', () => ({}))] })
    await follow(url)
    await page.waitForFunction(() => kept.told.length === 1)
    const numbers = () => page.evaluate(() => kept.items.map((item: any) => item.result.structuredContent))
    for (let n = 0; n < 30; n++) {
      await gateway.app.invoke({ toolId: 'echo', input: `😀${n}` })
      if (n % 5 === 0) await gateway.app.invoke({ toolId: 'other' })
      if (n % 10 === 9) cut()
    }
    await page.waitForFunction(() => kept.items.length >= 30)
    assert.deepEqual(await numbers(), Array.from({ length: 30 }, (_, n) => `😀${n}`))
    const told = await page.evaluate(() => kept.told)
    assert.ok(told.includes('again') && told.filter((each: string) => each === 'open').length > 1, told.join())

    assert.deepEqual(await page.evaluate(async () => {
      kept.over.abort()
      return await kept.end
    }), 'over')
    await waitFor(() => gateway.app.toolgate.hub.size === 0, 'the gateway to have no subscriber')

    const lastEventId = await page.evaluate(() => kept.subscription.lastEventId)
    await gateway.app.invoke({ toolId: 'echo', input: 'later' })
    await follow(url, { lastEventId })
    await page.waitForFunction(() => kept.items.length >= 1)
    assert.deepEqual(await numbers(), ['later'])
    await follow(url, { lastEventId: 'ffffffffffffffff-5' })
    await page.waitForFunction(() => kept.items.length >= 32)
    const [lost] = await page.evaluate(() => kept.items as SubscriptionItem[])
    assert.ok(lost!.type === 'events_lost' && lost!.requestedId === 'ffffffffffffffff-5')
  })

  it('a refusal says how long it asks to be waited for', async (t) => {
    const { url } = await begin(t, { tools: [echo], maxSubscribers: 0 })
    assert.deepEqual(await page.evaluate(async (url) => {
      const items = toolgate.createClient({ url, retry: { retries: 0 } }).events()[Symbol.asyncIterator]()
      return await items.next().then(() => 'it was taken in', (error) => [error.name, error.code, error.retryAfterMs])
    }, url), ['ProblemError', 'too_many_subscribers', 5000])
  })

  it('a gateway with a key takes it, and says where it is wrong', async (t) => {
    const key = '0123456789abcdef'
    const { url, gateway } = await begin(t, { tools: [echo], apiKey: key })
    const [good, bad, none] = await page.evaluate(async ({ url, key }) => {
      const ask = async (auth?: string | (() => Promise<string>)) => {
        const client = toolgate.createClient({ url, auth })
        const called = await client.invoke('echo', 1, { idempotencyKey: 'k' }).then(({ structuredContent }) => structuredContent, (error) => error.code)
        const listed = await client.tools().then(({ length }) => length, (error) => error.code)
        const items = client.events({ lastEventId: 'earliest' })[Symbol.asyncIterator]()
        const streamed = await items.next().then(({ value }) => value?.type, (error) => error.code)
        await items.return()
        return [called, listed, streamed]
      }
      return [await ask(async () => key), await ask('fedcba9876543210'), await ask()]
    }, { url, key })
    assert.deepEqual(good, [1, 1, 'tool_execution_start'])
    assert.deepEqual([bad, none], [Array(3).fill('unauthorized'), Array(3).fill('unauthorized')])
    await waitFor(() => gateway.app.toolgate.hub.size === 0, 'the gateway to have no subscriber')
  })

  it('a gateway that does not know the page\'s origin cannot be reached from it', async (t) => {
    const { url } = await begin(t, { tools: [echo], corsOrigins: ['http://elsewhere.test'] })
    assert.equal(await page.evaluate(async (url) => {
      return await toolgate.createClient({ url, retry: { retries: 0 } }).invoke('echo', 1).then(() => 'it was answered', (error) => error.name)
    }, url), 'ConnectionError')
  })
})
