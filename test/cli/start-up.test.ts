import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { fileURLToPath } from 'node:url'
import { unknownVariables } from '../../src/config/configuration.ts'
import { directoryOf, runCli, type Cli } from '../e2e/cli.ts'

const cli = fileURLToPath(new URL('../../src/cli.ts', import.meta.url))

/** Writes the URL of each module that is loaded to the file that LOADED names. */
const witness = `
import { appendFileSync } from 'node:fs'
import { registerHooks } from 'node:module'
registerHooks({ load (url, context, nextLoad) {
  appendFileSync(process.env.LOADED, url + '\\n')
  return nextLoad(url, context)
} })`

describe('the start of a command', { concurrency: 3 }, () => {
  for (const [command, isServer] of [[['tools'], false], [['invoke', 'echo'], false], [['events'], false], [['--help'], false], [['config'], false], [['serve', '--tools', '/nowhere'], true]] as const) {
    it(`loads ${isServer ? 'the gateway' : 'no gateway'}: toolgate ${command.join(' ')}`, async (t) => {
      const loaded = join(await directoryOf(t, { loaded: '' }), 'loaded')
      const env = { PATH: process.env.PATH, LOADED: loaded, TOOLGATE_URL: 'http://127.0.0.1:1', TOOLGATE_STORE: 'memory' }
      spawnSync(process.execPath, ['--import', `data:text/javascript,${encodeURIComponent(witness)}`, cli, ...command], { env, cwd: tmpdir() })
      const modules = await readFile(loaded, 'utf8')
      assert.match(modules, /\/commander\//)
      assert.equal(/\/node_modules\/(fastify|pino|chokidar)\//.test(modules), isServer)
      assert.equal(/\/src\/(gateway|store|invocation|http|events)\b/.test(modules), isServer)
    })
  }

  it('without a command is told what there is', async (t) => {
    const { exit, stderr } = await runCli(t, []) as Cli
    assert.equal(exit!.code, 2)
    for (const command of ['serve', 'config', 'tools', 'invoke', 'events']) assert.match(stderr, new RegExp(`^  ${command} `, 'm'))
  })

  for (const command of ['tools', 'invoke', 'events']) {
    it(`toolgate ${command} --help tells of its output, the key, exit codes and examples`, async (t) => {
      const { exit, stdout } = await runCli(t, [command, '--help'])
      assert.equal(exit!.code, 0)
      for (const word of ['--json', '--url', 'TOOLGATE_URL', 'TOOLGATE_API_KEY', 'Exit codes:', 'Examples:', `toolgate ${command} `]) assert.ok(stdout.includes(word), word)
      assert.doesNotMatch(stdout, /--api-key/, 'arguments can be read by everyone on the machine')
    })
  }
})

describe('TOOLGATE_URL', () => {
  it('is a known variable, and no setting of a gateway', async (t) => {
    assert.deepEqual(unknownVariables({ TOOLGATE_URL: 'http://127.0.0.1:8080', TOOLGATE_URI: '' }), ['TOOLGATE_URI'])
    const { stdout, stderr } = await runCli(t, ['config'], { TOOLGATE_URL: 'http://127.0.0.1:9' })
    assert.deepEqual([JSON.parse(stdout).url, stdout.includes('127.0.0.1:9'), stderr], [undefined, false, ''])
  })
})
