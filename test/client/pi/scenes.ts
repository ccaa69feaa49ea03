import type { AgentTool } from '@earendil-works/pi-agent-core'
import { arr, int, num, obj, opt, str } from '@earendil-works/pi-schema'
import { Type } from '@sinclair/typebox'
import { calling, saying, type Scene, type Stage } from './agents.ts'

type Execute = (toolCallId: string, params: any, signal: AbortSignal, onUpdate: (partial: any) => void) => unknown

/** A tool that takes any object, as pi's agents have them. */
export function agentTool (name: string, execute: Execute, more: Partial<AgentTool<any>> = {}): AgentTool<any> {
  return { name, label: `The ${name}`, description: `Is ${name}.`, parameters: Type.Object({}), execute: execute as AgentTool<any>['execute'], ...more }
}

export const text = (words: string) => [{ type: 'text' as const, text: words }]
export const pixel = { type: 'image' as const, data: 'iVBORw0KGgo=', mimeType: 'image/png' }
export const usage = { input: 1, output: 2, cacheRead: 3, cacheWrite: 4, cacheWrite1h: 1, reasoning: 1, totalTokens: 10, cost: { input: 0.1, output: 0.2, cacheRead: 0, cacheWrite: 0, total: 0.3, totalFromProvider: true } }

/** One tool for each of `results`, all called at once; they end in the reverse order of the calls. */
function reversed (stage: Stage, results: Record<string, () => unknown>): Scene {
  const names = Object.keys(results)
  return {
    tools: names.map((name, index) => agentTool(name, async () => {
      if (index < names.length - 1) await stage.reached(`end call-${index + 1}`)
      return results[name]!()
    })),
    prompts: [[calling(...names.map((name, index) => [`call-${index}`, name] as [string, string])), saying('Done.')]]
  }
}

const returning = (result: object) => () => result
const failing = (thrown: unknown) => () => { throw thrown }
const fruit = { name: 'pear', colours: ['green', 'yellow'], price: 1.5, ripe: null }

/** What remote tools have to do as local ones do: name, and what there is to see. */
export const scenes: Record<string, (stage: Stage) => Scene> = {
  'results of every kind, in parallel': (stage) => reversed(stage, {
    plain: returning({ content: text('plain'), details: undefined }),
    silent: returning({ content: [], details: undefined }),
    empty: returning({ content: text(''), details: '' }),
    object: returning({ content: text('five'), details: { rows: 5, deep: [{ a: [] }, {}] }, structuredContent: fruit }),
    list: returning({ content: text('list'), details: [1, 'two', null], structuredContent: [fruit, []] }),
    number: returning({ content: text('zero'), details: 0, structuredContent: 0 }),
    truth: returning({ content: text('no'), details: false, structuredContent: false }),
    nothing: returning({ content: text('null'), details: {}, structuredContent: null }),
    words: returning({ content: text('Grüße, 你好, 🦜, \u2028, \ud800'), details: 'line\r\nline\u0000', structuredContent: '' }),
    keys: returning({ content: text('keys'), details: JSON.parse('{"constructor":1,"__proto__":{"a":1},"2":0,"1":0}'), structuredContent: { '': 1e21, '-': -0.5 } }),
    images: returning({ content: [pixel, ...text('between'), { ...pixel, mimeType: 'image/jpeg' }], details: undefined }),
    signed: returning({ content: [{ type: 'text', text: 'signed', textSignature: 'sig' }], details: undefined }),
    costly: returning({ content: text('costly'), details: undefined, usage }),
    large: returning({ content: text('x'.repeat(300_000)), details: { y: 'y'.repeat(300_000) }, structuredContent: 'z'.repeat(300_000) })
  }),

  'failures of every kind, in parallel': (stage) => reversed(stage, {
    error: failing(new Error('it broke')),
    other: failing(new RangeError('out of range:\n- a\n- b')),
    string: failing('a string'),
    number: failing(42),
    truth: failing(true),
    object: failing({ why: 'because' }),
    told: returning({ content: text('told'), details: { at: 3 }, isError: true }),
    partly: returning({ content: text('half of it'), details: { done: 1 }, structuredContent: { done: 1 }, isError: true }),
    data: returning({ content: text('data'), details: undefined, structuredContent: null, isError: true }),
    costly: returning({ content: text('costly'), details: undefined, usage, isError: true }),
    final: returning({ content: text('final'), details: undefined, terminate: true, isError: true }),
    twice: returning({ content: [...text('one'), ...text('two')], details: undefined, isError: true }),
    seen: returning({ content: [pixel], details: undefined, isError: true }),
    signed: returning({ content: [{ type: 'text', text: 'signed', textSignature: 'sig' }], details: undefined, isError: true }),
    empty: returning({ content: text(''), details: {}, isError: true })
  }),

  'a failure that is not waited for': () => ({
    tools: [agentTool('sync', () => { throw new Error('at once') }), agentTool('value', () => ({ content: text('at once'), details: 1 }))],
    prompts: [[calling(['a', 'sync']), calling(['b', 'value']), saying('Done.')]]
  }),

  'all say terminate': (stage) => reversed(stage, {
    a: returning({ content: text('a'), details: 1, terminate: true }),
    b: returning({ content: text('b'), details: 2, terminate: true, isError: true })
  }),

  'not all say terminate': (stage) => reversed(stage, {
    a: returning({ content: text('a'), details: 1, terminate: true }),
    b: returning({ content: text('b'), details: 2, terminate: false })
  }),

  'progress, of one and of several at once': (stage) => ({
    tools: [
      agentTool('hasty', (_id, _params, _signal, onUpdate) => {
        for (let n = 1; n <= 20; n++) onUpdate({ content: text(`step ${n}`), details: { n }, structuredContent: n })
        return Promise.resolve({ content: text('hasty'), details: undefined })
      }),
      agentTool('slow', async (id, _params, _signal, onUpdate) => {
        await stage.reached('end a')
        onUpdate({ content: [pixel], details: undefined })
        await stage.reached('update c 1')
        onUpdate({ content: [], details: [] })
        await stage.reached('end c')
        onUpdate({ content: text('last'), details: 'last' })
        return { content: text(id), details: undefined }
      }),
      agentTool('failing', async (_id, { words }, _signal, onUpdate) => {
        await stage.reached('update b 1')
        onUpdate({ content: text(words), details: { half: true }, structuredContent: null })
        await stage.reached('update b 2')
        throw new Error('half way')
      }),
      agentTool('late', async (_id, _params, _signal, onUpdate) => {
        setImmediate(() => onUpdate({ content: text('too late'), details: undefined }))
        void stage.reached('end d').then(() => onUpdate({ content: text('far too late'), details: undefined }))
        return { content: text('late'), details: undefined }
      })
    ],
    prompts: [[calling(['a', 'hasty'], ['b', 'slow', { x: 1 }], ['c', 'failing', { words: 'c' }]), calling(['d', 'late']), saying('Done.')]]
  }),

  'arguments: coerced, refused, unknown': () => ({
    tools: [
      agentTool('sum', (_id, params) => ({ content: text(JSON.stringify(params)), details: params, structuredContent: params }), {
        parameters: Type.Object({ n: Type.Integer(), list: Type.Optional(Type.Array(Type.String())), flag: Type.Optional(Type.Boolean()), unit: Type.Optional(Type.Union([Type.Literal('cm'), Type.Literal('in')])) }, { additionalProperties: false })
      }),
      agentTool('built', (_id, params) => ({ content: text(JSON.stringify(params)), details: undefined }), { parameters: obj({ from: str({ minLength: 1 }), to: opt(num()), rows: opt(arr(obj({ n: int() }))) }) }),
      agentTool('draft7', (_id, params) => ({ content: text(JSON.stringify(params)), details: undefined }), {
        parameters: { $schema: 'http://json-schema.org/draft-07/schema#', type: 'object', properties: { id: { $ref: '#/definitions/id' } }, required: ['id'], definitions: { id: { type: 'integer', minimum: 1 } } }
      }),
      agentTool('open', (_id, params) => ({ content: text(Object.keys(params).join()), details: params }), { parameters: { type: 'object', description: 'Anything' } })
    ],
    prompts: [[
      calling(['a', 'sum', { n: '42', list: 'one', flag: 'true' }]),
      calling(['b', 'sum', { n: 1, flag: null, unit: 'cm' }]),
      calling(['c', 'sum', { n: 'many' }]),
      calling(['d', 'sum', { n: 1.5, unit: 'mm', more: 1 }]),
      calling(['e', 'sum']),
      calling(['f', 'built', { from: 'x', to: '7', rows: [{ n: '1' }, { n: 2 }] }]),
      calling(['g', 'built', { from: '', rows: [{ n: 'x' }] }]),
      calling(['h', 'draft7', { id: '3' }]),
      calling(['i', 'draft7', { id: 0 }]),
      calling(['j', 'open', { 'ü/~ ': { deep: [null, 1e300, ''] }, toolCallId: 'x', signal: 1 }]),
      calling(['k', 'nobody', { n: 1 }]),
      saying('Done.')
    ]]
  }),

  'one sequential among parallel ones': (stage) => ({
    tools: [
      agentTool('beside', async (id, _params, _signal, onUpdate) => {
        stage.notes.push(`begin ${id}`)
        onUpdate({ content: text(id), details: undefined })
        await new Promise(setImmediate)
        stage.notes.push(`end ${id}`)
        return { content: text(id), details: undefined }
      }),
      agentTool('alone', async (id) => {
        stage.notes.push(`alone ${id}`)
        if (id === 'd') throw new Error('alone')
        return { content: text(id), details: undefined }
      }, { executionMode: 'sequential' })
    ],
    prompts: [[calling(['a', 'beside'], ['b', 'alone'], ['c', 'beside'], ['d', 'alone'], ['e', 'nobody']), saying('Done.')]]
  }),

  'an agent that runs everything in sequence': inSequence,

  'hooks of the agent: before': (stage) => ({
    tools: [agentTool('tool', (id, params) => {
      stage.notes.push(`ran ${id}`)
      return { content: text(JSON.stringify(params)), details: { id }, structuredContent: params }
    }, { parameters: Type.Object({ n: Type.Optional(Type.Number()) }) })],
    prompts: [
      [calling(['a', 'tool', { n: '1' }]), calling(['b', 'tool']), calling(['c', 'tool']), calling(['d', 'tool', { n: 2 }]), saying('Done.')],
      [calling(['e', 'tool'], ['f', 'tool'])]
    ],
    options: {
      async beforeToolCall ({ toolCall: { id }, args }) {
        stage.notes.push(`before ${id} ${JSON.stringify(args)}`)
        if (id === 'a') (args as any).added = true
        if (id === 'b') return { block: true, reason: 'not now' }
        if (id === 'c') throw new Error('the guard is ill')
        if ('ef'.includes(id)) return { block: true, terminate: true }
        return undefined
      }
    }
  }),

  'hooks of the agent: after': (stage) => ({
    tools: [
      agentTool('tool', (id) => ({ content: text(id), details: { id }, structuredContent: { id }, usage })),
      agentTool('failing', (id) => { throw new Error(`${id} broke`) }),
      agentTool('telling', (id) => ({ content: text(id), details: { id }, structuredContent: { id }, isError: true }))
    ],
    prompts: [[
      ...['content', 'both', 'details', 'fail', 'usage', 'throw', 'none'].map((id) => calling([id, 'tool'])),
      calling(['pardon', 'failing']), calling(['reword', 'failing']), calling(['forgive', 'telling']), calling(['cut', 'telling']),
      calling(['stop', 'tool'])
    ]],
    options: {
      async afterToolCall ({ toolCall: { id }, result, isError }) {
        stage.notes.push(`after ${id} ${isError} ${JSON.stringify(result)}`)
        switch (id) {
          case 'content': case 'cut': return { content: text('replaced') }
          case 'both': return { content: text('replaced'), structuredContent: { replaced: true } }
          case 'details': return { details: ['replaced'] }
          case 'fail': return { isError: true }
          case 'usage': return { usage: { ...usage, input: 9 } }
          case 'throw': throw new Error('the hook broke')
          case 'pardon': case 'forgive': return { isError: false }
          case 'reword': return { content: text('reworded'), structuredContent: 1 }
          case 'stop': return { terminate: true }
          default: return undefined
        }
      }
    }
  }),

  'an abort while a tool runs, another is over and a third has to wait': (stage) => ({
    ...abortable(stage),
    prompts: [[calling(['quick', 'quick'], ['held', 'held']), saying('Never said.')]],
    onMoment: (moment, agent) => { if (moment === 'update held 1') agent.abort() }
  }),

  'an abort in a sequence: the rest is not begun': (stage) => ({
    ...abortable(stage),
    prompts: [[calling(['a', 'held'], ['b', 'quick'], ['c', 'held']), saying('Never said.')], [calling(['d', 'quick']), saying('On again.')]],
    options: { toolExecution: 'sequential' },
    onMoment: (moment, agent) => { if (moment === 'update a 1') agent.abort() }
  }),

  'an abort of several that run': (stage) => ({
    ...abortable(stage),
    prompts: [[calling(['a', 'held'], ['b', 'held'], ['c', 'held']), saying('Never said.')]],
    onMoment: (moment, agent) => { if (moment === 'update c 1') agent.abort() }
  }),

  'an abort before anything runs': (stage) => ({
    ...abortable(stage),
    prompts: [[calling(['a', 'quick'], ['b', 'held']), saying('Never said.')]],
    onMoment: (moment, agent) => { if (moment === 'start a') agent.abort() }
  }),

  'an abort between the first and the second': (stage) => ({
    ...abortable(stage),
    prompts: [[calling(['a', 'quick'], ['b', 'quick']), saying('Never said.')]],
    onMoment: (moment, agent) => { if (moment === 'start b') agent.abort() }
  }),

  'steering, a message for later, and a second prompt': (stage) => ({
    tools: [agentTool('count', (id) => ({ content: text(id), details: { id }, structuredContent: { id } }))],
    prompts: [
      [calling(['a', 'count'], ['b', 'count']), calling(['c', 'count']), saying('One.'), saying('Two.')],
      [calling(['a', 'count']), saying('Three.')]
    ],
    onMoment (moment, agent) {
      if (moment === 'start a' && !stage.notes.includes('steered')) {
        stage.notes.push('steered')
        agent.steer({ role: 'user', content: 'Faster.', timestamp: 0 })
        agent.followUp({ role: 'user', content: [{ type: 'text', text: 'And then?' }, pixel], timestamp: 0 })
      }
    }
  }),

  'a message that was cut': () => ({
    tools: [agentTool('tool', () => ({ content: text('never'), details: undefined }))],
    prompts: [[{ ...calling(['a', 'tool']), stopReason: 'length' }, saying('Done.')]]
  })
}

function inSequence (stage: Stage): Scene {
  return {
    tools: ['one', 'two', 'three'].map((name) => agentTool(name, async (id, _params, _signal, onUpdate) => {
      stage.notes.push(`begin ${id}`)
      onUpdate({ content: text(id), details: id })
      await stage.reached(`update ${id} 1`)
      stage.notes.push(`end ${id}`)
      if (name === 'two') throw new Error('two broke')
      return { content: text(id), details: undefined, structuredContent: [id] }
    })),
    prompts: [[calling(['a', 'one'], ['b', 'two'], ['c', 'three']), saying('Done.')]],
    options: { toolExecution: 'sequential' }
  }
}

/** Tools that heed their signals: one that is over at once, and one that waits for the abort once the quick ones are over. */
function abortable (stage: Stage): Pick<Scene, 'tools'> {
  return {
    tools: [
      agentTool('quick', (id) => ({ content: text(id), details: undefined, structuredContent: { id } })),
      agentTool('held', async (id, _params, signal, onUpdate) => {
        if (id === 'held') await stage.reached('end quick')
        if (id === 'b') await stage.reached('update a 1')
        if (id === 'c') await stage.reached('update b 1')
        await new Promise((_resolve, reject) => {
          signal.addEventListener('abort', () => {
            stage.reach(`aborted ${id}`)
            reject(signal.reason)
          }, { once: true })
          onUpdate({ content: text(`${id} holds`), details: undefined })
        })
      })
    ]
  }
}
