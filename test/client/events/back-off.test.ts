import assert from 'node:assert/strict'
import { describe, it, type TestContext } from 'node:test'
import { ConnectionError, createClient, ProblemError, type EventsOptions, type RetryOptions, type SubscriptionItem } from '../../../src/client.ts'
import { turns } from '../../conformance/until.ts'
import { frame, numbersOf, opening, place } from './samples.ts'

/** `undefined` is no answer, for as long as it is waited for. */
type Reply = () => Response | undefined

const unreachable: Reply = () => { throw Object.assign(new TypeError('fetch failed'), { cause: { code: 'ECONNREFUSED', syscall: 'connect' } }) }
const stream = (...pieces: string[]): Reply => () => new Response(pieces.join(''), { headers: { 'content-type': 'text/event-stream' } })
const problem = (status: number, code: string, retryAfter?: string): Reply => () => new Response(
  JSON.stringify({ type: `urn:toolgate:problem:${code}`, title: code, status, detail: code, code }),
  { status, headers: { 'content-type': 'application/problem+json', ...(retryAfter === undefined ? {} : { 'retry-after': retryAfter }) } }
)
/** Stands, and says nothing. */
const silent = (...pieces: string[]): Reply => () => new Response(new ReadableStream({
  start (controller) { for (const piece of pieces) controller.enqueue(new TextEncoder().encode(piece)) }
}), { headers: { 'content-type': 'text/event-stream' } })
const page: Reply = () => new Response('<h1>', { status: 502, headers: { 'content-type': 'text/html' } })

interface Setting extends EventsOptions { random?: number, retry?: RetryOptions }

/** A client whose gateway answers with these, the last one over and over, and whose time passes when the test says so. */
function begin (t: TestContext, replies: [Reply, ...Reply[]], { random = 0, retry = {}, ...options }: Setting = {}) {
  t.mock.timers.enable({ apis: ['setTimeout', 'Date'], now: Date.UTC(2026, 0, 1) })
  t.mock.method(Math, 'random', () => random)
  let tries = 0
  const waits: number[] = []
  const items: SubscriptionItem[] = []
  const over = new AbortController()
  t.after(() => over.abort())
  let opened = 0
  const client = createClient({
    url: 'http://gateway.test',
    retry,
    fetch: async (_url, init) => {
      const signal = init!.signal!
      signal.throwIfAborted()
      return replies[Math.min(tries++, replies.length - 1)]!() ?? await new Promise<never>((_resolve, reject) => {
        signal.addEventListener('abort', () => reject(signal.reason))
      })
    }
  })
  const subscription = client.events({
    signal: over.signal, onReconnect: (_reason, delayMs) => waits.push(delayMs), onOpen: () => { opened++ }, ...options
  })
  let failure: unknown
  const done = (async () => {
    try {
      for await (const item of subscription) items.push(item)
    } catch (error) {
      failure = error
    }
  })()
  return {
    waits,
    items,
    over,
    done,
    get tries () { return tries },
    get opened () { return opened },
    get failure () { return failure },
    /** Lets the client come to rest, and then lets the time pass. */
    async pass (ms: number) {
      await turns(20)
      t.mock.timers.tick(ms)
      await turns(20)
    },
    /** Lets it wait as long as it likes, `count` times; each wait must be over no sooner than it said. */
    async waitOut (count: number) {
      for (let waited = 0; waited < count; waited++) {
        await turns(20)
        const before = tries
        t.mock.timers.tick(waits.at(-1)! - 1)
        await turns(20)
        assert.equal(tries, before, 'it came back too soon')
        t.mock.timers.tick(1)
        await turns(20)
        assert.equal(tries, before + 1)
      }
    }
  }
}

describe('back-off of an event subscription', () => {
  it('doubles up to the most, and stays there for as long as it takes', async (t) => {
    const run = begin(t, [stream(place(0)), unreachable])
    await run.waitOut(9)
    assert.deepEqual(run.waits, [250, 500, 1000, 2000, 4000, 8000, 10_000, 10_000, 10_000, 10_000])
    assert.equal(run.failure, undefined)
  })

  it('is cut by up to a half at random', async (t) => {
    const run = begin(t, [stream(place(0)), unreachable], { random: 0.5, retry: { minDelayMs: 100, maxDelayMs: 1000 } })
    await run.waitOut(4)
    assert.deepEqual(run.waits, [75, 150, 300, 600, 750])
  })

  it('begins anew once the stream has told of a place', async (t) => {
    const run = begin(t, [stream(place(0)), unreachable, unreachable, stream(frame(1)), unreachable, stream(place(1)), stream(place(1))])
    await run.waitOut(5)
    assert.deepEqual(run.waits, [250, 500, 1000, 250, 500, 250])
  })

  it('goes on where a stream stands and ends before it has told of any', async (t) => {
    const run = begin(t, [stream(place(0)), stream(''), stream(': hello\n\n'), stream('event: events_lost\ndata: {"requestedId":"a","earliestId":"b"}\n\n'), page])
    await run.waitOut(4)
    assert.deepEqual(run.waits, [250, 500, 1000, 2000, 4000])
    assert.deepEqual(numbersOf(run.items), ['events_lost'])
  })

  it('begins with what the gateway asks for, within the client\'s own limits', async (t) => {
    const run = begin(t, [stream(opening, place(0)), unreachable])
    await run.waitOut(3)
    assert.deepEqual(run.waits, [2000, 4000, 8000, 10_000])
  })

  for (const [limits, waits] of [[{ minDelayMs: 3000 }, [3000, 6000]], [{ maxDelayMs: 1000 }, [1000, 1000]]] as const) {
    it(`keeps to ${JSON.stringify(limits)} where the gateway asks for two seconds`, async (t) => {
      const run = begin(t, [stream(opening, place(0)), unreachable], { retry: limits })
      await run.waitOut(1)
      assert.deepEqual(run.waits, waits)
    })
  }

  for (const [asked, waits] of [['0', [250, 500]], ['99999999999999999999999', [10_000, 10_000]], ['-1', [250, 500]], ['1e3', [250, 500]]] as const) {
    it(`takes no \`retry: ${asked}\` beyond them`, async (t) => {
      const run = begin(t, [stream(place(0), `retry: ${asked}\n\n`), unreachable])
      await run.waitOut(1)
      assert.deepEqual(run.waits, waits)
    })
  }

  it('waits for as long as a refusal asks, in seconds or to a time', async (t) => {
    const run = begin(t, [
      stream(place(0)), problem(503, 'shutting_down', '5'), problem(429, 'too_many_subscribers', 'Thu, 01 Jan 2026 00:00:25 GMT'),
      problem(503, 'shutting_down', '1'), stream(frame(1))
    ])
    await run.waitOut(4)
    // It was 250 and 5,000 ms after midnight that it was told of 25 seconds past.
    assert.deepEqual(run.waits, [250, 5000, 25_000 - 5250, 2000, 250])
    assert.deepEqual(numbersOf(run.items), [1])
  })

  it('waits for a minute where a refusal asks for more', async (t) => {
    const run = begin(t, [stream(place(0)), problem(503, 'overloaded', '999999999999'), stream(frame(1))])
    await run.waitOut(2)
    assert.deepEqual(run.waits, [250, 60_000, 250])
  })

  it('tries a first connection as often as the client is set to, and tells why it could not be had', async (t) => {
    const run = begin(t, [unreachable])
    await run.waitOut(3)
    await run.done
    assert.ok(run.failure instanceof ConnectionError)
    assert.deepEqual([run.failure.code, run.tries, run.waits, run.opened], ['unreachable', 4, [250, 500, 1000], 0])
  })

  it('tries a first connection once where it is to', async (t) => {
    const run = begin(t, [problem(503, 'overloaded')], { retry: { retries: 0 } })
    await run.done
    assert.ok(run.failure instanceof ProblemError)
    assert.equal(run.tries, 1)
  })

  it('gives up a connection that stays silent, also before it is one, and comes back', async (t) => {
    const run = begin(t, [silent(place(0)), () => undefined, silent(frame(1))], { silenceMs: 1000 })
    await run.pass(999)
    assert.deepEqual(run.waits, [])
    await run.pass(1)
    assert.deepEqual(run.waits, [250])
    await run.pass(250)
    assert.equal(run.tries, 2)
    await run.pass(999)
    assert.deepEqual(run.waits, [250], 'the silence before an answer is as long')
    await run.pass(1)
    assert.deepEqual(run.waits, [250, 500])
    await run.pass(500)
    assert.deepEqual(numbersOf(run.items), [1])
  })

  it('waits for ever where no silence is too long', async (t) => {
    const run = begin(t, [silent(place(0))], { silenceMs: Infinity })
    await run.pass(2 ** 31 - 2)
    assert.deepEqual(run.waits, [])
  })

  it('is over at once when the signal aborts, quietly', async (t) => {
    const run = begin(t, [stream(place(0)), unreachable])
    await run.waitOut(3)
    run.over.abort()
    await run.done
    assert.equal(run.failure, undefined)
    await run.pass(100_000)
    assert.equal(run.tries, 4)
  })

  it('tells of each stream that stands, the first time once it has said where', async (t) => {
    const run = begin(t, [unreachable, stream(opening), silent(opening), silent(place(0)), page, stream(''), silent(frame(1))], { silenceMs: 1000 })
    await run.waitOut(2)
    assert.equal(run.opened, 0)
    await run.pass(1000)
    await run.waitOut(1)
    assert.equal(run.opened, 1)
    await run.pass(1000)
    await run.waitOut(2)
    assert.equal(run.opened, 2)
    await run.waitOut(1)
    assert.deepEqual([run.opened, numbersOf(run.items)], [3, [1]])
  })
})
