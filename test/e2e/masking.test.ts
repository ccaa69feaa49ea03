import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, it, type TestContext } from 'node:test'
import { pino } from 'pino'
import { MASKED } from '../../src/json/mask.ts'
import type { AnyTool } from '../../src/tools/registry.ts'
import type { ToolContext } from '../../src/tools/tool.ts'
import { canary } from '../evidence/canary.ts'
import { accepted, keyed, list, record, settledRecord } from './calls.ts'
import { invoke, send, startGateway, tool, waitFor, type RunningGateway } from './harness.ts'
import { invokeAsStream, openStream } from './sse-client.ts'
import { stores, type StoreCase } from './stores.ts'

/** With what JSON escapes, so that it stands in texts in several forms; each has the first word of it. */
const word = canary()
const password = `${word} "in"\n\\the clear`
const pin = 48_151_623
const token = canary()
const canaries = [word, String(pin), token]
const input = { password, user: 'ada', pins: [{ pin }, { pin: 1 }] }

const mask = ['/input/password', '/input/pins/*/pin', '/result/structuredContent/token', '/result/details/token']

type Execute = (given: any, context: ToolContext, onUpdate: (partial: object) => void) => unknown
const subject = (execute: Execute, more: object = {}): AnyTool =>
  tool('subject', (_id, given, _signal, onUpdate, context) => {
    context.log.info({ given, user: 'ada' }, `the tool was given ${given.password}`)
    context.log.warn({ err: new Error(`cannot take ${given.password}`, { cause: given }) }, 'the tool failed')
    return execute(given, context, onUpdate)
  }, more)

const all: Execute = (given, _context, onUpdate) => {
  onUpdate({ details: { step: 1, token, said: `${token} for ${given.password}` } })
  return { content: [{ type: 'text', text: JSON.stringify({ ...given, token }) }], details: given, structuredContent: { token, ...given, [given.password]: pin } }
}

interface Way {
  tools: AnyTool[]
  hooks?: object
  /** Makes the calls; gives all that their caller was answered. */
  call: (gateway: RunningGateway, t: TestContext) => Promise<string>
  /** What of the canaries its caller has; all where absent. */
  clear?: string[]
}

const plain = async (gateway: RunningGateway) => (await invoke(gateway, 'subject', input)).text

const ways: Record<string, Way> = {
  'an answer': { tools: [subject(all)], call: plain },
  'an answer as a stream': {
    tools: [subject(all)],
    async call (gateway, t) {
      const own = await invokeAsStream(t, gateway.url, 'subject', input)
      await own.closed()
      const [start, update, end] = own.events.map(({ data }) => data)
      assert.deepEqual([start.args, start.redacted, update.partialResult.details.token, end.result.structuredContent.token, end.result.redacted], [input, undefined, MASKED, token, undefined])
      return JSON.stringify([start, end])
    }
  },
  'an async call': {
    tools: [subject(all)],
    clear: [],
    async call (gateway) {
      const { result } = await settledRecord(gateway, await accepted(gateway, 'subject', input))
      return JSON.stringify(result)
    }
  },
  'a batch': {
    tools: [subject(all)],
    call: async (gateway) => (await send(`${gateway.url}/batch`, {
      method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ calls: [{ toolId: 'subject', input }, { toolId: 'nobody', input }] })
    })).text
  },
  'a child call, of a tool without a mask of its own': {
    tools: [subject(async (given, { invoke }) => await invoke('child', { say: [given.password, pin] })), tool('child', (_id, { say }) => ({ content: [{ type: 'text', text: `it said ${say}` }], structuredContent: { token, say } }))],
    call: plain
  },
  'a throw': { tools: [subject(({ password }) => { throw new Error(`no such password: ${password}, ${pin}`) })], call: plain, clear: [word, String(pin)] },
  'a returned failure': { tools: [subject((given) => ({ isError: true, structuredContent: { token, given } }))], call: plain },
  'refused input, which the message quotes': {
    tools: [subject(all, { prepareArguments: (given: object) => { throw new Error(`bad: ${JSON.stringify(given)}`) } })], call: plain, clear: [word, String(pin)]
  },
  'a long message that is cut within a value': {
    tools: [subject(all, { prepareArguments: () => { throw new Error(`${'x'.repeat(992 - word.length)} ${password}`) } })], call: plain, clear: [word]
  },
  'refused output': { tools: [subject((given) => ({ structuredContent: given, content: given.password }))], call: plain, clear: [] },
  'output that is let pass with a warning': {
    tools: [subject(({ password }) => ({ structuredContent: { [password]: 1 } }), { outputSchema: { additionalProperties: { type: 'string' } }, outputValidation: 'warn' })], call: plain, clear: [word]
  },
  'what hooks add': {
    tools: [subject(() => ({}))],
    hooks: { afterToolCall: ({ args }: any) => ({ content: [{ type: 'text', text: `${args.password} ${pin} ${token}` }], structuredContent: { token } }) },
    call: plain
  },
  'what it says of its usage': {
    tools: [subject(({ password }) => ({ usage: { input: 1, output: 1, cacheRead: 0, cacheWrite: 0, totalTokens: 1, cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0, memo: password }, account: pin, deep: [pin, { note: password }], [password]: `for ${password}` } }))],
    call: plain,
    clear: [word]
  },
  'a hook that throws': { tools: [subject(all)], hooks: { afterToolCall: ({ args }: any) => { throw new Error(args.password) } }, call: plain, clear: [word] },
  'a key that is sent again': {
    tools: [subject(all)],
    async call (gateway) {
      const first = await keyed(gateway, 'k', 'subject', input)
      const { body, headers } = await keyed(gateway, 'k', 'subject', input)
      assert.deepEqual([headers.get('idempotency-replayed'), body.redacted, body.structuredContent.token, body.invocation], ['true', true, MASKED, first.body.invocation])
      assert.ok(canaries.every((canary) => !JSON.stringify(body).includes(canary)))
      const other = await keyed(gateway, 'k', 'subject', { ...input, password: 'hunter3' })
      assert.deepEqual([other.status, other.body.code], [422, 'idempotency_key_reused'], 'inputs are compared as they were sent')
      return first.text
    }
  }
}

/** All that anybody but the caller can read of a gateway, each kind by its name. */
async function readable (t: TestContext, gateway: RunningGateway): Promise<Record<string, string>> {
  const { invocations } = await list(gateway)
  const text = async (path: string, headers: Record<string, string> = {}) => (await send(gateway.url + path, { headers })).text
  const stream = async (path: string) => {
    const client = await openStream(t, gateway.url, { path })
    await waitFor(() => client.ends.length === (path.startsWith('/events') ? invocations.length : 1), `the ends of ${path}`)
    return client.text
  }
  const each = (read: (id: string) => Promise<string>) => Promise.all(invocations.map(({ invocationId }) => read(invocationId))).then((texts) => texts.join('\n'))
  return {
    events: await stream('/events?lastEventId=earliest'),
    receipts: await stream('/events?lastEventId=earliest&view=receipt'),
    pages: await text('/events?lastEventId=earliest', { accept: 'application/json' }),
    'own events': await each((id) => stream(`/invocations/${id}/events`)),
    records: await each(async (id) => (await record(gateway, id)).text),
    list: JSON.stringify(invocations),
    audit: await text('/audit')
  }
}

function suite ({ name, options }: StoreCase): void {
  describe(`store: ${name}`, () => {
    for (const [what, { tools, hooks, call, clear = canaries }] of Object.entries(ways)) {
      it(`${what}: the caller has the values, and nothing else that can be read`, async (t) => {
        let log = ''
        const logger = pino({ level: 'trace' }, { write: (line) => { log += line } })
        const given = { ...await options(t), tools, hooks: hooks ?? [], mask, logger }
        const gateway = await startGateway(t, given)
        const listener = await openStream(t, gateway.url)
        const answered = await call(gateway, t)
        for (const canary of clear) assert.ok(answered.includes(canary), `the caller has ${canary}`)
        const texts: Record<string, string> = { ...await readable(t, gateway), live: listener.text, log }
        if (given.store!.startsWith('sqlite:')) {
          const folder = dirname(given.store!.slice('sqlite:'.length))
          const files = readdirSync(folder)
          assert.ok(files.some((file) => file.endsWith('-wal')), files.join())
          texts.files = files.map((file) => readFileSync(join(folder, file), 'latin1')).join('\n')
        }
        for (const [where, text] of Object.entries(texts)) {
          assert.ok(text.length > 0, `${where}: there is something to look at`)
          for (const canary of canaries) assert.ok(!text.includes(canary), `${where} has ${canary}: ${text.slice(0, 2000)}`)
          if (!['receipts', 'list', 'audit', 'log'].includes(where)) assert.ok(text.includes(MASKED) && text.includes('ada'), `${where} says that something was masked, and all the rest`)
        }
      })
    }

    it('its events and its record say that something was masked, and what was not', async (t) => {
      const gateway = await startGateway(t, { ...await options(t), tools: [subject(all)], mask })
      const { body } = await invoke(gateway, 'subject', input)
      const shown = { password: MASKED, user: 'ada', pins: [{ pin: MASKED }, { pin: MASKED }] }
      const events = await openStream(t, gateway.url, { path: `/invocations/${body.invocation.invocationId}/events` })
      await events.closed()
      const [start, update, end] = events.events.map(({ data }) => data)
      assert.deepEqual([start.args, start.redacted], [shown, true])
      assert.deepEqual([update.partialResult.details, update.partialResult.redacted], [{ step: 1, token: MASKED, said: `${MASKED} for ${MASKED}` }, true])
      assert.deepEqual([end.result.structuredContent, end.result.redacted], [{ token: MASKED, ...shown, pins: [{ pin: MASKED }, { pin: 1 }], [MASKED]: MASKED }, true])
      assert.deepEqual((await record(gateway, body.invocation.invocationId)).body, { invocation: body.invocation, input: shown, result: end.result })
    })
  })
}

describe('masked values', { concurrency: stores.length }, () => {
  for (const store of stores) suite(store)
})

describe('what is masked', () => {
  it('is what the gateway says of all tools and what each says itself, in whatever way it came', async (t) => {
    const echo = (id: string, more: object = {}) => tool(id, (_id, given) => ({ structuredContent: given }), more)
    const gateway = await startGateway(t, {
      mask: ['/input/a'],
      toolSettings: { set: { mask: ['/input/c'] } },
      tools: [echo('none'), echo('own', { mask: ['/input/b'] }), echo('set', { mask: ['/input/b'] })]
    })
    const inputOf = async (id: string) => {
      const { body } = await invoke(gateway, id, { a: 1, b: 2, c: 3 })
      return Object.entries((await record(gateway, body.invocation.invocationId)).body.input).flatMap(([key, value]) => value === MASKED ? [key] : []).join('')
    }
    assert.deepEqual([await inputOf('none'), await inputOf('own'), await inputOf('set')], ['a', 'ab', 'ac'])
  })

  it('has to be named well: else the gateway does not start', async (t) => {
    const start = (options: object) => startGateway(t, options)
    await assert.rejects(start({ mask: ['/inputs/a'] }), { code: 'invalid_config' })
    await assert.rejects(start({ toolSettings: { t: { mask: ['a'] } } }), { code: 'invalid_config', message: /t\/mask\/0: must be a JSON Pointer/ })
    for (const own of [['a'], '/input/a', [5]]) await assert.rejects(start({ tools: [tool('t', () => ({}), { mask: own })] }), { code: 'invalid_tool', message: /"t".*JSON Pointer/s })
  })
})
