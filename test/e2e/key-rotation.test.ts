import assert from 'node:assert/strict'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, it, type TestContext } from 'node:test'
import { directoryOf, runCli, startCli } from './cli.ts'
import { invoke, send, waitFor, within } from './harness.ts'
import { poll } from './poll-client.ts'
import { openStream } from './sse-client.ts'

const CONNECTIONS = 16
const HEARTBEAT_MS = 1000
const A_SECOND = 1000

const waiter = `
import { existsSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
export default [
  { id: 'echo', description: '', kind: 'test', parameters: {}, execute: (_id, input) => ({ structuredContent: input }) },
  {
    id: 'wait', description: 'Waits for a file.', kind: 'test', parameters: {},
    async execute (_id, { file }, signal) {
      while (!existsSync(file)) await sleep(20, undefined, { signal })
      return { structuredContent: 'done' }
    }
  }
]
`

const bearer = (key: string) => ({ authorization: `Bearer ${key}` })
const idOf = (key: string) => key.slice(4, 16)

/** A gateway in a process of its own, and the keys of its file, made and revoked by the command line. */
async function startWithKeys (t: TestContext, more: Record<string, string> = {}) {
  const folder = await directoryOf(t, { 'tools/wait.mjs': waiter })
  const env = { TOOLGATE_KEYS_FILE: join(folder, 'keys.json'), TOOLGATE_HEARTBEAT_MS: String(HEARTBEAT_MS), ...more }
  const keys = async (...args: string[]) => {
    const { exit, stdout, stderr } = await runCli(t, ['keys', ...args], env)
    assert.equal(exit!.code, 0, stderr)
    return stdout.trim()
  }
  const first = await keys('create', 'app')
  const gateway = await startCli(t, ['--tools', join(folder, 'tools')], env)
  return { folder, gateway, keys, first }
}

interface Sent {
  sentAt: number
  doneAt: number
  status: number
}

/** Calls with one key over several connections, one after the other on each, until they are stopped. */
class Load {
  readonly sent: Sent[][] = []
  #isStopped = false
  readonly #ended: Promise<unknown>

  constructor (gateway: { url: string }, key: string) {
    this.#ended = Promise.all(Array.from({ length: CONNECTIONS }, async (_, at) => {
      const own: Sent[] = this.sent[at] = []
      while (!this.#isStopped) {
        const sentAt = performance.now()
        const { status } = await invoke(gateway, 'echo', at, { headers: bearer(key) })
        own.push({ sentAt, doneAt: performance.now(), status })
        await new Promise((resolve) => setTimeout(resolve, 20))
      }
    }))
  }

  /** Waits until each connection has sent a call after this time, and had its answer. */
  async isPast (time: number): Promise<void> {
    await waitFor(() => this.sent.every((own) => own.some(({ sentAt }) => sentAt > time)), 'calls of every connection', 20_000)
  }

  async stop (): Promise<Sent[]> {
    this.#isStopped = true
    await within(this.#ended, 'the last calls')
    return this.sent.flat()
  }
}

const statusesOf = (sent: readonly Sent[]) => [...new Set(sent.map(({ status }) => status))].sort()

describe('keys that change under load', () => {
  it('a valid key is never refused, and a revoked one is not taken for more than a second', { timeout: 120_000 }, async (t) => {
    const { gateway, keys, first } = await startWithKeys(t)
    const old = new Load(gateway, first)
    await old.isPast(performance.now())

    const second = await keys('create', 'app')
    const createdAt = performance.now()
    await waitFor(async () => (await invoke(gateway, 'echo', 1, { headers: bearer(second) })).status === 200, 'the new key to be taken')
    assert.ok(performance.now() - createdAt < A_SECOND, 'a new key is taken within a second')
    const next = new Load(gateway, second)

    // Of others, which is nothing to these two.
    for (let round = 0; round < 2; round++) await keys('revoke', idOf(await keys('create', round === 0 ? 'app' : 'other')))
    await next.isPast(performance.now())

    const revokingAt = performance.now()
    await keys('revoke', idOf(first))
    const revokedAt = performance.now()
    await old.isPast(revokedAt + A_SECOND)
    await next.isPast(performance.now())
    const [ofOld, ofNext] = [await old.stop(), await next.stop()]

    const before = ofOld.filter(({ doneAt }) => doneAt < revokingAt)
    const after = ofOld.filter(({ sentAt }) => sentAt > revokedAt + A_SECOND)
    assert.ok(Math.min(before.length, after.length, ofNext.length) >= CONNECTIONS)
    assert.deepEqual(statusesOf(ofNext), [200], 'of the key that took its place')
    assert.deepEqual(statusesOf(before), [200], 'of the key before it was revoked')
    assert.deepEqual(statusesOf(after), [401], 'of the key a second after')
    assert.deepEqual(statusesOf(ofOld), [200, 401])
    for (const own of old.sent) assert.equal(own.findIndex(({ status }) => status === 401), own.findLastIndex(({ status }) => status === 200) + 1, 'once it was refused, it stays so')
  })

  it('its streams end, its running calls go on, and are on record for the next key of its name', { timeout: 60_000 }, async (t) => {
    const { folder, gateway: { url }, gateway, keys, first } = await startWithKeys(t)
    const second = await keys('create', 'app')
    await waitFor(async () => (await send(`${url}/tools`, { headers: bearer(second) })).status === 200, 'the new key to be taken')
    const file = join(folder, 'go')

    const events = await openStream(t, url, { headers: bearer(first) })
    const staying = await openStream(t, url, { headers: bearer(second) })
    const polling = poll(t, url, { path: '/events?toolId=echo', headers: { ...bearer(first), prefer: 'wait=30' } })
    const answer = await openStream(t, url, { path: '/tools/wait/invoke', method: 'POST', headers: { ...bearer(first), accept: 'text/event-stream' }, body: JSON.stringify({ input: { file } }) })
    const plain = invoke(gateway, 'wait', { file }, { headers: { ...bearer(first) } })
    await waitFor(() => staying.of('tool_execution_start').length === 2, 'both calls to run')

    await keys('revoke', idOf(first))
    const revokedAt = performance.now()
    const ends = await Promise.all([events.closed(), answer.closed(), polling.then(({ status }) => status)])
    const tookMs = performance.now() - revokedAt
    assert.deepEqual(ends, ['ended', 'ended', 401])
    assert.ok(tookMs < HEARTBEAT_MS + A_SECOND, `${Math.round(tookMs)} ms`)
    assert.deepEqual([staying.how, staying.ends.length, answer.ends.length], [undefined, 0, 0])

    await writeFile(file, '')
    assert.equal((await plain).body.structuredContent, 'done')
    const invocationId = answer.headers['toolgate-invocation-id'] as string
    assert.equal((await staying.endOf(invocationId)).status, 'succeeded')
    const record = await send(`${url}/invocations/${invocationId}`, { headers: bearer(second) })
    assert.deepEqual([record.status, record.body.invocation.status, record.body.result.structuredContent], [200, 'succeeded', 'done'])
    assert.equal((await send(`${url}/invocations/${invocationId}`, { headers: bearer(first) })).status, 401)
  })
})
