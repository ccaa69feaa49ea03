import assert from 'node:assert/strict'
import { writeFile } from 'node:fs/promises'
import { connect } from 'node:net'
import { join } from 'node:path'
import { describe, it, type TestContext } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import { fileOf, makeKey } from '../auth/keys/keys.ts'
import { directoryOf } from './cli.ts'
import { assertProblem, gate, parseResponse, send, startGateway, tool, waitFor, within } from './harness.ts'

const revokedAt = '2026-01-01'

async function setUp (t: TestContext, tools: object[]) {
  const key = makeKey('key')
  const keysFile = join(await directoryOf(t, { 'keys.json': fileOf(key) }), 'keys.json')
  const gateway = await startGateway(t, { keysFile, tools: tools as never })
  const headers = { authorization: `Bearer ${key.text}`, 'content-type': 'application/json' }
  return {
    gateway,
    headers,
    async revoke () {
      await writeFile(keysFile, fileOf({ entry: { ...key.entry, revokedAt } }))
      await waitFor(async () => (await send(`${gateway.url}/tools`, { headers })).status === 401, 'the end of the key')
    }
  }
}

describe('a key that is revoked while a request is under way', () => {
  for (const [path, body] of [
    ['/tools/subject/invoke', '{"input":{}}'], ['/batch', '{"calls":[{"toolId":"subject"}]}'], ['/events/tickets', '{}']
  ]) {
    it(`runs nothing whose body came later: POST ${path}`, async (t) => {
      let runs = 0
      const { gateway, headers, revoke } = await setUp(t, [tool('subject', () => ({ structuredContent: ++runs }))])
      const socket = connect(gateway.port, '127.0.0.1')
      t.after(() => socket.destroy())
      let text = ''
      socket.on('data', (chunk) => { text += chunk.toString() })
      const head = Object.entries({ host: 'localhost', ...headers, 'content-length': body!.length }).map(([name, value]) => `${name}: ${value}\r\n`).join('')
      socket.write(`POST ${path} HTTP/1.1\r\n${head}\r\n${body!.slice(0, 1)}`)
      await delay(50) // its first line and headers are read
      await revoke()
      socket.write(body!.slice(1))
      await within((async () => { while (!text.includes('\r\n\r\n') || !text.endsWith('}')) await delay(5) })(), 'the answer')
      const { status, headers: answered, body: problem } = parseResponse(text)
      assertProblem({ status, headers: answered, body: problem }, 401, 'unauthorized')
      assert.equal(runs, 0)
    })
  }

  it('ends polls that wait, and says how to get in', async (t) => {
    const held = gate()
    const { gateway, headers, revoke } = await setUp(t, [tool('subject', async () => { await held.promise; return {} })])
    t.after(() => held.open())
    const { body } = await send(`${gateway.url}/tools/subject/invoke`, { method: 'POST', headers: { ...headers, prefer: 'respond-async' }, body: '{}' })
    const polls = ['/events', `/invocations/${body.invocation.invocationId}`].map((path) => send(gateway.url + path, { headers: { ...headers, accept: 'application/json', prefer: 'wait=20' } }))
    await waitFor(() => gateway.app.toolgate.hub.size > 0, 'the poll')
    await revoke()
    held.open()
    for (const answer of await Promise.all(polls)) {
      assertProblem(answer, 401, 'unauthorized')
      assert.match(answer.headers.get('www-authenticate') ?? 'none', /^Bearer realm="toolgate"/)
    }
  })

  it('begins no more calls of a batch; what runs goes on', async (t) => {
    const first = gate()
    const over = gate()
    let begun = 0
    const { gateway, headers, revoke } = await setUp(t, [tool('subject', async () => {
      begun++
      first.open()
      await over.promise
      return {}
    })])
    const answer = send(`${gateway.url}/batch`, { method: 'POST', headers, body: JSON.stringify({ mode: 'sequential', calls: Array(3).fill({ toolId: 'subject' }) }) })
    await first.reached('the first call')
    await revoke()
    over.open()
    const { results } = (await answer).body
    assert.deepEqual(results.map(({ problem, invocation }: any) => problem?.code ?? invocation.status), ['succeeded', 'unauthorized', 'unauthorized'])
    assert.equal(begun, 1)
  })
})
