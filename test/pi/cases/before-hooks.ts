import type { Case } from '../case.ts'
import { before, differing, failure, made, subject, throwing, words } from './subject.ts'

/** A tool that must not run where it is blocked: its own text would tell. */
const echoing: Case['tools'] = (scene) => [subject(async (_id, params) => {
  scene.note('execute', params)
  return { content: words('it ran'), details: params }
})]

const answers = (name: string, answer: unknown): Case => ({ name: `a before-hook that returns ${name}`, tools: echoing, hooks: before(answer), calls: [{ args: { n: 1 } }] })

export const beforeHooks: Case[] = [
  answers('nothing', undefined),
  answers('null', null),
  answers('an empty object', {}),
  answers('block: false, with a reason', { block: false, reason: 'no' }),
  { ...answers('block and a reason', { block: true, reason: 'Ask first.' }), ...failure },
  { ...answers('block alone', { block: true }), ...failure },
  { ...answers('block and an empty reason', { block: true, reason: '' }), ...failure },
  { ...answers('block and null for the reason', { block: true, reason: null }), ...failure },
  { ...answers('a block that is true in spirit', { block: 'yes', reason: 'no' }), ...failure },
  { ...answers('a block that asks to stop', { block: true, reason: 'no', terminate: true }), ...failure },
  { ...answers('a block that asks not to stop', { block: true, reason: 'no', terminate: false }), ...failure },
  { ...answers('a block that asks to stop in spirit', { block: true, reason: 'no', terminate: 'yes' }), ...failure },
  { ...answers('terminate without a block', { terminate: true }) },
  { ...answers('args, which replace nothing', { args: { n: 2 } }) },
  {
    ...answers('a block whose reason is a number', { block: true, reason: 5 }),
    ...differing(['result-checked', 'details-null'], { content: words(5 as never), details: {} }, { content: words('5'), details: null })
  },
  {
    ...answers('a block with a reason of 20,000 characters', { block: true, reason: 'x'.repeat(20_000) }),
    ...differing(['limits', 'details-null'], { content: words('x'.repeat(20_000)), details: {} }, { content: words(`${'x'.repeat(16_384)}…`), details: null })
  },
  { name: 'a before-hook that answers at once', tools: echoing, hooks: () => ({ beforeToolCall: (() => ({ block: true, reason: 'at once' })) as never }), ...failure },
  { name: 'a before-hook that throws', tools: echoing, hooks: () => ({ beforeToolCall: throwing(() => new Error('policy is down')) }), ...failure },
  { name: 'a before-hook that throws a string', tools: echoing, hooks: () => ({ beforeToolCall: throwing(() => 'policy is down') }), ...failure },
  { name: 'a before-hook that throws before it returns a promise', tools: echoing, hooks: () => ({ beforeToolCall: () => { throw new Error('at once') } }), ...failure },
  {
    name: 'a before-hook that throws nothing',
    tools: echoing,
    hooks: () => ({ beforeToolCall: throwing(() => undefined) }),
    ...differing(['silent-failure', 'details-null'], { content: words('undefined'), details: {} }, { content: words('The tool failed without a message.'), details: null })
  },
  {
    name: 'a call that was blocked took no time',
    tools: echoing,
    hooks: before({ block: true, reason: 'no' }),
    ...differing(['duration-zero', 'details-null'], { durationMs: 'absent', details: {} }, { durationMs: 'zero', details: null })
  },
  {
    name: 'no after-hook after a block',
    tools: echoing,
    hooks: (scene) => ({
      beforeToolCall: async () => ({ block: true, reason: 'no' }),
      afterToolCall: async () => { scene.note('after'); return { content: words('after all') } }
    }),
    ...failure
  },
  {
    name: 'no hook sees input that is refused',
    tools: () => [subject(async () => made(), { parameters: { type: 'object', required: ['n'] } })],
    hooks: (scene) => ({
      beforeToolCall: async () => { scene.note('before'); return undefined },
      afterToolCall: async () => { scene.note('after'); return undefined }
    }),
    ...differing('refused-input',
      { content: words('Validation failed for tool "subject":\n  - n: missing\n\nReceived arguments:\n{}'), details: {} },
      { content: words('The input for tool "subject" is invalid:\n- /n: missing'), details: { errors: [{ path: '/n', keyword: 'required', message: 'missing' }] } })
  },
  {
    name: 'what a before-hook is told of the call',
    tools: (scene) => echoing(scene).map((tool) => ({ ...tool, parameters: { type: 'object', properties: { n: { type: 'integer' } } } })),
    calls: [{ args: { n: '7' }, id: 'my-call' }],
    hooks: (scene) => ({
      beforeToolCall: async ({ toolCall, args }, signal) => {
        scene.note('before', toolCall, args, signal!.aborted)
        return undefined
      }
    })
  },
  {
    name: 'what else the hooks are told',
    tools: echoing,
    hooks: (scene) => ({
      beforeToolCall: async (context) => { scene.note('before', Object.keys(context).sort()); return undefined },
      afterToolCall: async (context) => { scene.note('after', Object.keys(context).sort()); return undefined }
    }),
    ...differing('hook-context',
      {
        seen: [
          ['before', ['args', 'assistantMessage', 'context', 'toolCall']],
          ['execute', {}],
          ['after', ['args', 'assistantMessage', 'context', 'isError', 'result', 'toolCall']]
        ]
      },
      {
        seen: [
          ['before', ['args', 'invocation', 'principal', 'tool', 'toolCall']],
          ['execute', {}],
          ['after', ['args', 'invocation', 'isError', 'principal', 'result', 'tool', 'toolCall']]
        ]
      })
  },
  {
    name: 'a before-hook that changes args in place: execute gets them, and nobody validates them again',
    tools: (scene) => echoing(scene).map((tool) => ({ ...tool, parameters: { type: 'object', properties: { n: { type: 'integer' } }, additionalProperties: false } })),
    calls: [{ args: { n: 1 } }],
    hooks: () => ({ beforeToolCall: async ({ args }) => { Object.assign(args as object, { n: 'changed', added: true }); return undefined } })
  },
  {
    name: 'a before-hook that changes args in place leaves the call as it was sent',
    tools: echoing,
    calls: [{ args: { list: [1], n: 1 } }],
    hooks: (scene) => ({
      beforeToolCall: async ({ args, toolCall }) => {
        const given = args as { list: number[], n: number }
        given.n = 2
        given.list.push(2)
        scene.note('before', toolCall.arguments)
        return undefined
      },
      afterToolCall: async ({ args, toolCall }) => { scene.note('after', args, toolCall.arguments); return undefined }
    })
  },
  {
    name: 'a before-hook that puts other args into its context changes nothing',
    tools: echoing,
    calls: [{ args: { n: 1 } }],
    hooks: (scene) => ({
      beforeToolCall: async (context) => { context.args = { n: 2 }; return undefined },
      afterToolCall: async ({ args }) => { scene.note('after', args); return undefined }
    })
  },
  {
    name: 'args are one object for both hooks and the tool',
    tools: (scene) => {
      return [subject(async (_id, params) => {
        scene.note('execute', params.tag)
        params.tag = 'tool'
        return made()
      })]
    },
    hooks: (scene) => {
      let first: unknown
      return {
        beforeToolCall: async ({ args }) => { first = args; Object.assign(args as object, { tag: 'before' }); return undefined },
        afterToolCall: async ({ args }) => { scene.note('after', args === first, args); return undefined }
      }
    }
  }
]
