import assert from 'node:assert/strict'
import { describe, it, type TestContext } from 'node:test'
import { EventSource } from 'eventsource'
import { assertProblem, echo, gate, invoke, send, startGateway, tool, waitFor, type RunningGateway } from './harness.ts'
import { accepted, heldTool, logged, settledRecord } from './calls.ts'
import { openStream, type EventClient, type StreamOptions } from './sse-client.ts'
import { overStores } from './stores.ts'

function follow (t: TestContext, { url }: RunningGateway, id: string, options: StreamOptions = {}): Promise<EventClient> {
  return openStream(t, url, { path: `/invocations/${id}/events`, ...options })
}

/** Publishes an update each time the test says so. */
function stepping () {
  const steps = [gate(), gate(), gate()]
  const subject = tool('stepping', async (_id, input, _signal, onUpdate) => {
    for (const [at, step] of steps.entries()) {
      await step.promise
      onUpdate({ details: { at } })
    }
    return { structuredContent: input }
  })
  return { subject, step: (at: number) => steps[at]!.open() }
}

const types = ({ events }: EventClient) => events.map(({ event }) => event!.replace('tool_execution_', ''))
const whole = ['start', 'update', 'update', 'update', 'end']

/** A browser's EventSource: what it got, and how often it connected. */
function source (t: TestContext, url: string) {
  const got: { type: string, id: string }[] = []
  let requests = 0
  const opened = new EventSource(url, { fetch: (input, init) => { requests++; return fetch(input, init) } })
  t.after(() => opened.close())
  for (const type of ['tool_execution_start', 'tool_execution_update', 'tool_execution_end', 'events_lost']) {
    opened.addEventListener(type, (event) => { got.push({ type, id: event.lastEventId }) })
  }
  const closed = () => waitFor(() => opened.readyState === EventSource.CLOSED, 'the EventSource to give up', 10_000)
  return { got, closed, requests: () => requests }
}

// Side by side: an EventSource takes its time to come back.
describe('GET /invocations/:id/events', { concurrency: true }, () => {
  overStores('whatever the store', (start) => {
    it('of a call that has ended: all of its events, with their ids, and no others; then it ends', async (t) => {
      const { subject, step } = stepping()
      const gateway = await start(t, { tools: [subject, echo] })
      await invoke(gateway, 'echo', 'before')
      const id = await accepted(gateway, 'stepping', 1)
      for (const at of [0, 1, 2]) {
        step(at)
        await invoke(gateway, 'echo', 'between')
      }
      await settledRecord(gateway, id)
      await invoke(gateway, 'echo', 'after')
      const client = await follow(t, gateway, id)
      assert.equal(await client.closed(), 'ended')
      const own = (await logged(gateway)).filter(({ event }) => event.invocationId === id)
      assert.deepEqual(client.events.map(({ id, data }) => ({ id, event: data })), own)
      assert.deepEqual(types(client), whole)
      assert.deepEqual(['content-type', 'cache-control', 'x-accel-buffering', 'toolgate-invocation-id'].map((name) => client.headers[name]), ['text/event-stream', 'no-store, no-transform', 'no', id])
      assert.match(client.text, /^: connected\nretry: \d+\n\n/)
    })

    it('of one that runs: from its start, then live, and ends after its end event', async (t) => {
      const { subject, step } = stepping()
      const gateway = await start(t, { tools: [subject] })
      const id = await accepted(gateway, 'stepping')
      step(0)
      await waitFor(async () => (await logged(gateway)).length === 2, 'the first update')
      const client = await follow(t, gateway, id)
      await waitFor(() => types(client).length === 2, 'what is there')
      step(1)
      await waitFor(() => types(client).length === 3, 'the next, live')
      assert.equal(client.how, undefined)
      step(2)
      assert.equal(await client.closed(), 'ended')
      assert.deepEqual(types(client), whole)
    })

    it('of one in the backlog: its start at once, the rest when its turn comes', async (t) => {
      const { subject, running, release } = heldTool()
      const gateway = await start(t, { tools: [subject], maxConcurrentAsyncCalls: 1 })
      await accepted(gateway, 'held')
      await running(1)
      const client = await follow(t, gateway, await accepted(gateway, 'held'))
      await waitFor(() => types(client).length === 1, 'the start')
      release()
      assert.equal(await client.closed(), 'ended')
      assert.deepEqual(types(client), ['start', 'end'])
    })

    describe('resumed', () => {
      it('after each of its events: exactly those that follow', async (t) => {
        const { subject, step } = stepping()
        const gateway = await start(t, { tools: [subject] })
        const id = await accepted(gateway, 'stepping')
        for (const at of [0, 1, 2]) step(at)
        await settledRecord(gateway, id)
        const own = await logged(gateway)
        for (const [at, { id: lastId }] of own.entries()) {
          const client = await follow(t, gateway, id, { headers: { 'last-event-id': lastId } })
          if (at === own.length - 1) {
            assert.deepEqual([client.status, client.headers['content-type']], [204, undefined])
            continue
          }
          assert.equal(await client.closed(), 'ended')
          assert.deepEqual(client.events.map(({ id }) => id), own.slice(at + 1).map(({ id }) => id))
        }
      })

      it('while the call runs, after all that there is: what is to come', async (t) => {
        const { subject, running, release } = heldTool()
        const gateway = await start(t, { tools: [subject, echo] })
        const id = await accepted(gateway, 'held')
        await running(1)
        await invoke(gateway, 'echo')
        const client = await follow(t, gateway, id, { headers: { 'last-event-id': (await logged(gateway)).at(-1)!.id } })
        release()
        assert.equal(await client.closed(), 'ended')
        assert.deepEqual(types(client), ['end'])
      })

      it('past its end there is nothing to come back for: 204, also by an id of another call after it', async (t) => {
        const gateway = await start(t, { tools: [echo] })
        const { invocation: { invocationId } } = (await invoke(gateway, 'echo')).body
        await invoke(gateway, 'echo')
        for (const { id } of (await logged(gateway)).slice(1)) {
          const { status, text } = await send(`${gateway.url}/invocations/${invocationId}/events`, { headers: { 'last-event-id': id } })
          assert.deepEqual([status, text], [204, ''])
        }
      })

      it('by an id that is none of this log: told so, then all of its events', async (t) => {
        const gateway = await start(t, { tools: [echo] })
        const { invocation: { invocationId } } = (await invoke(gateway, 'echo')).body
        for (const lastId of ['nonsense', '0000000000000000-1', `${(await logged(gateway))[0]!.id}99999`]) {
          const client = await follow(t, gateway, invocationId, { headers: { 'last-event-id': lastId } })
          assert.equal(await client.closed(), 'ended')
          assert.deepEqual([client.events[0]!.event, client.events[0]!.data.requestedId], ['events_lost', lastId])
          assert.deepEqual(types(client).slice(1), ['start', 'end'])
        }
      })
    })

    it('parts over the limit are left out and named; the record has them', async (t) => {
      const gateway = await start(t, { tools: [echo], maxEventPartBytes: 100 })
      const { invocation: { invocationId } } = (await invoke(gateway, 'echo', 'x'.repeat(200))).body
      const client = await follow(t, gateway, invocationId)
      await client.closed()
      assert.deepEqual(client.events.map(({ data }) => [data.omitted, data.args, data.result]), [[['args'], undefined, undefined], [['result'], undefined, undefined]])
      assert.equal((await settledRecord(gateway, invocationId)).result.structuredContent.length, 200)
    })

    it('of a sensitive tool they say that parts were withheld', async (t) => {
      const { subject, release } = heldTool('held', { sensitive: true })
      release()
      const gateway = await start(t, { tools: [subject] })
      const { invocation: { invocationId } } = (await invoke(gateway, 'held', { secret: 'hunter2' })).body
      const client = await follow(t, gateway, invocationId)
      await client.closed()
      assert.deepEqual([client.events[0]!.data.redacted, client.ends[0].result.redacted, client.text.includes('hunter2')], [true, true, false])
    })

    it('HEAD tells the headers and ends, also while the call runs', async (t) => {
      const { subject, running, release } = heldTool()
      const gateway = await start(t, { tools: [subject] })
      const id = await accepted(gateway, 'held')
      await running(1)
      const head = () => send(`${gateway.url}/invocations/${id}/events`, { method: 'HEAD' })
      assert.deepEqual([(await head()).status, (await head()).headers.get('content-type'), (await head()).headers.get('toolgate-invocation-id')], [200, 'text/event-stream', id])
      assert.equal(gateway.app.toolgate.hub.size, 0)
      release()
      await settledRecord(gateway, id)
      const client = await follow(t, gateway, id)
      await client.closed()
      assert.equal((await send(`${gateway.url}/invocations/${id}/events`, { method: 'HEAD', headers: { 'last-event-id': client.lastId! } })).status, 204)
    })

    it('it takes a subscriber\'s place: past their number it is 429', async (t) => {
      const { subject, running, release } = heldTool()
      const gateway = await start(t, { tools: [subject], maxSubscribers: 1 })
      const id = await accepted(gateway, 'held')
      await running(1)
      const client = await follow(t, gateway, id)
      const refused = await send(`${gateway.url}/invocations/${id}/events`)
      assertProblem(refused, 429, 'too_many_subscribers')
      assert.equal(refused.headers.get('retry-after'), '5')
      release()
      assert.equal(await client.closed(), 'ended')
      assert.equal(gateway.app.toolgate.hub.size, 0)
    })

    it('who stops listening cancels nothing', async (t) => {
      const { subject, aborted, running, release } = heldTool()
      const gateway = await start(t, { tools: [subject] })
      const id = await accepted(gateway, 'held')
      await running(1)
      ;(await follow(t, gateway, id)).destroy()
      await waitFor(() => gateway.app.toolgate.hub.size === 0, 'the listener to be gone')
      release()
      assert.deepEqual([(await settledRecord(gateway, id)).invocation.status, aborted], ['succeeded', []])
    })

    describe('an EventSource', () => {
      it('has each event once and does not come back for ever, whether the call has ended or runs', async (t) => {
        const { subject, step } = stepping()
        const gateway = await start(t, { tools: [subject, echo] })
        const { invocation } = (await invoke(gateway, 'echo')).body
        const id = await accepted(gateway, 'stepping')
        const ended = source(t, `${gateway.url}/invocations/${invocation.invocationId}/events`)
        const running = source(t, `${gateway.url}/invocations/${id}/events`)
        for (const at of [0, 1, 2]) step(at)
        await Promise.all([ended.closed(), running.closed()])
        assert.deepEqual([ended.got.map(({ type }) => type.slice(15)), ended.requests()], [['start', 'end'], 2])
        assert.deepEqual([running.got.map(({ type }) => type.slice(15)), running.requests()], [whole, 2])
      })
    })
  })

  // Only what is kept by the number of events lets a record outlive its events here.
  describe('where the log has forgotten', () => {
    async function forgotten (t: TestContext, keep: number) {
      const gateway = await startGateway(t, { tools: [echo], storeMaxEvents: keep })
      const { body } = await invoke(gateway, 'echo', 'x'.repeat(300 * 1024), { headers: { 'idempotency-key': 'k' } })
      for (let n = 0; n < 3; n++) await invoke(gateway, 'echo')
      return { gateway, id: body.invocation.invocationId, body }
    }

    it('the start alone: told so, then the end', async (t) => {
      const { gateway, id } = await forgotten(t, 7)
      const client = await follow(t, gateway, id)
      assert.equal(await client.closed(), 'ended')
      assert.deepEqual(client.events.map(({ event }) => event), ['events_lost', 'tool_execution_end'])
    })

    it('all of it: told so, then the end as the record has it, under its own id', async (t) => {
      const { gateway, id, body } = await forgotten(t, 4)
      const client = await follow(t, gateway, id)
      assert.equal(await client.closed(), 'ended')
      assert.deepEqual(client.events.map(({ event }) => event), ['events_lost', 'tool_execution_end'])
      const [lost, end] = client.events
      assert.deepEqual([lost!.data.requestedId.split('-')[1], end!.id!.split('-')[1], end!.data.status, end!.data.omitted], ['0', '2', 'succeeded', ['result']])
      assert.equal(end!.data.durationMs, body.invocation.durationMs)
      assert.equal((await send(`${gateway.url}/invocations/${id}/events`, { headers: { 'last-event-id': end!.id! } })).status, 204)
    })

    it('an EventSource does not come back for ever', async (t) => {
      const { gateway, id } = await forgotten(t, 4)
      const { got, closed, requests } = source(t, `${gateway.url}/invocations/${id}/events`)
      await closed()
      assert.deepEqual([got.map(({ type }) => type), requests()], [['events_lost', 'tool_execution_end'], 2])
    })

    it('the replay of a key, as a stream: the result all the same, and whole', async (t) => {
      const { gateway, id, body } = await forgotten(t, 4)
      const again = await openStream(t, gateway.url, {
        path: '/tools/echo/invoke', method: 'POST', headers: { accept: 'text/event-stream', 'idempotency-key': 'k' }, body: JSON.stringify({ input: 'x'.repeat(300 * 1024) })
      })
      assert.equal(await again.closed(), 'ended')
      assert.deepEqual([again.headers['idempotency-replayed'], again.headers['toolgate-invocation-id']], ['true', id])
      assert.deepEqual([again.ends.length, again.ends[0]?.result.structuredContent], [1, body.structuredContent])
    })
  })
})
