import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { invoke, send, waitFor, type Scope } from './harness.ts'
import { openStream } from './sse-client.ts'
import { directoryOf, startCli, type Cli } from './cli.ts'

/** As the agent system's documentation has it: its own schema helper, a type of its core, a neighbour by its built name. */
const agentTool = `
import type { AgentTool } from "@earendil-works/pi-agent-core"
import { obj } from "@earendil-works/pi-schema"
import { analysisSchema, validateAnalysis } from "./schema.js"

const emptyParameters = obj({})

export const inspectLesson: AgentTool<typeof emptyParameters> = {
  name: "inspect_lesson",
  label: "Look at the lesson",
  description: "Gives the analysis of a teaching sample.",
  parameters: emptyParameters,
  outputSchema: analysisSchema,
  async execute() {
    const value: unknown = {
      name: "last",
      parameters: ["items"],
      summary: "Gives the last element of a list",
      emptyInputBehavior: "Gives undefined",
      evidence: "return items.at(-1)",
    }
    const analysis = validateAnalysis(value)
    return {
      content: [{ type: "text", text: \`Function \${analysis.name}: \${analysis.summary}\` }],
      details: { origin: "lesson-fixture" },
      structuredContent: analysis,
    }
  },
}
`

const schema = `
import { arr, obj, str } from "@earendil-works/pi-schema"

export const analysisSchema = obj({ name: str(), parameters: arr(str()), summary: str(), emptyInputBehavior: str(), evidence: str() })
export interface Analysis { name: string; parameters: string[]; summary: string; emptyInputBehavior: string; evidence: string }

export function validateAnalysis(value: unknown): Analysis {
  const analysis = value as Analysis
  for (const field of ["name", "summary", "emptyInputBehavior", "evidence"] as const) {
    if (typeof analysis[field] !== "string") throw new TypeError(field + " must be a text")
  }
  return analysis
}
`

const stats = `
import type { AgentTool } from "@earendil-works/pi-agent-core"

const stats: AgentTool = {
  name: "stats",
  label: "Stats",
  description: "Counts the records",
  parameters: { type: "object", properties: {}, additionalProperties: false },
  outputSchema: { type: "object", properties: { count: { type: "number" } }, required: ["count"], additionalProperties: false },
  async execute() {
    return { content: [{ type: "text", text: "5 records in all" }], details: { rows: 5 }, structuredContent: { count: 5 } }
  },
}
export default [stats]
`

const statusFields = `
  id: 'get_status', kind: 'read', description: 'Reads the state of the demo service',
  parseInput(value) { if (!value || typeof value !== 'object' || Array.isArray(value)) throw new TypeError('an object is needed'); return {}; },
  execute: () => 'the service is up',
  parseOutput(value) { if (typeof value !== 'string') throw new TypeError('a text is needed'); return value; },
`
const plainStatus = `export const getStatus = {${statusFields}}`

/** As the registry's documentation has it, up to its own call in process. */
const sealedStatus = `
import { ToolRegistry } from '@jangts/agent-core/tools';
export const tools = new ToolRegistry().register({${statusFields}}).seal();
const result = tools.invoke({ toolId: 'get_status', input: {} });
export const called = [result.value, typeof result.invocation.invocationId].join(' ');
if (called !== 'the service is up string') throw new Error('in process it said: ' + called);
`
const asyncStatus = `
import { ToolRegistry } from '@jangts/agent-core/tools';
const tools = new ToolRegistry().register({ id: 'get_status', kind: 'read',
  parseInput: () => ({}), execute: async () => 'the service is up', parseOutput: value => value,
}).seal();
export default tools;
`

const serve = async (t: Scope, files: Record<string, string>) => await startCli(t, ['--tools', await directoryOf(t, files), '--strict'])

describe('tools written for other systems, dropped into a directory outside the package', () => {
  let program: Cli
  const cleanups: (() => unknown)[] = []
  after(async () => { for (const cleanUp of cleanups.reverse()) await cleanUp() })
  before(async () => {
    program = await serve({ after: (run) => cleanups.push(run) }, { 'structured-tool.ts': agentTool, 'schema.ts': schema, 'stats.ts': stats, 'status.mjs': sealedStatus })
  })

  it('an AgentTool runs: its text, its details and its structured result arrive apart', async (t) => {
    const listener = await openStream(t, program.url)
    const { status, body } = await invoke(program, 'inspect_lesson', {})
    assert.equal(status, 200)
    const { invocation, ...result } = body
    assert.deepEqual(result, {
      content: [{ type: 'text', text: 'Function last: Gives the last element of a list' }],
      details: { origin: 'lesson-fixture' },
      structuredContent: { name: 'last', parameters: ['items'], summary: 'Gives the last element of a list', emptyInputBehavior: 'Gives undefined', evidence: 'return items.at(-1)' },
      isError: false
    })
    assert.deepEqual([invocation.toolId, invocation.kind, invocation.status], ['inspect_lesson', 'tool', 'succeeded'])
    assert.deepEqual((await listener.endOf(invocation.invocationId)).result, result)
  })

  it('an AgentTool is described by its name, label and schemas', async (t) => {
    const { body: { tools } } = await send(`${program.url}/tools`)
    assert.deepEqual(tools.map(({ id }: any) => id), ['stats', 'get_status', 'inspect_lesson'], 'a neighbour without tools is a helper')
    const { id, label, kind, inputMode, source, outputSchema } = tools[2]
    assert.deepEqual([id, label, kind, inputMode, source], ['inspect_lesson', 'Look at the lesson', 'tool', 'coerce', 'structured-tool.ts'])
    assert.deepEqual(outputSchema.required.toSorted(), ['emptyInputBehavior', 'evidence', 'name', 'parameters', 'summary'])
  })

  it('a subscriber finds { count: 5 } in the end event of the stats tool', async (t) => {
    const listener = await openStream(t, program.url)
    await invoke(program, 'stats')
    await waitFor(() => listener.ends.length === 1, 'the end event')
    const { type, toolName, result, isError, durationMs } = listener.ends[0]
    assert.deepEqual([type, toolName, isError, typeof durationMs], ['tool_execution_end', 'stats', false, 'number'])
    assert.deepEqual(result.structuredContent, { count: 5 })
    assert.deepEqual([result.content, result.details], [[{ type: 'text', text: '5 records in all' }], { rows: 5 }])
  })

  it('a registry tool refuses input in its own words', async (t) => {
    for (const input of [null, [], 'now']) {
      const { status, body } = await invoke(program, 'get_status', input)
      assert.deepEqual([status, body.invocation.errorCode, body.details.errors[0].message], [422, 'invalid_input', 'an object is needed'], JSON.stringify(input))
    }
  })
})

describe('further ways to write and to place them', { concurrency: 3 }, () => {
  it('the sample that breaks its contract fails in its own words, and no structured result gets out', async (t) => {
    const program = await serve(t, { 'structured-tool.ts': agentTool.replace('"Gives the last element of a list"', '17'), 'schema.ts': schema })
    const { status, body } = await invoke(program, 'inspect_lesson', {})
    assert.deepEqual([status, body.invocation.errorCode, body.content[0].text, 'structuredContent' in body], [200, 'tool_error', 'summary must be a text', false])
  })

  for (const [name, files] of Object.entries({
    'a plain exported object (.js)': { 'status.js': plainStatus, 'package.json': '{"type":"module"}' },
    'a plain exported object (.ts)': { 'status.ts': plainStatus },
    'a sealed registry that it exports': { 'status.mjs': sealedStatus },
    'a sealed registry by default, asynchronous, without a description': { 'status.mjs': asyncStatus }
  })) {
    it(`a registry tool runs: ${name}`, async (t) => {
      const program = await serve(t, files)
      const { body: { tools } } = await send(`${program.url}/tools`)
      assert.deepEqual(tools.map(({ id, kind, parameters }: any) => [id, kind, parameters]), [['get_status', 'read', {}]])
      const listener = await openStream(t, program.url)
      const { status, body } = await invoke(program, 'get_status', {})
      assert.equal(status, 200)
      assert.deepEqual([body.content, body.structuredContent, body.isError], [[{ type: 'text', text: 'the service is up' }], 'the service is up', false])
      // The end event is the registry's own event: the same facts as the receipt.
      const end = await listener.endOf(body.invocation.invocationId)
      for (const fact of ['toolId', 'invocationId', 'kind', 'durationMs', 'status', 'spanId', 'startedAtMs']) assert.equal(end[fact], body.invocation[fact], fact)
      assert.deepEqual([end.toolId, end.kind, end.status], ['get_status', 'read', 'succeeded'])
    })
  }

  it("a tool of Toolgate's own shape imports toolgate and TypeBox without an install", async (t) => {
    const own = `
import { defineTool } from 'toolgate'
import { Type } from '@sinclair/typebox'
export default defineTool({
  id: 'add', description: 'Adds.', kind: 'compute',
  parameters: Type.Object({ a: Type.Number(), b: Type.Number() }), outputSchema: Type.Object({ sum: Type.Number() }),
  execute: (toolCallId, { a, b }) => ({ structuredContent: { sum: a + b } })
})
`
    const program = await serve(t, { 'add.ts': own })
    assert.deepEqual((await invoke(program, 'add', { a: 1, b: 2 })).body.structuredContent, { sum: 3 })
    assert.equal((await invoke(program, 'add', { a: 1 })).status, 422)
  })

  it('functions that give tools, lists of tools and several directories are served together', async (t) => {
    const other = await directoryOf(t, { 'status.ts': plainStatus })
    const first = await directoryOf(t, { 'stats.ts': stats, 'made.mjs': 'export default async () => [1, 2].map((n) => ({ id: "made_" + n, description: "", kind: "test", parameters: {}, execute: () => ({ structuredContent: n }) }))' })
    const program = await startCli(t, ['--strict', '--tools', `${first},${other}`])
    const { body } = await send(`${program.url}/tools`)
    assert.deepEqual(body.tools.map(({ id }: any) => id).sort(), ['get_status', 'made_1', 'made_2', 'stats'])
    assert.equal((await invoke(program, 'made_2')).body.structuredContent, 2)
  })
})
