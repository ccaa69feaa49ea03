import assert from 'node:assert/strict'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { createClient, createToolRuntime, ToolError, type Client, type RemoteToolRuntime } from '../../../src/client.ts'
import { emptyFolder } from '../../docs/examples.ts'
import { runFile } from '../../docs/programs.ts'
import { installDependencies, typeCheck } from '../../docs/type-check.ts'
import { echo, startGateway } from '../../e2e/harness.ts'
import { answer, changed, forms, getStatus, refusals, toolsOf } from './examples.ts'
import { assertEvents, assertReceipt, eventsUntil, timed, type Expected } from './fields.ts'

const succeeded: Expected = { toolId: 'get_status', kind: 'read', status: 'succeeded' }
const badInputs: unknown[] = [null, [], [{}], 'now', 7, false]
const resultOf = (text: string) => ({ content: [{ type: 'text', text }], details: null, structuredContent: text, isError: false })

/** Calls the example's registry in process, well and badly, and prints what came of it. */
const probe = (extension: string) => `
import { tools } from './served/tools.${extension}'
import { tools as broken } from './served/broken.${extension}'
const caught = (run) => {
  try {
    return { given: run() }
  } catch ({ code, cause }) {
    return { code, cause: String(cause) }
  }
}
const result = tools.invoke({ toolId: 'get_status', input: {} })
console.log(JSON.stringify({
  result,
  keys: Object.keys(result),
  isAtOnce: !(result instanceof Promise),
  named: tools.invoke({ toolId: 'get_status', input: { a: 1 }, toolCallId: 'mine' }),
  badInputs: ${JSON.stringify(badInputs)}.map((input) => caught(() => tools.invoke({ toolId: 'get_status', input }))),
  badOutput: caught(() => broken.invoke({ toolId: 'get_broken_status', input: {} })),
  sealed: caught(() => tools.register({ id: 'late', kind: 'read', parseInput: () => 1, execute: () => 1, parseOutput: () => 1 })).code ?? 'registered'
}))
`

for (const form of forms) {
  describe(`the registry system's get_status, in ${form === 'ts' ? 'TypeScript' : 'JavaScript'}`, () => {
    let folder: string
    let client: Client
    let runtime: RemoteToolRuntime
    const cleanUps: (() => unknown)[] = []

    before(async () => {
      const { folder: empty, remove } = await emptyFolder()
      cleanUps.push(remove)
      folder = empty
      const tools = toolsOf(getStatus[form])
      const broken = changed(changed(tools, "'get_status'", "'get_broken_status'"), `execute: () => '${answer}'`, 'execute: () => 5')
      await mkdir(join(folder, 'served'))
      await Promise.all(Object.entries({
        [`status.${form}`]: getStatus[form], [`probe.${form}`]: probe(form), [`served/tools.${form}`]: tools, [`served/broken.${form}`]: broken
      }).map(([name, text]) => writeFile(join(folder, name), text)))
      const { url } = await startGateway({ after: (run) => { cleanUps.push(run) } }, { toolDirectories: [join(folder, 'served')], tools: [echo], strict: true })
      client = createClient({ url })
      runtime = createToolRuntime(client)
    })
    after(async () => {
      for (const cleanUp of cleanUps.reverse()) await cleanUp()
    })

    describe('in process', () => {
      it('runs as the page has it', async () => {
        const { status, stdout, stderr } = await runFile(folder, `status.${form}`)
        assert.deepEqual([status, stderr], [0, ''])
        assert.match(stdout, new RegExp(`^${answer} [0-9a-f]{32}\\n$`))
      })

      it('gives its value and each field of its invocation, and refuses what its parsers refuse', async () => {
        const { value: { status, stdout, stderr }, period } = await timed(() => runFile(folder, `probe.${form}`))
        assert.deepEqual([status, stderr], [0, ''])
        const { result, keys, isAtOnce, named, badInputs: refused, badOutput, sealed } = JSON.parse(stdout)
        assert.deepEqual(keys, ['value', 'invocation'])
        assert.equal(isAtOnce, true)
        assert.equal(result.value, answer)
        assertReceipt(result.invocation, succeeded, period)
        assertReceipt(named.invocation, { ...succeeded, toolCallId: 'mine' }, period)
        assert.notEqual(named.invocation.invocationId, result.invocation.invocationId)
        assert.deepEqual(refused, badInputs.map(() => ({ code: 'invalid_input', cause: `TypeError: ${refusals.input}` })))
        assert.deepEqual(badOutput, { code: 'invalid_output', cause: `TypeError: ${refusals.output}` })
        assert.equal(sealed, 'registry_sealed')
      })

      if (form === 'ts') {
        it('type-checks', async (t) => {
          const { folder: other, remove } = await emptyFolder()
          t.after(remove)
          await installDependencies(other)
          await writeFile(join(other, 'status.ts'), getStatus.ts)
          await writeFile(join(other, 'wrong.ts'), changed(getStatus.ts, 'called.value,', 'called.value.nothing,'))
          const faults = typeCheck(other, ['status.ts', 'wrong.ts'])
          assert.deepEqual(faults.get('status.ts'), [])
          assert.equal(faults.get('wrong.ts')!.length, 1)
        })
      }
    })

    describe('behind a gateway', () => {
      it('gives the same value, and each field of its invocation', async () => {
        const { value: invoked, period } = await timed(() => runtime.invoke({ toolId: 'get_status', input: {} }))
        assert.deepEqual(Object.keys(invoked), ['value', 'invocation'])
        assert.equal(invoked.value, answer)
        assertReceipt(invoked.invocation, succeeded, period)
      })

      it('gives the same where its call may take long and is followed as a stream', async () => {
        const { value: { value, invocation }, period } = await timed(() => createToolRuntime(client, { timeoutMs: 600_000 }).invoke({ toolId: 'get_status', input: {} }))
        assert.equal(value, answer)
        assertReceipt(invocation, succeeded, period)
      })

      it('is told of on /events: a start and one end, each field of them', async () => {
        const { value: { invocation }, period } = await timed(() => runtime.invoke({ toolId: 'get_status', input: { a: [1] }, toolCallId: 'mine' }))
        const events = await eventsUntil(client, 'echo', ({ invocationId }) => invocationId === invocation.invocationId)
        assertEvents(events, { ...succeeded, toolCallId: 'mine' }, period, { args: { a: [1] }, result: resultOf(answer), invocation })
      })

      it('carries run, trace and parent where they are given', async () => {
        const { invocation: parent } = await runtime.invoke({ toolId: 'get_status', input: {} })
        const lineage = { runId: 'run-1', traceId: '4bf92f3577b34da6a3ce929d0e0e4736', parentSpanId: '00f067aa0ba902b7', parentInvocationId: parent.invocationId }
        const { runId, traceId, parentSpanId, parentInvocationId } = lineage
        const bound = createToolRuntime(client, { runId, parentInvocationId, traceparent: `00-${traceId}-${parentSpanId}-01` })
        const { value: { invocation }, period } = await timed(() => bound.invoke({ toolId: 'get_status', input: {} }))
        assertReceipt(invocation, { ...succeeded, ...lineage }, period)
        const events = await eventsUntil(client, 'echo', (event) => event.runId === runId)
        assertEvents(events, { ...succeeded, ...lineage }, period, { args: {}, result: resultOf(answer), invocation })
      })

      for (const input of badInputs) {
        it(`refuses ${JSON.stringify(input)} with the words of parseInput`, async () => {
          const { value: error, period } = await timed(() => failureOf(runtime.invoke({ toolId: 'get_status', input })))
          const expected: Expected = { ...succeeded, status: 'failed', errorCode: 'invalid_input', neverRan: true }
          const { invocation, ...result } = error.response
          assert.equal(error.code, 'invalid_input')
          assertReceipt(invocation, expected, period)
          assert.deepEqual(result.details, { errors: [{ path: '', keyword: 'parseInput', message: refusals.input }] })
          const events = await eventsUntil(client, 'echo', ({ invocationId }) => invocationId === invocation.invocationId)
          assertEvents(events, expected, period, { args: input, result, invocation })
        })
      }

      it('lets no output through that parseOutput refuses', async () => {
        const { value: error, period } = await timed(() => failureOf(runtime.invoke({ toolId: 'get_broken_status', input: {} })))
        const expected: Expected = { toolId: 'get_broken_status', kind: 'read', status: 'failed', errorCode: 'invalid_output' }
        const { invocation, ...result } = error.response
        assert.equal(error.code, 'invalid_output')
        assertReceipt(invocation, expected, period)
        assert.deepEqual(result.details, { errors: [{ path: '', keyword: 'parseOutput', message: refusals.output }] })
        assert.equal('structuredContent' in result, false)
        const events = await eventsUntil(client, 'echo', ({ invocationId }) => invocationId === invocation.invocationId)
        assertEvents(events, expected, period, { args: {}, result, invocation })
      })
    })
  })
}

async function failureOf (call: Promise<unknown>): Promise<ToolError> {
  const error = await call.then(() => assert.fail('it succeeded'), (reason: unknown) => reason)
  assert.ok(error instanceof ToolError, String(error))
  return error
}
