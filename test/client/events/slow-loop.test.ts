import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { createClient } from '../../../src/client.ts'
import { echo, gate, invoke, startGateway, within } from '../../e2e/harness.ts'
import { logOf, Taken } from './logs.ts'

const MiB = 1024 * 1024

describe('a loop that is slower than its gateway', () => {
  it('is cut there, resumes, and has each event once and in order; nothing piles up on its side', async (t) => {
    const gateway = await startGateway(t, { tools: [echo], storeMaxEventBytes: 256 * MiB, storeMaxRecordBytes: 256 * MiB })
    const { hub } = gateway.app.toolgate
    const text = 'x'.repeat(50_000)
    let calls = 0
    let areMade = false
    let received = 0
    const counted: typeof fetch = async (url, init) => {
      const response = await fetch(url, init)
      const body = response.body!.pipeThrough(new TransformStream({
        transform (chunk, controller) {
          received += chunk.length
          controller.enqueue(chunk)
        }
      }, undefined, { highWaterMark: 0 }))
      return new Response(body, response)
    }
    let reconnects = 0
    const opened = gate()
    const isThrough = gate()
    const taken = new Taken()
    const subscription = createClient({ url: gateway.url, fetch: counted, retry: { minDelayMs: 5, maxDelayMs: 20 } })
      .events({ onOpen: () => opened.open(), onReconnect: () => reconnects++ })
    const loop = (async () => {
      for await (const item of subscription) {
        taken.add(item, subscription.lastEventId)
        // With its first event in hand, it takes no other until the gateway has cut it off.
        if (taken.all.length === 1) await isThrough.promise
        if (areMade && taken.ends === calls) break
      }
    })()
    await opened.reached('the stream')
    // Not so many at once that the gateway would rather let it read from the store.
    for (; hub.size > 0; calls += 4) {
      assert.ok(calls < 1000, 'the gateway never cut it off')
      await Promise.all([0, 1, 2, 3].map((k) => invoke(gateway, 'echo', { n: calls + k, text })))
    }
    await invoke(gateway, 'echo', { n: ++calls })
    areMade = true
    assert.ok(received < 2 * MiB, `${received} bytes were taken in for one event`)
    assert.equal(taken.all.length, 1)
    isThrough.open()
    await within(loop, 'all events', 30_000)
    assert.ok(reconnects > 0)
    assert.deepEqual(taken.all, await logOf(gateway))
  })
})
