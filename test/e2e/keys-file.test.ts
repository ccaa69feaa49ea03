import assert from 'node:assert/strict'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { fileOf, keptLog, makeKey } from '../auth/keys/keys.ts'
import { directoryOf, runCli, startCli } from './cli.ts'
import { assertProblem, echo, invoke, send, startGateway, tool, waitFor } from './harness.ts'

const apiKey = 'correct-horse-battery-staple'
const bearer = (text: string) => ({ authorization: `Bearer ${text}` })

describe('a gateway with a file of keys', { concurrency: 3 }, () => {
  it('asks for one of them, or for the single key beside it', async (t) => {
    const key = makeKey('ci')
    const folder = await directoryOf(t, { 'keys.json': fileOf(key) })
    const whoami = tool('whoami', (...args) => ({ structuredContent: args[4].principal }))
    const gateway = await startGateway(t, { tools: [whoami], apiKey, keysFile: join(folder, 'keys.json') })
    for (const headers of [{}, bearer(makeKey('ci').text), bearer(key.entry.hash)]) assertProblem(await send(`${gateway.url}/tools`, { headers }), 401, 'unauthorized')
    assert.deepEqual((await invoke(gateway, 'whoami', 1, { headers: bearer(key.text) })).body.structuredContent, { id: 'key:ci', scopes: ['admin'] })
    assert.equal((await invoke(gateway, 'whoami', 1, { headers: bearer(apiKey) })).body.structuredContent.id, 'api-key')
  })

  it('lets in nobody where there are no keys', async (t) => {
    const folder = await directoryOf(t, { 'keys.json': fileOf() })
    const { url } = await startGateway(t, { tools: [echo], keysFile: join(folder, 'keys.json') })
    assertProblem(await send(`${url}/tools`), 401, 'unauthorized')
  })

  it('holds each to its scopes and tools', async (t) => {
    const key = makeKey('ci', { scopes: ['tools:read', 'tools:invoke'], tools: ['get_*'] })
    const folder = await directoryOf(t, { 'keys.json': fileOf(key) })
    const gateway = await startGateway(t, { tools: ['get_a', 'set_a'].map((id) => tool(id, () => ({}))), keysFile: join(folder, 'keys.json') })
    const headers = bearer(key.text)
    assert.deepEqual((await send(`${gateway.url}/tools`, { headers })).body.tools.map(({ id }: any) => id), ['get_a'])
    assert.equal((await invoke(gateway, 'get_a', 1, { headers })).status, 200)
    assertProblem(await invoke(gateway, 'set_a', 1, { headers }), 404, 'unknown_tool')
    assertProblem(await send(`${gateway.url}/events`, { headers }), 403, 'forbidden')
  })

  it('tells who is refused that the key was revoked or has expired, and logs which one it was', async (t) => {
    const keys = [makeKey('gone', { revokedAt: '2026-01-01' }), makeKey('late', { expiresAt: '2026-01-02' })]
    const folder = await directoryOf(t, { 'keys.json': fileOf(...keys) })
    const logger = keptLog()
    const { url } = await startGateway(t, { logger, keysFile: join(folder, 'keys.json') })
    const details = []
    for (const { text } of keys) {
      const answer = await send(`${url}/tools`, { headers: bearer(text) })
      assertProblem(answer, 401, 'unauthorized')
      assert.match(answer.headers.get('www-authenticate')!, /^Bearer .*error="invalid_token"/)
      details.push(answer.body.detail)
    }
    assert.deepEqual(details, ['The key was revoked.', 'The key has expired.'])
    assert.deepEqual(logger.lines.filter(({ level }) => level === 'warn').map(({ fields, message }) => fields.reason ?? message), ['no key of the file is in force', `revoked key ${keys[0]!.entry.id} (gone)`, `expired key ${keys[1]!.entry.id} (late)`])
    for (const { text, entry } of keys) assert.ok(![text.slice(-20), entry.hash.slice(-20)].some((secret) => JSON.stringify(logger.lines).includes(secret)))
  })

  it('stays ready while the file cannot be used, and says so', async (t) => {
    const key = makeKey('ci')
    const keysFile = join(await directoryOf(t, { 'keys.json': fileOf(key) }), 'keys.json')
    const { url } = await startGateway(t, { keysFile })
    const readiness = async () => (await send(`${url}/readyz`)).body
    assert.deepEqual(await readiness(), { status: 'ready', reasons: [] })
    await writeFile(keysFile, '{"keys":')
    const { status, reasons } = await waitFor(async () => {
      const body = await readiness()
      return body.reasons.length > 0 && body
    }, 'the reason')
    assert.deepEqual([status, reasons.map(({ code }: any) => code)], ['ready', ['keys_unreadable']])
    assert.ok(!JSON.stringify(reasons).includes('keys.json'))
    assert.equal((await send(`${url}/tools`, { headers: bearer(key.text) })).status, 200)
    await writeFile(keysFile, fileOf(key))
    await waitFor(async () => (await readiness()).reasons.length === 0, 'the reason to go')
  })
})

describe('toolgate serve with a file of keys', { concurrency: 3 }, () => {
  it('listens beyond loopback, without a warning', async (t) => {
    const folder = await directoryOf(t, { 'keys.json': fileOf(makeKey('ci')), 'tools/none.txt': '' })
    const program = await startCli(t, ['--host', '0.0.0.0', '--keys-file', 'keys.json'], {}, folder)
    assert.equal(program.log.find(({ msg }) => msg === 'toolgate is ready').authentication, 'keys file')
    assert.deepEqual(program.log.filter(({ level }) => level >= 40), [])
    assert.equal((await send(`http://127.0.0.1:${program.port}/tools`)).status, 401)
  })

  for (const [what, files, told] of [
    ['is not there', {}, /^There is no keys file .*`toolgate keys create` makes a new one, without the keys of any other\.\n$/],
    ['is refused', { 'keys.json': '{"keys":[{"id":"a"}]}' }, /^The keys file .* cannot be used:\n[^]*\/keys\/0\/id: must be 12 digits/]
  ] as const) {
    it(`does not start where it ${what}`, async (t) => {
      const folder = await directoryOf(t, { 'tools/none.txt': '', ...files })
      const { exit, stderr, stdout } = await runCli(t, ['serve', '--port', '0', '--keys-file', 'keys.json'], {}, folder)
      assert.equal(exit!.code, 1)
      assert.match(stderr, told)
      assert.doesNotMatch(stdout, /Server listening/)
    })
  }
})
