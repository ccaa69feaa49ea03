import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { gate, invoke, send, startGateway, tool, within, type RunningGateway } from '../e2e/harness.ts'
import { Shell, shell, withoutTerminals } from './command-line.ts'

const held = gate()
const tools = [
  tool('greet', () => ({ content: [{ type: 'text', text: 'Hello' }] })),
  tool('failing', () => { throw new Error('No luck') }),
  tool('held', async () => {
    await held.promise
    return { content: [{ type: 'text', text: 'At last' }] }
  })
]

describe('toolgate invocation', { concurrency: 3 }, () => {
  let gateway: RunningGateway
  let remove: () => unknown
  let env: Record<string, string>
  before(async () => {
    gateway = await startGateway({ after: (run) => { remove = run } }, { tools })
    env = { TOOLGATE_URL: gateway.url }
  })
  after(() => remove())

  const callOf = async (toolId: string, headers = {}) => (await invoke(gateway, toolId, { n: 1 }, { headers })).body.invocation.invocationId as string

  it('prints the record as JSON where it goes to a pipe, also of a call that failed', async (t) => {
    for (const toolId of ['greet', 'failing']) {
      const id = await callOf(toolId)
      const { stdout, code } = await shell(t, `toolgate invocation ${id}`, { env })
      assert.deepEqual([JSON.parse(stdout), code], [(await send(`${gateway.url}/invocations/${id}`)).body, 0])
    }
  })

  it('tells a person how the call ended, and what it said', { skip: withoutTerminals }, async (t) => {
    const ended = await callOf('greet')
    const terminal = new Shell(t, `toolgate invocation ${ended}`, { env, columns: 80 })
    await terminal.ended
    assert.match(terminal.screen.join('\n'), new RegExp(`^greet succeeded after .+ \\(${ended}\\)\nHello`))
  })

  it('waits with --wait, and ends as invoke does', async (t) => {
    const failed = await callOf('failing')
    const { stderr, code } = await shell(t, `toolgate invocation ${failed} --wait`, { env })
    assert.match(stderr, new RegExp(`^failing failed \\(tool_error\\) after .+ \\(${failed}\\): No luck$`, 'm'))
    assert.equal(code, 1)

    const running = await callOf('held', { prefer: 'respond-async' })
    const asked = await shell(t, `toolgate invocation ${running}`, { env })
    assert.deepEqual([JSON.parse(asked.stdout).invocation.status, asked.code], ['running', 0])
    const asks = gate()
    gateway.app.server.on('request', ({ url, headers }) => { if (url === `/invocations/${running}` && /^wait=/.test(String(headers.prefer))) asks.open() })
    const waiting = new Shell(t, `toolgate invocation ${running} --wait`, { env })
    await within(asks.promise, 'the command to wait', 30_000)
    assert.equal(waiting.stdout, '')
    held.open()
    assert.equal((await waiting.ended).code, 0)
    assert.equal(JSON.parse(waiting.stdout).content[0].text, 'At last')
  })

  it('an id that nobody knows, or that there cannot be, is exit code 2', async (t) => {
    const unknown = await shell(t, 'toolgate invocation nobody', { env })
    assert.match(unknown.stderr, /unknown_invocation/)
    assert.equal(unknown.code, 2)
    const none = await shell(t, 'toolgate invocation ..', { env })
    assert.match(none.stderr, /no such id[^]*toolgate invocation --help/)
    assert.equal(none.code, 2)
  })
})
