import { fileURLToPath } from 'node:url'

/** The folder of the tools that are called. */
export const toolsFolder = fileURLToPath(new URL('tools', import.meta.url))

/** What is known of each tool from outside. */
export interface ToolTraits {
  replay: 'safe' | 'never'
  sensitive?: true
  /** Calls that run at once, at most. */
  atOnce?: number
  /** Whether a call that runs to its end is a failure. */
  fails?: true
}

export const toolbox: Readonly<Record<string, ToolTraits>> = {
  quick: { replay: 'never' },
  steps: { replay: 'safe' },
  once: { replay: 'never' },
  line: { replay: 'safe', atOnce: 1 },
  pair: { replay: 'never', atOnce: 2 },
  failing: { replay: 'safe', fails: true },
  family: { replay: 'safe' },
  secret: { replay: 'never', sensitive: true }
}

/** Stands in every word that is told in confidence, and so nowhere else. */
export const SECRET = 'hush-hush'
