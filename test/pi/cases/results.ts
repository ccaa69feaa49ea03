import type { Case } from '../case.ts'
import { after, differing, failed, gives, made, subject, throws, usage, words } from './subject.ts'

/** What a tool returns, with no hook. */
export const results: Case[] = [
  { name: 'text, details and structuredContent', tools: gives(made) },
  { name: 'details alone beside the text', tools: gives(() => ({ content: words('x'), details: [1, { two: [3] }] })) },
  { name: 'several blocks, keys of their own kept', tools: gives(() => ({ content: [{ type: 'text', text: 'a', textSignature: 's' }, ...words(''), ...words('b')], details: 0 })) },
  { name: 'an image beside text', tools: gives(() => ({ content: [...words('see'), { type: 'image', data: 'iVBORw0KGgo=', mimeType: 'image/png' }], details: 'one image' })) },
  { name: 'an image alone', tools: gives(() => ({ content: [{ type: 'image', data: '', mimeType: 'image/webp' }], details: null })) },
  { name: 'empty content', tools: gives(() => ({ content: [], details: 1 })) },
  { name: 'structuredContent alone: no text is made of it', tools: gives(() => ({ content: [], details: null, structuredContent: { only: 'for programs' } })) },
  { name: 'content null', tools: gives(() => ({ content: null, details: 1 })), ...differing('content-null', { content: null }, { content: [] }) },
  { name: 'content absent', tools: gives(() => ({ details: 1 })), ...differing('content-null', {}, { content: [] }) },
  { name: 'content null, after a hook that keeps it', tools: gives(() => ({ content: null, details: 1 })), hooks: after({ details: 2 }), ...differing('content-null', { content: null }, { content: [] }) },
  { name: 'details absent', tools: gives(() => ({ content: words('x') })), ...differing('details-null', {}, { details: null }) },
  { name: 'details null', tools: gives(() => ({ content: words('x'), details: null })) },
  ...Object.entries({ null: null, false: false, zero: 0, 'empty text': '', text: 'x', 'a number': 1.5, 'an array': [1, [], {}], 'an empty object': {} }).map(([what, structuredContent]) => (
    { name: `structuredContent: ${what}`, tools: gives(() => ({ content: words('x'), details: null, structuredContent })) }
  )),
  { name: 'structuredContent undefined is none', tools: gives(() => ({ content: words('x'), details: null, structuredContent: undefined })) },
  { name: 'usage', tools: gives(() => ({ ...made(), usage: { ...usage(5), reasoning: 1, cacheWrite1h: 3 } })) },
  { name: 'terminate: true stops the agent', tools: gives(() => ({ ...made(), terminate: true })) },
  { name: 'terminate: false', tools: gives(() => ({ ...made(), terminate: false })) },
  { name: 'terminate on a failure stops the agent as well', tools: gives(() => ({ ...failed(), terminate: true })) },
  {
    name: 'terminate that is no boolean stops nothing',
    tools: gives(() => ({ ...made(), terminate: 'yes' })),
    ...differing('truth-values', { terminate: 'yes' }, {})
  },
  { name: 'isError: false is a success', tools: gives(() => ({ ...made(), isError: false })) },
  { name: 'isError: true keeps details and structuredContent', tools: gives(failed) },
  { name: 'isError: true with details only', tools: gives(() => ({ content: words('no'), details: { why: 'disk' }, isError: true })) },
  { name: 'isError: true with structuredContent that breaks the outputSchema', tools: gives(() => ({ content: words('no'), details: null, structuredContent: 'odd', isError: true }), { outputSchema: { type: 'object' } }) },
  { name: 'isError: true without structuredContent, though an outputSchema is declared', tools: gives(() => ({ content: words('no'), details: null, isError: true }), { outputSchema: { type: 'object' } }) },
  { name: 'isError that is true in spirit only is a success', tools: gives(() => ({ ...made(), isError: 'yes' })), ...differing('verdict-in-result', { resultIsError: 'yes' }, { resultIsError: false }) },
  {
    name: 'isError: true with empty content',
    tools: gives(() => ({ content: [], details: { code: 7 }, isError: true })),
    ...differing('silent-failure', { content: [] }, { content: words('The tool failed without a message.') })
  },
  { name: 'a success says so in its result', tools: gives(made), ...differing('verdict-in-result', {}, { resultIsError: false }) },
  { name: 'a throw says so in its result', tools: throws(() => new Error('no')), ...differing(['verdict-in-result', 'details-null'], { details: {} }, { details: null, resultIsError: true }) },
  { name: 'an outputSchema that is kept', tools: gives(made, { outputSchema: { type: 'object', properties: { n: { type: 'integer' } }, required: ['n'] } }) },
  {
    name: 'an outputSchema that is broken',
    tools: gives(() => ({ ...made(), structuredContent: { n: 'one' } }), { outputSchema: { type: 'object', properties: { n: { type: 'integer' } } } }),
    ...differing('output-schema',
      { content: words('made'), details: made().details, structuredContent: { n: 'one' }, isError: false },
      {
        content: words('The output of tool "subject" is invalid:\n- /n: expected integer, got string'),
        details: { errors: [{ path: '/n', keyword: 'type', message: 'expected integer, got string' }] },
        isError: true
      })
  },
  {
    name: 'an outputSchema without structuredContent',
    tools: gives(() => ({ content: words('x'), details: 1, terminate: true }), { outputSchema: {} }),
    ...differing('output-schema',
      { content: words('x'), details: 1, terminate: true, isError: false, stops: true },
      {
        content: words('The output of tool "subject" is invalid:\n- structuredContent is missing; the tool declares an outputSchema'),
        details: { errors: [{ path: '', keyword: 'required', message: 'structuredContent is missing; the tool declares an outputSchema' }] },
        isError: true,
        stops: false
      })
  },
  { name: 'structuredContent without an outputSchema', tools: gives(() => ({ ...made(), structuredContent: [{ free: true }] })) },
  {
    name: 'fields that results do not have',
    tools: gives(() => ({ ...made(), _meta: { a: 1 }, extra: [] })),
    ...differing('unknown-fields', { more: { _meta: { a: 1 }, extra: [] } }, {})
  },
  {
    name: 'a tool that is an instance, with its methods and its state',
    tools: () => {
      class Counter {
        readonly name = 'counter'
        readonly label = 'Counter'
        readonly description = 'Counts.'
        readonly parameters = { type: 'object' }
        #count = 1
        prepareArguments () { return { by: ++this.#count } }
        async execute (_id: string, { by }: any) { return { content: words(String(this.#count + by)), details: this instanceof Counter } }
      }
      return [new Counter()]
    }
  },
  {
    name: 'four arguments, and no fifth',
    tools: (scene) => [subject(async (...args: unknown[]) => {
      scene.note('execute', args.length, typeof args[0], typeof args[1], (args[2] as AbortSignal).aborted, typeof args[3])
      return made()
    })]
  },
  {
    name: 'the caller’s own id of 600 characters, as some providers have them',
    calls: [{ id: `call_${'x'.repeat(300)}|fc_${'y'.repeat(290)}` }],
    tools: (scene) => [subject(async (toolCallId) => {
      scene.note('execute', toolCallId)
      return made()
    })]
  }
]
