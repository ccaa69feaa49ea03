import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { describe, it, type TestContext } from 'node:test'
import { fileURLToPath } from 'node:url'
import { compile } from '@earendil-works/pi-schema'
import inspectLesson from '../../../tools/inspect-lesson.ts'
import { asAgentTools, createClient, OutputError, ToolError, toPiEvents, type JsonValue } from '../../../src/client.ts'
import type { AnyTool } from '../../../src/tools/registry.ts'
import { startCli } from '../../e2e/cli.ts'
import { gate, startGateway, tool, waitFor, within } from '../../e2e/harness.ts'
import { calling, perform, saying, Stage, toolEvents } from './agents.ts'
import { hostOf } from './programs/host.ts'
import stats from './programs/tools/stats.ts'
import { agentTool, text } from './scenes.ts'

const program = fileURLToPath(new URL('programs/two-channels.ts', import.meta.url))
const expected = `a subscriber to /events: { count: 5 }
the agent's own subscriber: { count: 5 }
structuredContent for the model: undefined
content for the model: [{"type":"text","text":"There are 5 records."}]
structuredContent anywhere in the transcript: false
`

/** Runs a program to its end. */
async function output (t: TestContext, ...args: string[]): Promise<string> {
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] })
  t.after(() => child.kill('SIGKILL'))
  let printed = ''
  child.stdout.on('data', (chunk) => { printed += chunk })
  const code = await within(new Promise((resolve) => child.once('close', resolve)), 'the program', 30_000)
  assert.equal(code, 0)
  return printed
}

describe('two channels', () => {
  it('a program that follows a gateway prints the data, and the transcript of its agent has none', async (t) => {
    const { url } = await startGateway(t, { tools: [stats] })
    assert.equal(await output(t, program, url), expected)
  })

  it('so does one with the gateway as a process of its own', async (t) => {
    const { url } = await startCli(t, ['--tools', fileURLToPath(new URL('programs/tools', import.meta.url))])
    assert.equal(await output(t, program, url), expected)
  })

  it('neither data nor details reach the model; subscribers get both, in process', async (t) => {
    const { url } = await startGateway(t, { tools: [stats] })
    const client = createClient({ url })
    const open = gate()
    const data: unknown[] = []
    const following = (async () => {
      for await (const event of toPiEvents(client.events({ onOpen: open.open }))) {
        if (event.type === 'tool_execution_end') return data.push(event.result.structuredContent, event.result.details)
      }
    })()
    await open.reached('the stream')
    const run = await perform({ tools: await asAgentTools(client), prompts: [[calling(['a', 'stats']), saying('Five.')]] }, new Stage())
    await within(following, 'the end event')
    assert.deepEqual(data, [{ count: 5 }, { rows: 5 }])
    const own = toolEvents(run).flatMap((event) => event.type === 'tool_execution_end' ? [event.result.structuredContent] : [])
    assert.deepEqual(own, [{ count: 5 }])
    assert.doesNotMatch(JSON.stringify(run.messages), /structuredContent|"count"/)
    assert.doesNotMatch(JSON.stringify(run.sent), /structuredContent|"count"/)
    assert.deepEqual(run.messages.filter(({ role }) => role === 'toolResult').map((message: any) => [message.content, message.details]), [[text('There are 5 records.'), { rows: 5 }]])
  })
})

describe('a lesson that is inspected on a gateway', () => {
  const lesson = { name: 'average', evidence: 'return sum / numbers.length' }
  const { outputSchema } = inspectLesson
  const analysis = (value: unknown) => { assert.ok(compile(outputSchema).check(value), JSON.stringify(value)); return value as { name: string, evidence: string } }

  it('is looked at for failure first, then validated, then used', async (t) => {
    const { url } = await startGateway(t, { tools: [inspectLesson] })
    const [inspect] = await asAgentTools(createClient({ url }), ['inspect_lesson'])
    const result = await inspect!.execute('lesson-1', {})
    assert.notEqual(result.isError, true)
    const { name, evidence } = analysis(result.structuredContent)
    assert.deepEqual({ name, evidence }, lesson)
    assert.deepEqual(result.details, { origin: 'lesson-fixture' })
    assert.deepEqual(result.content, text('Lesson on average(): what it does with an empty list.'))
    assert.deepEqual(result, await inspectLesson.execute())
  })

  it('is the same where the client looks itself', async (t) => {
    const { url } = await startGateway(t, { tools: [inspectLesson] })
    const { structuredContent } = await createClient({ url }).invoke('inspect_lesson', {}, { output: outputSchema })
    assert.equal(structuredContent.evidence, lesson.evidence)
  })

  it('whose data is not what was promised is refused here, though the gateway let it pass', async (t) => {
    const broken = { ...inspectLesson, async execute () { return { ...await inspectLesson.execute(), structuredContent: { ...lesson, summary: 5 } } } }
    const { url } = await startGateway(t, { tools: [broken as AnyTool], toolSettings: { inspect_lesson: { outputValidation: 'warn' } } })
    await assert.rejects(createClient({ url }).invoke('inspect_lesson', {}, { output: outputSchema }), (error: unknown) => error instanceof OutputError && error.faults.some(({ path }) => path === '/summary'))
    const [inspect] = await asAgentTools(createClient({ url }))
    const { structuredContent } = await inspect!.execute('a', {})
    assert.throws(() => analysis(structuredContent), /"summary":5/)
  })

  it('that failed half way has its data in the failure, and nowhere else', async (t) => {
    const partial = tool('inspect_lesson', () => ({ content: text('half of it'), structuredContent: { name: 'average' }, isError: true }), { outputSchema })
    const { url } = await startGateway(t, { tools: [partial] })
    const client = createClient({ url })
    const [inspect] = await asAgentTools(client)
    assert.deepEqual(await inspect!.execute('a', {}), { content: text('half of it'), details: undefined, structuredContent: { name: 'average' }, isError: true })
    await assert.rejects(client.invoke('inspect_lesson', {}, { output: outputSchema }), (error: unknown) => error instanceof ToolError && (error.response.structuredContent as any).name === 'average')
  })
})

describe("a host's subscriber", () => {
  it("gets the same from a gateway's events as from its agent's", async (t) => {
    const schema = stats.outputSchema!
    const tools = [stats, agentTool('broken', () => { throw new Error('no luck') }), agentTool('odd', () => ({ content: text('odd'), details: undefined, structuredContent: { count: 'five' } })), agentTool('plain', () => ({ content: text('plain'), details: undefined }))]
    const { url } = await startGateway(t, { tools })
    const client = createClient({ url })
    const hosts = [0, 1].map(() => {
      const seen: { reported: [string, readonly object[]][], saved: JsonValue[] } = { reported: [], saved: [] }
      return { seen, listener: hostOf(schema, { report: (toolName, content) => seen.reported.push([toolName, content]), save: (data) => seen.saved.push(data) }) }
    })
    const open = gate()
    const leaving = new AbortController()
    let ends = 0
    const following = (async () => {
      for await (const event of toPiEvents(client.events({ signal: leaving.signal, onOpen: open.open }))) {
        hosts[0]!.listener(event)
        if (event.type === 'tool_execution_end') ends++
      }
    })()
    await open.reached('the stream')
    const run = await perform({ tools: await asAgentTools(client), prompts: [[calling(['a', 'broken']), calling(['b', 'stats']), calling(['c', 'odd']), calling(['d', 'plain']), saying('Done.')]] }, new Stage())
    for (const event of run.events) hosts[1]!.listener(event)
    await waitFor(() => ends === 4, 'all ends')
    leaving.abort()
    await within(following, 'the end of the loop')
    for (const { seen } of hosts) {
      assert.deepEqual(seen, { reported: [['broken', text('no luck')], ['odd', text('The data is not what was promised.')]], saved: [{ count: 5 }] })
    }
  })
})
