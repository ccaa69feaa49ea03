import type { Case } from '../case.ts'
import { after, differing, failure, subject, throws, usage, words } from './subject.ts'

class DiskError extends Error {
  override name = 'DiskError'
  code = 'ENOSPC'
}

const silent = words('The tool failed without a message.')
/** Something was thrown that says nothing. */
const saying = (text: unknown) => differing(['silent-failure', 'details-null'], { content: words(text as string), details: {} }, { content: silent, details: null })
/** pi's loop fails on it, and with it the whole run of the agent. */
const lost = (message: string) => differing('unreadable-throw',
  { lost: message, stops: true, events: [{ type: 'tool_execution_start', toolCallId: 'call-0', toolName: 'subject', args: {} }] },
  {
    content: silent,
    details: null,
    isError: true,
    resultIsError: true,
    durationMs: 'told',
    stops: false,
    events: [
      { type: 'tool_execution_start', toolCallId: 'call-0', toolName: 'subject', args: {} },
      { type: 'tool_execution_end', toolCallId: 'call-0', toolName: 'subject' }
    ]
  })

/** What a tool throws. */
export const thrown: Case[] = [
  { name: 'throws an Error', tools: throws(() => new Error('it broke')), ...failure },
  { name: 'throws a subclass with a code and a cause', tools: throws(() => new DiskError('disk full', { cause: new Error('inner') })), ...failure },
  { name: 'throws an AggregateError', tools: throws(() => new AggregateError([new Error('a')], 'several')), ...failure },
  { name: 'throws a DOMException', tools: throws(() => new DOMException('gone', 'AbortError')), ...failure },
  { name: 'throws a string', tools: throws(() => 'in words'), ...failure },
  { name: 'throws a number', tools: throws(() => 7), ...failure },
  { name: 'throws false', tools: throws(() => false), ...failure },
  { name: 'throws a symbol', tools: throws(() => Symbol('s')), ...failure },
  { name: 'throws a frozen error', tools: throws(() => Object.freeze(new Error('cold'))), ...failure },
  { name: 'throws text of several lines', tools: throws(() => new Error('first\nsecond')), ...failure },
  { name: 'throws an object that says how it is told', tools: throws(() => ({ toString: () => 'told so' })), ...failure },
  { name: 'throws an object without a message', tools: throws(() => ({ code: 5 })), ...failure },
  { name: 'throws undefined', tools: throws(() => undefined), ...saying('undefined') },
  { name: 'throws null', tools: throws(() => null), ...saying('null') },
  { name: 'throws an empty string', tools: throws(() => ''), ...saying('') },
  { name: 'throws an error with an empty message', tools: throws(() => new Error('')), ...saying('') },
  {
    name: 'throws an error whose message is a number',
    tools: throws(() => Object.assign(new Error('x'), { message: 5 })),
    ...differing(['result-checked', 'details-null'], { content: words(5 as never), details: {} }, { content: words('5'), details: null })
  },
  {
    name: 'throws an object with a message',
    tools: throws(() => ({ message: 'bare', code: 5 })),
    ...differing(['thrown-object', 'details-null'], { content: words('[object Object]'), details: {} }, { content: words('bare'), details: null })
  },
  { name: 'throws an error whose message cannot be read', tools: throws(() => Object.defineProperty(new Error('x'), 'message', { get () { throw new Error('trap') } })), ...lost('trap') },
  { name: 'throws an object that cannot be made text', tools: throws(() => Object.create(null)), ...lost('Cannot convert object to primitive value') },
  { name: 'throws before it returns a promise', tools: () => [subject((() => { throw new Error('at once') }) as never)], ...failure },
  { name: 'rejects later', tools: () => [subject(async () => { await null; throw new Error('later') })], ...failure },

  { name: 'throws, and an after-hook makes a success of it', tools: throws(() => new Error('it broke')), hooks: after({ isError: false }), ...failure },
  {
    name: 'throws, an after-hook makes a success of it, and an outputSchema is declared',
    tools: throws(() => new Error('it broke'), { outputSchema: { type: 'object' } }),
    hooks: after({ isError: false }),
    ...differing('output-schema',
      { content: words('it broke'), details: {}, isError: false },
      {
        content: words('The output of tool "subject" is invalid:\n- structuredContent is missing; the tool declares an outputSchema'),
        details: { errors: [{ path: '', keyword: 'required', message: 'structuredContent is missing; the tool declares an outputSchema' }] },
        isError: true
      })
  },
  { name: 'throws, and an after-hook gives all of a success', tools: throws(() => new Error('it broke'), { outputSchema: { type: 'object' } }), hooks: after({ content: words('saved'), details: 1, structuredContent: { n: 2 }, isError: false, usage: usage(3) }) },
  { name: 'throws, and an after-hook gives it data', tools: throws(() => new Error('it broke')), hooks: after({ structuredContent: { why: 'disk' }, details: { code: 1 } }) },
  { name: 'throws, and an after-hook asks to stop', tools: throws(() => new Error('it broke')), hooks: after({ terminate: true }), ...failure },
  {
    name: 'throws, and the after-hook throws as well',
    tools: throws(() => new Error('it broke')),
    hooks: () => ({ afterToolCall: async () => { throw new Error('so did I') } }),
    ...failure
  }
]
