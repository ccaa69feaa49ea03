import assert from 'node:assert/strict'
import { describe, it, type TestContext } from 'node:test'
import { Value } from '@sinclair/typebox/value'
import { InvokeResponse } from '../../src/contract/invocation.ts'
import type { GatewayErrorCode } from '../../src/errors.ts'
import type { AnyTool } from '../../src/tools/registry.ts'
import type { ToolContext } from '../../src/tools/tool.ts'
import { turns } from '../conformance/until.ts'
import { gate, setUp, withMethods, type Setting } from './harness.ts'

type Run = (context: ToolContext, input: any, signal: AbortSignal) => unknown

const tool = (id: string, run: Run, more: object = {}) => ({
  id, description: id, kind: 'test', parameters: {}, ...more, execute: (_id: string, input: unknown, signal: AbortSignal, _onUpdate: unknown, context: ToolContext) => run(context, input, signal)
}) as unknown as AnyTool

const echo = tool('echo', (_context, input) => ({ content: [{ type: 'text', text: 'said' }], details: { seen: true }, structuredContent: input }))
const never = tool('never', () => new Promise<never>(() => {}))
/** Ends at its signal, and says why. */
const patient = tool('patient', (_context, _input, signal) => new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(signal.reason))))
const broken = tool('broken', () => { throw new Error('it broke') })
const parent = (run: Run, more: object = {}) => tool('parent', run, more)

function watchRejections (t: TestContext): void {
  const rejected = (cause: unknown) => assert.fail(`unhandled rejection: ${String(cause)}`)
  process.on('unhandledRejection', rejected)
  t.after(() => process.off('unhandledRejection', rejected))
}

/** A parent that lets the test see what its `invoke` gave, whatever became of the parent. */
function setUpParent (ask: (context: ToolContext, input: any) => Promise<unknown>, { tools = [], ...setting }: Partial<Setting> = {}) {
  const given: { answer?: any, error?: any } = {}
  const asking = gate()
  const made = setUp({
    tools: [echo, never, patient, broken, ...tools, parent(async (context, input) => {
      const answering = ask(context, input)
      asking.resolve()
      try {
        given.answer = await answering
      } catch (error) {
        given.error = error
      }
      return { structuredContent: 'parent' }
    })],
    ...setting
  })
  return { ...made, given, asked: asking.promise, ends: () => made.events().filter(({ type }) => type === 'tool_execution_end') }
}

describe('context.invoke', () => {
  describe('gives the answer', () => {
    it('as any caller has it: the result and its invocation, flat', async () => {
      const { call, given } = setUpParent(({ invoke }) => invoke('echo', { a: [1, null] }))
      const { response: parentResponse } = await call({ toolId: 'parent', runId: 'run', trace: { traceId: 'a'.repeat(32), parentSpanId: 'b'.repeat(16) } })
      const { invocation, ...result } = given.answer
      assert.deepEqual(result, { content: [{ type: 'text', text: 'said' }], details: { seen: true }, structuredContent: { a: [1, null] }, isError: false })
      assert.deepEqual([...Value.Errors(InvokeResponse, given.answer)], [])
      assert.deepEqual(
        [invocation.toolId, invocation.status, invocation.toolCallId, invocation.parentInvocationId, invocation.parentSpanId, invocation.runId, invocation.traceId],
        ['echo', 'succeeded', invocation.invocationId, parentResponse.invocation.invocationId, parentResponse.invocation.spanId, 'run', 'a'.repeat(32)]
      )
      assert.notEqual(invocation.spanId, parentResponse.invocation.spanId)
    })

    it('of a call without input, whose input is an empty object', async () => {
      const { call, given } = setUpParent(({ invoke }) => invoke('echo'))
      await call({ toolId: 'parent' })
      assert.deepEqual(given.answer.structuredContent, {})
    })

    it('without a run or a trace where the parent has none; its parent it has all the same', async () => {
      const { call, given } = setUpParent(({ invoke }) => invoke('echo'))
      const { response } = await call({ toolId: 'parent' })
      const { invocation } = given.answer
      assert.deepEqual(['runId' in invocation, 'traceId' in invocation, invocation.parentSpanId], [false, false, response.invocation.spanId])
    })

    it('as a value of its own: what the tool does to it changes no record', async () => {
      const { call, given, ends } = setUpParent(async ({ invoke }) => {
        const answer: any = await invoke('echo', { a: 1 })
        answer.structuredContent.a = 2
        answer.content.length = 0
        return answer
      })
      await call({ toolId: 'parent' })
      assert.equal(given.answer.structuredContent.a, 2)
      assert.deepEqual([ends()[0].result.structuredContent, ends()[0].result.content.length], [{ a: 1 }, 1])
    })

    it('from a context that was taken apart, and called from anywhere', async () => {
      const { call, given } = setUpParent(({ invoke: ask }) => Promise.all([1, 2].map((n) => ask('echo', n))))
      await call({ toolId: 'parent' })
      assert.deepEqual(given.answer.map((answer: any) => answer.structuredContent), [1, 2])
    })

    it('to registry tools as well, whose context it is in', async () => {
      let answer: any
      const registryTool = {
        id: 'registry', kind: 'test', parseInput: (value: unknown) => value, parseOutput: (value: unknown) => value, async execute (_input: unknown, { invoke }: ToolContext) { answer = await invoke('echo', 'hello'); return answer.structuredContent }
      }
      const { call } = setUp({ tools: [echo, registryTool as AnyTool] })
      const { response } = await call({ toolId: 'registry' })
      assert.deepEqual([response.structuredContent, answer.invocation.parentInvocationId], ['hello', response.invocation.invocationId])
    })

    it("with the caller's own principal for the child", async () => {
      const principals: unknown[] = []
      const { call } = setUpParent(({ invoke }) => invoke('who'), { tools: [tool('who', ({ principal }) => { principals.push(principal); return {} })] })
      await call({ toolId: 'parent', principal: { id: 'alice' } })
      assert.deepEqual(principals, [{ id: 'alice' }])
    })

    it('of a sensitive child in full; its events have nothing of it', async () => {
      const { call, given, ends, events } = setUpParent(({ invoke }) => invoke('secret', { pin: 1234 }), { tools: [tool('secret', (_context, input) => ({ structuredContent: input }), { sensitive: true })] })
      await call({ toolId: 'parent' })
      assert.deepEqual(given.answer.structuredContent, { pin: 1234 })
      assert.ok(!JSON.stringify(events()).includes('1234'))
      assert.equal(ends()[0].result.redacted, true)
    })
  })

  describe('gives failures as answers, not as exceptions', () => {
    const cases: [what: string, errorCode: string, ask: (context: ToolContext) => Promise<any>, setting?: Partial<Setting>][] = [
      ['a tool that throws', 'tool_error', ({ invoke }) => invoke('broken')],
      ['input that the tool refuses', 'invalid_input', ({ invoke }) => invoke('picky', {}), { tools: [tool('picky', () => ({}), { parameters: { type: 'object', required: ['a'] } })] }],
      ['output that breaks its schema', 'invalid_output', ({ invoke }) => invoke('liar'), { tools: [tool('liar', () => ({ structuredContent: 1 }), { outputSchema: { type: 'string' } })] }],
      ['a call that a hook blocks', 'blocked', ({ invoke }) => invoke('echo'), { hooks: [{ beforeToolCall: ({ tool }) => ({ block: tool.id === 'echo' }) }] }],
      ['a hook that throws', 'hook_error', ({ invoke }) => invoke('echo'), { hooks: [{ afterToolCall: ({ tool }) => { if (tool.id === 'echo') throw new Error('late') } }] }]
    ]
    for (const [what, errorCode, ask, setting] of cases) {
      it(`${what}: ${errorCode}, and the parent goes on`, async () => {
        const { call, given } = setUpParent(ask, setting)
        const { status } = await call({ toolId: 'parent' })
        assert.deepEqual([status, given.answer.isError, given.answer.invocation.status, given.answer.invocation.errorCode], ['succeeded', true, 'failed', errorCode])
      })
    }

    it('a child that takes longer than its tool is given: timeout', async () => {
      const { start, outcome, given, clock } = setUpParent(({ invoke }) => invoke('slow'), { tools: [tool('slow', () => new Promise(() => {}), { timeoutMs: 50 })] })
      const started = await start({ toolId: 'parent' })
      clock.advance(50)
      assert.equal((await outcome(started, await started.settled)).status, 'succeeded')
      assert.deepEqual([given.answer.isError, given.answer.invocation.errorCode], [true, 'timeout'])
    })
  })

  describe('rejects where there is no invocation, with nothing recorded', () => {
    const cases: [code: GatewayErrorCode, ask: (context: ToolContext) => Promise<unknown>, setting?: Partial<Setting>][] = [
      ['unknown_tool', ({ invoke }) => invoke('constructor')],
      ['invalid_request', ({ invoke }) => invoke('echo', { n: 1n })],
      ['calls_too_deep', ({ invoke }) => invoke('echo'), { limits: { maxChildDepth: 0 } }]
    ]
    for (const [code, ask, setting] of cases) {
      it(code, async () => {
        const { call, given, store } = setUpParent(ask, setting)
        assert.equal((await call({ toolId: 'parent' })).status, 'succeeded')
        assert.equal(given.error?.code, code)
        assert.equal(store.head, 2, 'the events of the parent alone')
      })
    }

    it('overloaded', async () => {
      const { start, given, store, invoker, asked } = setUpParent(({ invoke }) => invoke('one'), { tools: [tool('one', () => new Promise(() => {}), { maxConcurrent: 1 })], limits: { maxWaitingCalls: 0 } })
      const holder = await start({ toolId: 'one' })
      const started = await start({ toolId: 'parent' })
      await asked
      assert.equal((await started.settled).end.status, 'succeeded')
      assert.deepEqual([given.error?.code, store.head, invoker.counters.overloaded, holder.isSettled], ['overloaded', 3, 1, false])
    })

    it('what the store says where the child cannot be recorded', async () => {
      const { call, given, invoker } = setUpParent(({ invoke }) => invoke('echo'), {
        wrap: (store) => withMethods(store, { begin: (start) => start.toolId === 'echo' ? Promise.reject(new Error('disk full')) : store.begin(start) })
      })
      assert.equal((await call({ toolId: 'parent' })).status, 'succeeded')
      assert.match(String(given.error), /disk full/)
      assert.deepEqual([invoker.running, invoker.slots('echo')], [0, { taken: 0, pending: 0 }])
    })

    for (const awaited of [true, false]) {
      it(`a rejection that is ${awaited ? 'awaited fails the parent that lets it through' : 'not awaited bothers nobody'}`, async (t) => {
        watchRejections(t)
        const { call } = setUp({ tools: [parent(async ({ invoke }) => { const asking = invoke('nothing'); if (awaited) await asking; return {} })] })
        const { errorCode, response } = await call({ toolId: 'parent' })
        assert.equal(errorCode, awaited ? 'tool_error' : undefined)
        if (awaited) assert.match(response.content[0].text, /no tool "nothing"/)
        await turns()
      })
    }
  })

  describe('depth', () => {
    const nest = tool('nest', async ({ invoke }, { left }) => {
      if (left === 0) return {}
      const { isError, content } = await invoke('nest', { left: left - 1 })
      if (isError) throw new Error((content[0] as { text: string }).text)
      return {}
    })

    it('of 8 child calls inside one another is fine', async () => {
      const { call, events } = setUp({ tools: [nest] })
      assert.equal((await call({ toolId: 'nest', input: { left: 8 } })).status, 'succeeded')
      assert.equal(events().length, 18)
    })

    it('of one more is refused: the tool that asks hears it, and nothing is recorded', async () => {
      const { call, events } = setUp({ tools: [nest] })
      const { response } = await call({ toolId: 'nest', input: { left: 9 } })
      assert.match(response.content[0].text, /8 deep/)
      assert.equal(events().length, 18)
    })
  })

  describe('once the call is over', () => {
    it('rejects with `cancelled`, whether it returned or was stopped', async () => {
      const contexts: ToolContext[] = []
      const keep = (id: string, rest: () => unknown) => tool(id, (context) => { contexts.push(context); return rest() })
      const { call, start, invoker, store } = setUp({ tools: [echo, keep('returns', () => ({})), keep('throws', () => { throw new Error('x') }), keep('stays', () => new Promise(() => {}))] })
      await call({ toolId: 'returns' })
      await call({ toolId: 'throws' })
      invoker.cancel(await start({ toolId: 'stays' }))
      assert.equal(contexts.length, 3)
      const head = store.head
      for (const { invoke } of contexts) await assert.rejects(invoke('echo'), { code: 'cancelled' })
      assert.equal(store.head, head)
    })

    it('rejects while after-hooks still run: the tool has returned', async () => {
      let context: ToolContext | undefined
      let refused: unknown
      const { call } = setUp({
        tools: [echo, parent((given) => { context = given; return {} })],
        hooks: [{ async afterToolCall ({ tool }) { if (tool.id === 'parent') refused = await context!.invoke('echo').catch((error) => error.code) } }]
      })
      await call({ toolId: 'parent' })
      assert.equal(refused, 'cancelled')
    })

    it('rejects from inside an abort listener', async () => {
      let refused: Promise<unknown> | undefined
      const { start, invoker, events } = setUp({ tools: [echo, parent(({ invoke }, _input, signal) => new Promise(() => { signal.addEventListener('abort', () => { refused = invoke('echo') }) }))] })
      const started = await start({ toolId: 'parent' })
      invoker.cancel(started)
      await assert.rejects(refused!, { code: 'cancelled' })
      assert.equal(events().length, 2)
    })
  })
})

describe('a child call whose parent ends before it', () => {
  const stops: [how: string, childCode: string, stop: (setting: ReturnType<typeof setUpParent>, started: any) => void][] = [
    ['is cancelled', 'cancelled', ({ invoker }, started) => invoker.cancel(started)],
    ['times out', 'cancelled', ({ clock }) => clock.advance(1000)],
    ['is shut down', 'shutdown', ({ invoker, clock }) => { void invoker.drain(100); clock.advance(100) }]
  ]
  for (const [how, childCode, stop] of stops) {
    it(`since it ${how}, ends with ${childCode}, before it in the log; so do those below`, async (t) => {
      watchRejections(t)
      const setting = setUpParent(({ invoke }) => invoke('middle'), { tools: [tool('middle', ({ invoke }) => Promise.all([invoke('patient'), invoke('never')]))] })
      const started = await setting.start({ toolId: 'parent', timeoutMs: 1000 })
      assert.equal(setting.invoker.running, 4)
      stop(setting, started)
      await started.settled
      await turns()
      const ends = setting.ends()
      assert.deepEqual(ends.map(({ toolId, errorCode }) => [toolId, errorCode]), [
        ['patient', childCode], ['never', childCode], ['middle', childCode], ['parent', how === 'times out' ? 'timeout' : childCode]
      ])
      assert.deepEqual([setting.given.answer.invocation.errorCode, setting.invoker.running], [childCode, 0])
    })
  }

  it('since it returned without waiting, is cancelled', async () => {
    let reason: any
    const { call, ends } = setUpParent(async ({ invoke }) => { void invoke('listens') }, {
      tools: [tool('listens', (_context, _input, signal) => new Promise(() => signal.addEventListener('abort', () => { reason = signal.reason })))]
    })
    assert.equal((await call({ toolId: 'parent' })).status, 'succeeded')
    assert.deepEqual([ends().map(({ toolId, errorCode }) => [toolId, errorCode]), reason.name], [[['listens', 'cancelled'], ['parent', undefined]], 'AbortError'])
  })

  it('since it failed, is cancelled', async () => {
    const { call, events } = setUp({ tools: [never, parent(({ invoke }) => { void invoke('never'); throw new Error('gives up') })] })
    assert.equal((await call({ toolId: 'parent' })).errorCode, 'tool_error')
    assert.deepEqual(events().map(({ type, toolId }) => `${type.slice(15)} ${toolId}`), ['start parent', 'start never', 'end never', 'end parent'])
  })

  it('and which waits in a line, leaves it and never runs', async () => {
    let ran = 0
    const { start, invoker, clock, ends } = setUpParent(({ invoke }) => invoke('one'), {
      tools: [tool('one', () => { ran++; return new Promise(() => {}) }, { maxConcurrent: 1 })]
    })
    await start({ toolId: 'one' })
    const started = await start({ toolId: 'parent' })
    assert.deepEqual(invoker.slots('one'), { taken: 1, pending: 1 })
    clock.advance(7)
    invoker.cancel(started)
    assert.deepEqual([ran, invoker.slots('one')], [1, { taken: 1, pending: 0 }])
    assert.deepEqual(ends().map(({ toolId, durationMs, queuedMs }) => [toolId, durationMs, queuedMs]), [['one', 0, 7], ['parent', 7, undefined]])
  })

  it('and which is not yet on record, ends before it as well', async () => {
    const begin = gate()
    const made = setUp({
      tools: [echo, parent(({ invoke }) => { void invoke('echo'); return {} })],
      wrap (store) {
        // A driver whose writes take effect in the order in which they were made, and later.
        let last: Promise<unknown> = Promise.resolve()
        const inTurn = (write: () => any) => { const written = last.then(write); last = written; return written }
        return withMethods(store, {
          begin: (start) => inTurn(async () => { if (start.toolId === 'echo') await begin.promise; store.begin(start) }),
          settle: (id, end) => inTurn(() => store.settle(id, end))
        })
      }
    })
    const started = await made.start({ toolId: 'parent' })
    await turns()
    begin.resolve()
    await started.settled
    assert.deepEqual(made.events().map(({ type, toolId, errorCode }) => [type.slice(15), toolId, errorCode]), [
      ['start', 'parent', undefined], ['start', 'echo', undefined], ['end', 'echo', 'cancelled'], ['end', 'parent', undefined]
    ])
    assert.equal(made.invoker.running, 0)
  })
})

describe('child calls while the gateway drains', () => {
  it('still run, since their parents have time to end; new roots are refused', async () => {
    const go = gate()
    const { start, invoker, given } = setUpParent(async ({ invoke }) => { await go.promise; return await invoke('echo', 'late') })
    const started = await start({ toolId: 'parent' })
    const drained = invoker.drain(10_000)
    await assert.rejects(start({ toolId: 'echo' }), { code: 'shutting_down' })
    go.resolve()
    assert.equal((await started.settled).end.status, 'succeeded')
    await drained
    assert.equal(given.answer.structuredContent, 'late')
  })

  it('are waited for like any call', async () => {
    const end = gate()
    const { start, invoker } = setUpParent(({ invoke }) => invoke('held'), { tools: [tool('held', async () => { await end.promise; return {} })] })
    const started = await start({ toolId: 'parent' })
    let isDrained = false
    const drained = invoker.drain(10_000).then(() => { isDrained = true })
    await turns()
    assert.equal(isDrained, false)
    end.resolve()
    await drained
    assert.ok(started.isSettled)
  })
})

describe('hooks', () => {
  it('run for child calls, each with the call that it is about', async () => {
    const before: unknown[] = []
    const after: unknown[] = []
    const { call, given } = setUpParent(({ invoke }) => invoke('echo', { a: 1 }), {
      hooks: [{
        beforeToolCall: ({ toolCall, invocation }) => { before.push([toolCall.name, toolCall.arguments, invocation.parentInvocationId]) },
        afterToolCall: ({ tool }) => { after.push(tool.id); return tool.id === 'echo' ? { details: 'hooked' } : undefined }
      }]
    })
    const { response } = await call({ toolId: 'parent', input: 'root' })
    assert.deepEqual(before, [['parent', 'root', undefined], ['echo', { a: 1 }, response.invocation.invocationId]])
    assert.deepEqual([after, given.answer.details], [['echo', 'parent'], 'hooked'])
  })
})
