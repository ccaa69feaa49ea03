import { setTimeout as sleep } from 'node:timers/promises'
import { Type } from '@sinclair/typebox'
import { defineTool, type Tool, type ToolContext } from 'toolgate'
import { beginRun } from './run-log.ts'

export const Work = Type.Object({
  n: Type.Integer({ description: 'Comes back in the result' }),
  steps: Type.Integer({ minimum: 0, maximum: 20 }),
  ms: Type.Integer({ minimum: 0, maximum: 200, description: 'What each step takes' }),
  text: Type.Optional(Type.String())
}, { additionalProperties: false })

const Done = Type.Object({ n: Type.Integer(), attempt: Type.Integer() }, { additionalProperties: false })

/** A tool that works in steps and tells of each when it is done. */
export function workingTool (id: string, more: { replay: 'safe' | 'never', executionMode?: 'sequential', maxConcurrent?: number }) {
  return defineTool({
    id,
    description: `Works in steps (${JSON.stringify(more)}).`,
    kind: 'work',
    parameters: Work,
    outputSchema: Done,
    async execute (_toolCallId, { n, steps, ms }, signal, onUpdate, context) {
      const end = beginRun(id, context)
      try {
        await work(steps, ms, signal, onUpdate, context)
        return { structuredContent: { n, attempt: context.attempt } }
      } finally {
        end()
      }
    },
    ...more
  })
}

/** Each update says which it is, and of which run. */
export async function work (steps: number, ms: number, signal: AbortSignal, onUpdate: Parameters<Tool['execute']>[3], { attempt }: ToolContext): Promise<void> {
  for (let at = 0; at < steps; at++) {
    await sleep(ms, undefined, { signal })
    onUpdate({ details: { attempt, at } })
  }
}
