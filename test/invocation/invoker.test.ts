import assert from 'node:assert/strict'
import { describe, it, type TestContext } from 'node:test'
import { Type } from '@sinclair/typebox'
import { ToolRegistry } from '../../src/tools/registry.ts'
import { defineTool, type ToolContext } from '../../src/tools/tool.ts'
import { Invoker } from '../../src/invocation/invoker.ts'
import { turns, until } from '../conformance/until.ts'
import { gate, setUp, withMethods } from './harness.ts'

const anything = { description: 'd', kind: 'read', parameters: Type.Any() }
const echo = { ...anything, id: 'echo', execute: (_id: string, input: any) => ({ structuredContent: input }) }
const never = { ...anything, id: 'never', execute: () => new Promise<never>(() => {}) }
const running = (execute: (...args: any[]) => any) => ({ ...anything, id: 't', execute })
const returning = (result: unknown) => running(() => result)
const throwing = (thrown: unknown) => running(() => { throw thrown })

/** Fails the test where a promise of it is rejected with nobody listening. */
function watchRejections (t: TestContext): void {
  const rejected = (cause: unknown) => assert.fail(`unhandled rejection: ${String(cause)}`)
  process.on('unhandledRejection', rejected)
  t.after(() => process.off('unhandledRejection', rejected))
}

describe('invoker', () => {
  describe('a call that succeeds', () => {
    it('has the answer that its tool gave, a start and an end', async () => {
      const { call } = setUp({ tools: [echo] })
      const { response, events, httpStatus, status } = await call({ toolId: 'echo', input: { a: [1, null] }, toolCallId: 'mine', runId: 'run', parentInvocationId: 'parent', trace: { traceId: 'a'.repeat(32), parentSpanId: 'b'.repeat(16) } })
      assert.deepEqual([httpStatus, status, response.structuredContent], [200, 'succeeded', { a: [1, null] }])
      assert.deepEqual(events.map((event) => event.type), ['tool_execution_start', 'tool_execution_end'])
      assert.deepEqual(events[0].args, { a: [1, null] })
      for (const it of [...events, response.invocation]) {
        assert.deepEqual([it.toolCallId, it.runId, it.parentInvocationId, it.traceId, it.parentSpanId], ['mine', 'run', 'parent', 'a'.repeat(32), 'b'.repeat(16)])
        assert.equal(it.spanId, response.invocation.invocationId.slice(-16))
      }
    })

    it('given no input gets an empty object; null is null', async () => {
      const { call } = setUp({ tools: [echo] })
      assert.deepEqual((await call({ toolId: 'echo' })).response.structuredContent, {})
      const { response, events } = await call({ toolId: 'echo', input: null })
      assert.deepEqual([response.structuredContent, events[0].args], [null, null])
    })

    it('is measured on the monotonic clock, from execute to its end', async () => {
      const held = gate()
      const { start, outcome, clock } = setUp({ tools: [{ ...anything, id: 't', execute: async () => { await held.promise; return {} } }] })
      const started = await start({ toolId: 't' })
      await turns()
      clock.advance(12.3456)
      held.resolve()
      const { response } = await outcome(started, await started.settled)
      assert.equal(response.invocation.durationMs, 12.346)
      assert.equal(response.invocation.startedAtMs, 1_700_000_000_000)
    })

    it('of a tool that does not wait, has settled when it returns', () => {
      const { invoker, store } = setUp({ tools: [echo] })
      const started = invoker.start({ toolId: 'echo', input: 5, principal: { id: 'p' } })
      assert.ok(!(started instanceof Promise))
      assert.ok(!(started.settled instanceof Promise))
      assert.equal(JSON.parse(started.settled.responseText).structuredContent, 5)
      assert.deepEqual([store.head, invoker.running], [2, 0])
    })

    it('runs in process to its response', async () => {
      const { invoker } = setUp({ tools: [echo] })
      const response = await invoker.invoke({ toolId: 'echo', input: 5, principal: { id: 'p' } })
      assert.deepEqual([response.structuredContent, response.isError, response.invocation.status], [5, false, 'succeeded'])
    })

    it('gives its tool a context', async () => {
      let context: ToolContext | undefined
      let more: unknown[] = []
      const { call } = setUp({ tools: [{ ...anything, id: 't', execute: (...args: any[]) => { context = args[4]; more = args; return {} } }] })
      const { response } = await call({ toolId: 't', toolCallId: 'mine', runId: 'run', input: { a: 1 } })
      assert.deepEqual([more[0], more[1]], ['mine', { a: 1 }])
      assert.ok(more[2] instanceof AbortSignal && !more[2].aborted)
      assert.deepEqual([context!.invocationId, context!.runId, context!.spanId, context!.principal, context!.attempt], [response.invocation.invocationId, 'run', response.invocation.spanId, { id: 'test' }, 1])
    })
  })

  describe('whatever a tool gives, the answer is a normal envelope', () => {
    const hostile = new Error('x')
    Object.defineProperty(hostile, 'message', { get () { throw new Error('no') } })
    const cases: [what: string, tool: ReturnType<typeof returning>, errorCode: string | undefined, text?: string][] = [
      ['undefined', returning(undefined), undefined],
      ['null', returning(null), undefined],
      ['an empty object', returning({}), undefined],
      ['null for content', returning({ content: null }), undefined],
      ['structured content alone', returning({ structuredContent: 1 }), undefined],
      ['a promise of nothing', returning(Promise.resolve()), undefined],
      ['a thenable', returning({ then: (resolve: (value: unknown) => void) => resolve({ structuredContent: 'then' }) }), undefined],
      ['a frozen result', returning(Object.freeze({ content: Object.freeze([]) })), undefined],
      ['a bare string', returning('text'), 'invalid_output'],
      ['a number', returning(5), 'invalid_output'],
      ['a result whose getter throws', returning({ get content () { throw new Error('no') } }), 'invalid_output'],
      ['a proxy that throws', returning(new Proxy({}, { get (target, name) { if (name === 'then') return undefined; throw new Error('no') } })), 'invalid_output'],
      ['isError: true', returning({ isError: true, content: [{ type: 'text', text: 'why' }] }), 'tool_error', 'why'],
      ['an error', throwing(new Error('broken')), 'tool_error', 'broken'],
      ['a rejection', running(async () => { throw new Error('broken later') }), 'tool_error', 'broken later'],
      ['a thrown string', throwing('words'), 'tool_error', 'words'],
      ['a thrown undefined', throwing(undefined), 'tool_error', 'The tool failed without a message.'],
      ['a frozen error', throwing(Object.freeze(new Error('cold'))), 'tool_error', 'cold'],
      ['an error whose message getter throws', throwing(hostile), 'tool_error', 'The tool failed without a message.'],
      ['an error with odd words', throwing(new Error('"\n\ud800')), 'tool_error', '"\n\ud800']
    ]
    for (const [what, tool, errorCode, text] of cases) {
      it(`${what}: ${errorCode ?? 'success'}`, async () => {
        const { call } = setUp({ tools: [tool] })
        const answer = await call({ toolId: 't' })
        assert.deepEqual([answer.errorCode, answer.httpStatus], [errorCode, 200])
        if (text !== undefined) assert.deepEqual(answer.response.content, [{ type: 'text', text }])
      })
    }

    it('isError that is not true is a success', async () => {
      const { call } = setUp({ tools: [returning({ isError: 'yes' })] })
      assert.equal((await call({ toolId: 't' })).status, 'succeeded')
    })

    it('a result over the limit is result_too_large', async () => {
      const { call } = setUp({ tools: [returning({ details: 'x'.repeat(2000) })], limits: { maxResultBytes: 1000 } })
      assert.equal((await call({ toolId: 't' })).errorCode, 'result_too_large')
    })
  })

  describe('a call that gets no invocation', () => {
    it('of an unknown tool is refused, with nothing recorded', async () => {
      const { start, store } = setUp({ tools: [echo] })
      for (const toolId of ['nothing', 'constructor', '__proto__', '']) await assert.rejects(start({ toolId }), { code: 'unknown_tool' })
      assert.equal(store.head, 0)
    })

    it('with input that is not JSON is refused, with nothing recorded', async () => {
      const { start, store, invoker } = setUp({ tools: [echo] })
      const cycle: unknown[] = []
      cycle.push(cycle)
      for (const input of [1n, NaN, () => {}, cycle, { a: [Infinity] }]) await assert.rejects(start({ toolId: 'echo', input }), { code: 'invalid_request' })
      assert.deepEqual([store.head, invoker.running], [0, 0])
    })

    it('that cannot be recorded never runs', async () => {
      let ran = false
      const { start, invoker } = setUp({
        tools: [{ ...anything, id: 't', execute: () => { ran = true; return {} } }],
        wrap: (store) => withMethods(store, { begin: () => Promise.reject(new Error('disk full')) })
      })
      await assert.rejects(start({ toolId: 't' }), /disk full/)
      await turns()
      assert.deepEqual([ran, invoker.running], [false, 0])
    })
  })

  describe('input', () => {
    const strict = { ...echo, id: 'strict', parameters: Type.Object({ n: Type.Number() }, { additionalProperties: false }) }

    it('that the tool refuses is invalid_input, with both events and every fault', async () => {
      const { call } = setUp({ tools: [strict] })
      const { response, httpStatus, errorCode, events } = await call({ toolId: 'strict', input: { n: 'x', m: 1 } })
      assert.deepEqual([httpStatus, errorCode, response.invocation.durationMs], [422, 'invalid_input', 0])
      assert.deepEqual(response.details.errors.map((fault: { path: string }) => fault.path).sort(), ['/m', '/n'])
      assert.deepEqual(events[0].args, { n: 'x', m: 1 })
      assert.match(response.content[0].text, /^The input for tool "strict" is invalid:\n- \//)
    })

    it('that a preparation throws at is invalid_input', async () => {
      const { call } = setUp({ tools: [{ ...echo, prepareArguments: () => { throw new Error('not like that') } }] })
      const { httpStatus, errorCode, response } = await call({ toolId: 'echo' })
      assert.deepEqual([httpStatus, errorCode], [422, 'invalid_input'])
      assert.deepEqual(response.details.errors, [{ path: '', keyword: 'prepareArguments', message: 'not like that' }])
    })

    it('stands in the start event as it was sent, whatever is made of it', async () => {
      const { call } = setUp({
        tools: [{ ...echo, inputMode: 'coerce', parameters: Type.Object({ n: Type.Number() }), prepareArguments: (input: any) => ({ n: input.old }) }],
        hooks: [{ beforeToolCall: ({ args }) => { (args as { n: number }).n++ } }]
      })
      const { events, response } = await call({ toolId: 'echo', input: { old: '5' } })
      assert.deepEqual([events[0].args, response.structuredContent], [{ old: '5' }, { n: 6 }])
    })

    it('checked against a schema that goes in circles is refused, and the next call is served', async () => {
      const { call } = setUp({ tools: [{ ...echo, parameters: { properties: { n: { $ref: '#/$defs/a' } }, $defs: { a: { $ref: '#/$defs/b' }, b: { $ref: '#/$defs/a' } } } }, { ...echo, id: 'other' }] })
      assert.equal((await call({ toolId: 'echo', input: { n: 1 } })).errorCode, 'invalid_input')
      assert.equal((await call({ toolId: 'other' })).status, 'succeeded')
    })
  })

  describe('hooks before', () => {
    it('get the call, and the very object that execute gets', async () => {
      let seen: any
      let executed: unknown
      const { call } = setUp({
        tools: [{ ...anything, id: 't', execute: (_id: string, args: unknown) => { executed = args; return {} } }],
        hooks: [{ beforeToolCall: (context, signal) => { seen = { ...context, signal } } }]
      })
      const { response } = await call({ toolId: 't', input: { a: 1 }, toolCallId: 'mine' })
      assert.equal(seen.args, executed)
      assert.deepEqual(seen.toolCall, { type: 'toolCall', id: 'mine', name: 't', arguments: { a: 1 } })
      assert.deepEqual([seen.tool.id, seen.principal, seen.signal.aborted], ['t', { id: 'test' }, false])
      assert.deepEqual([seen.invocation.invocationId, seen.invocation.status], [response.invocation.invocationId, 'running'])
    })

    it('run in order; the first block wins, and nothing after it runs', async () => {
      const ran: string[] = []
      const { call } = setUp({
        tools: [{ ...anything, id: 't', execute: () => { ran.push('execute'); return {} } }],
        hooks: [
          { beforeToolCall: async () => { ran.push('first') }, afterToolCall: () => { ran.push('after') } },
          { beforeToolCall: () => { ran.push('second'); return { block: true, reason: 'not today', terminate: true } } },
          { beforeToolCall: () => { ran.push('third'); return { block: true, reason: 'never' } } }
        ]
      })
      const { httpStatus, errorCode, response } = await call({ toolId: 't' })
      assert.deepEqual([httpStatus, errorCode, response.content[0].text, response.terminate], [403, 'blocked', 'not today', true])
      assert.deepEqual(ran, ['first', 'second'])
      assert.equal(response.invocation.durationMs, 0)
    })

    it('that block without a reason are given words', async () => {
      const { call } = setUp({ tools: [echo], hooks: [{ beforeToolCall: () => ({ block: true }) }] })
      assert.equal((await call({ toolId: 'echo' })).response.content[0].text, 'Tool execution was blocked')
    })

    it('that do not block let pass', async () => {
      for (const answer of [undefined, null, {}, { block: false, reason: 'x' }]) {
        const { call } = setUp({ tools: [echo], hooks: [{ beforeToolCall: () => answer }] })
        assert.equal((await call({ toolId: 'echo' })).status, 'succeeded')
      }
    })

    it('that throw are a hook_error, and the tool does not run', async () => {
      for (const beforeToolCall of [() => { throw new Error('hook broke') }, async () => { throw new Error('hook broke') }]) {
        let ran = false
        const { call } = setUp({ tools: [{ ...anything, id: 't', execute: () => { ran = true; return {} } }], hooks: [{ beforeToolCall }] })
        const { httpStatus, errorCode, response } = await call({ toolId: 't' })
        assert.deepEqual([httpStatus, errorCode, response.content[0].text, ran], [500, 'hook_error', 'hook broke', false])
      }
    })

    it('written without types cannot break the answer by what they block with', async () => {
      for (const answer of [{ block: true, terminate: 'yes' }, { block: true, terminate: null }, { block: true, terminate: ',"isError":false' }, { block: true, reason: 5 }, { block: true, reason: { a: 1 } }]) {
        const { call } = setUp({ tools: [echo], hooks: [{ beforeToolCall: () => answer as never }] })
        assert.equal((await call({ toolId: 'echo' })).errorCode, 'blocked', JSON.stringify(answer))
      }
    })

    it('are not run for bad input', async () => {
      const { call } = setUp({ tools: [{ ...echo, parameters: Type.Object({ n: Type.Number() }) }], hooks: [{ beforeToolCall: () => assert.fail('run') }] })
      assert.equal((await call({ toolId: 'echo' })).errorCode, 'invalid_input')
    })
  })

  describe('hooks after', () => {
    it('run in order, each seeing what the one before made of it', async () => {
      const seen: unknown[] = []
      const { call } = setUp({
        tools: [returning({ content: [{ type: 'text', text: 'tool' }], details: 1, structuredContent: { a: 1 } })],
        hooks: [
          { afterToolCall: ({ result, isError }) => { seen.push([result.content[0].text, result.structuredContent, isError]); return { content: [{ type: 'text', text: 'first' }] } } },
          { afterToolCall: async ({ result, isError }) => { seen.push([result.content[0].text, result.structuredContent, isError]); return { isError: true } } },
          { afterToolCall: ({ isError }) => { seen.push(isError) } }
        ]
      })
      const { response, errorCode, end } = await call({ toolId: 't' })
      assert.deepEqual(seen, [['tool', { a: 1 }, false], ['first', undefined, false], true])
      assert.deepEqual([errorCode, response.content[0].text, response.details, 'structuredContent' in response], ['tool_error', 'first', 1, false])
      assert.deepEqual([end.isError, end.result.isError], [true, true])
    })

    it('run for a tool that threw, and can make a success of it', async () => {
      const { call } = setUp({
        tools: [throwing(new Error('flaky'))],
        hooks: [{ afterToolCall: ({ result, isError }) => ({ isError: !isError, details: { was: result.content[0].text } }) }]
      })
      const { status, response } = await call({ toolId: 't' })
      assert.deepEqual([status, response.details], ['succeeded', { was: 'flaky' }])
    })

    it('see content and details, whatever the tool returned', async () => {
      let seen: any
      const { call } = setUp({ tools: [returning(undefined)], hooks: [{ afterToolCall: (context) => { seen = context.result } }] })
      await call({ toolId: 't' })
      assert.deepEqual([seen.content, seen.details], [[], null])
    })

    it('that throw are a hook_error after the tool ran: 200', async () => {
      for (const afterToolCall of [() => { throw new Error('late hook') }, async () => { throw new Error('late hook') }]) {
        const { call } = setUp({ tools: [returning({ structuredContent: 1 })], hooks: [{ afterToolCall }] })
        const { httpStatus, errorCode, response } = await call({ toolId: 't' })
        assert.deepEqual([httpStatus, errorCode, response.content[0].text, 'structuredContent' in response], [200, 'hook_error', 'late hook', false])
      }
    })

    it('that drop the structured result of a tool with an outputSchema make it invalid_output', async () => {
      const tool = { ...returning({ structuredContent: { n: 1 } }), outputSchema: Type.Object({ n: Type.Number() }) }
      const content = [{ type: 'text' as const, text: 'x' }]
      assert.equal((await setUp({ tools: [tool], hooks: [{ afterToolCall: () => ({ content }) }] }).call({ toolId: 't' })).errorCode, 'invalid_output')
      assert.equal((await setUp({ tools: [tool], hooks: [{ afterToolCall: () => ({ content, structuredContent: { n: 2 } }) }] }).call({ toolId: 't' })).status, 'succeeded')
    })

    it('are checked like the tool itself', async () => {
      const { call } = setUp({ tools: [echo], hooks: [{ afterToolCall: () => ({ content: 'no blocks' as never }) }] })
      assert.equal((await call({ toolId: 'echo' })).errorCode, 'invalid_output')
    })

    it('written without types cannot break the answer by their verdict', async () => {
      for (const isError of ['yes', 1, 'false', {}]) {
        const { call } = setUp({ tools: [echo], hooks: [{ afterToolCall: () => ({ isError }) as never }] })
        assert.equal(typeof (await call({ toolId: 'echo' })).response.isError, 'boolean', JSON.stringify(isError))
      }
    })

    it('are not run after a block, bad input, timeout or cancel', async () => {
      const hooks = [{ afterToolCall: () => assert.fail('run') }]
      await setUp({ tools: [echo], hooks: [{ beforeToolCall: () => ({ block: true }), ...hooks[0] }] }).call({ toolId: 'echo' })
      await setUp({ tools: [{ ...echo, parameters: Type.String() }], hooks }).call({ toolId: 'echo' })
      const { start, outcome, clock, invoker } = setUp({ tools: [never], hooks })
      const [timed, cancelled] = [await start({ toolId: 'never', timeoutMs: 10 }), await start({ toolId: 'never' })]
      await turns()
      clock.advance(10)
      invoker.cancel(cancelled)
      assert.equal((await outcome(timed, await timed.settled)).errorCode, 'timeout')
      assert.equal((await outcome(cancelled, await cancelled.settled)).errorCode, 'cancelled')
    })
  })

  describe('timeout', () => {
    it('while the tool runs settles the call without waiting for it', async (t) => {
      watchRejections(t)
      const held = gate<never>()
      let signal: AbortSignal | undefined
      const { start, outcome, clock, events, invoker } = setUp({ tools: [{ ...anything, id: 't', timeoutMs: 100, execute: (_id: string, _args: unknown, s: AbortSignal) => { signal = s; return held.promise } }] })
      const started = await start({ toolId: 't' })
      await turns()
      clock.advance(99)
      await turns()
      assert.equal(invoker.running, 1)
      clock.advance(1)
      const { httpStatus, errorCode, status, response } = await outcome(started, await started.settled)
      assert.deepEqual([httpStatus, errorCode, status, response.invocation.durationMs], [200, 'timeout', 'failed', 100])
      assert.match(response.content[0].text, /"t" took longer than 100 ms/)
      assert.equal(signal!.aborted, true)
      assert.equal((signal!.reason as Error).name, 'TimeoutError')
      held.reject(new Error('too late'))
      await turns()
      assert.equal(events().length, 2, 'what comes later has no effect')
      assert.equal(invoker.running, 0)
    })

    it('before the tool runs is 504, and it never does', async (t) => {
      watchRejections(t)
      const held = gate<undefined>()
      let ran = false
      const { start, outcome, clock } = setUp({
        tools: [{ ...anything, id: 't', execute: () => { ran = true; return {} } }],
        hooks: [{ beforeToolCall: () => held.promise }, { beforeToolCall: () => assert.fail('the next hook was run') }]
      })
      const started = await start({ toolId: 't', timeoutMs: 50 })
      clock.advance(50)
      const { httpStatus, errorCode, response } = await outcome(started, await started.settled)
      assert.deepEqual([httpStatus, errorCode, response.invocation.durationMs], [504, 'timeout', 0])
      held.resolve(undefined)
      await turns()
      assert.equal(ran, false)
    })

    it('in an after-hook settles the call, and what the hook returns later is nothing', async () => {
      const held = gate<{ details: string }>()
      const { start, outcome, clock, events } = setUp({ tools: [echo], hooks: [{ afterToolCall: () => held.promise }, { afterToolCall: () => assert.fail('the next hook was run') }] })
      const started = await start({ toolId: 'echo', timeoutMs: 50 })
      await turns()
      clock.advance(50)
      const { httpStatus, errorCode } = await outcome(started, await started.settled)
      assert.deepEqual([httpStatus, errorCode], [200, 'timeout'])
      held.resolve({ details: 'late' })
      await turns()
      assert.equal(events().length, 2)
    })

    it('is the least of the call\'s, the tool\'s and the most there is', async () => {
      for (const [own, asked, most, expected] of [[100, 50, 1000, 50], [100, 500, 1000, 100], [100, undefined, 1000, 100], [5000, 6000, 1000, 1000]] as const) {
        const { start, clock, invoker } = setUp({ tools: [{ ...never, timeoutMs: own }], limits: { maxTimeoutMs: most } })
        const started = await start({ toolId: 'never', timeoutMs: asked })
        assert.equal(started.timeoutMs, expected)
        clock.advance(expected - 1)
        assert.equal(invoker.running, 1)
        clock.advance(1)
        assert.equal((await started.settled).end.errorCode, 'timeout')
      }
    })

    it('counts from arrival, the wait for the record included', async () => {
      const held = gate()
      const { start, clock } = setUp({ tools: [never], wrap: (store) => withMethods(store, { begin: async (call) => { await held.promise; store.begin(call) } }) })
      const starting = start({ toolId: 'never', timeoutMs: 100 })
      clock.advance(60)
      held.resolve()
      const started = await starting
      clock.advance(40)
      assert.equal((await started.settled).end.errorCode, 'timeout')
    })

    it('and the tool racing to the end: one end event, whoever wins', async (t) => {
      watchRejections(t)
      for (const end of ['throw', 'return'] as const) {
        const { start, outcome, clock } = setUp({
          tools: [{
            ...anything,
            id: 't',
            execute: (_id: string, _args: unknown, signal: AbortSignal) => new Promise<object>((resolve, reject) => {
              signal.addEventListener('abort', () => end === 'throw' ? reject(new Error('aborted')) : resolve({ structuredContent: 'in time' }))
            })
          }]
        })
        const started = await start({ toolId: 't', timeoutMs: 10 })
        await turns()
        clock.advance(10)
        assert.equal((await outcome(started, await started.settled)).errorCode, 'timeout')
        await turns()
      }
    })
  })

  describe('cancel', () => {
    it('while the tool runs is 200 and cancelled, and its signal says so', async () => {
      let signal: AbortSignal | undefined
      const { start, outcome, invoker } = setUp({ tools: [{ ...anything, id: 't', execute: (_id: string, _args: unknown, s: AbortSignal) => { signal = s; return new Promise<never>(() => {}) } }] })
      const started = await start({ toolId: 't' })
      await turns()
      invoker.cancel(started)
      const { httpStatus, errorCode, status } = await outcome(started, await started.settled)
      assert.deepEqual([httpStatus, errorCode, status, signal!.aborted, (signal!.reason as Error).name], [200, 'cancelled', 'cancelled', true, 'AbortError'])
    })

    it('before the tool runs is 409', async () => {
      const { start, outcome, invoker } = setUp({ tools: [echo], hooks: [{ beforeToolCall: () => new Promise<undefined>(() => {}) }] })
      const started = await start({ toolId: 'echo' })
      invoker.cancel(started)
      const { httpStatus, status } = await outcome(started, await started.settled)
      assert.deepEqual([httpStatus, status], [409, 'cancelled'])
    })

    it('of a call that has settled does nothing', async () => {
      const { call, invoker, events } = setUp({ tools: [echo] })
      const { started } = await call({ toolId: 'echo' })
      invoker.cancel(started)
      invoker.cancel(started)
      await turns()
      assert.equal(events().length, 2)
      assert.equal(started.signal.aborted, false)
    })

    it('twice, and a timeout, and the tool\'s own end: one end event', async () => {
      const held = gate<object>()
      const { start, outcome, invoker, clock } = setUp({ tools: [{ ...anything, id: 't', execute: () => held.promise }] })
      const started = await start({ toolId: 't', timeoutMs: 10 })
      await turns()
      held.resolve({})
      invoker.cancel(started)
      clock.advance(10)
      invoker.cancel(started)
      assert.equal((await outcome(started, await started.settled)).errorCode, 'cancelled')
      await turns()
      await outcome(started, await started.settled)
    })
  })

  describe('updates', () => {
    type Update = (partial: unknown) => void
    const reporting = (report: (update: Update) => unknown, more = {}) => ({ ...anything, id: 't', ...more, execute: async (_id: string, _args: unknown, _signal: AbortSignal, update: any) => { await report(update); return {} } })

    it('are published in order, between start and end', async () => {
      const { call } = setUp({
        tools: [reporting(async (update) => {
          for (let n = 0; n < 5; n++) {
            update({ content: [{ type: 'text', text: `${n}` }], details: { n }, structuredContent: n })
            if (n % 2 === 0) await null
          }
        })]
      })
      const { events } = await call({ toolId: 't', input: { big: 'x'.repeat(100) } })
      assert.deepEqual(events.slice(1, -1).map((event) => [event.type, event.partialResult]), [0, 1, 2, 3, 4].map((n) => [
        'tool_execution_update', { content: [{ type: 'text', text: `${n}` }], details: { n }, structuredContent: n, isError: false }
      ]))
      assert.ok(events.slice(1).every((event) => !('args' in event)), 'args are not repeated')
    })

    it('past the limit are dropped and counted, and told once', async () => {
      const { call, invoker, logged } = setUp({ tools: [reporting((update) => { for (let n = 0; n < 200_000; n++) update({ details: n }) })], limits: { maxUpdates: 100 } })
      const { events } = await call({ toolId: 't' })
      assert.equal(events.length, 102)
      assert.deepEqual(events.slice(1, -1).map((event) => event.partialResult.details), Array.from({ length: 100 }, (_, n) => n))
      assert.equal(invoker.counters.updatesDropped, 199_900)
      assert.equal(logged.filter(({ message }) => /limit of updates/.test(message)).length, 1)
    })

    it('at the limit are all there', async () => {
      const { call, invoker } = setUp({ tools: [reporting((update) => { for (let n = 0; n < 10; n++) update({ details: n }) })], limits: { maxUpdates: 10 } })
      assert.equal((await call({ toolId: 't' })).events.length, 12)
      assert.equal(invoker.counters.updatesDropped, 0)
    })

    it('a limit of none lets none through', async () => {
      const { call } = setUp({ tools: [reporting((update) => update({}))], limits: { maxUpdates: 0 } })
      assert.equal((await call({ toolId: 't' })).events.length, 2)
    })

    it('after execute has settled are ignored', async () => {
      let late: Update | undefined
      const held = gate<undefined>()
      const { start, outcome, events } = setUp({ tools: [reporting((update) => { late = update })], hooks: [{ afterToolCall: () => held.promise }] })
      const started = await start({ toolId: 't' })
      await turns()
      late!({ details: 'late' })
      held.resolve(undefined)
      await outcome(started, await started.settled)
      late!({ details: 'later' })
      await turns()
      assert.equal(events().length, 2)
    })

    it('after a timeout are ignored, while the tool still runs', async () => {
      let late: Update | undefined
      const { start, outcome, clock, events } = setUp({ tools: [reporting((update) => { late = update; return new Promise(() => {}) })] })
      const started = await start({ toolId: 't', timeoutMs: 10 })
      await turns()
      clock.advance(10)
      late!({ details: 'late' })
      await outcome(started, await started.settled)
      assert.equal(events().length, 2)
    })

    it('that are no partial results are dropped, counted, and told once; the tool goes on', async () => {
      const { call, invoker, logged } = setUp({ tools: [reporting((update) => { for (const partial of [undefined, null, 'text', 5, { details: 1n }, { structuredContent: NaN }]) update(partial) })] })
      const { events, status } = await call({ toolId: 't' })
      assert.deepEqual([status, events.length, invoker.counters.updatesInvalid], ['succeeded', 2, 6])
      assert.equal(logged.filter(({ level }) => level === 'warn').length, 1)
    })

    it('that cannot be recorded are told, and the call goes on', async (t) => {
      watchRejections(t)
      const { call, logged } = setUp({ tools: [reporting((update) => { for (let n = 0; n < 50; n++) update({}) })], wrap: (store) => withMethods(store, { progress: () => Promise.reject(new Error('full')) }) })
      assert.equal((await call({ toolId: 't' })).status, 'succeeded')
      const told = () => logged.filter(({ message }) => /could not be recorded/.test(message)).length
      await until(() => told() > 0, 'a warning')
      assert.equal(told(), 1, 'once a call')
    })

    it('of a store that fails at once do not fail the tool', async () => {
      const { call } = setUp({ tools: [reporting((update) => update({}))], wrap: (store) => withMethods(store, { progress: () => { throw new Error('full') } }) })
      assert.equal((await call({ toolId: 't' })).status, 'succeeded')
    })
  })

  describe('a sensitive tool', () => {
    const secret = 'hunter2'
    const tool = {
      ...anything,
      id: 't',
      sensitive: true,
      execute: (...[, , , update]: any[]): any => {
        update({ details: secret })
        return { content: [{ type: 'text', text: secret }], details: secret, structuredContent: { secret } }
      }
    }

    it('gives its caller everything, and the record, the events and the log nothing', async () => {
      const { call, store, logged } = setUp({ tools: [tool] })
      const { response, events, record } = await call({ toolId: 't', input: { secret } })
      assert.deepEqual([response.content[0].text, response.details, response.structuredContent, 'redacted' in response], [secret, secret, { secret }, false])
      assert.deepEqual([events[0].redacted, events[1].partialResult.redacted, events[2].result.redacted], [true, true, true])
      assert.deepEqual([record.start.input, JSON.parse(record.end!.result)], [undefined, { content: [], details: null, isError: false, redacted: true }])
      for (const where of [events, logged, record, store.readEvents(0, { events: 100, bytes: Infinity })]) assert.ok(!JSON.stringify(where).includes(secret))
    })

    it('that fails gives away no more', async () => {
      for (const execute of [() => { throw new Error(secret) }, () => ({ isError: true, details: secret }), () => ({ structuredContent: { n: secret } }), () => ({ details: 'x'.repeat(10_000) + secret })]) {
        const { call, logged, events } = setUp({ tools: [{ ...tool, outputSchema: Type.Object({ n: Type.Number() }), errorSchema: Type.Number(), execute: execute as never }], limits: { maxResultBytes: 5000 } })
        await call({ toolId: 't', input: { secret } })
        for (const where of [events(), logged]) assert.ok(!JSON.stringify(where).includes(secret), JSON.stringify(where))
      }
    })

    it('with input that it refuses gives away no more', async () => {
      const { call, logged, events } = setUp({ tools: [{ ...tool, parameters: Type.Object({ n: Type.Literal(5) }, { additionalProperties: false }) }] })
      const { errorCode, record } = await call({ toolId: 't', input: { n: secret, [secret]: 1 } })
      assert.equal(errorCode, 'invalid_input')
      for (const where of [events(), logged, record]) assert.ok(!JSON.stringify(where).includes(secret), JSON.stringify(where))
    })
  })

  describe('declarations', () => {
    const Out = Type.Object({ n: Type.Number() })

    it('that a success breaks: invalid_output', async () => {
      const { call } = setUp({ tools: [{ ...returning({ structuredContent: { n: 'x' } }), outputSchema: Out }] })
      const { errorCode, httpStatus, response } = await call({ toolId: 't' })
      assert.deepEqual([errorCode, httpStatus, response.details.errors[0].path], ['invalid_output', 200, '/n'])
    })

    it('that only warn: delivered, counted', async () => {
      const { call, invoker } = setUp({ tools: [{ ...returning({ structuredContent: { n: 'x' } }), outputSchema: Out, outputValidation: 'warn' }] })
      const { status, response } = await call({ toolId: 't' })
      assert.deepEqual([status, response.structuredContent, invoker.counters.outputWarnings], ['succeeded', { n: 'x' }, 1])
    })

    it('of failures that a failure breaks: kept, counted', async () => {
      const { call, invoker } = setUp({ tools: [{ ...returning({ isError: true, structuredContent: { n: 'x' } }), errorSchema: Out }] })
      const { errorCode, response } = await call({ toolId: 't' })
      assert.deepEqual([errorCode, response.structuredContent, invoker.counters.errorSchemaMismatches], ['tool_error', { n: 'x' }, 1])
    })

    it('set from outside count', async () => {
      const { call } = setUp({ tools: [{ ...returning({ structuredContent: { n: 'x' } }), outputSchema: Out }], registry: { settingsFor: () => ({ outputValidation: 'warn', kind: 'odd' }) } })
      const { status, response } = await call({ toolId: 't' })
      assert.deepEqual([status, response.invocation.kind], ['succeeded', 'odd'])
    })
  })

  describe('drain', () => {
    it('with nothing running is over at once, and nothing is taken any more', async () => {
      const { invoker, start } = setUp({ tools: [echo] })
      await invoker.drain(1000)
      assert.equal(invoker.accepting, false)
      await assert.rejects(start({ toolId: 'echo' }), { code: 'shutting_down' })
    })

    it('lets running calls end, and takes no new ones meanwhile', async () => {
      const held = gate<object>()
      const { invoker, start, outcome } = setUp({ tools: [{ ...anything, id: 't', execute: () => held.promise }] })
      const started = await start({ toolId: 't' })
      let drained = false
      const draining = invoker.drain(1000).then(() => { drained = true })
      await turns()
      assert.equal(drained, false)
      await assert.rejects(start({ toolId: 't' }), { code: 'shutting_down' })
      held.resolve({ structuredContent: 'done' })
      assert.equal((await outcome(started, await started.settled)).status, 'succeeded')
      await draining
    })

    it('past the grace ends the rest: 200 where they ran, 503 where they had not', async () => {
      const { invoker, start, outcome, clock } = setUp({ tools: [never, { ...echo, id: 'held' }], hooks: [{ beforeToolCall: ({ tool }) => tool.id === 'held' ? new Promise<undefined>(() => {}) : undefined }] })
      const calls = [await start({ toolId: 'never' }), await start({ toolId: 'held' })]
      await turns()
      const draining = invoker.drain(1000)
      clock.advance(999)
      await turns()
      assert.equal(invoker.running, 2)
      clock.advance(1)
      await draining
      const ends = await Promise.all(calls.map(async (call) => outcome(call, await call.settled)))
      assert.deepEqual(ends.map(({ errorCode, status, httpStatus }) => [errorCode, status, httpStatus]), [['shutdown', 'cancelled', 200], ['shutdown', 'cancelled', 503]])
      assert.equal(calls[0]!.signal.aborted, true)
    })

    it('resolves only when every end is on record', async () => {
      const held = gate()
      const { invoker, start, clock, store } = setUp({ tools: [never], wrap: (memory) => withMethods(memory, { settle: async (id, end) => { await held.promise; return memory.settle(id, end) } }) })
      await start({ toolId: 'never' })
      let drained = false
      const draining = invoker.drain(10).then(() => { drained = true })
      clock.advance(10)
      await turns()
      assert.deepEqual([drained, store.head], [false, 1])
      held.resolve()
      await draining
      assert.equal(store.head, 2)
    })

    it('waits for a call that was taken and is just being recorded', async () => {
      const held = gate()
      const { invoker, start, outcome } = setUp({ tools: [echo], wrap: (memory) => withMethods(memory, { begin: async (call) => { await held.promise; memory.begin(call) } }) })
      const starting = start({ toolId: 'echo' })
      let drained = false
      const draining = invoker.drain(1000).then(() => { drained = true })
      await turns()
      assert.equal(drained, false, 'the call is on its way')
      held.resolve()
      const started = await starting
      assert.equal((await outcome(started, await started.settled)).status, 'succeeded')
      await draining
    })

    it('asked for twice, resolves twice', async () => {
      const held = gate<object>()
      const { invoker, start } = setUp({ tools: [{ ...anything, id: 't', execute: () => held.promise }] })
      await start({ toolId: 't' })
      let drained = 0
      for (let time = 0; time < 2; time++) void invoker.drain(1000).then(() => { drained++ })
      held.resolve({})
      await until(() => drained === 2, 'both drains to resolve', 500)
    })
  })

  describe('a store that fails', () => {
    function unmarkable () {
      let runs = 0
      const counted = { ...anything, id: 't', execute: () => { runs++; return {} } }
      const disk = { isFull: true }
      const world = setUp({
        tools: [counted], wrap: (memory) => withMethods(memory, { mark: (id) => disk.isFull ? Promise.reject(new Error('disk')) : memory.mark(id) })
      })
      return { ...world, disk, runs: () => runs }
    }

    it('at the mark: the call waits until it can be recorded, and runs then', async () => {
      const { start, outcome, clock, disk, runs } = unmarkable()
      const started = await start({ toolId: 't' })
      for (let tries = 0; tries < 3; tries++) {
        await turns()
        clock.advance(500)
      }
      assert.equal(runs(), 0)
      disk.isFull = false
      await turns()
      clock.advance(500)
      assert.equal((await outcome(started, await started.settled)).httpStatus, 200)
      assert.equal(runs(), 1)
    })

    it('at the mark, for as long as the call was given: it never runs', async () => {
      const { start, outcome, clock, disk, runs } = unmarkable()
      const started = await start({ toolId: 't', timeoutMs: 1200 })
      for (let tries = 0; tries < 3; tries++) {
        await turns()
        clock.advance(500)
      }
      const { httpStatus, errorCode } = await outcome(started, await started.settled)
      assert.deepEqual([httpStatus, errorCode], [504, 'timeout'])
      disk.isFull = false
      await turns()
      clock.advance(500)
      await turns()
      assert.equal(runs(), 0)
    })

    it('at the end: nobody is answered before it is on record, and it is tried until it is', async () => {
      let isFull = true
      const { start, outcome, invoker, logged, clock } = setUp({
        tools: [echo], wrap: (memory) => withMethods(memory, { settle: (id, end) => isFull ? Promise.reject(new Error('disk')) : memory.settle(id, end) })
      })
      const started = await start({ toolId: 'echo', input: 5 })
      let isAnswered = false
      void Promise.resolve(started.settled).then(() => { isAnswered = true })
      for (let tries = 0; tries < 3; tries++) {
        await turns()
        clock.advance(1000)
      }
      await turns()
      assert.deepEqual([isAnswered, invoker.running], [false, 1])
      assert.equal(logged.filter(({ level, message }) => level === 'warn' && /cannot be recorded yet/.test(message)).length, 1)
      isFull = false
      clock.advance(1000)
      const { response } = await outcome(started, await started.settled)
      assert.equal(response.structuredContent, 5)
      assert.equal(invoker.running, 0)
    })

    it('at the end, and at the end of the grace time still: nobody is told what is not on record, and the log has an error', async () => {
      const { start, invoker, logged, clock } = setUp({ tools: [echo], wrap: (memory) => withMethods(memory, { settle: () => Promise.reject(new Error('disk')) }) })
      const started = await start({ toolId: 'echo', input: 5 })
      const refused = assert.rejects(async () => started.settled, { name: 'GatewayError', code: 'not_recorded' })
      await turns()
      const drained = invoker.drain(100)
      clock.advance(100)
      await drained
      await refused
      await assert.rejects(async () => started.settled, { code: 'not_recorded' }, 'who asks later, too')
      await assert.rejects(async () => started.settledBefore(new Promise(() => {})), { code: 'not_recorded' })
      assert.equal(invoker.running, 0)
      assert.ok(logged.some(({ level, message }) => level === 'error' && /was not recorded/.test(message)))
    })
  })

  describe('the log', () => {
    it('has one line a call, with neither input nor output', async () => {
      const { call, logged } = setUp({ tools: [echo] })
      const { response } = await call({ toolId: 'echo', input: { word: 'xyzzy' } })
      assert.deepEqual(logged, [{ level: 'info', message: 'invocation', fields: { tool: 'echo', invocation: response.invocation.invocationId, principal: 'test', status: 'succeeded', durationMs: 0 } }])
    })

    it('says the code of a failure, and none of its words', async () => {
      const { call, logged } = setUp({ tools: [throwing(new Error('xyzzy'))] })
      await call({ toolId: 't', input: { word: 'xyzzy' } })
      assert.equal(logged[0]!.fields.errorCode, 'tool_error')
      assert.ok(!JSON.stringify(logged).includes('xyzzy'))
    })
  })

  it('seals the registry that it is given', () => {
    const registry = new ToolRegistry().register(echo)
    const { store, clock } = setUp({ tools: [] })
    const log = { debug () {}, info () {}, warn () {}, error () {} }
    const invoker = new Invoker(registry, { store, clock, log, hooks: [], ids: { invocationId: () => 'i', epoch: () => 'e' }, limits: { maxResultBytes: 1, maxJsonDepth: 1, maxUpdates: 1, maxTimeoutMs: 1, maxConcurrentCalls: 1, maxConcurrentAsyncCalls: 1, maxWaitingCalls: 1, maxAsyncBacklog: 1, maxChildCalls: 1, maxChildDepth: 1, slotReleaseMs: 1 } })
    assert.equal(registry.sealed, true)
    assert.equal(invoker.registry, registry)
  })

  it('a hook object keeps its `this`', async () => {
    class Guard {
      readonly word = 'guarded'
      beforeToolCall () { return { block: true, reason: this.word } }
    }
    const { call } = setUp({ tools: [defineTool({ ...anything, id: 'echo', execute: () => ({}) })], hooks: [new Guard()] })
    assert.equal((await call({ toolId: 'echo' })).response.content[0].text, 'guarded')
  })
})
