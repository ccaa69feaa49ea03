import assert from 'node:assert/strict'
import { describe, it, type TestContext } from 'node:test'
import { createClient, type SubscriptionItem } from '../../../src/client.ts'
import { seeded } from '../../conformance/seeded.ts'
import { echo, gate, invoke, startGateway, tool, within } from '../../e2e/harness.ts'
import { startCuttingProxy, type Fate } from './cutting-proxy.ts'
import { logOf, Taken } from './logs.ts'
import { eventOf, frame, idOf, numbersOf, opening, place } from './samples.ts'

const retry = { minDelayMs: 0, maxDelayMs: 3 }
const text = 'aé€😀\u2028\n\r\n\nid: 5\n\ndata: {}\n\n'

const talker = tool('talker', (_id: string, input: unknown, _signal: unknown, onUpdate: (partial: object) => void) => {
  for (let n = 0; n < 3; n++) onUpdate({ content: [{ type: 'text', text: text + n }], details: { n } })
  return { structuredContent: input }
})

/** A loop through a proxy while calls are made, held against what the gateway has in the end. */
async function runThrough (t: TestContext, calls: number, fate: (connection: number) => Fate, silenceMs = 5000): Promise<number> {
  const gateway = await startGateway(t, { tools: [echo, talker], heartbeatMs: 100 })
  const proxy = await startCuttingProxy(t, gateway.port, fate)
  const over = new AbortController()
  t.after(() => over.abort())
  const opened = gate()
  const subscription = createClient({ url: proxy.url, retry }).events({ silenceMs, signal: over.signal, onOpen: () => opened.open() })
  const taken = new Taken()
  const loop = (async () => {
    for await (const item of subscription) {
      taken.add(item, subscription.lastEventId)
      if (taken.ends === calls) break
    }
  })()
  await opened.reached('the stream')
  // Told at once, so that what happens from here on has to be there.
  for (let n = 0; n < calls; n += 5) {
    await Promise.all([0, 1, 2, 3, 4].map((k) => invoke(gateway, (n + k) % 2 === 0 ? 'talker' : 'echo', { n: n + k, text })))
  }
  await within(loop, 'all events', 30_000)
  assert.deepEqual(taken.all, await logOf(gateway))
  return proxy.connections
}

describe('events through a connection that is cut', () => {
  for (const seed of [1, 2, 3, 4, 5, 6]) {
    it(`anywhere, over and over: each once and in order (seed ${seed})`, async (t) => {
      const random = seeded(seed)
      const connections = await runThrough(t, 50, () => ({
        bytes: Math.floor(random() * 6000), how: random() < 0.5 ? 'end' : 'reset', pieces: [0, 0, 1, 7, 100][Math.floor(random() * 5)]!
      }))
      t.diagnostic(`${connections} connections`)
      assert.ok(connections > 10)
    })
  }

  it('that falls silent without an end: given up, and each event once and in order', async (t) => {
    const random = seeded(7)
    const connections = await runThrough(t, 20, () => ({ bytes: 500 + Math.floor(random() * 20_000), how: 'silent', pieces: 0 }), 250)
    assert.ok(connections > 2)
  })

  it('by nothing, a byte at a time', async (t) => {
    assert.equal(await runThrough(t, 10, () => ({ bytes: Infinity, how: 'end', pieces: 1 })), 1)
  })

  for (const how of ['ends', 'breaks'] as const) {
    it(`after any byte: it ${how}`, async () => {
      const whole = new TextEncoder().encode(opening + place(0) + frame(1) + frame(2))
      for (let cut = 0; cut <= whole.length; cut++) {
        let isFirst = true
        const subscription = createClient({
          url: 'http://gateway.test', retry: { minDelayMs: 0, maxDelayMs: 0 }, fetch: async (url) => {
            const after = /-(\d+)$/.exec(String(url))?.[1]
            const bytes = isFirst ? whole.subarray(0, cut) : new TextEncoder().encode(opening + [1, 2].filter((n) => n > Number(after ?? 0)).map((n) => frame(n)).join(''))
            isFirst = false
            return new Response(new ReadableStream({
              start (controller) { controller.enqueue(bytes) },
              pull (controller) {
                if (how === 'ends') controller.close()
                else controller.error(new TypeError('terminated'))
              }
            }, { highWaterMark: 0 }), { headers: { 'content-type': 'text/event-stream' } })
          }
        }).events()
        const items: SubscriptionItem[] = []
        for await (const item of subscription) if (items.push(item) === 2) break
        assert.deepEqual(items, [eventOf(1), eventOf(2)], `cut after ${cut} of ${whole.length} bytes`)
        assert.equal(subscription.lastEventId, idOf(2))
      }
    })
  }

  it('a loss that is cut off before the next event is told once more', async (t) => {
    const lost = `event: events_lost\ndata: ${JSON.stringify({ requestedId: idOf(1), earliestId: idOf(20) })}\n\n`
    const bodies = [opening + lost, opening + lost + frame(20), opening + frame(21)]
    const subscription = createClient({
      url: 'http://gateway.test', retry, fetch: async () =>
        new Response(bodies.shift(), { headers: { 'content-type': 'text/event-stream' } })
    }).events({ lastEventId: idOf(1) })
    const items: SubscriptionItem[] = []
    for await (const item of subscription) {
      items.push(item)
      if (item.type === 'events_lost') assert.equal(subscription.lastEventId, idOf(1))
      if (items.length === 4) break
    }
    assert.deepEqual(numbersOf(items), ['events_lost', 'events_lost', 20, 21])
  })
})
