import { appendFileSync } from 'node:fs'
import { join } from 'node:path'
import type { ToolContext } from 'toolgate'

const folder = process.env.CRASH_RUNS!
const life = Number(process.env.CRASH_LIFE)

// Recovery begins once the tools are loaded, which is now.
appendFileSync(join(folder, 'loaded'), `${life}\n`)

/**
 * Writes that a run begins, in a file of the tool's own: to be called before anything else is done, so that the line is
 * there whatever becomes of the process.
 * @returns what writes that it ends
 */
export function beginRun (toolId: string, { invocationId, attempt }: ToolContext): () => void {
  const note = (what: 'begin' | 'end') => appendFileSync(join(folder, `${toolId}.runs`), `${JSON.stringify({ what, invocationId, attempt, life, atMs: Date.now() })}\n`)
  note('begin')
  return () => note('end')
}
