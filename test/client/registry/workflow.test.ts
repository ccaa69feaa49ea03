import assert from 'node:assert/strict'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { createClient, createToolRuntime, ToolError, type Client, type Invoked, type RuntimeCall, type ToolRuntime } from '../../../src/client.ts'
import { ToolRegistry } from '../../../src/tools/registry.ts'
import { emptyFolder } from '../../docs/examples.ts'
import { runFile } from '../../docs/programs.ts'
import { installDependencies, typeCheck } from '../../docs/type-check.ts'
import { gate, startGateway } from '../../e2e/harness.ts'
import { AgentCoreEngine, defineWorkflow, route } from './engine.ts'
import { answer, changed, forms, workflow as examples, type Form } from './examples.ts'
import { assertEvents, assertReceipt, eventsUntil, patience, timed, type Expected } from './fields.ts'
import { installEngine } from './installed-engine.ts'

const succeeded: Expected = { toolId: 'get_status', kind: 'read', status: 'succeeded' }
const result = { content: [{ type: 'text', text: answer }], details: null, structuredContent: answer, isError: false }

/** Two calls of `meet` give each other their names; neither is answered before both are there. */
const both = [gate<string>(), gate<string>()] as const

/** The example's registry, and some tools more. */
const registry = new ToolRegistry()
  .register({ id: 'get_status', kind: 'read', parseInput: () => ({}), execute: async () => answer, parseOutput: (value) => value })
  .register({
    id: 'meet',
    kind: 'read',
    parseInput: (value: any) => ({ place: Number(value.place), name: String(value.name) }),
    async execute ({ place, name }: { place: number, name: string }) {
      both[place]!.open(name)
      return await both[1 - place]!.promise
    },
    parseOutput: (value: string) => value
  })
  .register({ id: 'fail', kind: 'read', parseInput: () => ({}), execute: async () => { throw new Error('not today') }, parseOutput: (value) => value })
  .register({ id: 'mark', kind: 'test', parseInput: () => ({}), execute: () => 'mark', parseOutput: (value) => value })
  .seal()

interface State { answer?: unknown }

/** The example's workflow. */
const workflow = defineWorkflow<State, unknown>({
  id: 'status',
  nodes: [{
    id: 'read',
    description: 'Reads the status',
    startsRound: true,
    async run (_state, { tools }) { const { value } = await tools.invoke({ toolId: 'get_status', input: {} }); return { answer: value } },
    routes: [route.deliver('answer')]
  }]
})

/** A runtime, and all that it gave. */
function watched (runtime: ToolRuntime): { runtime: ToolRuntime, given: Invoked[] } {
  const given: Invoked[] = []
  const invoke = async (call: RuntimeCall) => {
    const invoked = await runtime.invoke(call)
    given.push(invoked)
    return invoked
  }
  return { runtime: { invoke }, given }
}

describe("the registry system's workflow", () => {
  let client: Client
  let url: string
  const cleanUps: (() => unknown)[] = []

  before(async () => {
    ({ url } = await startGateway({ after: (run) => { cleanUps.push(run) } }, { tools: registry }))
    client = createClient({ url })
  })
  after(async () => {
    for (const cleanUp of cleanUps.reverse()) await cleanUp()
  })

  describe('as the page has it', () => {
    let folder: string
    before(async () => {
      const { folder: empty, remove } = await emptyFolder()
      cleanUps.push(remove)
      folder = empty
      await installEngine(folder)
      for (const form of forms) {
        await writeFile(join(folder, `local.${form}`), examples[form])
        await writeFile(join(folder, `remote.${form}`), remotely(form))
      }
    })

    for (const form of forms) {
      for (const where of ['local', 'remote']) {
        it(`delivers the answer, ${where}, in ${form === 'ts' ? 'TypeScript' : 'JavaScript'}`, async () => {
          const seenBefore = (await client.invocations({ toolId: 'get_status' })).invocations.length
          assert.deepEqual(await runFile(folder, `${where}.${form}`), { status: 0, stdout: `${answer}\n`, stderr: '' })
          const seen = (await client.invocations({ toolId: 'get_status' })).invocations.length - seenBefore
          assert.equal(seen, where === 'remote' ? 1 : 0, 'calls of the gateway')
        })
      }
    }

    it('type-checks, bound to either', async (t) => {
      const { folder: other, remove } = await emptyFolder()
      t.after(remove)
      await installDependencies(other)
      const texts = { 'local.ts': examples.ts, 'remote.ts': remotely('ts'), 'wrong.ts': changed(examples.ts, 'bindToolRuntime(tools)', 'bindToolRuntime({})') }
      for (const [name, text] of Object.entries(texts)) await writeFile(join(other, name), text)
      const faults = typeCheck(other, Object.keys(texts))
      assert.deepEqual([faults.get('local.ts'), faults.get('remote.ts')], [[], []])
      assert.notDeepEqual(faults.get('wrong.ts'), [])
    })

    /** The example with the tools of the gateway in the place of its own, and nothing else changed. */
    function remotely (form: Form): string {
      const example = examples[form]
      const registered = example.slice(example.indexOf('const tools ='), example.indexOf('const workflow ='))
      const imported = "import { ToolRegistry } from '@jangts/agent-core/tools'"
      return changed(changed(example, imported, "import { createClient, createToolRuntime } from 'toolgate/client'"),
        registered, `const tools = createToolRuntime(createClient({ url: '${url}' }))\n\n`)
    }
  })

  it('bound to a registry: the answer, and each field of its invocation', async () => {
    const { runtime, given } = watched(registry)
    const { value, period } = await timed(() => new AgentCoreEngine({ workflow }).bindToolRuntime(runtime).run({}))
    assert.equal(value, answer)
    assert.deepEqual(given.map(({ value }) => value), [answer])
    assertReceipt(given[0]!.invocation, succeeded, period)
  })

  it('bound to a gateway: the answer, each field of its invocation, and of its events', async () => {
    const { runtime, given } = watched(createToolRuntime(client))
    const { value, period } = await timed(() => new AgentCoreEngine({ workflow }).bindToolRuntime(runtime).run({}))
    assert.equal(value, answer)
    assert.deepEqual(given.map(({ value }) => value), [answer])
    const { invocation } = given[0]!
    assertReceipt(invocation, succeeded, period)
    const events = await eventsUntil(client, 'mark', ({ invocationId }) => invocationId === invocation.invocationId)
    assertEvents(events, succeeded, period, { args: {}, result, invocation })
  })

  it('is bound once for many runs at the same time', async () => {
    const { runtime, given } = watched(createToolRuntime(client))
    const agent = new AgentCoreEngine({ workflow }).bindToolRuntime(runtime)
    assert.deepEqual(await Promise.all(Array.from({ length: 20 }, () => agent.run({}))), Array(20).fill(answer))
    assert.equal(new Set(given.map(({ invocation }) => invocation.invocationId)).size, 20)
  })

  it("a run's events are found by its runId, and are no other run's, though both run at once", async () => {
    const meeting = defineWorkflow<State & { place: number, name: string }, unknown>({
      id: 'meeting',
      nodes: [{
        id: 'status', run: async (_state, { tools }) => { await tools.invoke({ toolId: 'get_status' }); return {} }, routes: []
      }, {
        id: 'meet', run: async ({ place, name }, { tools }) => ({ answer: (await tools.invoke({ toolId: 'meet', input: { place, name } })).value }), routes: [route.deliver('answer')]
      }]
    })
    const run = (place: number, name: string) => {
      const { runtime, given } = watched(createToolRuntime(client, { runId: `run of ${name}` }))
      return new AgentCoreEngine({ workflow: meeting }).bindToolRuntime(runtime).run({ place, name }).then((met) => ({ met, given }))
    }
    const { value: [ann, bob], period } = await timed(() => Promise.all([run(0, 'Ann'), run(1, 'Bob')]))
    assert.deepEqual([ann.met, bob.met], ['Bob', 'Ann'])

    for (const [{ given, met }, name, place] of [[ann, 'Ann', 0], [bob, 'Bob', 1]] as const) {
      const runId = `run of ${name}`
      const events = []
      for await (const event of client.events({ filter: { runId }, lastEventId: 'earliest', signal: patience() })) {
        assert.notEqual(event.type, 'events_lost')
        if (event.type !== 'events_lost') events.push(event)
        if (event.type === 'tool_execution_end' && event.toolId === 'meet') break
      }
      const [status, meet] = given.map(({ invocation }) => invocation)
      assert.deepEqual(events.map(({ invocationId }) => invocationId), [status, status, meet, meet].map((invocation) => invocation!.invocationId))
      assertEvents(events.slice(0, 2), { ...succeeded, runId }, period, { args: {}, result, invocation: status! })
      assertEvents(events.slice(2), { ...succeeded, toolId: 'meet', runId }, period, {
        args: { place, name }, result: { ...result, content: [{ type: 'text', text: met }], structuredContent: met }, invocation: meet!
      })
      const { invocations } = await client.invocations({ runId })
      assert.deepEqual(invocations, [meet, status])
    }
  })

  it('ends with what its tool failed with, bound to either', async () => {
    const failing = defineWorkflow<State, unknown>({
      id: 'failing', nodes: [{ id: 'fail', run: async (_state, { tools }) => ({ answer: (await tools.invoke({ toolId: 'fail' })).value }), routes: [route.deliver('answer')] }]
    })
    const run = (runtime: ToolRuntime) => new AgentCoreEngine({ workflow: failing }).bindToolRuntime(runtime).run({})
    await assert.rejects(run(registry), { name: 'Error', message: 'not today' })
    await assert.rejects(run(createToolRuntime(client)), (error) => error instanceof ToolError && error.code === 'tool_error' && error.message === 'not today')
  })
})
