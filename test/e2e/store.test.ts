import assert from 'node:assert/strict'
import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { describe, it } from 'node:test'
import { directoryOf, runCli, startCli } from './cli.ts'
import { invoke } from './harness.ts'

const tools = { 'tools/hello.mjs': "export default { id: 'hello', description: 'Greets.', kind: 'test', parameters: {}, execute: () => ({ structuredContent: 1 }) }" }
// An empty variable is an unset one.
const byDefault = { TOOLGATE_STORE: '' }

async function eventsOf (url: string, lastEventId = 'earliest'): Promise<{ events: { id: string, event: { type: string } }[], lost?: unknown }> {
  const response = await fetch(`${url}/events?lastEventId=${lastEventId}`, { headers: { accept: 'application/json' } })
  return await response.json() as Awaited<ReturnType<typeof eventsOf>>
}

describe('toolgate serve, its store', () => {
  it('is a file in the working directory, which the next start goes on with', async (t) => {
    const folder = await directoryOf(t, tools)
    const first = await startCli(t, [], byDefault, folder)
    await invoke(first, 'hello', {})
    const { events } = await eventsOf(first.url)
    assert.deepEqual(events.map(({ event }) => event.type), ['tool_execution_start', 'tool_execution_end'])
    first.kill('SIGKILL')
    await first.exited

    const second = await startCli(t, [], byDefault, folder)
    assert.deepEqual((await eventsOf(second.url)).events, events)
    await invoke(second, 'hello', {})
    const later = await eventsOf(second.url, events[1]!.id)
    assert.deepEqual([later.lost, later.events.map(({ event }) => event.type)], [undefined, ['tool_execution_start', 'tool_execution_end']])
    assert.notEqual(later.events[0]!.id.split('-')[0], events[0]!.id.split('-')[0])
    second.kill('SIGTERM')
    assert.equal((await second.exited).code, 0)
    assert.ok(existsSync(join(folder, 'data/toolgate.db')) && !existsSync(join(folder, 'data/toolgate.db-wal')))
  })

  it('in memory leaves no file', async (t) => {
    const folder = await directoryOf(t, tools)
    const program = await startCli(t, ['--store', 'memory'], byDefault, folder)
    await invoke(program, 'hello', {})
    assert.ok(!existsSync(join(folder, 'data')))
  })

  it('that is in use, or cannot be used, ends the start with one line', async (t) => {
    const folder = await directoryOf(t, tools)
    await startCli(t, [], byDefault, folder)
    const second = await runCli(t, ['serve', '--port', '0'], byDefault, folder)
    assert.deepEqual([second.exit!.code, second.stderr], [1, 'The store ./data/toolgate.db cannot be used: it is in use by another gateway. --store takes another one.\n'])
    writeFileSync(join(folder, 'text.db'), 'a text')
    const other = await runCli(t, ['serve', '--port', '0', '--store', 'sqlite:text.db'], {}, folder)
    assert.deepEqual([other.exit!.code, other.stderr], [1, 'The store text.db cannot be used: it is not an SQLite file.\n'])
  })

  it('of a path in the file of settings is taken from its folder', async (t) => {
    const folder = await directoryOf(t, { ...tools, 'conf/settings.json': JSON.stringify({ store: 'sqlite:../here/calls.db', toolDirectories: ['../tools'], storeMaxRecords: 7 }) })
    const program = await startCli(t, ['--config', 'conf/settings.json'], byDefault, folder)
    await invoke(program, 'hello', {})
    const reader = new DatabaseSync(join(folder, 'here/calls.db'), { readOnly: true })
    assert.deepEqual({ ...reader.prepare('SELECT tool_id, status FROM calls JOIN ends USING (start_sequence)').get() }, { tool_id: 'hello', status: 'succeeded' })
    reader.close()
  })
})
