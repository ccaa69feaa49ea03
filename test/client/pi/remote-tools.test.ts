import assert from 'node:assert/strict'
import { describe, it, type TestContext } from 'node:test'
import { Type } from '@sinclair/typebox'
import { asAgentTools, createClient, ProblemError, type RemoteAgentTool } from '../../../src/client.ts'
import type { AnyTool } from '../../../src/tools/registry.ts'
import { defineTool } from '../../../src/tools/tool.ts'
import { gate, startGateway, tool, waitFor, within, type RunningGateway } from '../../e2e/harness.ts'
import { calling, perform, saying, Stage, timeless, type Run } from './agents.ts'
import { agentTool, pixel, text } from './scenes.ts'

const registryTool: AnyTool = {
  id: 'get_status', kind: 'read', description: 'Tells the status.', parseInput: (value: unknown) => value, execute: (input: unknown) => ({ of: input }), parseOutput: (value: unknown) => value
}

async function start (t: TestContext, tools: AnyTool[]) {
  const gateway = await startGateway(t, { tools })
  return { ...gateway, client: createClient({ url: gateway.url, retry: { retries: 0 } }) }
}

const ends = ({ events }: Run): any[] => events.filter(({ type }) => type === 'tool_execution_end')
const receipts = ({ url }: RunningGateway) => createClient({ url }).invocations().then(({ invocations }) => invocations)

describe('the tools that asAgentTools gives', () => {
  it('are described as the gateway describes them', async (t) => {
    const outputSchema = Type.Object({ sum: Type.Number() })
    const { client } = await start(t, [
      defineTool({ id: 'add', label: 'Add', description: 'Adds.', kind: 'read', parameters: Type.Object({ n: Type.Number() }), outputSchema, executionMode: 'sequential', replay: 'safe', execute: (_id, { n }) => ({ structuredContent: { sum: n } }) }),
      agentTool('plain', () => ({}))
    ])
    const [add, plain] = await asAgentTools(client)
    const { execute, ...described } = add!
    assert.equal(typeof execute, 'function')
    assert.deepEqual(described, {
      name: 'add', label: 'Add', description: 'Adds.', executionMode: 'sequential', replay: 'safe',
      parameters: JSON.parse(JSON.stringify(Type.Object({ n: Type.Number() }))), outputSchema: JSON.parse(JSON.stringify(outputSchema))
    })
    assert.deepEqual({ ...plain, execute: undefined }, {
      name: 'plain', label: 'The plain', description: 'Is plain.', parameters: { type: 'object', properties: {} }, executionMode: 'parallel', replay: 'never', execute: undefined
    })
  })

  it('take an object where the gateway takes anything, and what else there is said stays', async (t) => {
    const { client } = await start(t, [
      registryTool, tool('noted', () => ({}), { parameters: { $schema: 'https://json-schema.org/draft/2020-12/schema', description: 'Whatever.' } }), tool('either', () => ({}), { parameters: { anyOf: [{ required: ['a'] }, { required: ['b'] }] } })
    ])
    const [status, noted, either] = await asAgentTools(client, ['get_status', 'noted', 'either'])
    assert.deepEqual(status!.parameters, { type: 'object', properties: {} })
    assert.deepEqual(noted!.parameters, { type: 'object', properties: {}, $schema: 'https://json-schema.org/draft/2020-12/schema', description: 'Whatever.' })
    assert.deepEqual(either!.parameters, { anyOf: [{ required: ['a'] }, { required: ['b'] }] })
    const run = await perform({ tools: [status!], prompts: [[calling(['a', 'get_status', { host: 'x' }]), saying('Done.')]] }, new Stage())
    assert.deepEqual(ends(run).map(({ result }) => result), [{ content: text('{"of":{"host":"x"}}'), details: undefined, structuredContent: { of: { host: 'x' } } }])
  })

  it('are all, those that are named in that order, or those that are chosen', async (t) => {
    const { client } = await start(t, [tool('a', () => ({})), tool('b', () => ({}), { kind: 'write' }), tool('c', () => ({}))])
    const names = async (...filter: Parameters<typeof asAgentTools> extends [any, ...infer Rest] ? Rest : never) => (await asAgentTools(client, ...filter)).map(({ name }) => name)
    assert.deepEqual(await names(), ['a', 'b', 'c'])
    assert.deepEqual(await names(['c', 'a', 'c']), ['c', 'a'])
    assert.deepEqual(await names([]), [])
    assert.deepEqual(await names(({ kind }) => kind === 'write'), ['b'])
  })

  it('must be there: a name that the gateway does not know is refused', async (t) => {
    const { client } = await start(t, [tool('a', () => ({}))])
    await assert.rejects(asAgentTools(client, ['a', 'b']), (error: unknown) => error instanceof ProblemError && error.code === 'unknown_tool' && /"b"/.test(error.message))
  })

  it('say of each call what they were given to say', async (t) => {
    const gateway = await start(t, [agentTool('tool', () => ({ content: [] }))])
    const tools = await asAgentTools(gateway.client, undefined, { runId: 'run-1', parentInvocationId: 'parent-1', traceparent: `00-${'a'.repeat(32)}-${'b'.repeat(16)}-01` })
    await perform({ tools, prompts: [[calling(['call-a', 'tool'], ['call-b', 'tool']), saying('Done.')]] }, new Stage())
    const told = (await receipts(gateway)).map(({ toolCallId, runId, parentInvocationId, traceId, parentSpanId }) => ({ toolCallId, runId, parentInvocationId, traceId, parentSpanId }))
    assert.deepEqual(told.sort((a, b) => a.toolCallId < b.toolCallId ? -1 : 1), ['call-a', 'call-b'].map((toolCallId) => (
      { toolCallId, runId: 'run-1', parentInvocationId: 'parent-1', traceId: 'a'.repeat(32), parentSpanId: 'b'.repeat(16) }
    )))
  })

  it('have no more time than they were given', async (t) => {
    const { client } = await start(t, [agentTool('tool', () => new Promise(() => {}))])
    const [slow] = await asAgentTools(client, undefined, { timeoutMs: 20 })
    await assert.rejects(within(slow!.execute('a', {}), 'the timeout'), /took longer than 20 ms/)
  })

  it('leave out ids of calls that no gateway takes', async (t) => {
    const bodies: any[] = []
    const { url } = await startGateway(t, { tools: [agentTool('tool', () => ({ content: [] }))] })
    const [remote] = await asAgentTools(createClient({
      url,
      async fetch (input, init) {
        if (init?.body !== undefined) bodies.push(JSON.parse(String(init.body)))
        // What is looked at is what would be sent; the id is left out for any gateway to take it.
        return await fetch(input, init?.body === undefined ? init : { ...init, body: '{}' })
      }
    }))
    for (const length of [0, 1, 1024, 1025]) await remote!.execute('x'.repeat(length), {})
    assert.deepEqual(bodies.map(({ toolCallId }) => toolCallId?.length), [undefined, 1, 1024, undefined])
  })
})

describe('a call of a remote tool', () => {
  it('whose content pi has no block for tells of it in words', async (t) => {
    const blocks = [
      ...text('first'),
      { type: 'audio', data: 'AAAA', mimeType: 'audio/wav' },
      { type: 'resource', resource: { uri: 'file:///a.txt', text: 'all of a.txt', mimeType: 'text/plain' } },
      { type: 'resource', resource: { uri: 'file:///b.pdf', blob: 'AAAA', mimeType: 'application/pdf' } },
      { type: 'resource', resource: { uri: 'file:///c' } },
      { type: 'resource_link', uri: 'https://example.org/d', name: 'D', mimeType: 'text/html' },
      { type: 'resource_link', uri: 'https://example.org/e', name: 'E' },
      { ...pixel, annotations: { priority: 1 } }
    ]
    const { client } = await start(t, [tool('blocks', (_id: string, _params: unknown, _signal: AbortSignal, onUpdate: any) => { onUpdate({ content: blocks.slice(1, 2) }); return { content: blocks } })])
    const expected = [
      ...text('first'), ...text('[audio: audio/wav]'), ...text('all of a.txt'), ...text('[resource: file:///b.pdf, application/pdf]'), ...text('[resource: file:///c]'),
      ...text('[link to D: https://example.org/d, text/html]'), ...text('[link to E: https://example.org/e]'), { ...pixel, annotations: { priority: 1 } }
    ]
    const run = await perform({ tools: await asAgentTools(client), prompts: [[calling(['a', 'blocks']), saying('Done.')]] }, new Stage())
    assert.deepEqual(ends(run)[0].result, { content: expected, details: undefined })
    assert.deepEqual((run.messages.find(({ role }) => role === 'toolResult') as any).content, expected)
    assert.deepEqual((run.events.find(({ type }) => type === 'tool_execution_update') as any).partialResult, { content: text('[audio: audio/wav]'), details: undefined })
  })

  const refused: Record<string, [hooks: object, result: object]> = {
    'that the gateway blocks is told with the reason': [{ beforeToolCall: () => ({ block: true, reason: 'not today' }) }, { content: text('not today'), details: {} }],
    'that the gateway blocks for good is told so': [
      { beforeToolCall: () => ({ block: true, reason: 'never', terminate: true }) }, { content: text('never'), details: {}, isError: true, terminate: true }
    ],
    'that a hook of the gateway makes a failure of keeps its data': [
      { afterToolCall: () => ({ isError: true }) }, { content: text('a'), details: { a: 1 }, structuredContent: [1], isError: true }
    ],
    'whose hook throws is told by that': [{ afterToolCall: () => { throw new Error('no luck') } }, { content: text('no luck'), details: {} }]
  }
  for (const [what, [hooks, result]] of Object.entries(refused)) {
    it(what, async (t) => {
      const { url } = await startGateway(t, { tools: [agentTool('tool', () => ({ content: text('a'), details: { a: 1 }, structuredContent: [1] }))], hooks })
      const run = await perform({ tools: await asAgentTools(createClient({ url })), prompts: [[calling(['a', 'tool']), saying('Done.')]] }, new Stage())
      assert.deepEqual(ends(run).map(({ result, isError }) => ({ result, isError })), [{ result, isError: true }])
    })
  }

  it('of a tool that is gone is a failure that says so, and the agent goes on', async (t) => {
    const { client } = await start(t, [agentTool('here', () => ({ content: text('here') }))])
    const [here] = await asAgentTools(client)
    const elsewhere = await start(t, [agentTool('there', () => ({ content: [] }))])
    const [gone] = await asAgentTools({ ...elsewhere.client, invoke: client.invoke })
    const run = await perform({ tools: [here!, gone!], prompts: [[calling(['a', 'there'], ['b', 'here']), saying('Done.')]] }, new Stage())
    const told = new Map(ends(run).map(({ toolCallId, isError, result }) => [toolCallId, { isError, text: result.content[0].text, details: result.details }]))
    assert.match(told.get('a')!.text, /"there"/)
    assert.deepEqual({ ...told.get('a'), text: '' }, { isError: true, text: '', details: {} })
    assert.deepEqual(told.get('b'), { isError: false, text: 'here', details: undefined })
    assert.equal(run.messages.at(-1)!.role, 'assistant')
  })

  it('that reaches no gateway is a failure that says so', async (t) => {
    const gateway = await start(t, [agentTool('tool', () => ({ content: [] }))])
    const tools = await asAgentTools(gateway.client)
    gateway.app.server.closeAllConnections()
    await gateway.app.close()
    const run = await perform({ tools, prompts: [[calling(['a', 'tool']), saying('Done.')]] }, new Stage())
    const [{ result, isError }] = ends(run)
    assert.match(result.content[0].text, /127\.0\.0\.1:\d+ cannot be reached \(ECONNREFUSED\)/)
    assert.deepEqual({ isError, details: result.details }, { isError: true, details: {} })
  })

  it('ends at the gateway as well where the agent is aborted: signal, record, and nothing left running', async (t) => {
    const aborted = gate<unknown>()
    const gateway = await start(t, [agentTool('held', (_id, _params, signal, onUpdate) => new Promise(() => {
      signal.addEventListener('abort', () => aborted.open(signal.reason))
      onUpdate({ content: [] })
    }))])
    const run = await perform({
      tools: await asAgentTools(gateway.client),
      prompts: [[calling(['a', 'held']), saying('Never said.')]],
      onMoment: (moment, agent) => { if (moment === 'update a 1') agent.abort() }
    }, new Stage())
    assert.deepEqual(ends(run)[0].result, { content: text('This operation was aborted'), details: {} })
    assert.ok(await aborted.reached('the abort of the remote tool') instanceof Error)
    const [receipt] = await waitFor(async () => { const all = await receipts(gateway); return all[0]!.status !== 'running' && all }, 'the end on record')
    assert.deepEqual([receipt!.status, receipt!.errorCode, receipt!.toolCallId], ['cancelled', 'cancelled', 'a'])
  })

  it('of one agent is none of another: two at once, with the same ids', async (t) => {
    const both = [gate(), gate()]
    const { client } = await start(t, [agentTool('meet', async (id, { who }, _signal, onUpdate) => {
      onUpdate({ content: text(`${who} waits`), details: who })
      both[who as number]!.open()
      await both[1 - (who as number)]!.reached('the other agent')
      if (id === 'b') throw new Error(`${who} broke`)
      return { content: text(`${who} met`), details: { who }, structuredContent: who }
    })])
    const tools = await asAgentTools(client)
    const runOf = (who: number, own: RemoteAgentTool[]) => perform({ tools: own, prompts: [[calling(['a', 'meet', { who }]), calling(['b', 'meet', { who }]), saying('Done.')]] }, new Stage())
    const runs = await Promise.all([runOf(0, tools), runOf(1, tools)])
    for (const [who, run] of runs.entries()) {
      assert.deepEqual(timeless(ends(run)).map(({ toolCallId, result }: any) => [toolCallId, result]), [
        ['a', { content: text(`${who} met`), details: { who }, structuredContent: who }], ['b', { content: text(`${who} broke`), details: {} }]
      ])
      assert.deepEqual(run.events.flatMap((event) => event.type === 'tool_execution_update' ? [event.partialResult.details] : []), [who, who])
    }
  })
})
