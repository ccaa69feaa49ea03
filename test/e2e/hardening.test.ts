import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { setImmediate as nextTurn, setTimeout as delay } from 'node:timers/promises'
import { echo, invoke, send, startGateway, tool, waitFor } from './harness.ts'
import { invokeAsStream, openStream } from './sse-client.ts'

const text = (length: number) => ({ content: [{ type: 'text' as const, text: 'x'.repeat(length) }] })

describe('a turn that brings more than is held for it', () => {
  const flood = tool('flood', async (_id, _input, _signal, onUpdate) => {
    await delay(20)
    for (let n = 0; n < 2800; n++) onUpdate(text(200_000))
    return { details: 'done' }
  })

  it('stops nobody: the gateway lives, and each listener is given the end, after being told what went', async (t) => {
    const gateway = await startGateway(t, { tools: [flood, echo], storeMaxRecordBytes: 4 * 2 ** 20, storeMaxEventBytes: 4 * 2 ** 20 })
    const listener = await openStream(t, gateway.url)
    const answer = await invoke(gateway, 'flood')
    assert.equal(answer.body.details, 'done')
    await listener.endOf(answer.body.invocation.invocationId)
    assert.equal(listener.of('events_lost').length, 1)
    assert.equal((await invoke(gateway, 'echo', 1)).body.structuredContent, 1)
  })

  it('loses nothing where the store keeps it, in order', async (t) => {
    const small = tool('small', async (_id, _input, _signal, onUpdate) => {
      await delay(20)
      for (let n = 0; n < 3000; n++) onUpdate({ ...text(700), details: n })
      return {}
    })
    const gateway = await startGateway(t, { tools: [small] })
    const listener = await openStream(t, gateway.url)
    await listener.endOf((await invoke(gateway, 'small')).body.invocation.invocationId)
    assert.deepEqual(listener.of('tool_execution_update').map(({ data }) => data.partialResult.details), Array.from({ length: 3000 }, (_, n) => n))
  })
})

describe("the caller's own stream", () => {
  it('has its end event also where the caller reads slowly and bursts come close together', async (t) => {
    const bursts = tool('bursts', async (_id, _input, _signal, onUpdate) => {
      for (let round = 0; round < 2; round++) {
        await delay(50)
        for (let n = 0; n < 20; n++) onUpdate(text(200_000))
        await nextTurn()
        await nextTurn()
      }
      return {}
    })
    const gateway = await startGateway(t, { tools: [bursts] })
    const stream = await invokeAsStream(t, gateway.url, 'bursts')
    stream.pause()
    await delay(300)
    stream.resume()
    assert.equal(await stream.closed(), 'ended')
    assert.deepEqual([stream.of('tool_execution_update').length, stream.ends.length], [40, 1])
  })

  it('has its result whole, whatever its size', async (t) => {
    const gateway = await startGateway(t, { tools: [tool('large', () => ({ structuredContent: 'x'.repeat(400_000) }))] })
    const stream = await invokeAsStream(t, gateway.url, 'large')
    await stream.closed()
    assert.equal(stream.ends[0].result.structuredContent.length, 400_000)
    assert.equal(stream.ends[0].omitted, undefined)
  })
})

describe('input made to be costly', () => {
  it('a number of very many digits is refused or taken in linear time', async (t) => {
    const gateway = await startGateway(t, { tools: [echo] })
    const body = (zeros: number) => `{"input":{"x":1.${'0'.repeat(zeros)}1e20}}`
    const took = async (zeros: number) => {
      const began = performance.now()
      await send(`${gateway.url}/tools/echo/invoke`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: body(zeros) })
      return performance.now() - began
    }
    await took(1000)
    // Quadratic, these would take minutes.
    assert.ok(await took(900_000) < 5000)
  })

  it('very many faults are answered by some of them and their number, and push no history out', async (t) => {
    const gateway = await startGateway(t, { tools: [tool('texts', () => ({}), { parameters: { type: 'array', items: { type: 'string' } } })] })
    const { status, body, text: raw } = await invoke(gateway, 'texts', new Array(100_000).fill(1))
    assert.equal(status, 422)
    assert.equal(body.details.errors.length, 101)
    assert.deepEqual(body.details.errors.at(-1), { path: '', keyword: 'more', message: 'and 99900 more' })
    assert.ok(raw.length < 50_000)
  })

  it('a hook cannot word its refusal longer than a model could read', async (t) => {
    const gateway = await startGateway(t, { tools: [echo], hooks: { beforeToolCall: () => ({ block: true, reason: 'y'.repeat(1_000_000) }) } })
    const { status, text: raw } = await invoke(gateway, 'echo')
    assert.equal(status, 403)
    assert.ok(raw.length < 20_000)
  })

  it('a traceparent far longer than any is as good as none', async (t) => {
    const gateway = await startGateway(t, { tools: [echo] })
    const traceparent = `01-${'a'.repeat(32)}-${'b'.repeat(16)}-01-${'z'.repeat(1000)}`
    assert.equal((await invoke(gateway, 'echo', 1, { headers: { traceparent } })).body.invocation.traceId, undefined)
  })

  it('a compressed body is 415, not taken for what it is not', async (t) => {
    const gateway = await startGateway(t, { tools: [echo] })
    assert.equal((await invoke(gateway, 'echo', 1, { headers: { 'content-encoding': 'gzip' } })).status, 415)
  })
})

describe('tools and hooks that are not quite right', () => {
  const trapped = Object.defineProperty({}, 'then', { get () { throw new Error('SECRET') } })

  it('a result whose then cannot be looked at is invalid_output, and no log has its words', async (t) => {
    const lines: string[] = []
    const keep = (...line: unknown[]) => { lines.push(JSON.stringify(line)) }
    const logger = { debug: keep, info: keep, warn: keep, error: keep }
    const gateway = await startGateway(t, { logger, tools: [tool('t', () => trapped, { sensitive: true })] })
    assert.equal((await invoke(gateway, 't')).body.invocation.errorCode, 'invalid_output')
    assert.ok(lines.length > 0)
    assert.ok(lines.every((line) => !line.includes('SECRET')))
  })

  it('a callable thenable is waited for, as await would', async (t) => {
    const thenable = Object.assign(() => {}, { then: (resolve: (value: unknown) => void) => resolve({ details: 'later' }) })
    const gateway = await startGateway(t, { tools: [tool('t', () => thenable)] })
    assert.equal((await invoke(gateway, 't')).body.details, 'later')
  })

  it('checks that are asynchronous by mistake refuse instead of letting everything pass', async (t) => {
    const registryTool = (id: string, more: object) =>
      ({ id, kind: 'read', parseInput: (value: unknown) => value, execute: () => 'value', parseOutput: (value: unknown) => value, ...more })
    const gateway = await startGateway(t, {
      tools: [
        registryTool('in', { parseInput: async () => { throw new Error('bad') } }),
        registryTool('out', { parseOutput: async () => { throw new Error('bad') } }),
        tool('prepared', () => ({}), { prepareArguments: async () => { throw new Error('bad') } })
      ]
    })
    const codes = await Promise.all(['in', 'out', 'prepared'].map(async (id) => (await invoke(gateway, id)).body.invocation.errorCode))
    assert.deepEqual(codes, ['invalid_input', 'invalid_output', 'invalid_input'])
  })

  it('a block said loosely blocks, as in pi', async (t) => {
    const gateway = await startGateway(t, { tools: [echo], hooks: { beforeToolCall: () => ({ block: 'yes' }) as never } })
    assert.equal((await invoke(gateway, 'echo')).status, 403)
  })

  it('a tool that keeps the thread past its time has timed out', async (t) => {
    const busy = tool('busy', () => {
      const until = performance.now() + 60
      while (performance.now() < until);
      return {}
    }, { timeoutMs: 20 })
    const gateway = await startGateway(t, { tools: [busy] })
    assert.deepEqual([(await invoke(gateway, 'busy')).body.invocation.errorCode, gateway.app.toolgate.invoker.running], ['timeout', 0])
  })

  it('a sensitive result leaves not even its names in a log', async (t) => {
    const lines: string[] = []
    const keep = (...line: unknown[]) => { lines.push(JSON.stringify(line)) }
    const loose = tool('t', () => ({ structuredContent: { SECRET: 'x' } }), {
      sensitive: true, outputValidation: 'warn', outputSchema: { type: 'object', additionalProperties: false }
    })
    const gateway = await startGateway(t, { logger: { debug: keep, info: keep, warn: keep, error: keep }, tools: [loose] })
    assert.deepEqual((await invoke(gateway, 't')).body.structuredContent, { SECRET: 'x' })
    await waitFor(() => lines.some((line) => line.includes('breaks its declaration')), 'the warning')
    assert.ok(lines.every((line) => !line.includes('SECRET')))
  })
})
