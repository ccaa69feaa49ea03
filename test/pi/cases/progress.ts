import type { Case } from '../case.ts'
import { differing, failed, made, subject, usage, words } from './subject.ts'

const partial = (text: string, details: unknown = null) => ({ content: words(text), details })
const told = (...partials: unknown[]) => [
  { type: 'tool_execution_start', toolCallId: 'call-0', toolName: 'subject', args: {} },
  ...partials.map((partialResult) => ({ type: 'tool_execution_update', toolCallId: 'call-0', toolName: 'subject', args: {}, partialResult })),
  { type: 'tool_execution_end', toolCallId: 'call-0', toolName: 'subject' }
]

/** What tools tell while they run. */
export const progress: Case[] = [
  {
    name: 'progress before the first await',
    tools: () => [subject(async (_id, _params, _signal, onUpdate) => {
      onUpdate!(partial('a'))
      onUpdate!(partial('b', { at: 2 }))
      return made()
    })]
  },
  {
    name: 'progress between awaits, with arguments',
    calls: [{ args: { n: [1] } }],
    tools: () => [subject(async (_id, _params, _signal, onUpdate) => {
      for (const at of [1, 2, 3]) {
        await new Promise(setImmediate)
        onUpdate!(partial('at', at))
      }
      return made()
    })]
  },
  {
    name: 'progress with details, structuredContent and an image',
    tools: () => [subject(async (_id, _params, _signal, onUpdate) => {
      onUpdate!({ content: [...words('half'), { type: 'image', data: '', mimeType: 'image/png' }], details: { done: 0.5 }, structuredContent: { rows: [] } })
      return made()
    })]
  },
  {
    name: 'progress with usage and terminate',
    tools: () => [subject(async (_id, _params, _signal, onUpdate) => {
      onUpdate!({ ...partial('so far'), usage: usage(3), terminate: true })
      return made()
    })]
  },
  {
    name: 'progress with isError: true',
    tools: () => [subject(async (_id, _params, _signal, onUpdate) => {
      onUpdate!({ ...partial('failing'), isError: true })
      return failed()
    })]
  },
  {
    name: 'progress has a verdict in any case',
    tools: () => [subject(async (_id, _params, _signal, onUpdate) => {
      onUpdate!(partial('x'))
      return made()
    })],
    ...differing('verdict-in-result', { partialIsError: [undefined] }, { partialIsError: [false] })
  },
  {
    name: 'progress of one object that is changed between',
    tools: () => [subject(async (_id, _params, _signal, onUpdate) => {
      const state = partial('one', { at: 1 })
      onUpdate!(state)
      state.details = { at: 2 }
      onUpdate!(state)
      state.details = { at: 3 }
      return made()
    })]
  },
  {
    name: 'progress before a throw',
    tools: () => [subject(async (_id, _params, _signal, onUpdate) => {
      onUpdate!(partial('a'))
      throw new Error('it broke')
    })],
    ...differing('details-null', { details: {} }, { details: null })
  },
  {
    name: 'progress without content or details',
    tools: () => [subject(async (_id, _params, _signal, onUpdate) => {
      onUpdate!({ structuredContent: { at: 1 } } as never)
      onUpdate!({ content: null, details: undefined } as never)
      return made()
    })],
    ...differing(['content-null', 'details-null'],
      { events: told({ structuredContent: { at: 1 } }, { content: null }) },
      { events: told({ content: [], details: null, structuredContent: { at: 1 } }, { content: [], details: null }) })
  },
  {
    name: 'progress that is no result, or no JSON',
    tools: () => [subject(async (_id, _params, _signal, onUpdate) => {
      onUpdate!('half' as never)
      onUpdate!(partial('x', NaN))
      onUpdate!({ content: 'text', details: null } as never)
      onUpdate!(partial('fine'))
      return made()
    })],
    ...differing('progress-checked',
      { events: told({}, partial('x', NaN), { content: 'text', details: null }, partial('fine')), partialIsError: [undefined, undefined, undefined, undefined] },
      { events: told(partial('fine')), partialIsError: [false] })
  },
  {
    name: 'progress after the end of execute, while an after-hook runs, counts for nothing',
    ...late(async (tell) => {
      tell()
      await new Promise(setImmediate)
      tell()
    })
  },
  {
    name: 'progress after a throw, while an after-hook runs, counts for nothing',
    ...late(async (tell) => { tell() }, () => { throw new Error('it broke') }),
    ...differing('details-null', { details: {} }, { details: null })
  }
]

/** A tool whose `onUpdate` is called by an after-hook. */
function late (run: (tell: () => void) => Promise<void>, give: () => ReturnType<typeof made> = made): Pick<Case, 'tools' | 'hooks'> {
  const told = new WeakMap<object, () => void>()
  return {
    tools: (scene) => [subject(async (_id, _params, _signal, onUpdate) => {
      onUpdate!(partial('in time'))
      told.set(scene, () => onUpdate!(partial('late')))
      return give()
    })],
    hooks: (scene) => ({
      afterToolCall: async () => {
        await run(told.get(scene)!)
        scene.note('told late')
        return undefined
      }
    })
  }
}
