import assert from 'node:assert/strict'
import { connect, type Socket } from 'node:net'
import { describe, it, type TestContext } from 'node:test'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import type { AnyTool } from '../../src/tools/registry.ts'
import { echo, gate, invoke, startGateway, tool, waitFor } from './harness.ts'
import { invokeAsStream, openStream } from './sse-client.ts'

const subject = (execute: (...args: any[]) => unknown, more: object = {}) => tool('subject', execute, more)
const registryTool = (value: unknown): AnyTool => ({ id: 'subject', kind: 'read', parseInput: () => ({}), execute: () => value, parseOutput: (given: unknown) => given })

setFlagsFromString('--expose-gc')
const collectGarbage: () => void = runInNewContext('gc')

/** Memory that is really held, in MiB. */
function heldMiB (): number {
  collectGarbage()
  const { heapUsed, external } = process.memoryUsage()
  return (heapUsed + external) / 2 ** 20
}

/** One call, told over each way there is. All three must say the same; returns what they say. */
async function everywhere (t: TestContext, given: AnyTool, more: object = {}) {
  const gateway = await startGateway(t, { tools: [given, echo], ...more })
  const listener = await openStream(t, gateway.url)
  const { status, body, text } = await invoke(gateway, 'subject')
  const { invocation, ...result } = body
  const heard = await listener.endOf(invocation.invocationId)
  const own = await invokeAsStream(t, gateway.url, 'subject')
  assert.equal(await own.closed(), 'ended')
  assert.deepEqual(own.events.map(({ event }) => event), ['tool_execution_start', 'tool_execution_end'])
  const streamed = own.ends[0]
  // As text, so that the order of keys counts, too.
  for (const end of [heard, streamed]) assert.equal(JSON.stringify(end.result), JSON.stringify(result))
  assert.equal((await listener.endOf(streamed.invocationId)).status, invocation.status)
  assert.equal((await invoke(gateway, 'echo', 'alive')).status, 200)
  return { status, result, invocation, text, gateway }
}

describe('trap 2: nothing is lost of a result, by whichever way it comes', () => {
  const bulky = {
    z: 1, a: { undeclared: { deep: [[], {}, null, { '': '' }] }, 10: 'b', 9: 'a' }, empty: '', zero: 0, no: false, nothing: null, 'ключ "quoted"\n': '\u{1F600}', tiny: 5e-324, big: 1.7976931348623157e308
  }
  const values = { 'a nested object': bulky, 'a list': [1, 2], 'a list of nothing': [], 'a string': 'x', 'an empty string': '', zero: 0, false: false, null: null, 'an empty object': {} }
  for (const [name, value] of Object.entries(values)) {
    it(`${name} as structuredContent and as details`, async (t) => {
      const { result } = await everywhere(t, subject(() => ({ structuredContent: value, details: value }), { outputSchema: {} }))
      assert.equal(JSON.stringify(result.structuredContent), JSON.stringify(value))
      assert.equal(JSON.stringify(result.details), JSON.stringify(value))
      assert.ok('structuredContent' in result)
    })
    it(`${name} as what a registry tool returns`, async (t) => {
      const { result } = await everywhere(t, registryTool(value))
      assert.equal(JSON.stringify(result.structuredContent), JSON.stringify(value))
      assert.deepEqual(result.content, [{ type: 'text', text: typeof value === 'string' ? value : JSON.stringify(value) }])
    })
  }
  it('keys beyond a loose outputSchema', async (t) => {
    const { result } = await everywhere(t, subject(() => ({ structuredContent: { n: 1, more: { x: [0] } } }), { outputSchema: { type: 'object', properties: { n: { type: 'integer' } } } }))
    assert.deepEqual(result.structuredContent, { n: 1, more: { x: [0] } })
  })
  it('image, audio, resource and link blocks, with keys of their own', async (t) => {
    const content = [
      { type: 'image', data: 'iVBORw0KGgo=', mimeType: 'image/png', annotations: { audience: ['user'], priority: 0.5 } },
      { type: 'audio', data: '', mimeType: 'audio/wav' },
      { type: 'resource', resource: { uri: 'file:///x', text: 'y', extra: null } },
      { type: 'resource_link', uri: 'https://x.test/', name: 'x', _meta: { a: [1] } },
      { type: 'text', text: '', citations: [] }
    ]
    const { result } = await everywhere(t, subject(() => ({ content })))
    assert.deepEqual(result.content, content)
  })
  it('what a failure holds', async (t) => {
    const { result } = await everywhere(t, subject(() => ({ isError: true, content: [{ type: 'text', text: 'no' }], structuredContent: bulky, details: [null] })))
    assert.deepEqual([result.structuredContent, result.details, result.isError], [bulky, [null], true])
  })
  it('an absent structuredContent stays absent, undefined of a registry tool as well', async (t) => {
    for (const given of [subject(() => ({ content: [] })), registryTool(undefined)]) assert.equal('structuredContent' in (await everywhere(t, given)).result, false)
  })
  it('a Date is its ISO string, and held to the schema as one', async (t) => {
    const outputSchema = { type: 'object', properties: { at: { type: 'string', format: 'date-time' } } }
    const { result } = await everywhere(t, subject(() => ({ structuredContent: { at: new Date(0) } }), { outputSchema }))
    assert.deepEqual(result.structuredContent, { at: '1970-01-01T00:00:00.000Z' })
  })
  it('a partial result, and the input in the start event', async (t) => {
    const gateway = await startGateway(t, { tools: [subject((_id, _input, _signal, onUpdate) => { onUpdate({ details: bulky, structuredContent: null }); return {} })] })
    const listener = await openStream(t, gateway.url)
    const { body } = await invoke(gateway, 'subject', bulky)
    await listener.endOf(body.invocation.invocationId)
    const [begun, update] = listener.events.map(({ data }) => data)
    assert.equal(JSON.stringify(begun.args), JSON.stringify(bulky))
    assert.deepEqual(update.partialResult, { content: [], details: bulky, structuredContent: null, isError: false })
  })
})

describe('trap 4: depth of output', () => {
  const deep = (depth: number) => { let value: unknown = 1; for (let at = 0; at < depth; at++) value = [value]; return value }
  for (const depth of [101, 500, 3000, 20_000]) {
    for (const field of ['structuredContent', 'details']) {
      it(`${depth} levels of ${field} are invalid_output`, async (t) => {
        const { status, invocation } = await everywhere(t, subject(() => ({ [field]: deep(depth) })))
        assert.deepEqual([status, invocation.errorCode], [200, 'invalid_output'])
      })
    }
    it(`${depth} levels of a failure's structuredContent leave it a failure without it`, async (t) => {
      const { invocation, result } = await everywhere(t, subject(() => ({ isError: true, content: [{ type: 'text', text: 'no' }], structuredContent: deep(depth) })))
      assert.deepEqual([invocation.errorCode, result.content[0].text, 'structuredContent' in result], ['tool_error', 'no', false])
    })
    it(`${depth} levels of what a registry tool returns are invalid_output`, async (t) => {
      assert.equal((await everywhere(t, registryTool(deep(depth)))).invocation.errorCode, 'invalid_output')
    })
  }
  it('100 levels go the whole way', async (t) => {
    const { result } = await everywhere(t, subject(() => ({ structuredContent: deep(100), details: deep(100) })))
    assert.deepEqual([result.structuredContent, result.details], [deep(100), deep(100)])
  })
})

describe('trap 6: content missing, and odd things thrown', () => {
  const frozen = Object.freeze(new Error('frozen'))
  const trap = Object.defineProperty(new Error('x'), 'message', { get () { throw new Error('trap') } })
  const returns = { undefined: () => undefined, null: () => null, '{}': () => ({}), 'content null': () => ({ content: null }), 'a promise of nothing': async () => {} }
  for (const [name, execute] of Object.entries(returns)) {
    it(`${name} is a success without content`, async (t) => {
      const { result } = await everywhere(t, subject(execute))
      assert.deepEqual(result, { content: [], details: null, isError: false })
    })
  }
  it('only structuredContent is a success without content', async (t) => {
    assert.deepEqual((await everywhere(t, subject(() => ({ structuredContent: 1 })))).result, { content: [], details: null, structuredContent: 1, isError: false })
  })
  for (const [name, value] of Object.entries({ 'a bare string': 'x', 'a number': 0, 'content that is a string': { content: 'x' }, 'a block of no kind': { content: [{}] } })) {
    it(`${name} is invalid_output`, async (t) => assert.equal((await everywhere(t, subject(() => value))).invocation.errorCode, 'invalid_output'))
  }
  const throws = { undefined, null: null, 'a string': 'in words', 'a frozen error': frozen, 'an error whose message throws': trap, 'an error without words': new Error(''), 'an object': { code: 1 }, 'a symbol': Symbol('s'), 'an object without prototype': Object.create(null) }
  for (const [name, thrown] of Object.entries(throws)) {
    it(`throwing ${name} is a tool_error in words`, async (t) => {
      const { result, invocation } = await everywhere(t, subject(() => { throw thrown }))
      assert.equal(invocation.errorCode, 'tool_error')
      assert.equal(result.content.length, 1)
      assert.ok(result.content[0].text.length > 0)
      if (thrown === frozen || thrown === 'in words') assert.match(result.content[0].text, /frozen|in words/)
    })
  }
  const getter = () => ({ get structuredContent () { throw new Error('trap') } })
  const cycle: any = {}
  cycle.self = cycle
  for (const [name, execute] of Object.entries({ 'a getter that throws': getter, 'a cycle': () => ({ details: cycle }), BigInt: () => ({ structuredContent: 1n }), Infinity: () => ({ details: [Infinity] }), 'a function': () => ({ structuredContent: () => 1 }) })) {
    it(`${name} is invalid_output`, async (t) => assert.equal((await everywhere(t, subject(execute))).invocation.errorCode, 'invalid_output'))
  }
})

describe('trap 7: text that breaks streams', () => {
  const nasty = { 'a lone surrogate': 'a\ud800b', 'U+2028 and U+2029': '\u2028\u2029', NUL: '\0', CR: 'a\rb', LF: 'a\nb', 'a forged message': '\r\ndata: forged\r\n\r\nid: 1\nevent: x\n\n', 'a byte order mark': '\ufeff' }
  for (const [name, text] of Object.entries(nasty)) {
    it(`${name} is one message, JSON-equal, in valid UTF-8`, async (t) => {
      const content = [{ type: 'text', text }]
      const result = { content, details: { [text]: text }, structuredContent: [text] }
      const got = await everywhere(t, subject(() => result))
      assert.deepEqual(got.result, { ...result, isError: false })
      assert.doesNotMatch(got.text, /\ufffd/)
    })
    it(`${name} in what a tool throws, in the input and in the caller's ids`, async (t) => {
      const gateway = await startGateway(t, { tools: [subject(() => { throw new Error(text) })] })
      const listener = await openStream(t, gateway.url)
      const { body } = await invoke(gateway, 'subject', { [text]: text }, { toolCallId: `c${text}`, runId: `r${text}` })
      const end = await listener.endOf(body.invocation.invocationId)
      assert.deepEqual([end.result.content[0].text, end.toolCallId, end.runId], [text, `c${text}`, `r${text}`])
      assert.deepEqual(listener.events[0]!.data.args, { [text]: text })
      assert.equal(listener.events.length, 2)
    })
  }
})

describe('trap 18: a flood of progress', () => {
  const UPDATES = 200_000
  const flood = (onEach?: () => Promise<void>, filler = '') => subject(async (_id, _input, _signal, onUpdate) => {
    for (let at = 0; at < UPDATES; at++) {
      onUpdate({ content: [{ type: 'text', text: `step ${at}` }], details: filler })
      if (onEach !== undefined && at % 1000 === 0) await onEach()
    }
    return { structuredContent: 'done' }
  })

  it('with nobody listening: the cap, what is past it counted, the answer comes, memory is bounded', async (t) => {
    const gateway = await startGateway(t, { tools: [flood(undefined, 'x'.repeat(10_000))] })
    const before = heldMiB()
    assert.equal((await invoke(gateway, 'subject')).body.structuredContent, 'done')
    assert.equal(gateway.app.toolgate.invoker.counters.updatesDropped, UPDATES - 10_000)
    assert.equal(gateway.app.toolgate.store.head, 10_002)
    // 64 MiB is what the store may keep; all the updates would be 2 GB.
    assert.ok(heldMiB() - before < 90, `holds ${heldMiB() - before} MiB more`)
  })
  it('a listener that reads gets the first 10,000 in order, then the end', async (t) => {
    const gateway = await startGateway(t, { tools: [flood()] })
    const listener = await openStream(t, gateway.url)
    await invoke(gateway, 'subject')
    await waitFor(() => listener.ends.length > 0, 'the end event')
    const updates = listener.of('tool_execution_update').map(({ data }) => data.partialResult.content[0].text)
    assert.deepEqual(updates, Array.from({ length: 10_000 }, (_, at) => `step ${at}`))
    assert.equal(listener.events.at(-1)!.event, 'tool_execution_end')
  })
  it('a listener that does not read is cut at its bound, and holds up nobody', async (t) => {
    const gateway = await startGateway(t, { tools: [flood(() => new Promise(setImmediate))], maxUpdates: UPDATES, storeMaxEvents: 1000 })
    let waiting: Socket | undefined
    gateway.app.server.once('connection', (socket) => { waiting = socket })
    const deaf = connect(gateway.port, '127.0.0.1').pause()
    deaf.on('error', () => {}) // cut
    t.after(() => deaf.destroy())
    deaf.write('GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n')
    await waitFor(() => gateway.app.toolgate.hub.size === 1, 'the subscriber')
    let most = 0
    const timer = setInterval(() => { most = Math.max(most, waiting!.writableLength) }, 1)
    t.after(() => clearInterval(timer))
    assert.equal((await invoke(gateway, 'subject')).body.structuredContent, 'done')
    assert.equal(gateway.app.toolgate.store.head, UPDATES + 2, 'the end event is on record')
    await waitFor(() => gateway.app.toolgate.hub.size === 0 && waiting!.destroyed, 'the slow subscriber to be cut')
    // The bound, the burst under way, and the one that crossed it; everything would be 80 MiB.
    assert.ok(most < 3 * 2 ** 20, `${most} bytes waited`)
  })
  it('the reader of its own call gets all of it at its own pace, the end last', async (t) => {
    const gateway = await startGateway(t, { tools: [flood()] })
    const own = await invokeAsStream(t, gateway.url, 'subject')
    own.pause()
    await waitFor(() => gateway.app.toolgate.invoker.running === 0, 'the call to end')
    own.resume()
    assert.equal(await own.closed(), 'ended')
    assert.equal(own.of('tool_execution_update').length, 10_000)
    assert.equal(own.events.at(-1)!.data.status, 'succeeded')
  })
  it('what is no partial result is dropped and counted, never published', async (t) => {
    const odd = [null, 'x', 0, { content: 'x' }, { content: [{ type: 'smoke' }] }, { content: [null] }, { details: 1n }, { structuredContent: NaN }]
    const gateway = await startGateway(t, { tools: [subject((_id, _input, _signal, onUpdate) => { for (const partial of odd) onUpdate(partial); return {} })] })
    const listener = await openStream(t, gateway.url)
    const { body } = await invoke(gateway, 'subject')
    assert.equal((await listener.endOf(body.invocation.invocationId)).status, 'succeeded')
    assert.deepEqual(listener.of('tool_execution_update').map(({ data }) => data.partialResult), [])
    assert.equal(gateway.app.toolgate.invoker.counters.updatesInvalid, odd.length)
  })
  it('updates after execute has settled are ignored', async (t) => {
    const settled = gate()
    let late: (partial: object) => void = () => {}
    const gateway = await startGateway(t, { tools: [subject((_id, _input, _signal, onUpdate) => { late = onUpdate; settled.open(); return {} }), echo] })
    const listener = await openStream(t, gateway.url)
    const { body } = await invoke(gateway, 'subject')
    late({ details: 'late' })
    const marker = await invoke(gateway, 'echo')
    await listener.endOf(marker.body.invocation.invocationId)
    assert.deepEqual(listener.about(body.invocation.invocationId).map(({ type }) => type), ['tool_execution_start', 'tool_execution_end'])
  })
})

describe('trap 19: big arguments in the stream', () => {
  it('a subscriber at the default bound stays, and the parts over the limit are named', async (t) => {
    const big = 'x'.repeat(900 * 1024)
    const gateway = await startGateway(t, {
      tools: [subject(async (_id, input, _signal, onUpdate) => {
        for (let at = 0; at < 50; at++) onUpdate({ details: at === 7 ? input : at })
        return { structuredContent: input }
      })]
    })
    const listener = await openStream(t, gateway.url)
    const { body } = await invoke(gateway, 'subject', big)
    assert.equal(body.structuredContent, big)
    const end = await listener.endOf(body.invocation.invocationId)
    const events = listener.events.map(({ data }) => data)
    assert.equal(events.length, 52)
    assert.deepEqual([events[0].omitted, 'args' in events[0]], [['args'], false])
    assert.deepEqual([end.omitted, 'result' in end, end.status, end.isError], [['result'], false, 'succeeded', false])
    const updates = events.slice(1, -1)
    updates.forEach((update, at) => assert.deepEqual(at === 7 ? update.omitted : update.partialResult.details, at === 7 ? ['partialResult'] : at))
    assert.equal(listener.how, undefined, 'still connected')
    assert.ok(listener.text.length < 100_000)
  })
})
