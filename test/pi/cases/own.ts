import assert from 'node:assert/strict'
import type { AgentTool } from '@earendil-works/pi-agent-core'
import { createGateway } from '../../../src/gateway.ts'
import { gate, invoke, startGateway, waitFor, within } from '../../e2e/harness.ts'
import { openStream } from '../../e2e/sse-client.ts'
import type { Answers, OwnCase } from '../case.ts'
import { scriptedAgent } from '../with-pi.ts'
import { anything, differing, made, subject, words } from './subject.ts'

const call = (name: string, args: Record<string, any> = {}, id = 'call-0') => ({ name, args, id })

/** What pi's agent says of calls of these tools. */
async function askPi (tools: AgentTool<any>[], ...calls: ReturnType<typeof call>[]): Promise<Answers> {
  const { agent } = scriptedAgent(tools, calls)
  await agent.prompt('go')
  return { answers: agent.state.messages.flatMap((message) => message.role === 'toolResult' ? [message.content] : []) }
}

/** Why a gateway with these tools does not start. */
async function refusalOf (tools: AgentTool<any>[]): Promise<Answers> {
  const app = createGateway({ tools, logger: false })
  try {
    await app.ready()
    return {}
  } catch (error) {
    const { code, message } = error as { code: string, message: string }
    return { code, message }
  } finally {
    await app.close()
  }
}

const dangling = { type: 'object', properties: { a: { $ref: '#/$defs/nowhere' }, b: { type: 'string' } } }
const poisoned: Record<string, any> = JSON.parse('{"__proto__":{"admin":true}}')
const inexact = '{"input":{"n":9007199254740993}}'

function post (url: string, body: string): Promise<Response> {
  return fetch(`${url}/tools/subject/invoke`, { method: 'POST', headers: { 'content-type': 'application/json' }, body })
}

const showing = () => subject(async (_id, params) => ({ content: words(String(Object.keys(params))), details: null }))

/** Differences that tools, calls and hooks alone do not show. */
export const ownCases: OwnCase[] = [
  {
    name: 'a schema that refers to nothing',
    pi: () => askPi([subject(async () => made(), { parameters: dangling })], call('subject', { b: 'x' })),
    toolgate: () => refusalOf([subject(async () => made(), { parameters: dangling })]),
    ...differing('tool-refused', { answers: [words('made')] }, { code: 'invalid_tool', message: 'Tool "subject": parameters: Unresolved $ref #/$defs/nowhere in the schema' })
  },
  {
    name: 'a name with a space',
    pi: () => askPi([subject(async () => made(), { name: 'my tool' })], call('my tool')),
    toolgate: () => refusalOf([subject(async () => made(), { name: 'my tool' })]),
    ...differing('tool-refused', { answers: [words('made')] }, { code: 'invalid_tool', message: 'Tool "my tool": the id must match ^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$' })
  },
  {
    name: 'two tools of one name',
    pi: () => askPi([subject(async () => made()), subject(async () => ({ content: words('second'), details: null }))], call('subject')),
    toolgate: () => refusalOf([subject(async () => made()), subject(async () => made())]),
    ...differing('tool-refused', { answers: [words('made')] }, { code: 'duplicate_tool', message: 'Tool "subject" is registered already, from code.' })
  },
  {
    name: 'arguments with a key that is never accepted',
    pi: () => askPi([showing()], call('subject', poisoned)),
    async toolgate (t) {
      const gateway = await startGateway(t, { tools: [showing()] })
      const { status, body } = await invoke(gateway, 'subject', poisoned)
      return { status, code: body.code, recorded: gateway.app.toolgate.store.head > 0 }
    },
    ...differing('body-refused', { answers: [words('__proto__')] }, { status: 400, code: 'forbidden_key', recorded: false })
  },
  {
    name: 'a number in the arguments that a double cannot carry',
    pi: () => askPi([subject(async (_id, { n }) => ({ content: words(String(n)), details: null }))], call('subject', JSON.parse(inexact).input)),
    async toolgate (t) {
      const gateway = await startGateway(t, { tools: [showing()] })
      const answer = await post(gateway.url, inexact)
      return { status: answer.status, code: (await answer.json() as { code: string }).code, recorded: gateway.app.toolgate.store.head > 0 }
    },
    ...differing('body-refused', { answers: [words('9007199254740992')] }, { status: 400, code: 'number_not_exact', recorded: false })
  },
  {
    name: 'a call id of no characters',
    pi: () => askPi([subject(async (id) => ({ content: words(JSON.stringify(id)), details: null }))], call('subject', {}, '')),
    async toolgate (t) {
      const gateway = await startGateway(t, { tools: [showing()] })
      const { status, body } = await invoke(gateway, 'subject', {}, { toolCallId: '' })
      return { status, code: body.code, recorded: gateway.app.toolgate.store.head > 0 }
    },
    ...differing('body-refused', { answers: [words('""')] }, { status: 400, code: 'invalid_request', recorded: false })
  },
  {
    name: 'a result over 256 KiB',
    async pi () {
      const { agent } = scriptedAgent([large()], [call('subject')])
      const told: unknown[] = []
      agent.subscribe((event) => { if (event.type === 'tool_execution_end') told.push(event.result.content[0].text.length) })
      await agent.prompt('go')
      return { told, answers: agent.state.messages.flatMap((message) => message.role === 'toolResult' ? [lengthOf(message)] : []) }
    },
    async toolgate (t) {
      const gateway = await startGateway(t, { tools: [large()] })
      const stream = await openStream(t, gateway.url)
      const { body } = await invoke(gateway, 'subject')
      const { result, omitted } = await stream.endOf(body.invocation.invocationId)
      return { told: [result ?? omitted], answers: [lengthOf(body)] }
    },
    ...differing('large-parts', { told: [300_000] }, { told: [['result']] })
  },
  {
    name: 'two callers of a sequential tool at once',
    async pi () {
      const { tool, open, began } = oneAtATime()
      const runs = ['first', 'second'].map((id) => scriptedAgent([tool], [call('subject', {}, id)]).agent.prompt('go'))
      await waitFor(() => began.length === 2, 'both calls')
      open.open()
      await within(Promise.all(runs), 'the ends of the runs')
      return { atOnce: began.length }
    },
    async toolgate (t) {
      const { tool, open, began } = oneAtATime()
      const gateway = await startGateway(t, { tools: [tool] })
      const answers = ['first', 'second'].map((toolCallId) => invoke(gateway, 'subject', {}, { toolCallId }))
      await waitFor(() => gateway.app.toolgate.invoker.slots('subject').pending === 1, 'a call in line')
      const atOnce = began.length
      open.open()
      assert.deepEqual((await Promise.all(answers)).map(({ status }) => status), [200, 200])
      return { atOnce }
    },
    ...differing('sequential-tools', { atOnce: 2 }, { atOnce: 1 })
  },
  {
    name: 'a tool that takes longer than it is given',
    async pi () {
      const open = gate()
      const { agent } = scriptedAgent([subject(async () => { await open.promise; return made() })], [call('subject')])
      const run = agent.prompt('go')
      await waitFor(() => agent.state.pendingToolCalls.size === 1, 'the call in pi')
      // No time is over at which pi would give up; the tool decides.
      open.open()
      await within(run, 'the end of the run')
      return { answers: agent.state.messages.flatMap((message) => message.role === 'toolResult' ? [message.content] : []) }
    },
    async toolgate (t) {
      const gateway = await startGateway(t, { tools: [subject(() => new Promise(() => {}))], toolSettings: { subject: { timeoutMs: 20 } } })
      const { body } = await invoke(gateway, 'subject')
      return { answers: [body.content], code: body.invocation.errorCode }
    },
    ...differing('limits', { answers: [words('made')] }, { answers: [words('The call of tool "subject" took longer than 20 ms and was stopped.')], code: 'timeout' })
  },
  {
    name: 'a listener that does not get on',
    async pi () {
      const told: string[] = []
      const open = gate()
      const { agent } = scriptedAgent([telling(() => { told.push('the tool ends') })], [call('subject')])
      agent.subscribe(async ({ type }) => {
        if (type === 'tool_execution_end') told.push('the call ends')
        if (type !== 'tool_execution_update') return
        await open.promise
        told.push('the listener is done')
      })
      const run = agent.prompt('go')
      await waitFor(() => told.length === 1, 'the end of the tool')
      open.open()
      await within(run, 'the end of the run')
      return { told }
    },
    async toolgate (t) {
      const told: string[] = []
      const gateway = await startGateway(t, { tools: [telling(() => { told.push('the tool ends') })] })
      const slow = await openStream(t, gateway.url)
      slow.pause()
      await invoke(gateway, 'subject')
      told.push('the call ends')
      slow.resume()
      await waitFor(() => slow.ends.length === 1, 'the rest of the stream')
      assert.equal(slow.of('tool_execution_update').length, 1)
      told.push('the listener is done')
      return { told }
    },
    ...differing('listeners',
      { told: ['the tool ends', 'the listener is done', 'the call ends'] },
      { told: ['the tool ends', 'the call ends', 'the listener is done'] })
  }
]

const large = () => subject(async () => ({ content: words('x'.repeat(300_000)), details: null }))
const lengthOf = ({ content }: { content: any[] }): number => content[0].text.length

/** A sequential tool that waits to be let go. */
function oneAtATime () {
  const open = gate()
  const began: string[] = []
  const tool = subject(async (id) => {
    began.push(id)
    await open.promise
    return made()
  }, { executionMode: 'sequential' })
  return { tool, open, began }
}

function telling (done: () => void): AgentTool<any> {
  return subject(async (_id, _params, _signal, onUpdate) => {
    onUpdate!({ content: words('half'), details: null })
    done()
    return made()
  }, { parameters: anything })
}
