import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { describe, it, type TestContext } from 'node:test'
import { fileURLToPath } from 'node:url'
import { directoryOf } from '../e2e/cli.ts'

const fileOf = (path: string) => fileURLToPath(new URL(path, import.meta.url))
const apiKey = 'a-static-key-of-this-test'

/** A suite of one test, and the verdict on it. */
async function verdictOn (t: TestContext, body: string): Promise<{ facts: Map<string, boolean>, output: string }> {
  const folder = await directoryOf(t, {
    'suite.test.ts': `
      import { it } from 'node:test'
      import { canary } from '${fileOf('canary.ts')}'
      import { directoryOf, startCli } from '${fileOf('../e2e/cli.ts')}'
      import { echo, invoke, send, startGateway, tool } from '${fileOf('../e2e/harness.ts')}'
      const apiKey = '${apiKey}'
      const headers = { authorization: 'Bearer ' + apiKey }
      it('is done', async (t) => {${body}})`
  })
  const { NODE_TEST_CONTEXT, ...env } = process.env
  const run = (...args: string[]) => new Promise<{ code: unknown, output: string }>((resolve) => {
    execFile(process.execPath, args, { env: { ...env, EVIDENCE: join(folder, 'evidence') }, cwd: folder }, (error, stdout) => resolve({ code: error?.code ?? 0, output: stdout }))
  })
  const suite = await run('--import', fileOf('gather.ts'), '--test', '--test-reporter=tap', 'suite.test.ts')
  assert.equal(suite.code, 0, suite.output)
  const { code, output } = await run('--test', '--test-reporter=tap', fileOf('verdict.ts'))
  const facts = new Map([...output.matchAll(/^ {4}(not )?ok \d+ - (.*)$/gm)].map(([, not, name]) => [name!, not === undefined]))
  assert.equal(code === 0, [...facts.values()].every(Boolean), 'a fact that is none fails the run')
  return { facts, output }
}

const clean = 'holds no key, ticket, token or masked field'
const leaks: Record<string, { body: string, said: RegExp[] }> = {
  'a line in the log of a gateway without one': {
    body: `const gateway = await startGateway(t, { apiKey, tools: [tool('loose', (_id, _input, _signal, _update, { log }) => { log.debug({ apiKey }, 'called'); return {} })] })
      await invoke(gateway, 'loose', {}, { headers })`,
    said: [/a static key in log line: .*called/]
  },
  'a line in the log that a test gave': {
    body: `const logger = { debug () {}, info () {}, warn () {}, error () {} }
      const gateway = await startGateway(t, { apiKey, logger, tools: [tool('loose', () => { logger.error({}, 'no such key: ' + apiKey); return {} })] })
      await invoke(gateway, 'loose', {}, { headers })`,
    said: [/a static key in log line: .*no such key/]
  },
  'an input, in the event and the record of its call': {
    body: 'const gateway = await startGateway(t, { tools: [echo] }); await invoke(gateway, \'echo\', { password: canary() })',
    said: [/a masked field in event: /, /a masked field in record: /]
  },
  'the words of a problem': {
    body: 'const { url } = await startGateway(t); await send(url + \'/nowhere/tgt_\' + \'x\'.repeat(43))',
    said: [/a ticket in problem: .*nowhere/]
  },
  'the log of a program': {
    body: `const tools = await directoryOf(t, { 'loose.mjs': 'export default { id: "loose", description: "", kind: "test", parameters: {}, execute (id, input, signal, update, { log }) { log.warn(input, "called"); return {} } }' })
      const program = await startCli(t, ['--tools', tools], { TOOLGATE_API_KEY: apiKey })
      await invoke(program, 'loose', { given: apiKey }, { headers })
      await send(program.url + '/events?lastEventId=0', { headers: { ...headers, accept: 'application/json' } })
      program.kill('SIGTERM') // so that what it has logged is written
      await program.exited`,
    said: [/a static key in log line: .*given/, /a static key in event: /]
  }
}

describe('what npm test gathers', () => {
  for (const [name, { body, said }] of Object.entries(leaks)) {
    it(`a secret fails it: ${name}`, async (t) => {
      const { facts, output } = await verdictOn(t, body)
      assert.equal(facts.get(clean), false)
      for (const finding of said) assert.match(output, finding)
      assert.ok(!output.includes(apiKey), 'the verdict leaks it')
    })
  }

  it('no secret fails it as well where next to nothing was looked at, or no secret was in use', async (t) => {
    const { facts } = await verdictOn(t, 'const gateway = await startGateway(t, { apiKey, tools: [echo] }); await invoke(gateway, \'echo\', 1, { headers })')
    assert.deepEqual([...facts].filter(([, isSo]) => isSo).map(([name]) => name), [clean])
    assert.ok(facts.size > 10)
  })

  it('no report at all fails it', async (t) => {
    const folder = await directoryOf(t, {})
    const error = await new Promise<Error | null>((resolve) => {
      const { NODE_TEST_CONTEXT, ...env } = process.env
      execFile(process.execPath, ['--test', fileOf('verdict.ts')], { env: { ...env, EVIDENCE: join(folder, 'none') } }, resolve)
    })
    assert.notEqual(error, null)
  })
})
