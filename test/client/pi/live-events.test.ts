import assert from 'node:assert/strict'
import { describe, it, type TestContext } from 'node:test'
import { asAgentTools, createClient, toPiEvents, type EventsOptions, type PiEventsOptions, type PiToolEvent } from '../../../src/client.ts'
import { gate, startGateway, tool, waitFor, within } from '../../e2e/harness.ts'
import { perform, Stage, timeless, toolEvents, type Scene } from './agents.ts'
import { agentTool, scenes, text } from './scenes.ts'

/** Follows a gateway from now on; what has been told grows. */
async function follow (t: TestContext, url: string, options: EventsOptions = {}, more: (client: ReturnType<typeof createClient>) => PiEventsOptions = ({ invocation }) => ({ record: invocation })) {
  const client = createClient({ url })
  const told: PiToolEvent[] = []
  const leaving = new AbortController()
  const open = gate()
  const over = (async () => {
    for await (const event of toPiEvents(client.events({ ...options, signal: leaving.signal, onOpen: open.open }), more(client))) told.push(event)
  })()
  t.after(async () => {
    leaving.abort()
    await within(over, 'the end of the loop')
  })
  await open.reached('the stream')
  return { told, client }
}

/** By call, as calls are told of in the order in which they reach a gateway. */
function byCall (events: readonly { toolCallId?: string }[]): Record<string, unknown[]> {
  return timeless(Object.groupBy(events, ({ toolCallId }) => toolCallId!)) as Record<string, unknown[]>
}

const alike = [
  'results of every kind, in parallel', 'failures of every kind, in parallel', 'a failure that is not waited for', 'all say terminate', 'progress, of one and of several at once',
  'an agent that runs everything in sequence', 'one sequential among parallel ones'
]

describe("a gateway's events, as an agent with tools of its own tells them", () => {
  for (const name of alike) {
    it(name, async (t) => {
      const stage = new Stage()
      const local: Scene = scenes[name]!(stage)
      // What there is no tool for does not reach a gateway.
      const known = (events: readonly any[]) => events.filter(({ toolName }) => toolName !== 'nobody')
      const here = known(toolEvents(await perform(local, stage)))
      const { url } = await startGateway(t, { tools: local.tools })
      const { told } = await follow(t, url)
      const there = await perform({ ...local, tools: await asAgentTools(createClient({ url })) }, stage)
      await waitFor(() => told.length === here.length, 'all events')
      assert.deepEqual(byCall(told), byCall(here))
      assert.deepEqual(byCall(told), byCall(known(toolEvents(there))))
    })
  }

  it('in the order of the calls where they run in sequence', async (t) => {
    const stage = new Stage()
    const local = scenes['an agent that runs everything in sequence']!(stage)
    const here = toolEvents(await perform(local, stage))
    const { url } = await startGateway(t, { tools: local.tools })
    const { told } = await follow(t, url)
    await perform({ ...local, tools: await asAgentTools(createClient({ url })) }, stage)
    await waitFor(() => told.length === here.length, 'all events')
    assert.deepEqual(timeless(told), timeless(here))
  })

  it('parts over the limit come from the record, or are told to be missing', async (t) => {
    const { url } = await startGateway(t, { tools: [agentTool('large', (_id, { x }) => ({ content: text(x), details: { x } }))] })
    const whole = await follow(t, url)
    const partly = await follow(t, url, {}, () => ({}))
    const x = 'x'.repeat(300_000)
    await whole.client.invoke('large', { x }, { toolCallId: 'a' })
    await waitFor(() => whole.told.length === 2 && partly.told.length === 2, 'both events')
    const call = { toolCallId: 'a', toolName: 'large' }
    assert.deepEqual(timeless(whole.told), [
      { type: 'tool_execution_start', ...call, args: { x } },
      { type: 'tool_execution_end', ...call, result: { content: text(x), details: { x } }, isError: false, durationMs: 0 }
    ])
    assert.deepEqual(timeless(partly.told), [
      { type: 'tool_execution_start', ...call, args: {}, omitted: ['args'] },
      { type: 'tool_execution_end', ...call, result: { content: [], details: undefined }, isError: false, durationMs: 0, omitted: ['result'] }
    ])
  })

  it('of a sensitive tool have nothing in them', async (t) => {
    const { url } = await startGateway(t, { tools: [tool('secret', (_id: string, _params: unknown, _signal: AbortSignal, onUpdate: any) => { onUpdate({ details: 'secret' }); return { details: 'secret' } }, { sensitive: true })] })
    const { told, client } = await follow(t, url)
    await client.invoke('secret', { secret: 1 }, { toolCallId: 'a' })
    await waitFor(() => told.length === 3, 'all events')
    assert.doesNotMatch(JSON.stringify(told.map(({ toolName, ...event }) => event)), /secret/)
    assert.deepEqual(told.map(({ omitted }) => omitted), [['args'], ['args', 'partialResult'], ['result']])
  })

  it('tell of lost ones, and then what is kept', async (t) => {
    const { url } = await startGateway(t, { tools: [agentTool('tool', () => ({ content: [] }))] })
    await createClient({ url }).invoke('tool', {}, { toolCallId: 'a' })
    const lost: unknown[] = []
    const { told } = await follow(t, url, { lastEventId: '0000000000000000-7' }, () => ({ onEventsLost: ({ requestedId }) => lost.push(requestedId) }))
    await waitFor(() => told.length === 2, 'what is kept')
    assert.deepEqual(lost, ['0000000000000000-7'])
  })

  it('leaving the loop closes the connection', async (t) => {
    const { url, app } = await startGateway(t, { tools: [agentTool('tool', () => ({ content: [] }))] })
    const client = createClient({ url })
    const open = gate()
    const seen: string[] = []
    const over = (async () => {
      for await (const { type } of toPiEvents(client.events({ onOpen: open.open }))) {
        seen.push(type)
        if (type === 'tool_execution_end') break
      }
    })()
    await open.reached('the stream')
    await client.invoke('tool')
    await within(over, 'the end of the loop')
    assert.deepEqual(seen, ['tool_execution_start', 'tool_execution_end'])
    await waitFor(() => app.toolgate.hub.size === 0, 'the subscriber to be gone')
  })
})
