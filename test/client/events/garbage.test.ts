import assert from 'node:assert/strict'
import { describe, it, type TestContext } from 'node:test'
import { createClient, ProblemError, ProtocolError, type EventsOptions, type SubscriptionItem } from '../../../src/client.ts'
import { readMessages } from '../../../src/client/stream-messages.ts'
import { within } from '../../e2e/harness.ts'
import { cuts, ends, playGateway, refuses, says, streams, type Scene } from './played-gateway.ts'
import { eventOf, frame, frames, idOf, numbersOf, opening, place } from './samples.ts'

const quick = { retries: 3, minDelayMs: 1, maxDelayMs: 5 }
const html: Scene = says(200, '<!doctype html><h1>Welcome</h1>', { 'content-type': 'text/html' })

async function listen (t: TestContext, scenes: [Scene, ...Scene[]], count: number, options: EventsOptions = {}) {
  const gateway = await playGateway(t, ...scenes)
  const reasons: unknown[] = []
  const over = new AbortController()
  t.after(() => over.abort())
  const subscription = createClient({ url: gateway.url, retry: quick }).events({
    onReconnect: (reason) => reasons.push(reason?.message), signal: over.signal, ...options
  })
  const items: SubscriptionItem[] = []
  const loop = async () => {
    for await (const item of subscription) if (items.push(item) >= count) break
  }
  return { gateway, reasons, items, subscription, done: within(loop(), `${count} events`, 10_000) }
}

/** What the loop throws, where it reads no more than `count` events before. */
async function failure (t: TestContext, scenes: [Scene, ...Scene[]], options: EventsOptions = {}) {
  const { done, ...rest } = await listen(t, scenes, 1000, options)
  const error = await done.then(() => assert.fail('it went on'), (error: Error) => error)
  return { error, ...rest }
}

const hundred = (n: number) => frame(n, eventOf(n, { args: { n, text: 'x'.repeat(100) } }))

describe('events from something that is no gateway', () => {
  for (const [what, scene, message] of [
    ['a page', html, 'This is no answer of a gateway: HTTP 200, text/html.'],
    ['JSON', says(200, '{}', { 'content-type': 'application/json' }), 'This is no answer of a gateway: HTTP 200, application/json.'],
    ['no type', says(200, 'data: x\n\n'), 'This is no answer of a gateway: HTTP 200, without a content type.'],
    ['a page of an error', says(404, '<h1>404</h1>', { 'content-type': 'text/html' }), 'This is no answer of a gateway: HTTP 404, text/html.'],
    ['somebody else\'s problem', says(403, '{"type":"about:blank","title":"No","status":403,"detail":"No.","code":"no"}', { 'content-type': 'application/problem+json' }), 'This is no answer of a gateway: HTTP 403, application/problem+json.']
  ] as const) {
    it(`${what}, at first, is told at once`, async (t) => {
      const { error, gateway } = await failure(t, [scene])
      assert.ok(error instanceof ProtocolError)
      assert.equal(error.message, message)
      assert.equal(gateway.asked.length, 1)
    })
  }

  it('a page where there was a gateway is asked again, from the last id', async (t) => {
    const { items, gateway, reasons, done } = await listen(t, [ends(opening, frames(1, 2)), html, html, streams(opening, frames(3, 4))], 4)
    await done
    assert.deepEqual(numbersOf(items), [1, 2, 3, 4])
    assert.deepEqual(gateway.asked.map(({ url }) => url), ['/events', ...Array(3).fill(`/events?lastEventId=${idOf(2)}`)])
    assert.deepEqual(reasons, [undefined, ...Array(2).fill('This is no answer of a gateway: HTTP 200, text/html.')])
  })

  it('nothing but pages, five times in a row, is told', async (t) => {
    const { error, gateway, items } = await failure(t, [ends(opening, frames(1, 2)), html])
    assert.ok(error instanceof ProtocolError)
    assert.deepEqual(numbersOf(items), [1, 2])
    assert.equal(gateway.asked.length, 1 + 5)
  })

  it('pages do not add up over what comes between them', async (t) => {
    const scenes = Array.from({ length: 8 }, (_, n) => [ends(opening, frame(n + 1)), html, html]).flat() as [Scene, ...Scene[]]
    const { items, done } = await listen(t, scenes, 8)
    await done
    assert.deepEqual(numbersOf(items), [1, 2, 3, 4, 5, 6, 7, 8])
  })

  it('a proxy that says that the gateway is away is asked for as long as it takes', async (t) => {
    const away = [502, 503, 504].map((status) => says(status, '<h1>Bad Gateway</h1>', { 'content-type': 'text/html' }))
    const { items, gateway, done } = await listen(t, [ends(opening, frame(1)), ...away, ...away, ...away, streams(opening, frame(2))], 2)
    await done
    assert.deepEqual(numbersOf(items), [1, 2])
    assert.equal(gateway.asked.length, 11)
  })
})

describe('events from a stream that says something else', () => {
  const broken = `id: ${idOf(2)}\nevent: tool_execution_start\ndata: {"type":\n\n`
  const whole = opening + place(0) + frame(1)

  for (const [what, text, message] of [
    ['JSON that is none', broken, /An event is not JSON/],
    ['an event of another shape', `id: ${idOf(2)}\nevent: tool_execution_start\ndata: {"type":"tool_execution_start"}\n\n`, /An event is not what a gateway sends/],
    ['an event without an id', frame(2).slice(frame(2).indexOf('\n') + 1), /An event has no id/],
    ['bytes that are no UTF-8', Uint8Array.of(0x64, 0xff, 0xfe, 0x0a), /This is no event stream of a gateway/]
  ] as const) {
    it(`${what}: asked for again, and gone on where it was`, async (t) => {
      const goesOn: Scene = (response, request) => {
        // What cannot be decoded may take a whole one with it that came in the same piece.
        streams(opening, request.url!.endsWith(idOf(1)) ? frames(2, 3) : frames(1, 3))(response, request)
      }
      const { items, reasons, gateway, done } = await listen(t, [streams(whole, text), goesOn], 3, { lastEventId: idOf(0) })
      await done
      assert.deepEqual(numbersOf(items), [1, 2, 3])
      assert.equal(reasons.length, 1)
      assert.match(String(reasons[0]), message)
      assert.equal(gateway.closed[0], gateway.asked[0]!.url, 'the connection that brought it is closed')
    })
  }

  it('an event that stays broken is told in the end, with the place before it kept', async (t) => {
    const { error, items, gateway, subscription } = await failure(t, [streams(whole, broken), streams(opening, broken)])
    assert.ok(error instanceof ProtocolError && error.cause instanceof SyntaxError)
    assert.deepEqual(numbersOf(items), [1])
    assert.equal(gateway.asked.length, 5)
    assert.equal(subscription.lastEventId, idOf(1))
  })

  it('a place told over and over does not make an event that stays broken worth another try', async (t) => {
    const { error, gateway } = await failure(t, [streams(opening, place(1), broken)])
    assert.ok(error instanceof ProtocolError)
    assert.ok(gateway.asked.length <= 6, `${gateway.asked.length} tries`)
  })

  it('a page under the type of a stream is garbage', async (t) => {
    const page = ends('<!doctype html>\n<h1>Welcome</h1>\n')
    const { error, gateway } = await failure(t, [page])
    assert.ok(error instanceof ProtocolError)
    assert.equal(gateway.asked.length, 5)
  })

  it('a line without an end is given up, once it is longer than any message', async () => {
    let sent = 0
    const body = new ReadableStream({
      pull (controller) { controller.enqueue(new TextEncoder().encode('data: ' + 'x'.repeat((sent += 1000) - sent + 994))) }
    })
    const messages = readMessages(new Response(body), { silenceMs: 10_000, maxLength: 100_000 })
    await assert.rejects(messages.next(), (error: ProtocolError) => error instanceof ProtocolError && /max buffer size/.test(String(error.cause)))
    assert.ok(sent < 110_000, `${sent} characters were taken`)
  })

  it('so is a message without an end', async () => {
    const body = new ReadableStream({ pull (controller) { controller.enqueue(new TextEncoder().encode(`data: ${'x'.repeat(900)}\n`)) } })
    await assert.rejects(readMessages(new Response(body), { silenceMs: 10_000, maxLength: 100_000 }).next(), ProtocolError)
  })
})

describe('events from a stream with what a client may pass over', () => {
  for (const [what, text] of [
    ['events of other names', `id: ${idOf(2)}\nevent: tool_execution_paused\ndata: {}\n\nid: ${idOf(2)}\nevent: hello\ndata: no JSON\n\n`],
    ['messages without a name', 'data: hello\n\n'],
    ['comments and fields of others', ': hello\ncolour: blue\nnonsense\n\n'],
    ['a wait that is none', 'retry: soon\n\n'],
    ['an id that may not be', 'id: a\0b\n\n'],
    ['an empty id', 'id:\n\n'],
    ['blank lines', '\n\n\n\n']
  ] as const) {
    it(what, async (t) => {
      const { items, reasons, gateway, done } = await listen(t, [ends(opening, frame(1), text, frame(3)), streams(frame(4))], 3)
      await done
      // The first stream was read to its own end.
      assert.deepEqual([numbersOf(items), reasons], [[1, 3, 4], [undefined]])
      assert.equal(gateway.asked[1]!.url, `/events?lastEventId=${idOf(3)}`)
    })
  }

  it('an id that is empty, or may not be, does not move the place', async (t) => {
    const { items, gateway, done } = await listen(t, [ends(opening, frame(1), 'id:\n\n', 'id: a\0b\n\n', 'id: \n\n'), streams(frame(2))], 2)
    await done
    assert.deepEqual(numbersOf(items), [1, 2])
    assert.equal(gateway.asked[1]!.url, `/events?lastEventId=${idOf(1)}`)
  })

  it('an event of another name moves the place', async (t) => {
    const { gateway, done } = await listen(t, [ends(opening, frame(1), `id: ${idOf(2)}\nevent: later\ndata: {}\n\n`), streams(frame(3))], 2)
    await done
    assert.equal(gateway.asked[1]!.url, `/events?lastEventId=${idOf(2)}`)
  })

  for (const [name, newline] of [['\\r\\n', '\r\n'], ['\\r', '\r']] as const) {
    it(`lines that end in ${name}`, async (t) => {
      const text = (opening + place(0) + frames(1, 3) + place(7)).replaceAll('\n', newline)
      const { items, gateway, done } = await listen(t, [ends('\uFEFF', text), streams(hundred(8))], 4)
      await done
      assert.deepEqual(numbersOf(items), [1, 2, 3, 8])
      assert.equal(gateway.asked[1]!.url, `/events?lastEventId=${idOf(7)}`)
    })
  }

  it('a message that was cut off is not given out', async (t) => {
    const cut = frame(2).slice(0, -1)
    const { items, done } = await listen(t, [ends(opening, frame(1), cut), cuts(opening, frame(2), frame(3).slice(0, 30)), streams(frames(3, 4))], 4)
    await done
    assert.deepEqual(numbersOf(items), [1, 2, 3, 4])
  })
})

describe('events that a gateway refuses', () => {
  for (const [status, code] of [[400, 'invalid_request'], [401, 'unauthorized'], [403, 'forbidden'], [404, 'not_found']] as const) {
    it(`${status} ${code} ends the loop, at first and later`, async (t) => {
      const first = await failure(t, [refuses(status, code)])
      assert.ok(first.error instanceof ProblemError)
      assert.deepEqual([first.error.code, first.error.status, first.gateway.asked.length], [code, status, 1])
      const later = await failure(t, [ends(opening, frame(1)), refuses(status, code)])
      assert.ok(later.error instanceof ProblemError)
      assert.deepEqual([later.error.code, later.gateway.asked.length], [code, 2])
    })
  }

  for (const [status, code] of [[429, 'too_many_subscribers'], [503, 'shutting_down'], [503, 'store_unavailable'], [408, 'request_timeout']] as const) {
    it(`${status} ${code} is waited for, as often as the client is set to at first, and for as long as it takes later`, async (t) => {
      const first = await failure(t, [refuses(status, code)])
      assert.ok(first.error instanceof ProblemError)
      assert.deepEqual([first.error.code, first.gateway.asked.length], [code, 4])
      const refusals = Array<Scene>(10).fill(refuses(status, code))
      const later = await listen(t, [refuses(status, code), ends(opening, frame(1)), ...refusals, streams(frame(2))], 2)
      await later.done
      assert.deepEqual(numbersOf(later.items), [1, 2])
    })
  }

  it('a failure of the gateway itself, later, is waited for', async (t) => {
    const { items, done } = await listen(t, [ends(opening, frame(1)), refuses(500, 'internal_error'), streams(frame(2))], 2)
    await done
    assert.deepEqual(numbersOf(items), [1, 2])
  })

  it('204 says that there is nothing more: the loop ends', async (t) => {
    const { items, gateway, done } = await listen(t, [ends(opening, frames(1, 2)), says(204, '')], 1000)
    await done
    assert.deepEqual(numbersOf(items), [1, 2])
    assert.equal(gateway.asked.length, 2)
  })
})
