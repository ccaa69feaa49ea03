import assert from 'node:assert/strict'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { createClient, ToolError } from '../../../src/client.ts'
import { directoryOf, startCli } from '../../e2e/cli.ts'
import { waitFor } from '../../e2e/harness.ts'
import { rejection } from './servers.ts'

/** Never ends by itself, but for a second run. */
const tools = {
  'never.js': "export default { id: 'never', description: 'd', kind: 'test', parameters: {}, execute: () => new Promise(() => {}) }",
  'again.js': `export default {
    id: 'again', description: 'd', kind: 'test', parameters: {}, replay: 'safe',
    execute: (id, input, signal, onUpdate, { attempt }) => attempt === 1 ? new Promise(() => {}) : { structuredContent: attempt }
  }`
}

describe('a gateway that is killed and starts again', () => {
  it('tells a caller who followed its call how it ended, after more tries than another request gets', { timeout: 120_000 }, async (t) => {
    const directory = await directoryOf(t, tools)
    const start = async (port: string) => await startCli(t, ['--tools', directory, '--port', port], { TOOLGATE_STORE: `sqlite:${join(directory, 'calls.db')}` })
    const first = await start('0')
    let tries = 0
    const client = createClient({
      url: first.url,
      retry: { retries: 1, minDelayMs: 50 },
      fetch: async (input, init) => {
        tries++
        return await fetch(input, init)
      }
    })
    const onUpdate = () => {}
    const ends = Promise.all([
      rejection(client.invoke('never', {}, { onUpdate })),
      client.invoke('again', {}, { onUpdate, idempotencyKey: 'k', throwOnError: false })
    ])
    await waitFor(async () => (await client.invocations({ status: 'running' })).invocations.length === 2, 'both calls to run')
    first.kill('SIGKILL')
    const asked = tries
    await waitFor(() => tries >= asked + 6, 'six tries in vain', 20_000)
    await start(new URL(first.url).port)
    const [never, again] = await ends
    assert.ok(never instanceof ToolError, String(never))
    assert.equal(never.code, 'outcome_unknown')
    assert.deepEqual([again.isError, again.structuredContent], [false, 2])
  })
})
