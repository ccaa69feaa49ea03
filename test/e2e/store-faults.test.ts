import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { readFileSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { describe, it, type TestContext } from 'node:test'
import { record } from './calls.ts'
import { directoryOf, startCli, type Cli } from './cli.ts'
import { assertProblem, invoke, send, waitFor, within } from './harness.ts'
import { openStream } from './sse-client.ts'

const counted = (folder: string) => `
import { appendFileSync, existsSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
export default [
  {
    id: 'count', description: 'Counts its runs.', kind: 'test', parameters: {},
    execute (toolCallId, input) {
      appendFileSync(${JSON.stringify(join(folder, 'runs'))}, 'x')
      return { structuredContent: input }
    }
  },
  {
    id: 'held', description: 'Ends once a file is there.', kind: 'test', parameters: {},
    async execute () {
      while (!existsSync(${JSON.stringify(join(folder, 'go'))})) await sleep(5)
      return { structuredContent: 'done' }
    }
  }
]
`

async function setUp (t: TestContext) {
  const folder = await directoryOf(t, {})
  const tools = await directoryOf(t, { 'tools.mjs': counted(folder) })
  const file = join(folder, 'data', 'toolgate.db')
  const start = () => startCli(t, ['--tools', tools], { TOOLGATE_STORE: `sqlite:${file}`, TOOLGATE_SHUTDOWN_GRACE_MS: '1500' }, folder)
  const runs = () => {
    try {
      return readFileSync(join(folder, 'runs')).length
    } catch {
      return 0
    }
  }
  return { folder, file, start, runs }
}

const isReady = async ({ url }: Cli) => (await send(`${url}/readyz`)).status === 200

describe('a store that cannot write', () => {
  it('refuses calls before their tool runs, says why, keeps what had begun, and comes back by itself', async (t) => {
    const { folder, start, runs } = await setUp(t)
    const gateway = await start()
    const limit = (bytes: string) => execFileSync('prlimit', ['--pid', String(gateway.child.pid), `--fsize=${bytes}:`])
    const follower = await openStream(t, gateway.url)
    assert.equal((await invoke(gateway, 'count', 1)).status, 200)
    let isAnswered = false
    const held = invoke(gateway, 'held').finally(() => { isAnswered = true })
    const running = await waitFor(() => follower.events.find(({ event, data }) => event === 'tool_execution_start' && data.toolId === 'held'), 'the call to begin')

    limit('4096')
    const refused = await invoke(gateway, 'count', 2)
    assertProblem(refused, 503, 'store_unavailable')
    assert.ok(Number(refused.headers.get('retry-after')) > 0)
    assert.equal(runs(), 1)
    const readiness = await send(`${gateway.url}/readyz`)
    assert.equal(readiness.status, 503)
    assert.deepEqual(readiness.body.reasons.map(({ code }: { code: string }) => code), ['store_unavailable'])
    execFileSync('touch', [join(folder, 'go')])
    await waitFor(() => gateway.log.some(({ msg }) => msg === 'the end of a call cannot be recorded yet'), 'the call to end')
    assert.equal(isAnswered, false, 'nobody is told what is not on record')
    assert.equal((await record(gateway, running.data.invocationId)).body.invocation.status, 'running')

    limit('unlimited')
    assert.equal((await within(held, 'the answer', 10_000)).body.structuredContent, 'done')
    await waitFor(() => isReady(gateway), 'readiness')
    assert.equal((await record(gateway, running.data.invocationId)).body.invocation.status, 'succeeded')
    assert.equal((await invoke(gateway, 'count', 3)).status, 200)
    await waitFor(() => follower.events.length >= 6, 'its events')
    assert.deepEqual(follower.events.map(({ event, data }) => `${data.toolId} ${event!.slice('tool_execution_'.length)}`),
      ['count start', 'count end', 'held start', 'held end', 'count start', 'count end'])
    await waitFor(() => gateway.log.some(({ msg }) => msg === 'calls are recorded again'), 'the log to say so')
    assert.ok(gateway.log.some(({ msg, fault }) => msg === 'calls cannot be recorded' && typeof fault === 'string'))
  })

  it('stops in time all the same, and the next start takes up what is unsettled', async (t) => {
    const { folder, start } = await setUp(t)
    const gateway = await start()
    const limit = (bytes: string) => execFileSync('prlimit', ['--pid', String(gateway.child.pid), `--fsize=${bytes}:`])
    const follower = await openStream(t, gateway.url)
    const held = assert.rejects(invoke(gateway, 'held'), 'its caller is told nothing that the next start might contradict')
    const { data } = await waitFor(() => follower.events[0], 'the call to begin')
    limit('4096')
    execFileSync('touch', [join(folder, 'go')])
    await waitFor(() => gateway.log.some(({ msg }) => msg === 'the end of a call cannot be recorded yet'), 'the call to end')
    gateway.kill('SIGTERM')
    const { code } = await within(gateway.exited, 'the exit', 15_000)
    assert.equal(code, 0)
    await held
    const next = await start()
    const { body } = await record(next, data.invocationId)
    assert.deepEqual([body.invocation.status, body.invocation.errorCode], ['failed', 'outcome_unknown'])
    const again = await openStream(t, next.url, { headers: { 'last-event-id': follower.lastId! } })
    await waitFor(() => again.events.length >= 1, 'its end')
    assert.deepEqual(again.events.map((message) => [message.event, message.data.invocationId]), [['tool_execution_end', data.invocationId]])
  })

  it('whose file and folder were deleted has them again soon, with all that was in them', async (t) => {
    const { file, start, runs } = await setUp(t)
    const gateway = await start()
    const ids: string[] = []
    for (let call = 0; call < 5; call++) ids.push((await invoke(gateway, 'count', call)).body.invocation.invocationId)
    rmSync(join(file, '..'), { recursive: true })
    assertProblem(await invoke(gateway, 'count'), 503, 'store_unavailable')
    assert.equal(runs(), 5)
    await waitFor(() => isReady(gateway), 'readiness')
    ids.push((await invoke(gateway, 'count', 5)).body.invocation.invocationId)
    gateway.kill('SIGKILL')
    await gateway.exited
    const next = await start()
    for (const [call, id] of ids.entries()) assert.equal((await record(next, id)).body.result.structuredContent, call)
  })
})

describe('an older backup in its place', () => {
  it('honours the ids that it has, tells later ones that their events are lost, and gives none of them out again', async (t) => {
    const { folder, file, start } = await setUp(t)
    const first = await start()
    const call = async (gateway: Cli) => { await invoke(gateway, 'count') }
    for (let calls = 0; calls < 3; calls++) await call(first)
    const backup = join(folder, 'backup.db')
    const reader = new DatabaseSync(file)
    reader.exec(`VACUUM INTO '${backup}'`)
    reader.close()
    for (let calls = 0; calls < 3; calls++) await call(first)
    const given = (await send(`${first.url}/events?lastEventId=earliest`, { headers: { accept: 'application/json' } })).body.events.map(({ id }: { id: string }) => id)
    assert.equal(given.length, 12)
    first.kill('SIGTERM')
    await first.exited

    for (const rest of ['', '-wal', '-shm']) rmSync(file + rest, { force: true })
    renameSync(backup, file)
    const next = await start()
    for (let calls = 0; calls < 4; calls++) await call(next)
    const after = async (id: string) => (await send(`${next.url}/events?lastEventId=${id}`, { headers: { accept: 'application/json' } })).body
    for (const at of [0, 4, 5]) {
      const { events, lost } = await after(given[at])
      assert.deepEqual([events.length, lost], [14 - at - 1, undefined], given[at])
    }
    for (const at of [6, 8, 11]) {
      const { events, lost } = await after(given[at])
      assert.deepEqual([events.length, lost], [14, { requestedId: given[at], earliestId: given[0] }])
    }
    const { events } = await after('earliest')
    assert.deepEqual(events.slice(0, 6).map(({ id }: { id: string }) => id), given.slice(0, 6))
    const fresh = events.slice(6).map(({ id }: { id: string }) => id)
    assert.deepEqual(fresh.filter((id: string) => given.includes(id)), [])
  })
})
