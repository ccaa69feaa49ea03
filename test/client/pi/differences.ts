import type { AgentOptions, AgentTool } from '@earendil-works/pi-agent-core'
import { Type } from '@sinclair/typebox'
import type { GatewayOptions } from '../../../src/gateway.ts'
import { agentTool, text } from './scenes.ts'

/** What an agent's subscribers are told at the end of a call. */
interface End { result: object, isError: boolean }

export interface Difference {
  why: string
  tool: AgentTool<any>
  args?: Record<string, any>
  options?: Partial<AgentOptions>
  gateway?: GatewayOptions
  /** Whether the agent is aborted at the first sign of progress. */
  aborts?: boolean
  here: End
  there: End
}

const success = (result: object) => ({ result, isError: false })
const failure = (result: object) => ({ result, isError: true })
const threw = (words: string) => failure({ content: text(words), details: {} })
const silent = 'The tool failed without a message.'
const returning = (result: object, more?: Partial<AgentTool<any>>) => agentTool('tool', () => result, more)
const throwing = (thrown: unknown) => agentTool('tool', () => { throw thrown })
const echoing = (more?: Partial<AgentTool<any>>) => agentTool('tool', (_id, params) => ({ content: text(JSON.stringify(params)), details: undefined }), more)

/** Where a remote tool is told from a local one, and why: all that is known. */
export const differences: Record<string, Difference> = {
  'details of null are none': {
    why: 'The wire has null where a tool gave no details.',
    tool: returning({ content: text('a'), details: null }),
    here: success({ content: text('a'), details: null }),
    there: success({ content: text('a'), details: undefined })
  },
  'a returned failure that is one text, and nothing else, is told as one that was thrown': {
    why: 'They are the same on the wire, and to a model.',
    tool: returning({ content: text('a'), details: undefined, isError: true }),
    here: failure({ content: text('a'), details: undefined, isError: true }),
    there: threw('a')
  },
  'a failure without content is given words': {
    why: 'A failure always says something to a model.',
    tool: returning({ content: [], details: 1, isError: true }),
    here: failure({ content: [], details: 1, isError: true }),
    there: failure({ content: text(silent), details: 1, isError: true })
  },
  'an error without a message is given words': { why: 'As above.', tool: throwing(new Error('')), here: threw(''), there: threw(silent) },
  'so is undefined that is thrown': { why: 'As above.', tool: throwing(undefined), here: threw('undefined'), there: threw(silent) },
  'so is null': { why: 'As above.', tool: throwing(null), here: threw('null'), there: threw(silent) },
  'a thrown object that has a message is told by it': {
    why: 'The gateway says what there is to say.',
    tool: throwing({ message: 'words' }),
    here: threw('[object Object]'),
    there: threw('words')
  },
  'a result goes as JSON': {
    why: 'It crosses a wire.',
    tool: returning({ content: text('a'), details: { at: new Date(0), gone: undefined, map: new Map([[1, 2]]) } }),
    here: success({ content: text('a'), details: { at: new Date(0), gone: undefined, map: new Map([[1, 2]]) } }),
    there: success({ content: text('a'), details: { at: '1970-01-01T00:00:00.000Z', map: {} } })
  },
  'a success that JSON cannot carry is a failure': {
    why: 'It would arrive as something else.',
    tool: returning({ content: text('a'), details: { share: NaN } }),
    here: success({ content: text('a'), details: { share: NaN } }),
    there: threw('The output of tool "tool" is invalid:\n- /details/share: details is not JSON: NaN has no JSON form')
  },
  'a success that breaks its outputSchema is a failure': {
    why: 'The gateway holds tools to what they declare; `outputValidation: "warn"` for a tool lets it pass.',
    tool: returning({ content: text('a'), details: undefined, structuredContent: { count: 'five' } }, { outputSchema: Type.Object({ count: Type.Number() }) }),
    here: success({ content: text('a'), details: undefined, structuredContent: { count: 'five' } }),
    there: threw('The output of tool "tool" is invalid:\n- /count: expected number, got string')
  },
  'members that no result has are dropped, and what is left out or says nothing is told in one way': {
    why: 'A wire result has the fields of the contract. A message to the model is the same.',
    tool: returning({ isError: false, structuredContent: undefined, more: 1 }),
    here: success({ isError: false, structuredContent: undefined, more: 1 }),
    there: success({ content: [], details: undefined })
  },
  "arguments that only the tool's own prepareArguments makes valid are refused": {
    why: 'pi holds them to `parameters` before it calls, and functions do not cross a wire. The gateway prepares what passes.',
    tool: echoing({ parameters: Type.Object({ n: Type.Number() }), prepareArguments: (args: any) => ({ n: args.count }) }),
    args: { count: 1 },
    here: success({ content: text('{"n":1}'), details: undefined }),
    there: threw('Validation failed for tool "tool":\n  - n: missing\n\nReceived arguments:\n{\n  "count": 1\n}')
  },
  "arguments that an agent's hook made invalid are refused": {
    why: 'The gateway checks what it is sent.',
    tool: echoing({ parameters: Type.Object({ n: Type.Number() }) }),
    args: { n: 1 },
    options: { async beforeToolCall ({ args }) { (args as any).n = 'one'; return undefined } },
    here: success({ content: text('{"n":"one"}'), details: undefined }),
    there: threw('The input for tool "tool" is invalid:\n- /n: expected number, got string')
  },
  'integers past 2^53 are refused': {
    why: 'JSON does not carry them exactly.',
    tool: echoing(),
    args: { n: 2 ** 53 },
    here: success({ content: text('{"n":9007199254740992}'), details: undefined }),
    there: threw('9007199254740992 (at "n") cannot be sent: JSON does not carry it exactly.')
  },
  'so are arguments named __proto__': {
    why: 'The gateway takes none.',
    tool: echoing(),
    args: JSON.parse('{"__proto__":1}'),
    here: success({ content: text('{"__proto__":1}'), details: undefined }),
    there: threw('The key "__proto__" is never accepted.')
  },
  'a call that takes longer than the gateway allows is ended': {
    why: 'Each call has a time; `timeoutMs` of a tool, or of the gateway, says how much.',
    tool: agentTool('tool', (_id, _params, signal) => new Promise((resolve) => {
      // Longer than the gateway's.
      const timer = setTimeout(resolve, 100, { content: text('a'), details: undefined })
      signal.addEventListener('abort', () => clearTimeout(timer), { once: true })
    })),
    gateway: { timeoutMs: 20 },
    here: success({ content: text('a'), details: undefined }),
    there: threw('The call of tool "tool" took longer than 20 ms and was stopped.')
  },
  'what a tool makes of an abort is not heard': {
    why: 'An abort hangs up, and the agent goes on at once. The tool is aborted as well, and its events and record tell how it ended.',
    tool: agentTool('tool', (_id, _params, signal, onUpdate) => new Promise((resolve) => {
      signal.addEventListener('abort', () => resolve({ content: text('so far'), details: 1 }), { once: true })
      onUpdate({ content: [], details: undefined })
    })),
    aborts: true,
    here: success({ content: text('so far'), details: 1 }),
    there: threw('This operation was aborted')
  }
}
