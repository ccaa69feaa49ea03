import { setTimeout as sleep } from 'node:timers/promises'
import { Type } from '@sinclair/typebox'
import { defineTool } from 'toolgate'
import { beginRun } from './lib/run-log.ts'
import { Work, work } from './lib/working.ts'

/** Over before it returns; nobody says that it may run again. */
export const quick = defineTool({
  id: 'quick',
  description: 'Settles in the turn in which it is run.',
  kind: 'read',
  parameters: Work,
  execute (_toolCallId, { n }, _signal, onUpdate, context) {
    const end = beginRun('quick', context)
    onUpdate({ details: { attempt: context.attempt, at: 0 } })
    end()
    return { structuredContent: { n, attempt: context.attempt } }
  }
})

export const failing = defineTool({
  id: 'failing',
  description: 'Fails, after its steps.',
  kind: 'work',
  replay: 'safe',
  parameters: Work,
  async execute (_toolCallId, { n, steps, ms }, signal, onUpdate, context) {
    const end = beginRun('failing', context)
    try {
      await work(steps, ms, signal, onUpdate, context)
    } finally {
      end()
    }
    throw new Error(`as asked, call ${n}`)
  }
})

/** Makes calls of its own; where it is run again, it makes others. */
export const family = defineTool({
  id: 'family',
  description: 'Has three calls made, two of them at once.',
  kind: 'work',
  replay: 'safe',
  parameters: Work,
  async execute (_toolCallId, { n, steps, ms }, _signal, _onUpdate, context) {
    const end = beginRun('family', context)
    try {
      const input = { n, steps, ms }
      const answers = await Promise.all([context.invoke('steps', input), context.invoke('once', input)])
      answers.push(await context.invoke('quick', input))
      const failed = answers.find(({ isError }) => isError)
      if (failed !== undefined) throw new Error(`a child call failed: ${JSON.stringify(failed)}`)
      return { structuredContent: { n, attempt: context.attempt, children: answers.map(({ invocation }) => invocation.invocationId) } }
    } finally {
      end()
    }
  }
})

/** What it is given and what it gives is for nobody else's eyes. */
export const secret = defineTool({
  id: 'secret',
  description: 'Gives back what it is told, in confidence.',
  kind: 'read',
  sensitive: true,
  parameters: Type.Object({ n: Type.Integer(), word: Type.String(), ms: Type.Integer({ minimum: 0, maximum: 200 }) }, { additionalProperties: false }),
  async execute (_toolCallId, { n, word, ms }, signal, _onUpdate, context) {
    const end = beginRun('secret', context)
    try {
      await sleep(ms, undefined, { signal })
      return { structuredContent: { n, word, attempt: context.attempt } }
    } finally {
      end()
    }
  }
})
