import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { describe, it, type TestContext } from 'node:test'
import { promisify } from 'node:util'
import { fileURLToPath } from 'node:url'
import { createClient, type SubscriptionItem } from '../../../src/client.ts'
import { echo, invoke, startGateway, waitFor, within } from '../../e2e/harness.ts'
import { cuts, ends, playGateway, refuses, streams } from './played-gateway.ts'
import { frame, frames, numbersOf, opening, place } from './samples.ts'

const retry = { minDelayMs: 1, maxDelayMs: 5 }
const source = fileURLToPath(new URL('../../../src/client.ts', import.meta.url))

/** A loop that is to get no event. */
async function nothing (subscription: AsyncIterable<SubscriptionItem>): Promise<void> {
  for await (const item of subscription) assert.fail(`there was ${item.type}`)
}

/** A gateway with calls to tell of, and a client of it. */
async function begin (t: TestContext) {
  const gateway = await startGateway(t, { tools: [echo] })
  const { hub } = gateway.app.toolgate
  return {
    gateway,
    client: createClient({ url: gateway.url, retry }),
    subscription: createClient({ url: gateway.url, retry }).events(),
    call: () => invoke(gateway, 'echo', {}),
    left: () => waitFor(() => hub.size === 0, 'the gateway to have no subscriber'),
    there: () => waitFor(() => hub.size === 1, 'the gateway to have a subscriber')
  }
}

describe('a connection that is over', () => {
  it('leaves nothing on the signals of its subscription, however many follow', async (t) => {
    const gateway = await playGateway(t, ends(opening, place(1)), cuts(opening, place(2)), streams(opening, frames(3, 3)))
    const signals: AbortSignal[] = []
    const fetching: typeof fetch = (input, init) => {
      signals.push(init!.signal!)
      return fetch(input, init)
    }
    const { signal } = new AbortController()
    const items = createClient({ url: gateway.url, retry, fetch: fetching }).events({ signal })[Symbol.asyncIterator]()
    const { value } = await within(items.next(), 'the event')
    assert.deepEqual(numbersOf([value!]), [3])
    // All that a request had is let go of once its signal has aborted.
    assert.deepEqual(signals.map(({ aborted }) => aborted), [true, true, false])
    await items.return()
    assert.equal(signals[2]!.aborted, true)
  })
})

describe('leaving the loop over events', () => {
  it('by break, return and throw, closes the connection at the gateway', async (t) => {
    const { client, call, there, left } = await begin(t)
    for (const way of ['break', 'return', 'throw']) {
      const loop = (async () => {
        for await (const { type } of client.events()) {
          if (type !== 'tool_execution_end') continue
          if (way === 'break') break
          if (way === 'return') return
          throw new Error(way)
        }
      })().catch(({ message }: Error) => assert.equal(message, 'throw'))
      await there()
      await call()
      await within(loop, 'the loop to be left')
      await left()
    }
  })

  it('goes on, in a new loop, after the last event that was given out, also where that one was thrown over', async (t) => {
    const gateway = await playGateway(t, streams(opening, frames(1, 5)), (response, request) => {
      const after = Number(/-(\d+)$/.exec(request.url!)![1])
      streams(opening, frames(after + 1, 5))(response, request)
    })
    const subscription = createClient({ url: gateway.url, retry }).events()
    const items: SubscriptionItem[] = []
    for await (const item of subscription) if (items.push(item) === 2) break
    await assert.rejects(async () => {
      for await (const item of subscription) {
        if (items.push(item) === 3) throw new Error('no more')
      }
    }, /no more/)
    for await (const item of subscription) if (items.push(item) === 5) break
    assert.deepEqual(numbersOf(items), [1, 2, 3, 4, 5])
    await waitFor(() => gateway.closed.length === 3, 'all connections to be closed')
  })

  it('return() of an iterator ends a wait for an event', async (t) => {
    const { subscription, there, left } = await begin(t)
    const items = subscription[Symbol.asyncIterator]()
    const next = items.next()
    await there()
    assert.deepEqual(await within(items.return(), 'the end'), { done: true, value: undefined })
    assert.deepEqual(await within(next, 'the wait'), { done: true, value: undefined })
    await left()
    assert.deepEqual(await items.next(), { done: true, value: undefined })
  })

  it('return() before the first next() asks the gateway for nothing', async (t) => {
    const gateway = await playGateway(t, streams())
    const items = createClient({ url: gateway.url, retry }).events()[Symbol.asyncIterator]()
    await items.return()
    assert.deepEqual(await items.next(), { done: true, value: undefined })
    assert.equal(gateway.asked.length, 0)
  })

  it('`await using` lets go of it, too', async (t) => {
    const { subscription, there, left } = await begin(t)
    {
      await using items = subscription[Symbol.asyncIterator]()
      void items.next()
      await there()
    }
    await left()
  })

  it('two loops at a time are refused, and the first goes on', async (t) => {
    const { subscription, there, call } = await begin(t)
    const first = subscription[Symbol.asyncIterator]()
    const next = first.next()
    await there()
    await assert.rejects(() => nothing(subscription), /^TypeError: One loop at a time reads a subscription/)
    await call()
    assert.equal((await within(next, 'an event')).value!.type, 'tool_execution_start')
    await first.return()
  })

  it('onOpen and onReconnect that throw end the loop with that, and the connection with it', async (t) => {
    const { client, left } = await begin(t)
    const fail = () => { throw new Error('not today') }
    await assert.rejects(() => nothing(client.events({ onOpen: fail })), /not today/)
    await left()
    // Before anything of it has been read.
    await assert.rejects(() => nothing(client.events({ onOpen: fail, lastEventId: 'earliest' })), /not today/)
    await left()
    const played = await playGateway(t, ends(opening, place(0)))
    const subscription = createClient({ url: played.url, retry }).events({ onReconnect: fail })
    await assert.rejects(() => nothing(subscription), /not today/)
    assert.equal(played.asked.length, 1)
  })
})

describe('an aborted signal', () => {
  it('before the loop: there is none, and no request', async (t) => {
    const gateway = await playGateway(t, streams(frame(1)))
    await nothing(createClient({ url: gateway.url, retry }).events({ signal: AbortSignal.abort() }))
    assert.equal(gateway.asked.length, 0)
  })

  for (const [what, scenes, reached] of [
    ['while connecting', [() => {}], 1],
    ['while reading', [streams(opening, place(0))], 1],
    ['while an answer that is no stream comes', [(response) => { response.writeHead(503, { 'content-type': 'application/problem+json' }).flushHeaders() }], 1],
    ['while waiting to come back', [refuses(503, 'overloaded', { 'retry-after': '50' })], 1],
    ['while connecting again', [cuts(opening, place(0)), () => {}], 2]
  ] as [string, Parameters<typeof playGateway> extends [unknown, ...infer Scenes] ? Scenes : never, number][]) {
    it(`${what}: ends the loop quietly, and the connection`, async (t) => {
      const gateway = await playGateway(t, ...scenes)
      const over = new AbortController()
      const subscription = createClient({ url: gateway.url, retry }).events({ signal: over.signal })
      const loop = (() => nothing(subscription))()
      await waitFor(() => gateway.asked.length === reached, 'the request')
      over.abort(new Error('enough'))
      await within(loop, 'the end of the loop')
      await waitFor(() => gateway.closed.length === reached, 'the connection to be closed')
      assert.equal(gateway.asked.length, reached)
    })
  }

  it('between events: no other is given out, though it has arrived', async (t) => {
    const gateway = await playGateway(t, streams(opening, frames(1, 100)))
    const over = new AbortController()
    const subscription = createClient({ url: gateway.url, retry }).events({ signal: over.signal })
    const items: SubscriptionItem[] = []
    for await (const item of subscription) if (items.push(item) === 3) over.abort()
    assert.deepEqual(numbersOf(items), [1, 2, 3])
    assert.match(subscription.lastEventId!, /-3$/)
    await waitFor(() => gateway.closed.length === 1, 'the connection to be closed')
  })

  it('ends every loop that has it', async (t) => {
    const { gateway, client, left } = await begin(t)
    const over = new AbortController()
    const loops = Array.from({ length: 20 }, () => nothing(client.events({ signal: over.signal })))
    await waitFor(() => gateway.app.toolgate.hub.size === 20, 'twenty subscribers')
    over.abort()
    await within(Promise.all(loops), 'the loops to end')
    await left()
  })
})

describe('the process of a client', () => {
  it('ends once its loops are left, with no rejection unhandled and no warning, however often the stream was lost', async (t) => {
    const gateway = await playGateway(t, ...Array.from({ length: 60 }, (_, n) => n % 2 === 0 ? cuts(opening, frame(n)) : ends(opening, frame(n))) as [ReturnType<typeof ends>], streams(opening, frame(60)))
    const { stdout, stderr } = await within(promisify(execFile)(process.execPath, ['--input-type=module', '--eval', `
      import { createClient } from ${JSON.stringify(source)}
      const client = createClient({ url: ${JSON.stringify(gateway.url)}, retry: { minDelayMs: 0, maxDelayMs: 1 } })
      const over = new AbortController()
      const all = []
      for await (const { args } of client.events({ signal: over.signal })) {
        all.push(args.n)
        if (args.n === 60) break
      }
      const items = client.events({ signal: over.signal })[Symbol.asyncIterator]()
      await items.next()
      items.next()
      over.abort()
      console.log(JSON.stringify(all))
    `], { timeout: 20_000 }), 'the process to end', 20_000)
    assert.deepEqual(JSON.parse(stdout), Array.from({ length: 61 }, (_, n) => n))
    assert.equal(stderr, '')
  })
})
