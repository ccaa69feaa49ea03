import assert from 'node:assert/strict'
import { describe, it, type TestContext } from 'node:test'
import { pino } from 'pino'
import type { FastifyBaseLogger } from 'fastify'
import type { AnyTool } from '../../src/tools/registry.ts'
import { canary } from '../evidence/canary.ts'
import { invoke, startGateway, tool } from './harness.ts'
import { openStream } from './sse-client.ts'

const SECRET = canary()
const sensitive = (execute: (...args: any[]) => unknown, more: object = {}) => tool('subject', execute, { sensitive: true, ...more })

/** One call with a secret in its input; all that anybody but its caller could read. */
async function run (t: TestContext, subject: AnyTool) {
  let log = ''
  const logger = pino({ level: 'trace' }, { write: (line) => { log += line } }) as unknown as FastifyBaseLogger
  const gateway = await startGateway(t, { tools: [subject], logger })
  const listener = await openStream(t, gateway.url)
  const { body, text } = await invoke(gateway, 'subject', { password: SECRET })
  const end = await listener.endOf(body.invocation.invocationId)
  const record = await gateway.app.toolgate.store.get(body.invocation.invocationId)
  return { body, text, end, begun: listener.events[0]!.data, heard: listener.text, record: JSON.stringify(record), log }
}

const cases: Record<string, { subject: AnyTool, errorCode?: string }> = {
  'a success': { subject: sensitive((_id, input, _signal, onUpdate) => { onUpdate({ details: input }); return { content: [{ type: 'text', text: SECRET }], details: input, structuredContent: input } }) },
  'a throw': { subject: sensitive((_id, input) => { throw new Error(`no such password: ${input.password}`) }), errorCode: 'tool_error' },
  'a returned failure': { subject: sensitive((_id, input) => ({ isError: true, content: [{ type: 'text', text: SECRET }], structuredContent: input })), errorCode: 'tool_error' },
  'a failure that breaks its errorSchema': {
    subject: sensitive((_id, input) => ({ isError: true, content: [{ type: 'text', text: SECRET }], structuredContent: input }), { errorSchema: { const: 1 } }), errorCode: 'tool_error'
  },
  'output that is let pass with a warning': {
    subject: sensitive((_id, input) => ({ content: [{ type: 'text', text: SECRET }], structuredContent: input }), { outputSchema: { properties: { password: { enum: ['other'] } } }, outputValidation: 'warn' })
  }
}

describe('a sensitive tool', () => {
  for (const [name, { subject, errorCode }] of Object.entries(cases)) {
    it(`${name}: the caller gets all of it; events, record and log hold nothing of it`, async (t) => {
      const { body, text, end, begun, heard, record, log } = await run(t, subject)
      assert.equal(body.invocation.errorCode, errorCode)
      assert.ok(text.includes(SECRET), 'the caller gets it')
      for (const [where, what] of Object.entries({ heard, record, log })) assert.ok(what.length > 0 && !what.includes(SECRET), where)
      assert.deepEqual([begun.redacted, 'args' in begun], [true, false])
      assert.deepEqual(end.result, { content: [], details: null, isError: errorCode !== undefined, redacted: true })
      assert.deepEqual([end.status, end.errorCode, end.isError], [body.invocation.status, errorCode, errorCode !== undefined])
    })
  }

  for (const [name, subject, errorCode] of [
    ['input', sensitive(() => ({}), { parameters: { properties: { password: { enum: ['other'] } } } }), 'invalid_input'],
    ['output', sensitive((_id, input) => ({ structuredContent: input }), { outputSchema: { properties: { password: { enum: ['other'] } } } }), 'invalid_output']
  ] as const) {
    it(`refused ${name}: events, record and log hold nothing of it either`, async (t) => {
      const { body, end, heard, record, log } = await run(t, subject)
      assert.equal(body.invocation.errorCode, errorCode)
      assert.deepEqual(body.details.errors.map(({ path }: any) => path), ['/password'], 'the caller is told where')
      for (const [where, what] of Object.entries({ heard, record, log })) assert.ok(what.length > 0 && !what.includes(SECRET), where)
      assert.equal(end.result.redacted, true)
    })
  }

  it('its own stream gives the caller what the JSON answer would have', async (t) => {
    const gateway = await startGateway(t, { tools: [cases['a success']!.subject] })
    const own = await openStream(t, gateway.url, {
      path: '/tools/subject/invoke', method: 'POST', headers: { accept: 'text/event-stream' }, body: JSON.stringify({ input: { password: SECRET } })
    })
    assert.equal(await own.closed(), 'ended')
    assert.deepEqual(own.ends[0].result.structuredContent, { password: SECRET })
  })
})
