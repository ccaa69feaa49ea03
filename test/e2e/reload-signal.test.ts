import assert from 'node:assert/strict'
import { rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { directoryOf, startCli, type Cli } from './cli.ts'
import { invoke, send, waitFor, within, type Scope } from './harness.ts'

const version = (text: string, more = '') => `
export default { id: 'version', description: 'Says ${text}.', kind: 'test', parameters: {}, ${more}
  execute: () => ({ structuredContent: '${text}' }) }
`
const slow = `
import { setTimeout as sleep } from 'node:timers/promises'
export default { id: 'slow', description: 'Takes a while.', kind: 'test', parameters: {},
  async execute (toolCallId, { ms }) { await sleep(ms); return { structuredContent: 'old' } } }
`

interface Served {
  program: Cli
  folder: string
  /** Puts a file in the place of another in one step, as editors do; what reads it meanwhile sees it whole. */
  write (name: string, content: unknown): Promise<void>
  answer (): Promise<unknown>
}

/** The program with a folder of its own as working directory, `tools` and `toolgate.config.json` in it. */
async function served (t: Scope, files: Record<string, string>, args: string[] = []): Promise<Served> {
  const folder = await directoryOf(t, { 'tools/version.mjs': version('one'), ...files })
  const program = await startCli(t, args, {}, folder)
  return {
    program,
    folder,
    async write (name, content) {
      await writeFile(join(folder, 'being-written'), typeof content === 'string' ? content : JSON.stringify(content))
      await rename(join(folder, 'being-written'), join(folder, name))
    },
    answer: async () => (await invoke(program, 'version')).body.structuredContent
  }
}

const logged = (program: Cli, message: string) => program.log.filter(({ msg }) => msg === message)
const RELOADED = 'the tools were reloaded'
const KEPT = 'the tools were not reloaded; those from before are served'

/** Sends SIGHUP and waits until one more reload is over, well or not. */
async function hangUp (program: Cli): Promise<void> {
  const over = () => logged(program, RELOADED).length + logged(program, KEPT).length
  const before = over()
  program.kill('SIGHUP')
  await waitFor(() => over() > before, 'the reload')
}

describe('SIGHUP', { concurrency: 3 }, () => {
  it('loads what was edited, added and removed; ETags follow', async (t) => {
    const { program, folder, write, answer } = await served(t, { 'tools/gone.mjs': version('x').replace("'version'", "'gone'") })
    const etagOf = async () => (await send(`${program.url}/tools`)).headers.get('etag')
    const before = await etagOf()
    assert.equal(await answer(), 'one')

    await write('tools/version.mjs', version('two'))
    await write('tools/added.mjs', version('added').replace("'version'", "'added'"))
    await rm(join(folder, 'tools/gone.mjs'))
    assert.equal(await answer(), 'one', 'nothing changes unasked')
    await hangUp(program)

    assert.equal(await answer(), 'two')
    assert.deepEqual((await send(`${program.url}/tools`)).body.tools.map(({ id }: any) => id).sort(), ['added', 'version'])
    assert.equal((await invoke(program, 'gone')).status, 404)
    const after = await etagOf()
    assert.notEqual(after, before)
    assert.equal((await send(`${program.url}/tools`, { headers: { 'if-none-match': before! } })).status, 200)
    assert.deepEqual(logged(program, RELOADED).map(({ level, tools }) => [level, tools]), [[30, 2]])

    await hangUp(program)
    assert.equal(await etagOf(), after, 'the same tools have the same tag')
  })

  it('a module that is broken leaves the old tools served, and the log says why; once mended it is loaded', async (t) => {
    const { program, write, answer } = await served(t, {})
    await write('tools/version.mjs', 'export default { id: "version" // never closed')
    await hangUp(program)
    assert.equal(await answer(), 'one')
    const [line] = logged(program, KEPT)
    assert.equal(line.level, 50)
    assert.match(line.reason, /version\.mjs/)
    assert.equal(program.exit, undefined)

    await write('tools/version.mjs', version('mended'))
    await hangUp(program)
    assert.equal(await answer(), 'mended')
  })

  it('settings of tools follow the file; other settings that changed are named, and wait for the next start', async (t) => {
    const { program, write } = await served(t, { 'toolgate.config.json': JSON.stringify({ tools: { version: { timeoutMs: 1111 } } }) })
    const timeoutOf = async () => (await send(`${program.url}/tools/version`)).body.timeoutMs
    assert.equal(await timeoutOf(), 1111)

    await write('toolgate.config.json', { maxBodyBytes: 5, corsOrigins: ['*'], tools: { 'ver*': { timeoutMs: 2222 }, nobody: {} } })
    await hangUp(program)
    assert.equal(await timeoutOf(), 2222)
    const warnings = program.log.filter(({ level }) => level === 40)
    assert.deepEqual(warnings.filter(({ settings }) => settings !== undefined).map(({ settings }) => settings), [['corsOrigins', 'maxBodyBytes']])
    await waitFor(() => logged(program, 'no tool fits these settings').some(({ pattern }) => pattern === 'nobody'), 'the warning')
    assert.equal((await invoke(program, 'version', { text: 'more than five bytes' })).status, 200)

    await write('toolgate.config.json', {})
    await hangUp(program)
    assert.equal(await timeoutOf(), 60_000)
  })

  it('a configuration that cannot be used changes nothing, and the log says why, without its values', async (t) => {
    const { program, write, answer } = await served(t, { 'toolgate.config.json': JSON.stringify({ tools: { version: { timeoutMs: 1111 } } }) })
    await write('tools/version.mjs', version('two'))
    await write('toolgate.config.json', { port: 'secret-port', tools: { version: { timeoutMs: 0 } } })
    await hangUp(program)
    assert.equal(await answer(), 'one')
    assert.equal((await send(`${program.url}/tools/version`)).body.timeoutMs, 1111)
    const [{ reason }] = logged(program, KEPT)
    assert.deepEqual((await send(`${program.url}/readyz`)).body.reasons.map(({ code }: { code: string }) => code), ['reload_failed'])
    for (const pointer of ['/port', '/tools/version/timeoutMs']) assert.ok(reason.includes(`toolgate.config.json ${pointer}: must `), reason)
    assert.doesNotMatch(program.stdout + program.stderr, /secret/)

    await write('toolgate.config.json', '{"tools": {')
    await hangUp(program)
    assert.match(logged(program, KEPT)[1].reason, /toolgate\.config\.json:1:12: is not JSON/)
  })

  it('calls in flight end as they began', async (t) => {
    const { program, write } = await served(t, { 'tools/slow.mjs': slow })
    const call = invoke(program, 'slow', { ms: 1500 })
    await new Promise((resolve) => setTimeout(resolve, 300))
    await write('tools/slow.mjs', slow.replace("'old'", "'new'"))
    await hangUp(program)
    assert.equal((await invoke(program, 'slow', { ms: 0 })).body.structuredContent, 'new')
    const { status, body } = await call
    assert.deepEqual([status, body.structuredContent], [200, 'old'])
  })

  it('many at once are carried out one after another, as few, and the last state counts', async (t) => {
    const { program, write, answer } = await served(t, {
      'tools/waits.mjs': "import { setTimeout as sleep } from 'node:timers/promises'\nawait sleep(200)\n" + version('x').replace("'version'", "'waits'")
    })
    for (let i = 0; i < 20; i++) {
      await write('tools/version.mjs', version(`edit-${i}`))
      program.kill('SIGHUP')
    }
    await waitFor(async () => await answer() === 'edit-19', 'the last edit')
    assert.ok(logged(program, RELOADED).length < 20)
    assert.equal(logged(program, KEPT).length, 0)
  })

  it('one that arrives before the gateway is ready is carried out once it is', async (t) => {
    // The module reads its version while it is loaded, then has the signal sent, and only then is done.
    const early = `
import { setTimeout as sleep } from 'node:timers/promises'
globalThis.loads = (globalThis.loads ?? 0) + 1
if (globalThis.loads === 1) { process.kill(process.pid, 'SIGHUP'); await sleep(100) }
const text = String(globalThis.loads)
export default { id: 'loads', description: '', kind: 'test', parameters: {}, execute: () => ({ structuredContent: text }) }
`
    const { program } = await served(t, { 'tools/loads.mjs': early })
    await waitFor(() => logged(program, RELOADED).length === 1, 'the reload')
    const messages = program.log.map(({ msg }) => msg)
    assert.ok(messages.indexOf('toolgate is ready') < messages.indexOf(RELOADED))
    assert.equal(program.exit, undefined)
  })

  it('one during the shutdown is ignored', async (t) => {
    const { program } = await served(t, { 'tools/slow.mjs': slow })
    const call = invoke(program, 'slow', { ms: 700 })
    await new Promise((resolve) => setTimeout(resolve, 200))
    program.kill('SIGTERM')
    await waitFor(() => logged(program, 'shutting down').length === 1, 'the shutdown to begin')
    program.kill('SIGHUP')
    assert.equal((await call).status, 200)
    assert.deepEqual(await within(program.exited, 'the end'), { code: 0, signal: null })
    assert.deepEqual([logged(program, RELOADED), logged(program, KEPT)], [[], []])
  })
})

describe('--watch', { concurrency: 3 }, () => {
  it('reloads when a module is edited, added or removed', async (t) => {
    const { program, folder, write, answer } = await served(t, {}, ['--watch'])
    await write('tools/version.mjs', version('two'))
    await waitFor(async () => await answer() === 'two', 'the edit')
    await write('tools/added.mjs', version('x').replace("'version'", "'added'"))
    await waitFor(async () => (await invoke(program, 'added')).status === 200, 'the new tool')
    await rm(join(folder, 'tools/added.mjs'))
    await waitFor(async () => (await invoke(program, 'added')).status === 404, 'its end')
  })

  it('reloads when the file of settings comes, changes and goes', async (t) => {
    const { program, folder, write } = await served(t, {}, ['--watch'])
    const timeoutIs = async (timeoutMs: number) => (await send(`${program.url}/tools/version`)).body.timeoutMs === timeoutMs
    await write('toolgate.config.json', { tools: { version: { timeoutMs: 1111 } } })
    await waitFor(() => timeoutIs(1111), 'that it came')
    await write('toolgate.config.json', { tools: { version: { timeoutMs: 2222 } } })
    await waitFor(() => timeoutIs(2222), 'that it changed')
    await rm(join(folder, 'toolgate.config.json'))
    await waitFor(() => timeoutIs(60_000), 'that it went')
  })

  it('a helper in a folder below counts, packages and hidden files do not', async (t) => {
    const { program, write } = await served(t, {
      'toolgate.config.json': JSON.stringify({ watch: true }), 'tools/lib/text.mjs': '1', 'tools/node_modules/x/index.js': '1', 'tools/.cache/x': '1'
    })
    await write('tools/node_modules/x/index.js', '2')
    await write('tools/.cache/x', '2')
    await new Promise((resolve) => setTimeout(resolve, 400))
    assert.equal(logged(program, RELOADED).length, 0)
    await write('tools/lib/text.mjs', '2')
    await waitFor(() => logged(program, RELOADED).length === 1, 'the reload')
  })

  it('a broken module leaves the old tools served', async (t) => {
    const { program, write, answer } = await served(t, {}, ['--watch'])
    await write('tools/version.mjs', 'export default {')
    await waitFor(() => logged(program, KEPT).length > 0, 'the reason')
    assert.equal(await answer(), 'one')
  })

  it('is no obstacle to a shutdown', async (t) => {
    const { program } = await served(t, {}, ['--watch'])
    program.kill('SIGTERM')
    assert.deepEqual(await within(program.exited, 'the end'), { code: 0, signal: null })
  })
})
