import { setImmediate as nextTurn } from 'node:timers/promises'
import type { AgentTool } from '@earendil-works/pi-agent-core'
import { gate } from '../../e2e/harness.ts'
import type { Case, Scene } from '../case.ts'
import { aborted, after, differing, subject, words, type Execute } from './subject.ts'

const named = (name: string, execute: Execute, more: Partial<AgentTool<any>> = {}) => subject(execute, { name, ...more })
const says = (name: string, more: object = {}, tool: Partial<AgentTool<any>> = {}) => named(name, async () => ({ content: words(name), details: name, ...more }), tool)
const fails = (name: string) => named(name, async () => { throw new Error(`${name} broke`) })
const calls = (...names: string[]) => names.map((name) => ({ name }))
const yes = { terminate: true }
const lateDetails = (index: number) => differing('details-null', { [`${index}.details`]: {} }, { [`${index}.details`]: null })

const started = (toolName: string, index: number) => [{ type: 'tool_execution_start', toolCallId: `call-${index}`, toolName, args: {} }]
const ended = (toolName: string, index: number) => [{ type: 'tool_execution_end', toolCallId: `call-${index}`, toolName }]

/** Tools that end in the other order than they are called in, and tell of it. */
function reversed (names: readonly string[]): AgentTool<any>[] {
  const over = names.map(() => gate())
  return names.map((name, at) => named(name, async (_id, _params, _signal, onUpdate) => {
    if (at + 1 < names.length) await over[at + 1]!.promise
    onUpdate!({ content: words(`${name} is there`), details: at })
    setImmediate(() => setImmediate(over[at]!.open))
    return { content: words(name), details: at }
  }))
}

/** Notes when it begins and ends. */
function noted (name: string, scene: Scene, more: Partial<AgentTool<any>> = {}): AgentTool<any> {
  return named(name, async () => {
    scene.note(`${name} begins`)
    await nextTurn()
    scene.note(`${name} ends`)
    return { content: words(name), details: null }
  }, more)
}

/** Several calls of one assistant message. */
export const batches: Case[] = [
  { name: 'calls that end in the other order', calls: calls('a', 'b', 'c'), tools: () => reversed(['a', 'b', 'c']) },
  {
    name: 'in sequence, each ends before the next begins',
    mode: 'sequential',
    calls: calls('a', 'b', 'a'),
    tools: (scene) => ['a', 'b'].map((name) => noted(name, scene))
  },
  {
    name: 'one sequential tool makes all of them wait',
    calls: calls('a', 'b', 'a'),
    tools: (scene) => ['a', 'b'].map((name) => noted(name, scene, name === 'b' ? { executionMode: 'sequential' } : {}))
  },
  {
    name: 'a sequential tool that is not called makes nobody wait',
    calls: calls('a', 'b'),
    tools: () => [...reversed(['a', 'b']), says('c', {}, { executionMode: 'sequential' })]
  },
  { name: 'all say terminate', mode: 'sequential', calls: calls('a', 'b'), tools: () => [says('a', yes), says('b', yes)] },
  { name: 'only some say terminate', mode: 'sequential', calls: calls('a', 'b', 'a'), tools: () => [says('a', yes), says('b')] },
  { name: 'one says terminate: false', mode: 'sequential', calls: calls('a', 'b'), tools: () => [says('a', yes), says('b', { terminate: false })] },
  { name: 'all say terminate, one in a failure', mode: 'sequential', calls: calls('a', 'b'), tools: () => [says('a', yes), says('b', { ...yes, isError: true })] },
  { name: 'a throw among them: it says nothing of terminate, and stops no other', mode: 'sequential', calls: calls('a', 'b', 'a'), tools: () => [says('a', yes), fails('b')], ...lateDetails(1) },
  { name: 'an after-hook says terminate for all', mode: 'sequential', calls: calls('a', 'b'), tools: () => [says('a'), says('b', { terminate: false })], hooks: after(yes) },
  {
    name: 'a block that says terminate, beside a result that does',
    mode: 'sequential',
    calls: calls('a', 'b'),
    tools: () => [says('a', yes), says('b')],
    hooks: () => ({ beforeToolCall: async ({ toolCall }) => toolCall.name === 'b' ? { block: true, reason: 'no', terminate: true } : undefined }),
    ...lateDetails(1)
  },
  {
    name: 'hooks that write down which call they are asked about',
    mode: 'sequential',
    calls: [{ name: 'a', id: 'first', args: { n: 1 } }, { name: 'b', id: 'second', args: { n: 2 } }],
    tools: () => [says('a'), says('b')],
    hooks: (scene) => ({
      beforeToolCall: async ({ toolCall }) => { scene.note('before', toolCall); return undefined },
      afterToolCall: async ({ toolCall, result }) => { scene.note('after', toolCall.id, result.details); return undefined }
    })
  },
  {
    name: 'an unknown tool, alone',
    tools: () => [says('a')],
    calls: [{ name: 'nobody' }],
    ...differing('unknown-tool',
      {
        content: words('Tool nobody not found'), details: {}, isError: true, durationMs: 'absent',
        events: [...started('nobody', 0), ...ended('nobody', 0)]
      },
      { problem: 'unknown_tool', events: [] })
  },
  {
    name: 'an unknown tool among others',
    mode: 'sequential',
    tools: () => [says('a', yes)],
    calls: calls('a', 'nobody'),
    ...differing('unknown-tool',
      {
        '1.content': words('Tool nobody not found'), '1.details': {}, '1.isError': true, '1.durationMs': 'absent',
        events: [...started('a', 0), ...ended('a', 0), ...started('nobody', 1), ...ended('nobody', 1)]
      },
      {
        '1.problem': 'unknown_tool',
        events: [...started('a', 0), ...ended('a', 0)]
      })
  },
  {
    name: 'in parallel, a before-hook that takes its time for the first call',
    calls: calls('a', 'b'),
    tools: (scene) => ['a', 'b'].map((name) => named(name, async () => {
      scene.note(`${name} runs`)
      return { content: words(name), details: null }
    })),
    hooks: (scene) => ({
      beforeToolCall: async ({ toolCall }) => {
        scene.note(`asked about ${toolCall.name}`)
        if (toolCall.name === 'a') for (let turn = 0; turn < 20; turn++) await nextTurn()
        scene.note(`answered about ${toolCall.name}`)
        return undefined
      }
    }),
    ...differing('hooks-in-parallel',
      {
        seen: ['asked about a', 'answered about a', 'asked about b', 'answered about b', 'a runs', 'b runs'],
        events: [...started('a', 0), ...started('b', 1), ...ended('a', 0), ...ended('b', 1)]
      },
      {
        seen: ['asked about a', 'asked about b', 'answered about b', 'b runs', 'answered about a', 'a runs'],
        events: [...started('a', 0), ...started('b', 1), ...ended('b', 1), ...ended('a', 0)]
      })
  },
  {
    name: 'in parallel, tools that do not wait',
    calls: calls('a', 'b'),
    tools: () => [says('a'), says('b')]
  },
  {
    name: 'in sequence, the caller hangs up during the first call',
    stop: 'hang-up',
    mode: 'sequential',
    calls: calls('a', 'b'),
    tools: (scene) => [
      named('a', async (_id, _params, signal) => {
        scene.begun.open()
        await aborted(signal)
        scene.left.open()
        return { content: words('a'), details: null }
      }),
      says('b')
    ],
    ...differing('stopped',
      {
        '0.content': words('a'), '0.isError': false,
        '1.content': words('Operation aborted'), '1.details': {}, '1.isError': true, '1.durationMs': 'absent',
        events: [...started('a', 0), ...ended('a', 0), ...started('b', 1), ...ended('b', 1)]
      },
      {
        '0.content': words('The call of tool "a" was cancelled.'), '0.isError': true,
        '1.problem': 'never begun',
        events: [...started('a', 0), ...ended('a', 0)]
      })
  }
]
