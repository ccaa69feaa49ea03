import assert from 'node:assert/strict'
import { describe, it, type TestContext } from 'node:test'
import { Type } from '@sinclair/typebox'
import { createGateway, type GatewayOptions } from '../../src/gateway.ts'
import { eventText } from '../../src/store/wire.ts'
import { compileSchema } from '../../src/tools/schema.ts'
import { ToolRegistry, type AnyTool } from '../../src/tools/registry.ts'
import { defineTool } from '../../src/tools/tool.ts'
import { convertUnits, describeMeasurements, profileCsv } from './load.ts'

const csv = 'city,reading,note\nOslo,14,a\nRome,NA,b\nLima,68,c\nCairo,104,\n'
const input = { csv, column: 'reading', from: '°F', to: 'celsius' }
const described = { column: 'reading', unit: '°C', count: 3, missing: 1, min: -10, max: 40, mean: 16.666666667, median: 20 }

const failures = compileSchema(describeMeasurements.errorSchema, 'errorSchema').validator

async function open (t: TestContext, tools: AnyTool[], options: GatewayOptions = {}) {
  const app = createGateway({ tools, logger: false, ...options })
  t.after(() => app.close())
  await app.ready()
  return {
    call: (more: object = {}, envelope: object = {}) => app.invoke({ toolId: 'describe_measurements', input: { ...input, ...more }, ...envelope }),
    async events (): Promise<any[]> {
      const { events } = await app.toolgate.store.readEvents(0, { events: 1000, bytes: Infinity })
      return events.map((event) => JSON.parse(eventText(event, 1e6, false)))
    }
  }
}

const all = [describeMeasurements, profileCsv, convertUnits]

/** Another tool of that id in the sample's place. */
const instead = (id: string, execute: (signal: AbortSignal) => any) => defineTool({
  id, description: '', kind: 'read', parameters: Type.Object({}), execute: (_toolCallId, _params, signal) => execute(signal)
})

async function failed (t: TestContext, tools: AnyTool[], more: object = {}, options: GatewayOptions = {}) {
  const { isError, content, structuredContent, invocation } = await (await open(t, tools, options)).call(more)
  assert.deepEqual([isError, invocation.errorCode], [true, 'tool_error'])
  assert.ok(failures.check(structuredContent), JSON.stringify(failures.errors(structuredContent)))
  return { text: (content[0] as { text: string }).text, failure: structuredContent as any }
}

describe('describe_measurements', () => {
  it('gives the figures of a column in another unit', async (t) => {
    const { isError, content, details, structuredContent } = await (await open(t, all)).call()
    assert.equal(isError, false)
    assert.deepEqual(structuredContent, described)
    assert.deepEqual(content, [{ type: 'text', text: '"reading" in °C: 3 values, 1 missing; -10 to 40; mean 16.666666667, median 20' }])
    assert.equal(details, null)
  })

  it('a registry alone runs it, children included', async () => {
    const registry = new ToolRegistry().register(describeMeasurements).register(profileCsv).register(convertUnits).seal()
    assert.deepEqual((await registry.invoke({ toolId: 'describe_measurements', input })).value, described)
    await assert.rejects(
      async () => registry.invoke({ toolId: 'describe_measurements', input: { ...input, to: 'kg' } }),
      (error: any) => error.code === 'tool_error' && error.cause.structuredContent.code === 'conversion_failed'
    )
  })

  it('shows as a tree of six invocations: itself, one profile, four conversions', async (t) => {
    const { call, events } = await open(t, all)
    const { invocation } = await call({}, { runId: 'run-1' })
    const log = await events()
    const starts = log.filter(({ type }) => type === 'tool_execution_start')
    assert.deepEqual(starts.map(({ toolId }) => toolId), ['describe_measurements', 'profile_csv', ...Array(4).fill('convert_units')])
    assert.deepEqual(starts.slice(2).map(({ args }) => args.value), [14, 104, 62, 68], 'min, max, mean, median')
    for (const event of log.filter(({ toolId }) => toolId !== 'describe_measurements')) {
      assert.deepEqual(
        [event.parentInvocationId, event.parentSpanId, event.runId],
        [invocation.invocationId, invocation.spanId, 'run-1'], event.toolId
      )
    }
    const ends = log.filter(({ type }) => type === 'tool_execution_end')
    assert.equal(ends.length, 6)
    assert.deepEqual(ends.map(({ status }) => status), Array(6).fill('succeeded'))
    assert.equal(ends.at(-1).invocationId, invocation.invocationId, 'it ends last')
  })

  describe('failures', () => {
    it('a text that cannot be profiled is told as profile_csv tells it', async (t) => {
      const { text, failure } = await failed(t, all, { csv: 'a,b\n1\n' })
      const { message, ...rest } = failure
      assert.deepEqual(rest, { code: 'profile_failed', tool: 'profile_csv', reason: 'tool_error' })
      assert.match(message, /line 2/)
      assert.equal(text, `profile_csv: ${message}`)
    })

    it('a column that is not there is told with those that would do', async (t) => {
      const { text, failure } = await failed(t, all, { column: 'temperature' })
      assert.deepEqual(failure, { code: 'unknown_column', column: 'temperature', numeric: ['reading'] })
      assert.equal(text, 'Column "temperature" is not there. Numeric columns: reading.')
    })

    it('a column without numbers is told with what it holds', async (t) => {
      const { text, failure } = await failed(t, all, { column: 'city' })
      assert.deepEqual(failure, { code: 'not_numeric', column: 'city', numeric: ['reading'] })
      assert.match(text, /"city" holds no numbers \(string\)/)
      assert.match((await failed(t, all, { csv: 'x\nNA\n', column: 'x' })).text, /\(empty\)\. Numeric columns: none\./)
    })

    it('an unknown unit is told as convert_units tells it', async (t) => {
      const { failure } = await failed(t, all, { from: 'KB', to: 'B' })
      assert.deepEqual([failure.code, failure.tool, failure.reason], ['conversion_failed', 'convert_units', 'tool_error'])
      assert.match(failure.message, /Did you mean kB\?/)
    })

    it('a value that convert_units refuses is its invalid_input', async (t) => {
      const { failure } = await failed(t, all, { csv: 'reading\n1e120\n' })
      assert.deepEqual([failure.code, failure.reason], ['conversion_failed', 'invalid_input'])
    })

    it('a tool that is not served is told by its name', async (t) => {
      assert.deepEqual((await failed(t, [describeMeasurements, convertUnits])).failure, {
        code: 'profile_failed', tool: 'profile_csv', reason: 'unknown_tool', message: 'There is no tool "profile_csv".'
      })
      assert.deepEqual((await failed(t, [describeMeasurements, profileCsv])).failure, {
        code: 'conversion_failed', tool: 'convert_units', reason: 'unknown_tool', message: 'There is no tool "convert_units".'
      })
    })

    it('another tool of the same name is not believed', async (t) => {
      const answering = (structuredContent: unknown) => instead('profile_csv', () => ({ structuredContent }))
      for (const answer of ['text', { columns: 7 }, { columns: [{ name: 'reading' }] }]) {
        const { failure } = await failed(t, [describeMeasurements, answering(answer), convertUnits])
        assert.deepEqual([failure.code, failure.reason], ['profile_failed', 'unexpected_answer'])
      }
    })

    it('a line that is full is told, and the conversion that got in is not left running', async (t) => {
      let stopped = false
      const slow = instead('convert_units', (signal) => new Promise((_resolve, reject) => {
        signal.addEventListener('abort', () => { stopped = true; reject(signal.reason) })
      }))
      const { failure } = await failed(t, [describeMeasurements, profileCsv, { ...slow, maxConcurrent: 1 }], {}, { maxWaitingCalls: 0 })
      assert.deepEqual([failure.code, failure.tool, failure.reason], ['conversion_failed', 'convert_units', 'overloaded'])
      assert.equal(stopped, true)
    })
  })

  it('where it is stopped, the tools that it called are, too', async (t) => {
    let stopped!: (reason: unknown) => void
    const heard = new Promise((resolve) => { stopped = resolve })
    const slow = instead('profile_csv', (signal) => new Promise((_resolve, reject) => {
      signal.addEventListener('abort', () => { stopped(signal.reason); reject(signal.reason) })
    }))
    const { call, events } = await open(t, [describeMeasurements, slow, convertUnits])
    const { invocation } = await call({}, { timeoutMs: 50 })
    assert.equal(invocation.errorCode, 'timeout')
    await heard
    const ends = (await events()).filter(({ type }) => type === 'tool_execution_end')
    assert.deepEqual(ends.map(({ toolId, errorCode }) => [toolId, errorCode]), [['profile_csv', 'cancelled'], ['describe_measurements', 'timeout']])
  })
})
