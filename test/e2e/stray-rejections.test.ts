import assert from 'node:assert/strict'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { canary } from '../evidence/canary.ts'
import { directoryOf, startCli } from './cli.ts'
import { invoke, send, waitFor } from './harness.ts'

const leaving = `
export default {
  id: 'leave', description: 'Leaves a rejection behind.', kind: 'test', parameters: {},
  execute (toolCallId, { secret }) {
    void Promise.reject(new TypeError('cannot take ' + secret))
    return {}
  }
}
`

const oddly = `
const errors = {
  list: (secret) => Object.defineProperty(new Error(secret), 'stack', { value: [secret] }),
  null: (secret) => Object.defineProperty(new Error(secret), 'stack', { value: null }),
  getter: (secret) => Object.defineProperty(new Error(secret), 'message', { get () { throw new Error(secret) } }),
  text: (secret) => secret,
  place: (secret) => new Error('meet\\n    at ' + secret + ' (street.js:1:2)'),
  nothing: () => undefined
}
export default {
  id: 'leave', description: 'Leaves something behind.', kind: 'test', parameters: {},
  execute (toolCallId, { secret, what }) {
    void Promise.reject(errors[what](secret))
    return {}
  }
}
`

/** Rejects for the first call when the second one comes. */
const later = `
globalThis.left ??= []
export default {
  id: 'leave', description: 'Leaves a rejection behind, later.', kind: 'test', parameters: {},
  execute (toolCallId, { secret }) {
    if (secret === 'now') for (const reject of globalThis.left) reject()
    else void new Promise((resolve, reject) => { globalThis.left.push(() => reject(new Error('cannot take ' + secret))) })
    return {}
  }
}
`

describe('a rejection that a tool leaves behind', () => {
  for (const [what, settings, isTold] of [
    ['is logged in its own words', {}, true],
    ['is logged without its words where a tool is sensitive', { leave: { sensitive: true } }, false],
    ['is logged without its words where values are masked', { leave: { mask: ['/input/secret'] } }, false]
  ] as const) {
    it(what, async (t) => {
      const folder = await directoryOf(t, { 'tools/leave.js': leaving, 'toolgate.config.json': JSON.stringify({ tools: settings }) })
      const gateway = await startCli(t, [], {}, folder)
      const secret = isTold ? 'what is no secret' : canary()
      assert.equal((await invoke(gateway, 'leave', { secret })).status, 200)
      const line = await waitFor(() => gateway.log.find(({ msg }) => msg === 'a promise was rejected and nobody handled it'), 'the line')
      assert.equal(line.err.type, 'TypeError')
      assert.match(line.err.stack, /leave\.js/)
      assert.equal(gateway.stdout.includes(secret), isTold)
    })
  }

  it('that cannot be looked at, or whose words look like places, tells nothing and stops nobody', async (t) => {
    const folder = await directoryOf(t, { 'tools/leave.js': oddly, 'toolgate.config.json': JSON.stringify({ tools: { leave: { sensitive: true } } }) })
    const gateway = await startCli(t, [], {}, folder)
    const secret = canary()
    for (const what of ['list', 'null', 'getter', 'text', 'place', 'nothing']) assert.equal((await invoke(gateway, 'leave', { secret, what })).status, 200, what)
    const lines = await waitFor(() => {
      const found = gateway.log.filter(({ msg }) => msg === 'a promise was rejected and nobody handled it')
      return found.length === 6 && found
    }, 'a line for each')
    assert.deepEqual(lines.map(({ err }) => err.type), ['Error', 'Error', 'Error', 'Error', 'Error', 'Error'])
    assert.equal(gateway.stdout.includes(secret), false)
    assert.equal((await send(`${gateway.url}/readyz`)).status, 200)
  })

  it('of a tool that a reload has taken away is logged without its words as well', async (t) => {
    const settings = JSON.stringify({ tools: { leave: { sensitive: true } } })
    const folder = await directoryOf(t, { 'tools/leave.js': later, 'toolgate.config.json': settings })
    const gateway = await startCli(t, [], {}, folder)
    const secret = canary()
    assert.equal((await invoke(gateway, 'leave', { secret })).status, 200)
    await writeFile(join(folder, 'toolgate.config.json'), '{}')
    gateway.kill('SIGHUP')
    await waitFor(() => gateway.log.some(({ msg }) => msg === 'the tools were reloaded'), 'the reload')
    await invoke(gateway, 'leave', { secret: 'now' })
    await waitFor(() => gateway.log.filter(({ msg }) => msg === 'a promise was rejected and nobody handled it').length === 1, 'the line')
    assert.equal(gateway.stdout.includes(secret), false)
  })
})
