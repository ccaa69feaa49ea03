import type { AgentTool } from '@earendil-works/pi-agent-core'
import { obj, int } from '@earendil-works/pi-schema'
import { Type } from '@sinclair/typebox'
import type { Case, ToolCall } from '../case.ts'
import { differing, subject, words } from './subject.ts'

const numbered = { type: 'object', properties: { n: { type: 'integer', minimum: 1 } }, required: ['n'], additionalProperties: false }

/** A tool that gives the arguments that it got. */
const echoing = (parameters: object, more: Partial<AgentTool<any>> = {}): Case['tools'] =>
  () => [subject(async (_id, params) => ({ content: words('got'), details: params, structuredContent: structuredClone(params) }), { parameters, ...more })]

const takes = (name: string, parameters: object, args: ToolCall['args'], more: Partial<AgentTool<any>> = {}): Case =>
  ({ name, tools: echoing(parameters, more), calls: [{ args: args! }] })

/** Both refuse; how they say so is each side's own. */
function refuses (name: string, parameters: object, args: ToolCall['args'], pi: string, faults: [path: string, keyword: string, message: string][], more: Partial<AgentTool<any>> = {}): Case {
  const lines = faults.map(([path, , message]) => `- ${path === '' ? '' : `${path}: `}${message}`)
  return {
    ...takes(name, parameters, args, more),
    ...differing('refused-input',
      { content: words(pi), details: {} },
      {
        content: words(`The input for tool "subject" is invalid:\n${lines.join('\n')}`),
        details: { errors: faults.map(([path, keyword, message]) => ({ path, keyword, message })) }
      })
  }
}

const received = (args: unknown) => `\n\nReceived arguments:\n${JSON.stringify(args, null, 2)}`
const refusedByPi = (args: unknown, ...faults: string[]) => `Validation failed for tool "subject":\n${faults.map((fault) => `  - ${fault}`).join('\n')}${received(args)}`

/** What tools are called with. */
export const input: Case[] = [
  takes('nested input, as it was sent', { type: 'object' }, { a: [{ b: null }, [], ''], '': { ключ: 1.5 } }),
  takes('the builders of pi-schema', obj({ n: int() }), { n: 1 }),
  takes('TypeBox', Type.Object({ n: Type.Integer(), of: Type.Optional(Type.Literal('x')) }), { n: 1, of: 'x' }),
  takes('a default is not filled in', { type: 'object', properties: { n: { type: 'integer', default: 5 } } }, {}),
  takes('undeclared keys where nothing forbids them', { type: 'object', properties: { n: {} } }, { n: 1, more: { x: 1 } }),
  takes('an unknown format and an unknown keyword', { type: 'object', properties: { n: { type: 'string', format: 'x-odd', 'x-more': 1 } } }, { n: 'any' }),

  takes('coercion: text for a number', numbered, { n: '42' }),
  takes('coercion: a fraction in text for an integer', numbered, { n: '3.5' }),
  takes('coercion: one value for a list', { type: 'object', properties: { tags: { type: 'array', items: { type: 'string' } } } }, { tags: 'one' }),
  takes('coercion: null for what is optional', { type: 'object', properties: { n: { type: 'integer' }, m: { type: ['null', 'integer'] } } }, { n: null, m: null }),
  takes('coercion: booleans in text', { type: 'object', properties: { a: { type: 'boolean' }, b: { type: 'boolean' } } }, { a: 'true', b: 'false' }),
  takes('coercion: numbers and booleans for text', { type: 'object', properties: { a: { type: 'string' }, b: { type: 'string' } } }, { a: 5, b: true }),
  takes('coercion: 1 and 0 for booleans', { type: 'object', properties: { a: { type: 'boolean' }, b: { type: 'boolean' } } }, { a: 1, b: 0 }),
  takes('coercion: the branch of a union that fits', { type: 'object', properties: { a: { anyOf: [{ type: 'number' }, { type: 'null' }] } } }, { a: '7' }),
  takes('coercion: deep inside', { type: 'object', properties: { list: { type: 'array', items: numbered } } }, { list: [{ n: '1' }, { n: 2 }] }),

  refuses('missing', numbered, {}, refusedByPi({}, 'n: missing'), [['/n', 'required', 'missing']]),
  refuses('of the wrong type', numbered, { n: 'one' }, refusedByPi({ n: 'one' }, 'n: expected integer, got string'), [['/n', 'type', 'expected integer, got string']]),
  refuses('beyond its bound', numbered, { n: 0 }, refusedByPi({ n: 0 }, 'n: expected >= 1'), [['/n', 'minimum', 'expected >= 1']]),
  refuses('not declared', numbered, { n: 1, m: 2 }, refusedByPi({ n: 1, m: 2 }, 'm: unknown field'), [['/m', 'additionalProperties', 'unknown field']]),
  refuses('wrong inside, in two places', { type: 'object', properties: { list: { type: 'array', items: numbered } } }, { list: [{ n: 'x' }, {}] },
    refusedByPi({ list: [{ n: 'x' }, {}] }, 'list.0.n: expected integer, got string', 'list.1.n: missing'),
    [['/list/0/n', 'type', 'expected integer, got string'], ['/list/1/n', 'required', 'missing']]),

  takes('prepareArguments that renames', numbered, { count: 3 }, { prepareArguments: (args) => ({ n: (args as any).count }) }),
  takes('prepareArguments that gives its argument back', numbered, { n: '4' }, { prepareArguments: (args) => args }),
  takes('prepareArguments, and coercion of what it gives', numbered, { count: 3 }, { prepareArguments: () => ({ n: '5' }) }),
  refuses('what prepareArguments gives is wrong', numbered, { count: 3 }, refusedByPi({}, 'n: missing'), [['/n', 'required', 'missing']], { prepareArguments: () => ({}) }),
  refuses('prepareArguments throws', numbered, { n: 1 }, 'too old', [['', 'prepareArguments', 'too old']], { prepareArguments: () => { throw new Error('too old') } }),
  refuses('prepareArguments throws a string', numbered, { n: 1 }, 'in words', [['', 'prepareArguments', 'in words']], { prepareArguments: () => { throw 'in words' } }), // eslint-disable-line no-throw-literal
  refuses('prepareArguments that is asynchronous', {}, { n: 1 }, '#<Promise> could not be cloned.', [['', 'prepareArguments', 'prepareArguments must not be asynchronous']], { prepareArguments: async (args) => args }),
  refuses('prepareArguments that gives a function', {}, {}, '() => 1 could not be cloned.', [['', 'prepareArguments', '() => 1 could not be cloned.']], { prepareArguments: () => ({ run: () => 1 }) }),
  {
    name: 'prepareArguments that gives one object to all calls: a tool that changes its arguments changes its own',
    calls: [{}, {}],
    mode: 'sequential',
    tools: () => {
      const shared = { n: 1 }
      return [subject(async (_id, params) => {
        params.n++
        return { content: words(String(params.n)), details: shared.n }
      }, { prepareArguments: () => shared })]
    }
  },
  {
    name: 'prepareArguments that gives a Date: execute gets one',
    tools: (scene) => [subject(async (_id, params) => {
      scene.note('execute', params)
      return { content: [], details: params.at instanceof Date }
    }, { prepareArguments: () => ({ at: new Date(0) }) })]
  },
  {
    name: 'prepareArguments that gives an instance: execute gets plain data',
    tools: (scene) => {
      class Range { from = 1; get to () { return 2 } }
      return [subject(async (_id, params) => {
        scene.note('execute', params instanceof Range, params.from, params.to)
        return { content: [], details: 1 }
      }, { parameters: {}, prepareArguments: () => new Range() })]
    }
  },
  {
    name: 'prepareArguments that changes its argument in place',
    calls: [{ args: { count: '3' } }],
    tools: echoing(numbered, {
      prepareArguments: (args: any) => {
        args.n = args.count
        delete args.count
        return args
      }
    }),
    hooks: (scene) => ({ beforeToolCall: async ({ args, toolCall }) => { scene.note('before', args, toolCall.arguments); return undefined } }),
    ...differing('sent-input', { seen: [['before', { n: 3 }, { n: '3' }]] }, { seen: [['before', { n: 3 }, { count: '3' }]] })
  },
  {
    name: 'a tool that changes its arguments leaves the call as it was sent',
    calls: [{ args: { list: [1] } }],
    tools: (scene) => [subject(async (_id, params, _signal, onUpdate) => {
      params.list.push(2)
      params.more = true
      onUpdate!({ content: [], details: 1 })
      scene.note('execute', params)
      return { content: words('x'), details: null }
    })],
    hooks: (scene) => ({ afterToolCall: async ({ args, toolCall }) => { scene.note('after', args, toolCall.arguments); return undefined } })
  }
]
