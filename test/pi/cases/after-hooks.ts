import type { Case } from '../case.ts'
import { after, differing, failed, failure, gives, made, subject, throwing, throws, usage, watching, words } from './subject.ts'

const whole = () => ({ ...made(), usage: usage(1), terminate: true })
const merge = (name: string, answer: unknown, tools = gives(made)): Case => ({ name: `an after-hook that returns ${name}`, tools, hooks: after(answer) })

/** How what an after-hook returns is merged, and what it is told. */
export const afterHooks: Case[] = [
  merge('nothing', undefined),
  merge('null', null),
  merge('an empty object', {}),
  merge('false', false),
  merge('text, which has no field of a result', 'words'),
  merge('content alone: structuredContent goes', { content: words('hook') }),
  merge('empty content: structuredContent goes as well', { content: [] }),
  merge('content and structuredContent', { content: words('hook'), structuredContent: { n: 2 } }),
  merge('content, and null for structuredContent', { content: words('hook'), structuredContent: null }),
  merge('content, and undefined for structuredContent', { content: words('hook'), structuredContent: undefined }),
  merge('content and details: structuredContent goes', { content: words('hook'), details: 'hook' }),
  merge('null for content: structuredContent stays', { content: null }),
  merge('details alone: as a whole, nothing is merged into them', { details: { deep: {} } }),
  merge('details that are falsy', { details: 0 }),
  merge('structuredContent alone', { structuredContent: { hook: true } }),
  ...[0, false, ''].map((structuredContent) => merge(`structuredContent ${JSON.stringify(structuredContent)}`, { structuredContent })),
  merge('structuredContent as a whole, nothing is merged into it', { structuredContent: { m: 1 } }),
  merge('structuredContent for a tool without it', { structuredContent: [1] }, gives(() => ({ content: words('x'), details: 1 }))),
  merge('isError: true', { isError: true }),
  merge('isError: false for a success', { isError: false }),
  merge('isError: true for a failure', { isError: true }, gives(failed)),
  merge('other fields than isError for a failure: it stays one', { details: 1, content: words('still') }, gives(failed)),
  { ...merge('isError: false for a failure', { isError: false }, gives(failed)), ...differing('verdict-in-result', { resultIsError: true }, { resultIsError: false }) },
  { ...merge('isError: null for a failure', { isError: null }, gives(failed)) },
  { ...merge('isError that is true in spirit', { isError: 1 }), ...differing('truth-values', { isError: 1 }, { isError: true }) },
  { ...merge('isError that is false in spirit', { isError: 0 }, gives(failed)), ...differing('truth-values', { isError: 0 }, { isError: false }) },
  merge('usage', { usage: usage(9) }),
  merge('usage for a tool with its own: as a whole', { usage: usage(9) }, gives(whole)),
  merge('terminate: true', { terminate: true }),
  merge('terminate: false, which takes it back', { terminate: false }, gives(whole)),
  merge('terminate: null, which takes nothing back', { terminate: null }, gives(whole)),
  merge('null in each field', { content: null, details: null, structuredContent: null, isError: null, usage: null, terminate: null }, gives(whole)),
  merge('undefined in each field', { content: undefined, details: undefined, structuredContent: undefined, isError: undefined, usage: undefined, terminate: undefined }, gives(whole)),
  merge('each field', { content: words('hook'), details: 2, structuredContent: 3, isError: true, usage: usage(4), terminate: false }, gives(whole)),
  merge('a field that results do not have', { extra: 1 }),
  merge('structuredContent null where the tool gave null', { details: 1 }, gives(() => ({ content: words('x'), details: null, structuredContent: null }))),
  { name: 'an after-hook that answers at once', tools: gives(made), hooks: () => ({ afterToolCall: (() => ({ details: 'sync' })) as never }) },
  {
    name: 'an after-hook that drops what the outputSchema asks for',
    tools: gives(made, { outputSchema: { type: 'object' } }),
    hooks: after({ content: words('hook') }),
    ...differing('output-schema',
      { content: words('hook'), details: made().details, isError: false },
      {
        content: words('The output of tool "subject" is invalid:\n- structuredContent is missing; the tool declares an outputSchema'),
        details: { errors: [{ path: '', keyword: 'required', message: 'structuredContent is missing; the tool declares an outputSchema' }] },
        isError: true
      })
  },
  { name: 'an after-hook that throws', tools: gives(whole), hooks: () => ({ afterToolCall: throwing(() => new Error('audit is down')) }), ...failure },
  { name: 'an after-hook that throws a string', tools: gives(failed), hooks: () => ({ afterToolCall: throwing(() => 'audit is down') }), ...failure },
  { name: 'an after-hook that throws before it returns a promise', tools: gives(whole), hooks: () => ({ afterToolCall: () => { throw new Error('at once') } }), ...failure },

  { name: 'what an after-hook is told of a success', tools: gives(made), hooks: (scene) => watching(scene) },
  { name: 'what an after-hook is told of a failure', tools: gives(failed), hooks: (scene) => watching(scene) },
  {
    name: 'what an after-hook is told of a throw',
    tools: throws(() => new Error('it broke')),
    hooks: (scene) => watching(scene),
    ...differing('details-null',
      { details: {}, seen: [['after', words('it broke'), {}, undefined, true]] },
      { details: null, seen: [['after', words('it broke'), null, undefined, true]] })
  },
  {
    name: 'what an after-hook finds in result.isError of a failure',
    tools: gives(failed),
    hooks: (scene) => ({ afterToolCall: async ({ result }) => { scene.note('isError', result.isError); return undefined } })
  },
  {
    name: 'what an after-hook finds in result.isError of a throw',
    tools: throws(() => new Error('it broke')),
    hooks: (scene) => ({ afterToolCall: async ({ result }) => { scene.note('isError', result.isError); return { details: 1 } } }),
    ...differing('verdict-in-result', { seen: [['isError', undefined]] }, { seen: [['isError', true]] })
  },
  {
    name: 'usage and terminate as an after-hook finds them',
    tools: gives(whole),
    hooks: (scene) => ({ afterToolCall: async ({ result }) => { scene.note('found', result.usage, result.terminate); return undefined } })
  },
  {
    name: 'an after-hook that changes the result in place',
    tools: gives(made),
    hooks: () => ({
      afterToolCall: async ({ result }) => {
        result.content.push(...words('more'))
        result.details.added = true
        result.structuredContent = { n: 3 }
        result.terminate = true
        return undefined
      }
    })
  },
  {
    name: 'an after-hook that writes isError into the result, which is not the verdict',
    tools: gives(made),
    hooks: () => ({ afterToolCall: async ({ result }) => { result.isError = true; return undefined } }),
    ...differing('verdict-in-result', { resultIsError: true }, { resultIsError: false })
  },
  {
    name: 'an after-hook gets the arguments that execute got',
    calls: [{ args: { n: 1 } }],
    tools: (scene) => {
      return [subject(async (_id, params) => {
        params.seenByTool = true
        scene.note('execute', params)
        return made()
      })]
    },
    hooks: (scene) => ({ afterToolCall: async ({ args, toolCall }) => { scene.note('after', args, toolCall.arguments); return undefined } })
  }
]
