import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { canary } from '../evidence/canary.ts'
import { directoryOf, startCli } from './cli.ts'
import { invoke, waitFor } from './harness.ts'

const leaving = `
export default {
  id: 'leave', description: 'Leaves a rejection behind.', kind: 'test', parameters: {},
  execute (toolCallId, { secret }) {
    void Promise.reject(new TypeError('cannot take ' + secret))
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
})
