import assert from 'node:assert/strict'
import { spawn, spawnSync } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { describe, it } from 'node:test'
import { directoryOf, sleeper } from './cli.ts'
import { invoke, send, waitFor } from './harness.ts'
import { fileURLToPath } from 'node:url'

const cli = fileURLToPath(new URL('../../src/cli.ts', import.meta.url))
const isThere = process.platform === 'linux' && spawnSync('script', ['--version']).status === 0

/** Whether a process runs; one that ended and that nobody asked after does not. */
async function runs (pid: number): Promise<boolean> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8').catch(() => '')
  return status !== '' && !/^State:\s+[ZX]/m.test(status)
}

describe('a gateway in a terminal', { skip: isThere ? false : 'no script(1) here, which makes terminals' }, () => {
  it('reloads on SIGHUP, and ends with the terminal, its calls drained', async (t) => {
    const tools = await directoryOf(t, { 'sleep.mjs': sleeper })
    // A terminal of its own, which is closed when this process dies.
    const terminal = spawn('script', ['-qfec', `exec '${process.execPath}' '${cli}' serve --port 0 --store memory --tools '${tools}'`, '/dev/null'], { stdio: ['pipe', 'pipe', 'inherit'] })
    let text = ''
    terminal.stdout.on('data', (chunk: Buffer) => { text += chunk.toString() })
    t.after(() => terminal.kill('SIGKILL'))
    const lines = () => text.split(/\r?\n/).filter((line) => line.startsWith('{') && line.endsWith('}')).map((line) => JSON.parse(line))
    const { pid } = await waitFor(() => lines().find(({ msg }) => msg === 'toolgate is ready'), 'toolgate to be ready', 30_000)
    t.after(() => { try { process.kill(pid, 'SIGKILL') } catch {} })
    const url = /listening at (\S+)"/.exec(text)![1]!

    process.kill(pid, 'SIGHUP')
    await waitFor(() => lines().some(({ msg }) => msg === 'the tools were reloaded'), 'the reload', 30_000)
    const call = invoke({ url }, 'sleep', { ms: 700 })
    assert.equal((await send(`${url}/livez`)).status, 200)

    terminal.kill('SIGKILL')
    assert.equal((await call).body.structuredContent, 700)
    await waitFor(async () => !await runs(pid), 'the gateway to end', 30_000)
  })
})
