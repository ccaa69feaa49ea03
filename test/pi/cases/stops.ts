import type { Case, Scene } from '../case.ts'
import { aborted, differing, made, subject, words } from './subject.ts'

const cancelled = words('The call of tool "subject" was cancelled.')
const start = { type: 'tool_execution_start', toolCallId: 'call-0', toolName: 'subject', args: {} }
const end = { type: 'tool_execution_end', toolCallId: 'call-0', toolName: 'subject' }

/** A tool that is stopped while it runs, and then does this. */
const stopped = (then: (scene: Scene, signal: AbortSignal) => Promise<ReturnType<typeof made>>): Case['tools'] => (scene) => [
  subject(async (_id, _params, signal) => {
    scene.begun.open()
    try {
      return await then(scene, signal!)
    } finally {
      scene.left.open()
    }
  })
]

const heeding = stopped(async (scene, signal) => {
  await aborted(signal)
  scene.note('aborted', signal.aborted)
  throw new Error('stopped midway')
})

const finishing = stopped(async (scene, signal) => {
  await aborted(signal)
  scene.note('aborted')
  return made()
})

const deaf = stopped(async (scene) => {
  await scene.stopped.promise
  return made()
})

const whole = { content: made().content, details: made().details, structuredContent: made().structuredContent, isError: false }
const over = { content: cancelled, details: null, isError: true }

const hooked: Case['hooks'] = (scene) => ({
  afterToolCall: async () => {
    scene.note('after-hook')
    return undefined
  }
})

/** Calls that are stopped. */
export const stops: Case[] = (['cancel', 'hang-up'] as const).flatMap((stop): Case[] => [
  {
    name: `${stop}: a tool that throws when its signal aborts`,
    stop,
    tools: heeding,
    ...differing(['stopped', 'details-null'], { content: words('stopped midway'), details: {} }, { content: cancelled, details: null })
  },
  { name: `${stop}: a tool that ends in good order when its signal aborts`, stop, tools: finishing, ...differing('stopped', whole, over) },
  { name: `${stop}: a tool that hears nothing`, stop, tools: deaf, ...differing('stopped', whole, over) },
  {
    name: `${stop}: no after-hook`,
    stop,
    tools: heeding,
    hooks: hooked!,
    ...differing(['stopped', 'details-null'],
      { content: words('stopped midway'), details: {}, seen: [['aborted', true], 'after-hook'] },
      { content: cancelled, details: null, seen: [['aborted', true]] })
  },
  {
    name: `${stop}: while a before-hook has the call`,
    stop,
    tools: (scene) => [subject(async () => { scene.note('it ran'); return made() })],
    hooks: (scene) => ({
      beforeToolCall: async (_context, signal) => {
        scene.begun.open()
        await aborted(signal)
        scene.left.open()
        return { block: true, reason: 'too late' }
      }
    }),
    ...differing(['stopped', 'details-null'], { content: words('Operation aborted'), details: {} }, { content: cancelled, details: null })
  },
  {
    name: `${stop}: while an after-hook has the result`,
    stop,
    tools: () => [subject(async () => made())],
    hooks: (scene) => ({
      afterToolCall: async (_context, signal) => {
        scene.begun.open()
        await aborted(signal)
        scene.left.open()
        return { details: 'hook' }
      }
    }),
    ...differing('stopped', { ...whole, details: 'hook' }, over)
  },
  {
    name: `${stop}: progress of a tool that goes on`,
    stop,
    tools: (scene) => [subject(async (_id, _params, _signal, onUpdate) => {
      scene.begun.open()
      await scene.stopped.promise
      onUpdate!({ content: words('still here'), details: null })
      scene.left.open()
      return made()
    })],
    ...differing('stopped',
      { ...whole, events: [start, { ...start, type: 'tool_execution_update', partialResult: { content: words('still here'), details: null } }, end], partialIsError: [undefined] },
      { ...over, events: [start, end], partialIsError: [] })
  }
])
