import assert from 'node:assert/strict'
import { before, describe, it, after } from 'node:test'
import { echo, send, startGateway, tool, type RunningGateway } from '../e2e/harness.ts'
import { shell, withoutJq, withoutTerminals } from './command-line.ts'

const hostile = tool('hostile', () => {}, { description: '\u001B[2J\u001B]0;title\u0007red\u202Etxt\r\u009B31mover\u0008\nsecond line' })
const wide = tool('wide', () => {}, { description: '漢字'.repeat(60), kind: '読む', outputSchema: { type: 'object', description: 'raw \u009B31m' } })

describe('toolgate tools', { concurrency: 3 }, () => {
  let gateway: RunningGateway
  let remove: () => unknown
  let env: Record<string, string>
  before(async () => {
    gateway = await startGateway({ after: (run) => { remove = run } }, { tools: [echo, hostile, wide] })
    env = { TOOLGATE_URL: gateway.url }
  })
  after(() => remove())

  it('prints what GET /tools answers where it goes to a pipe', async (t) => {
    const { stdout, stderr, code } = await shell(t, 'toolgate tools', { env })
    assert.deepEqual([JSON.parse(stdout), stderr, code], [(await send(`${gateway.url}/tools`)).body, '', 0])
    assert.equal(stdout.split('\n').length, 2, 'one line')
  })

  it('describes one tool', async (t) => {
    const { stdout, code } = await shell(t, 'toolgate tools wide', { env })
    assert.deepEqual([JSON.parse(stdout), code], [(await send(`${gateway.url}/tools/wide`)).body, 0])
  })

  it('--url wins over TOOLGATE_URL', async (t) => {
    const { stdout } = await shell(t, `toolgate tools echo --url ${gateway.url}/`, { env: { TOOLGATE_URL: 'http://127.0.0.1:1' } })
    assert.equal(JSON.parse(stdout).id, 'echo')
  })

  it('is clean for jq', { skip: withoutJq }, async (t) => {
    assert.equal((await shell(t, "toolgate tools | jq -r '.tools[].id'", { env })).stdout, 'echo\nhostile\nwide\n')
  })

  it('is a table on a terminal, cut to its width, which a description cannot control', { skip: withoutTerminals }, async (t) => {
    const { screen, stdout, code } = await shell(t, 'toolgate tools', { env, columns: 40 })
    assert.deepEqual([screen, code], [[
      'echo     test  echo',
      'hostile  test  redtxt over\uFFFD second line',
      `wide     読む  ${'漢字'.repeat(6)}…`,
      ''
    ], 0])
    assert.doesNotMatch(stdout, /[^\P{Cc}\r\n]|\u202E/u)
  })

  it('describes one tool for people', { skip: withoutTerminals }, async (t) => {
    const { screen, stdout } = await shell(t, 'toolgate tools wide', { env, columns: 40 })
    assert.equal(screen[0], 'wide (読む)')
    assert.ok(screen.includes('timeout 60000 ms, parallel, replay never, input strict, from code'))
    assert.ok(screen.includes('  "description": "raw \\u009b31m"'))
    assert.doesNotMatch(stdout, /[^\P{Cc}\r\n]/u)
  })

  it('--json is JSON on a terminal, too, with controls as escapes', { skip: withoutTerminals }, async (t) => {
    const { stdout } = await shell(t, 'toolgate tools --json', { env, columns: 40 })
    assert.deepEqual(JSON.parse(stdout), (await send(`${gateway.url}/tools`)).body)
    assert.doesNotMatch(stdout, /[^\P{Cc}\r\n]|\u202E/u)
  })

  it('says so where there are none', { skip: withoutTerminals }, async (t) => {
    const { url } = await startGateway(t, { tools: [] })
    assert.deepEqual((await shell(t, 'toolgate tools', { env: { TOOLGATE_URL: url }, columns: 40 })).screen, ['There are no tools.', ''])
    assert.equal((await shell(t, 'toolgate tools', { env: { TOOLGATE_URL: url } })).stdout, '{"tools":[]}\n')
  })

  it('a tool that there is not is for the caller to change', async (t) => {
    const { stdout, stderr, code } = await shell(t, 'toolgate tools ech', { env })
    assert.deepEqual([stdout, code], ['', 2])
    assert.match(stderr, /^The gateway refused \(unknown_tool\): .*ech.*\n`toolgate tools` lists/)
  })
})
