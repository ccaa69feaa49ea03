import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import { after, before, describe, it, type TestContext } from 'node:test'
import { chromium, type Browser, type Page } from 'playwright-core'
import type { GatewayOptions } from '../../src/gateway.ts'
import { blocksOf } from '../docs/markdown.ts'
import { echo, startGateway, waitFor } from '../e2e/harness.ts'
import { chromiumArguments, chromiumPath } from './chromium.ts'

/** What the page's functions find there. They run in the page: nothing of this file is theirs. */
declare global {
  var kept: any
}

const skip = chromiumPath === undefined ? 'there is no chromium in the PATH (Debian: apt-get install chromium)' : false
const apiKey = 'correct-horse-battery-staple'
const docs = 'docs/access.md'

// A suite that is skipped is not counted as a test that was.
it('there is a browser for the pages', { skip }, () => {})

describe('pages and a gateway', { skip }, () => {
  let browser: Browser
  let sample: string
  let port: number
  const site = createServer(({ url }, response) => {
    const isScript = url === '/follow-events.js'
    response.writeHead(200, { 'content-type': isScript ? 'text/javascript' : 'text/html' }).end(isScript ? sample : '<!doctype html><link rel="icon" href="data:,">')
  })

  before(async () => {
    sample = (await blocksOf(docs)).find(({ file }) => file === 'follow-events.js')!.text
    await new Promise<void>((resolve) => { site.listen(0, '127.0.0.1', resolve) })
    port = (site.address() as AddressInfo).port
    // A name that somebody made resolve to this machine; and a browser that leaves it to the gateway to look after itself.
    const args = [...chromiumArguments, '--host-resolver-rules=MAP rebound.test 127.0.0.1', '--disable-features=LocalNetworkAccessChecks']
    browser = await chromium.launch({ executablePath: chromiumPath!, args })
  })
  after(async () => {
    await browser?.close()
    site.closeAllConnections()
    site.close()
  })

  /** A gateway that the pages at 127.0.0.1 may call, and a page. */
  async function begin (t: TestContext, options: GatewayOptions = {}, host = '127.0.0.1') {
    const sockets = new Set<Socket>()
    const answers: string[] = []
    const gateway = await startGateway(t, { tools: [echo], corsOrigins: [`http://127.0.0.1:${port}`], ...options })
    gateway.app.server.on('connection', (socket) => {
      sockets.add(socket)
      socket.once('close', () => sockets.delete(socket))
    })
    gateway.app.server.on('request', ({ method, url, headers }, response) => {
      response.once('close', () => answers.push(`${method} ${url!.split('?')[0]} ${response.statusCode} ${headers['last-event-id'] === undefined ? '' : 'resumes'}`.trim()))
    })
    const page = await browser.newPage()
    t.after(() => page.close())
    await page.goto(`http://${host}:${port}/`)
    return { gateway, url: gateway.url, page, answers, call: (input: unknown) => gateway.app.invoke({ toolId: 'echo', input }), cut: () => { for (const socket of sockets) socket.resetAndDestroy() } }
  }

  const inputsOf = (page: Page): Promise<unknown[]> => page.evaluate(() => globalThis.kept.events.map((event: any) => event.result.structuredContent))
  const numbers = (count: number) => Array.from({ length: count }, (_, n) => n)

  it(`the page of ${docs} follows with tickets, each event once, whatever becomes of its connection`, { timeout: 60_000 }, async (t) => {
    const { page, url, call, cut, gateway, answers } = await begin(t, { apiKey })
    await page.evaluate(async ({ url, apiKey }) => {
      const file = '/follow-events.js'
      const { followEvents } = await import(file) as { followEvents: (...args: unknown[]) => Promise<void> }
      const takeTicket = async () => (await (await fetch(`${url}/events/tickets`, { method: 'POST', headers: { authorization: `Bearer ${apiKey}` } })).json() as any).ticket
      globalThis.kept = { events: [] }
      void followEvents(url, takeTicket, (event: unknown) => kept.events.push(event))
    }, { url, apiKey })
    const { hub } = gateway.app.toolgate
    let sent = 0
    for (let round = 0; round < 3; round++) {
      await waitFor(() => hub.size === 1, 'the page to be there', 20_000)
      cut()
      // Some of these while it is away, in the first round before it has seen any.
      for (let n = 0; n < 5; n++) await call(sent++)
      await page.waitForFunction((count) => kept.events.length >= count, sent)
      await call(sent++)
    }
    await page.waitForFunction((count) => kept.events.length >= count, sent)
    assert.deepEqual(await inputsOf(page), numbers(sent))
    assert.ok(!answers.includes('GET /events 401'), 'no ticket is used twice')
  })

  it('an EventSource that comes back with a used ticket is refused for good; a new one goes on by the last id', { timeout: 60_000 }, async (t) => {
    const { page, url, call, cut, answers } = await begin(t, { apiKey })
    const open = (lastEventId?: string) => page.evaluate(async ({ url, apiKey, lastEventId }) => {
      const { ticket } = await (await fetch(`${url}/events/tickets`, { method: 'POST', headers: { authorization: `Bearer ${apiKey}` } })).json() as any
      const source: any = new EventSource(`${url}/events?${new URLSearchParams({ ticket, type: 'tool_execution_end', ...lastEventId === undefined ? {} : { lastEventId } })}`)
      const events = lastEventId === undefined ? [] : kept.events
      globalThis.kept = { source, events, lastEventId, opened: 0 }
      source.onopen = () => kept.opened++
      source.addEventListener('tool_execution_end', (event: any) => {
        kept.lastEventId = event.lastEventId
        kept.events.push(JSON.parse(event.data))
      })
    }, { url, apiKey, lastEventId })

    await open()
    await page.waitForFunction(() => kept.opened === 1)
    for (const n of [0, 1]) await call(n)
    await page.waitForFunction(() => kept.events.length === 2)
    cut()
    for (const n of [2, 3]) await call(n)
    await page.waitForFunction(() => kept.source.readyState === 2, undefined, { timeout: 20_000 })
    assert.deepEqual(answers.filter((answer) => answer.startsWith('GET /events')), ['GET /events 200', 'GET /events 401 resumes'])
    await open(await page.evaluate(() => kept.lastEventId))
    await call(4)
    await page.waitForFunction(() => kept.events.length >= 5)
    assert.deepEqual(await inputsOf(page), numbers(5))
  })

  it('a page of an origin that is listed can read a refusal, and how to be let in', async (t) => {
    const { page, url } = await begin(t, { apiKey })
    assert.deepEqual(await page.evaluate(async (url) => {
      const answer = await fetch(`${url}/tools`)
      return [answer.status, answer.headers.get('www-authenticate'), (await answer.json() as any).code]
    }, url), [401, 'Bearer realm="toolgate"', 'unauthorized'])
  })

  /** Every way that a page has to get at a gateway, and what came of it. */
  const attempts = async (url: string) => {
    const told = (answer: any) => `${answer.type} ${answer.status}`
    const failed = () => 'failed'
    const ask = (path: string, init: object) => fetch(url + path, init).then(told, failed)
    const follow = (path: string) => new Promise((resolve) => {
      const source: any = new EventSource(url + path)
      source.onopen = () => resolve('opened')
      source.onerror = () => resolve(source.readyState === 2 ? 'failed' : 'waits')
    })
    const load = (tag: string, path: string) => new Promise((resolve) => {
      const element = (globalThis as any).document.createElement(tag)
      element.onload = () => resolve('loaded')
      element.onerror = () => resolve('failed')
      element.src = url + path
      ;(globalThis as any).document.head.append(element)
    })
    const body = '{"input":1}'
    const json = { 'content-type': 'application/json' }
    return {
      list: await ask('/tools', {}),
      blind: await ask('/tools', { mode: 'no-cors' }),
      call: await ask('/tools/echo/invoke', { method: 'POST', headers: json, body }),
      blindCall: await ask('/tools/echo/invoke', { method: 'POST', mode: 'no-cors', body }),
      bodiless: await ask('/tools/echo/invoke', { method: 'POST', mode: 'no-cors' }),
      ticket: await ask('/events/tickets', { method: 'POST' }),
      events: await follow('/events'),
      script: await load('script', '/tools'),
      image: await load('img', '/tools')
    }
  }
  const nothing = { list: 'failed', blind: 'failed', call: 'failed', blindCall: 'failed', bodiless: 'failed', ticket: 'failed', events: 'failed', script: 'failed', image: 'failed' }

  for (const [name, options] of [['asks for a key', { apiKey }], ['asks for none', {}]] as const) {
    it(`a page of another origin gets nothing of a gateway that ${name}`, async (t) => {
      // Another origin by its name, at the same address.
      const { page, url, gateway, answers } = await begin(t, options, 'localhost')
      assert.deepEqual(await page.evaluate(attempts, url), nothing)
      assert.ok(answers.length > 0, 'the gateway was asked')
      assert.deepEqual([gateway.app.toolgate.store.head, gateway.app.toolgate.hub.size], [0, 0])
    })
  }

  it('a page of an origin that is listed gets all that a gateway without a key has', async (t) => {
    const { page, url } = await begin(t)
    assert.deepEqual(await page.evaluate(attempts, url), { ...nothing, list: 'cors 200', call: 'cors 200', ticket: 'cors 201', events: 'opened' })
  })

  it('a page whose own name resolves to this machine gets nothing either', async (t) => {
    const { page, gateway, answers } = await begin(t)
    const url = `http://rebound.test:${gateway.port}`
    // Of an attacker's server, which the name led to before.
    await page.route(`${url}/`, (route) => route.fulfill({ contentType: 'text/html', body: '<!doctype html><link rel="icon" href="data:,">' }))
    await page.goto(`${url}/`)
    const { list, call, ticket, events } = await page.evaluate(async (url) => {
      const ask = (path: string, init: object = {}) => fetch(url + path, init).then(({ type, status }) => `${type} ${status}`, () => 'failed')
      return {
        list: await ask('/tools'),
        call: await ask('/tools/echo/invoke', { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{"input":1}' }),
        ticket: await ask('/events/tickets', { method: 'POST' }),
        events: await ask('/events')
      }
    }, url)
    assert.deepEqual([list, call, ticket, events], Array(4).fill('basic 403'))
    assert.ok(answers.includes('POST /tools/echo/invoke 403'), answers.join())
    assert.equal(gateway.app.toolgate.store.head, 0)
  })
})
