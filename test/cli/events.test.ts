import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import { directoryOf, sleeper, startCli } from '../e2e/cli.ts'
import { echo, invoke, send, startGateway, tool, waitFor, within, type RunningGateway } from '../e2e/harness.ts'
import { widthOf } from '../../src/cli/text-width.ts'
import { Shell, shell, withoutJq, withoutTerminals } from './command-line.ts'

const hostile = tool('hostile', (_id: string, _input: unknown, _signal: AbortSignal, onUpdate: (partial: unknown) => void) => {
  onUpdate({ content: [{ type: 'text', text: '\u001B[2J漢字\r\nred \u202Eand\u0007 more than a line has room for' }], details: null })
  throw new Error('\u001B]0;owned\u0007no luck')
}, { kind: 'odd' })

const parsed = (text: string) => text.trim().split('\n').map((line) => JSON.parse(line))

describe('toolgate events', { concurrency: 3 }, () => {
  let gateway: RunningGateway
  let remove: () => unknown
  let env: Record<string, string>
  /** All that there is, as the gateway tells it. */
  let all: { id: string, event: any }[]
  before(async () => {
    gateway = await startGateway({ after: (run) => { remove = run } }, { tools: [echo, hostile] })
    env = { TOOLGATE_URL: gateway.url }
    await invoke(gateway, 'echo', { a: 1 }, { runId: 'run-1' })
    await invoke(gateway, 'hostile', {})
    await invoke(gateway, 'echo', { a: 2 })
    all = (await send(`${gateway.url}/events?lastEventId=earliest`, { headers: { accept: 'application/json' } })).body.events
    assert.equal(all.length, 7)
  })
  after(() => remove())

  it('prints a line of JSON for each event, with its id, and ends after as many as asked for', async (t) => {
    const { stdout, stderr, code } = await shell(t, 'toolgate events --since earliest --count 7', { env })
    assert.deepEqual([parsed(stdout), code], [all.map(({ id, event }) => ({ eventId: id, ...event })), 0])
    assert.equal(stderr, `Following the events of ${gateway.url}.\n`)
  })

  it('goes on after an id', async (t) => {
    const { stdout } = await shell(t, `toolgate events --since ${all[4]!.id} --count 2`, { env })
    assert.deepEqual(parsed(stdout).map(({ eventId }) => eventId), [all[5]!.id, all[6]!.id])
  })

  for (const [options, expected] of [
    ['--tool hostile', [2, 3, 4]],
    ['--tool hostile --tool echo --type end', [1, 4, 6]],
    ['--tool hostile echo --type end start', [0, 1, 2, 4, 5, 6]],
    ['--kind odd --status running', [2, 3]],
    ['--status failed cancelled', [4]],
    ['--run-id run-1', [0, 1]]
  ] as const) {
    it(`${options} narrows`, async (t) => {
      const { stdout } = await shell(t, `toolgate events --since earliest --count ${expected.length} ${options}`, { env })
      assert.deepEqual(parsed(stdout).map(({ eventId }) => eventId), expected.map((at) => all[at]!.id))
    })
  }

  it('--invocation-id follows one call', async (t) => {
    const { stdout } = await shell(t, `toolgate events --since earliest --count 2 --invocation-id ${all[5]!.event.invocationId}`, { env })
    assert.deepEqual(parsed(stdout).map(({ eventId }) => eventId), [all[5]!.id, all[6]!.id])
  })

  it('--view receipt leaves out what the tools were given and gave', async (t) => {
    const { stdout } = await shell(t, 'toolgate events --since earliest --count 2 --view receipt', { env })
    assert.deepEqual(parsed(stdout).map(({ args, result }) => [args, result]), [[undefined, undefined], [undefined, undefined]])
  })

  it('says where events are gone, and goes on with what is kept', async (t) => {
    const { stdout, code } = await shell(t, 'toolgate events --since 0000000000000000-9 --count 1', { env })
    const [lost, first, ...more] = parsed(stdout)
    assert.deepEqual([lost, first.eventId, more, code], [{ type: 'events_lost', requestedId: '0000000000000000-9', earliestId: all[0]!.id }, all[0]!.id, [], 0])
  })

  it('ends quietly when its reader has seen enough', async (t) => {
    const busy = await startGateway(t, { tools: [echo] })
    await invoke(busy, 'echo', {})
    const [first] = (await send(`${busy.url}/events?lastEventId=earliest`, { headers: { accept: 'application/json' } })).body.events
    // Nobody hears that a reader is gone before there is something more to write.
    const over = new AbortController()
    const calling = (async () => { while (!over.signal.aborted) await Promise.all([invoke(busy, 'echo', {}), delay(50)]) })()
    const { stdout, stderr } = await shell(t, '(toolgate events --since earliest; echo "exit $?" >&2) | head -n 1', { env: { TOOLGATE_URL: busy.url } }).finally(() => over.abort())
    await calling
    assert.equal(parsed(stdout)[0].eventId, first.id)
    assert.match(stderr, /^Following .*\nexit 0\n$/)
  })

  it('each line goes through jq as it comes', { skip: withoutJq }, async (t) => {
    const { url } = await startGateway(t, { tools: [echo] })
    const running = new Shell(t, 'toolgate events | jq --unbuffered -r .type', { env: { TOOLGATE_URL: url } })
    await waitFor(() => running.stderr.includes('Following'), 'the stream', 20_000)
    await invoke({ url }, 'echo', {})
    await waitFor(() => running.stdout === 'tool_execution_start\ntool_execution_end\n', 'the events')
  })

  it('is a line an event on a terminal, cut to its width, which a tool cannot control', { skip: withoutTerminals }, async (t) => {
    const { screen, stdout, code } = await shell(t, 'toolgate events --since earliest --count 7', { env, columns: 70 })
    const lines = screen.slice(1, -1)
    assert.deepEqual([lines.length, code], [7, 0])
    for (const [at, line] of lines.entries()) {
      const { type, toolId, invocationId } = all[at]!.event
      assert.ok(line.includes(`  ${toolId.padEnd(20)}  ${invocationId.slice(-8)}  ${type.replace('tool_execution_', '').padEnd(6)}  `), line)
      assert.ok(widthOf(line) <= 70, line)
    }
    assert.match(lines[3]!, /漢字 red and\uFFFD.*…$/)
    assert.doesNotMatch(stdout, /[^\P{Cc}\r\n]|\u202E/u)
  })

  it('--json is a line of JSON an event on a terminal, too, with controls as escapes', { skip: withoutTerminals }, async (t) => {
    const { stdout } = await shell(t, 'toolgate events --json --since earliest --count 7', { env, columns: 70 })
    const lines = stdout.trim().split('\r\n').slice(1)
    assert.deepEqual(lines.map((line) => JSON.parse(line)), all.map(({ id, event }) => ({ eventId: id, ...event })))
    assert.doesNotMatch(stdout, /[^\P{Cc}\r\n]|\u202E/u)
  })

  it('says on a terminal where events are gone', { skip: withoutTerminals }, async (t) => {
    const { screen } = await shell(t, 'toolgate events --since nothing-1 --count 1', { env, columns: 70 })
    assert.equal(screen[1], `-- events after nothing-1 are gone; those from ${all[0]!.id} on follow`)
  })

  it('takes a lost connection up again, over a restart of the gateway', async (t) => {
    const folder = await directoryOf(t, { 'tools/sleep.mjs': sleeper })
    const args = ['--store', `sqlite:${folder}/toolgate.db`, '--tools', `${folder}/tools`]
    const first = await startCli(t, args)
    const { port, url } = first
    const running = new Shell(t, 'toolgate events --type end --count 2; echo "exit $?"', { env: { TOOLGATE_URL: url } })
    await waitFor(() => running.stderr.includes('Following'), 'the stream', 20_000)
    await invoke({ url }, 'sleep', {})
    await waitFor(() => running.stdout.includes('\n'), 'the first event')
    first.kill('SIGTERM')
    await first.exited
    await waitFor(() => /\nThe .*Trying again, first in /.test(running.stderr), 'the loss', 20_000)
    await startCli(t, [...args, '--port', String(port)])
    await invoke({ url }, 'sleep', {})
    await within(running.ended, 'the end', 30_000)
    const [one, two, exit] = running.stdout.trim().split('\n')
    assert.deepEqual([JSON.parse(one!).status, JSON.parse(two!).status, exit], ['succeeded', 'succeeded', 'exit 0'])
    assert.notEqual(JSON.parse(one!).eventId, JSON.parse(two!).eventId)
    assert.match(running.stderr, /^Following .*\nThe .*Trying again, first in [\d.]+ m?s\.\nThe connection stands again\.\n$/)
  })
})
