import type { AgentTool, AgentToolResult, AgentToolUpdateCallback } from '@earendil-works/pi-agent-core'
import type { Answers, Case, PiHooks, Scene } from '../case.ts'

/** What the cases are put together from. */

export type Result = AgentToolResult<any>
export type Execute = (toolCallId: string, params: any, signal?: AbortSignal, onUpdate?: AgentToolUpdateCallback) => Promise<Result>

export const words = (text: string) => [{ type: 'text' as const, text }]

export const usage = (input: number) => ({
  input, output: 2, cacheRead: 0, cacheWrite: 0, totalTokens: input + 2, cost: { input: 0.5, output: 0, cacheRead: 0, cacheWrite: 0, total: 0.5 }
})

/** Takes any object. */
export const anything = { type: 'object' }

/** A tool as an agent has it, with its types; what only untyped code does is cast where it is done. */
export function subject (execute: Execute, more: Partial<AgentTool<any>> = {}): AgentTool<any> {
  return { name: 'subject', label: 'Subject', description: 'What the case is about.', parameters: anything, execute, ...more }
}

/** A tool that gives this, made anew for each call. */
export function gives (make: () => unknown, more: Partial<AgentTool<any>> = {}): Case['tools'] {
  return () => [subject(async () => make() as Result, more)]
}

/** A tool that rejects with this. */
export function throws (make: () => unknown, more: Partial<AgentTool<any>> = {}): Case['tools'] {
  return () => [subject(async () => { throw make() }, more)]
}

/** The usual success and failure that hooks are tried on. */
export const made = (): Result => ({ content: words('made'), details: { by: 'tool', deep: { kept: 1 } }, structuredContent: { n: 1 } })
export const failed = (): Result => ({ ...made(), isError: true })

/** An after-hook that answers this, whatever types say. */
export function after (answer: unknown): () => PiHooks {
  return () => ({ afterToolCall: async () => answer as never })
}

export function before (answer: unknown): () => PiHooks {
  return () => ({ beforeToolCall: async () => answer as never })
}

/** Hooks that throw. */
export const throwing = (make: () => unknown) => async (): Promise<never> => { throw make() }

export function differing (differs: string | string[], pi: Answers, toolgate: Answers): Pick<Case, 'differs' | 'expect'> {
  return { differs, expect: { pi, toolgate } }
}

/** What the loop itself says of a failure has details in pi. */
export const failure = differing('details-null', { details: {} }, { details: null })

/** Resolves when the call is to stop. */
export function aborted (signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve) => {
    if (signal!.aborted) resolve()
    else signal!.addEventListener('abort', () => resolve(), { once: true })
  })
}

/** Writes down what each hook is told of result and verdict. */
export function watching (scene: Scene, answer?: unknown): PiHooks {
  return {
    afterToolCall: async ({ result, isError }) => {
      scene.note('after', result.content, result.details, result.structuredContent, isError)
      return answer as never
    }
  }
}
