import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { join, relative } from 'node:path'
import { describe, it } from 'node:test'
import { invoke, send, waitFor, within } from './harness.ts'
import { Cli, directoryOf, runCli, sleeper, startCli } from './cli.ts'

const apiKey = 'correct-horse-battery-staple'
const broken = 'export default { id: "broken" // never closed'
const badSchema = 'export const tool = { id: "bad_schema", description: "", kind: "test", parameters: { $ref: "#/$defs/Nowhere" }, execute () {} }'

describe('toolgate serve', { concurrency: 3 }, () => {
  it('takes its settings from variables, and flags win', async (t) => {
    const directory = await directoryOf(t, { 'sleep.mjs': sleeper })
    const program = await startCli(t, ['--max-body-bytes', '100'], { TOOLGATE_TOOLS: directory, TOOLGATE_API_KEY: apiKey, TOOLGATE_PORT: '1', TOOLGATE_MAX_BODY_BYTES: '50' })
    const headers = { authorization: `Bearer ${apiKey}` }
    assert.equal((await send(`${program.url}/tools`)).status, 401)
    assert.equal((await invoke(program, 'sleep', { text: 'x'.repeat(40) }, { headers })).status, 200)
    assert.match((await invoke(program, 'sleep', { text: 'x'.repeat(100) }, { headers })).body.detail, /100 bytes/)
  })

  it('logs one line a call, with neither input nor output nor the key', async (t) => {
    const program = await startCli(t, ['--tools', await directoryOf(t, { 'sleep.mjs': sleeper, 'fail.mjs': 'export default { id: "fail", description: "", kind: "test", parameters: {}, execute () { throw new Error("secret-output") } }' })], { TOOLGATE_API_KEY: apiKey })
    const headers = { authorization: `Bearer ${apiKey}` }
    const { body } = await invoke(program, 'sleep', { ms: 1, note: 'secret-input' }, { headers })
    await invoke(program, 'fail', 'secret-input', { headers })
    await invoke(program, 'fail', 'secret-input', { headers: { authorization: 'Bearer secret-wrong-key' } })
    const lines = await waitFor(() => {
      const found = program.log.filter(({ msg }) => msg === 'invocation')
      return found.length >= 2 && found
    }, 'the log lines')
    assert.deepEqual(lines.map(({ tool, status, errorCode }) => [tool, status, errorCode]), [['sleep', 'succeeded', undefined], ['fail', 'failed', 'tool_error']])
    assert.equal(lines[0].invocation, body.invocation.invocationId)
    assert.equal(typeof lines[0].durationMs, 'number')
    assert.doesNotMatch(program.stdout + program.stderr, new RegExp(`secret|${apiKey}`))
  })

  it('a module that fails and a tool that is refused are reported with file, tool and reason; the others are served', async (t) => {
    const tools = await directoryOf(t, { 'broken.js': broken, 'bad.ts': badSchema, 'sleep.mjs': sleeper, 'twin.mjs': sleeper, 'thrower.mjs': '\nthrow new Error("no database")' })
    const program = await startCli(t, ['--tools', tools])
    const { body } = await send(`${program.url}/tools`)
    assert.deepEqual(body.tools.map(({ id, source }: any) => [id, source]), [['sleep', 'sleep.mjs']])
    const reports = program.log.filter(({ msg }) => msg === 'a tool was not loaded')
    assert.deepEqual(
      reports.map(({ file, tool, at }) => [relative(tools, file), tool, at]).sort(),
      [['bad.ts', 'bad_schema', undefined], ['broken.js', undefined, undefined], ['thrower.mjs', undefined, 'thrower.mjs:2:7'], ['twin.mjs', 'sleep', undefined]]
    )
    const reasonOf = (name: string) => reports.find(({ file }) => file === join(tools, name)).reason
    assert.match(reasonOf('bad.ts'), /Nowhere/)
    assert.match(reasonOf('twin.mjs'), /registered already/)
    assert.equal(reasonOf('thrower.mjs'), 'no database')
    assert.ok(reasonOf('broken.js').length > 0)
    assert.equal((await invoke(program, 'sleep', {})).status, 200)
  })

  for (const [name, files] of Object.entries({ 'a broken module': { 'broken.js': broken }, 'a refused tool': { 'bad.ts': badSchema, 'sleep.mjs': sleeper } })) {
    it(`--strict makes ${name} fatal`, async (t) => {
      const directory = await directoryOf(t, files)
      const program = await runCli(t, ['serve', '--port', '0', '--strict', '--tools', directory])
      assert.equal(program.exit!.code, 1)
      assert.match(program.stderr, new RegExp(Object.keys(files)[0]!.replace('.', '\\.')))
      assert.doesNotMatch(program.stderr, /\n {4}at /, 'a message, no stack')
      assert.doesNotMatch(program.stdout, /Server listening/)
    })
  }

  it('every fault is told, however many there are and however slowly they are read', async (t) => {
    const reason = 'x'.repeat(1000)
    const names = Array.from({ length: 300 }, (_, i) => `broken-${i}.mjs`)
    const directory = await directoryOf(t, Object.fromEntries(names.map((name) => [name, `throw new Error('${reason}')`])))
    const program = new Cli(t, ['serve', '--port', '0', '--strict', '--tools', directory], {}, directory)
    program.child.stderr!.pause()
    await waitFor(() => program.stdout.split('a tool was not loaded').length > names.length, 'the faults to be logged', 30_000)
    program.child.stderr!.resume()
    assert.deepEqual(await within(program.exited, 'the end', 30_000), { code: 1, signal: null })
    for (const name of names) assert.ok(program.stderr.includes(`/${name}: ${reason}`), name)
    assert.ok(program.stderr.endsWith(')\n'))
  })

  it('a directory that is not there is an error that names it', async (t) => {
    const program = await runCli(t, ['serve', '--port', '0', '--tools', '/nowhere/at-all'])
    assert.equal(program.exit!.code, 1)
    assert.match(program.stderr, /\/nowhere\/at-all.*ENOENT/)
    assert.doesNotMatch(program.stderr, /\n {4}at /)
  })

  it('a port that is taken is an error that names it', async (t) => {
    const tools = await directoryOf(t, { 'sleep.mjs': sleeper })
    const { port } = await startCli(t, ['--tools', tools])
    const program = await runCli(t, ['serve', '--port', String(port), '--tools', tools])
    assert.equal(program.exit!.code, 1)
    assert.match(program.stderr, new RegExp(`EADDRINUSE.*${port}`))
  })

  it('settings that cannot be used are told all at once, as they were written, and never quoted', async (t) => {
    const program = await runCli(t, ['serve', '--port', 'http', '--timeout-ms', '-1'], { TOOLGATE_API_KEY: 'too-short', TOOLGATE_LOG_LEVEL: 'loud' })
    assert.equal(program.exit!.code, 1)
    for (const name of ['--port', '--timeout-ms', 'TOOLGATE_API_KEY', 'TOOLGATE_LOG_LEVEL']) assert.match(program.stderr, new RegExp(`${name}: must `))
    assert.doesNotMatch(program.stderr, /too-short|loud/)
  })

  it('a variable that looks like ours and is not is warned of', async (t) => {
    const program = await startCli(t, ['--tools', await directoryOf(t, { 'sleep.mjs': sleeper })], { TOOLGATE_MAX_BODY: '5' })
    assert.deepEqual(program.log.filter(({ msg }) => msg === 'unknown variable').map(({ variable }) => variable), ['TOOLGATE_MAX_BODY'])
  })

  it('--help names every option, its default and its variable', async (t) => {
    const program = await runCli(t, ['serve', '--help'])
    assert.equal(program.exit!.code, 0)
    for (const option of ['--host', '--port', '--tools', '--strict', '--hooks', '--shutdown-grace-ms', '--max-body-bytes', '--timeout-ms', '--cors-origins', '--auth']) assert.ok(program.stdout.includes(option), option)
    assert.match(program.stdout, /default: 8080/)
    assert.match(program.stdout, /TOOLGATE_API_KEY/)
    assert.doesNotMatch(program.stdout, /--api-key/, 'arguments can be read by everyone on the machine')
  })

  it('an option that there is not is refused with a pointer to --help', async (t) => {
    const program = await runCli(t, ['serve', '--prot', '1'])
    assert.notEqual(program.exit!.code, 0)
    assert.match(program.stderr, /--prot[\s\S]*--help/)
  })

  it('--version is that of the package', async (t) => {
    const { version } = JSON.parse(await readFile(new URL('../../package.json', import.meta.url), 'utf8'))
    assert.equal((await runCli(t, ['--version'])).stdout.trim(), version)
  })
})

describe('a file of settings', { concurrency: 3 }, () => {
  it('is read from the working directory; its paths are taken from its folder, and it sets what tools are', async (t) => {
    const content = { maxBodyBytes: 50, apiKey, toolDirectories: ['./mine'], tools: { 'sle*': { kind: 'wait', timeoutMs: 5000 }, 'pi_*': {} } }
    const folder = await directoryOf(t, { 'mine/sleep.mjs': sleeper, 'toolgate.config.json': JSON.stringify(content) })
    const program = await startCli(t, [], {}, folder)
    const headers = { authorization: `Bearer ${apiKey}` }
    const { body } = await send(`${program.url}/tools`, { headers })
    assert.deepEqual(body.tools.map(({ id, kind, timeoutMs }: any) => [id, kind, timeoutMs]), [['sleep', 'wait', 5000]])
    assert.match((await invoke(program, 'sleep', { text: 'x'.repeat(100) }, { headers })).body.detail, /50 bytes/)
    await waitFor(() => program.log.some(({ level, pattern, msg }) => level === 40 && pattern === 'pi_*' && msg === 'no tool fits these settings'), 'the warning')
    assert.equal(program.log.filter(({ pattern }) => pattern !== undefined).length, 1)
    assert.ok(!(program.stdout + program.stderr).includes(apiKey))
  })

  it('is another one where --config names it', async (t) => {
    const folder = await directoryOf(t, {
      'conf/mine/sleep.mjs': sleeper,
      'conf/x.json': JSON.stringify({ toolDirectories: ['./mine'], tools: { sleep: { kind: 'named' } } }),
      'toolgate.config.json': 'not read'
    })
    const program = await startCli(t, ['--config', 'conf/x.json'], {}, folder)
    assert.equal((await send(`${program.url}/tools/sleep`)).body.kind, 'named')
  })

  it('that cannot be used stops the start, with the faults of flags and variables beside its own', async (t) => {
    const folder = await directoryOf(t, { 'toolgate.config.json': '{"port": "secret-port", "tools": {"pi_*": {"timeoutMs": 0}}}' })
    const program = await runCli(t, ['serve', '--timeout-ms', 'x'], { TOOLGATE_LOG_LEVEL: 'loud' }, folder)
    assert.equal(program.exit!.code, 1)
    for (const name of ['--timeout-ms', 'TOOLGATE_LOG_LEVEL', 'toolgate.config.json /port', 'toolgate.config.json /tools/pi_*/timeoutMs']) assert.ok(program.stderr.includes(`  ${name}: must `), name)
    assert.doesNotMatch(program.stderr, /secret|\n {4}at /)
  })
})

describe('toolgate config', { concurrency: 3 }, () => {
  it('prints what serve would run with, as a file that can be read again; secrets are masked', async (t) => {
    const folder = await directoryOf(t, { 'toolgate.config.json': JSON.stringify({ port: 1, maxBodyBytes: 2, strict: true, tools: { 'pi_*': { sensitive: true } } }) })
    const program = await runCli(t, ['config', '--port', '3', '--tools', 'a,b'], { TOOLGATE_PORT: '4', TOOLGATE_API_KEY: apiKey, TOOLGATE_PROT: '1' }, folder)
    assert.equal(program.exit!.code, 0)
    const { port, maxBodyBytes, strict, tools, toolDirectories, apiKey: masked, hooks } = JSON.parse(program.stdout)
    assert.deepEqual([port, maxBodyBytes, strict, tools, masked, hooks], [3, 2, true, { 'pi_*': { sensitive: true } }, '********', undefined])
    assert.deepEqual(toolDirectories, [`${folder}/a`, `${folder}/b`])
    assert.match(program.stderr, /^TOOLGATE_PROT: .*\n$/)

    const { apiKey: _, ...saved } = JSON.parse(program.stdout)
    const other = await directoryOf(t, { 'saved.json': JSON.stringify(saved) })
    const again = await runCli(t, ['config', '--config', 'saved.json'], { TOOLGATE_API_KEY: apiKey }, other)
    assert.equal(again.stdout, program.stdout)
  })

  it('says what is at fault, on standard error, and exits with 1', async (t) => {
    const program = await runCli(t, ['config', '--port', 'secret-port', '--config', 'nowhere.json'])
    assert.deepEqual([program.exit!.code, program.stdout], [1, ''])
    assert.match(program.stderr, /--port: must [\s\S]*nowhere\.json: there is no such file/)
    assert.doesNotMatch(program.stderr, /secret|\n {4}at /)
  })

  it('takes the flags of serve', async (t) => {
    const optionsOf = async (command: string) => [...(await runCli(t, [command, '--help'])).stdout.matchAll(/^ {2}(-\S+)/gm)].map(([, flag]) => flag)
    const options = await optionsOf('config')
    assert.ok(options.length > 30)
    assert.deepEqual(options, await optionsOf('serve'))
  })
})

describe('an address beyond loopback', { concurrency: 3 }, () => {
  for (const host of ['0.0.0.0', '::', '192.0.2.1']) {
    it(`${host} without a key is refused, and what to do is said`, async (t) => {
      const program = await runCli(t, ['serve', '--host', host, '--port', '0', '--tools', await directoryOf(t, { 'sleep.mjs': sleeper })])
      assert.equal(program.exit!.code, 1)
      assert.match(program.stderr, /TOOLGATE_API_KEY/)
      assert.match(program.stderr, /TOOLGATE_AUTH=none/)
      assert.doesNotMatch(program.stdout, /Server listening/)
    })
  }

  it('with a key is served', async (t) => {
    const program = await startCli(t, ['--host', '0.0.0.0', '--tools', await directoryOf(t, { 'sleep.mjs': sleeper })], { TOOLGATE_API_KEY: apiKey })
    assert.equal((await send(`http://127.0.0.1:${program.port}/tools`)).status, 401)
  })

  it('with TOOLGATE_AUTH=none, said on purpose, is served to all, and warned of', async (t) => {
    const program = await startCli(t, ['--host', '0.0.0.0', '--tools', await directoryOf(t, { 'sleep.mjs': sleeper })], { TOOLGATE_AUTH: 'none' })
    assert.equal((await send(`http://127.0.0.1:${program.port}/tools`)).status, 200)
    await waitFor(() => program.log.some(({ level, msg }) => level === 40 && /everyone/.test(msg)), 'the warning')
  })
})

describe('a hooks module', { concurrency: 3 }, () => {
  const hooks = `
export function beforeToolCall ({ args }) { if (args.forbidden) return { block: true, reason: 'forbidden by the module' } }
export async function afterToolCall () { return { details: 'seen by the module' } }
`
  it('is named in the configuration, and its hooks run', async (t) => {
    const directory = await directoryOf(t, { 'tools/sleep.mjs': sleeper, 'hooks.ts': hooks })
    const program = await startCli(t, ['--tools', `${directory}/tools`, '--hooks', `${directory}/hooks.ts`])
    assert.equal((await invoke(program, 'sleep', {})).body.details, 'seen by the module')
    const blocked = await invoke(program, 'sleep', { forbidden: true })
    assert.deepEqual([blocked.status, blocked.body.content[0].text], [403, 'forbidden by the module'])
  })

  for (const [name, text] of Object.entries({ 'that exports no hook': 'export const nothing = 1', 'that cannot be loaded': broken })) {
    it(`${name} is fatal`, async (t) => {
      const directory = await directoryOf(t, { 'tools/sleep.mjs': sleeper, 'hooks.js': text })
      const program = await runCli(t, ['serve', '--port', '0', '--tools', `${directory}/tools`, '--hooks', `${directory}/hooks.js`])
      assert.equal(program.exit!.code, 1)
      assert.match(program.stderr, /hooks\.js/)
    })
  }
})
