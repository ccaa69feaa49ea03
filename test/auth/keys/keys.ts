import { createKey, hashOf } from '../../../src/auth/keys/key-text.ts'
import type { KeyEntry } from '../../../src/auth/keys/key-file.ts'
import type { Log } from '../../../src/tools/tool.ts'

export interface MadeKey {
  text: string
  entry: KeyEntry
}

/** A key with all rights, or what `more` says. */
export function makeKey (name: string, more: Partial<KeyEntry> = {}): MadeKey {
  const { id, text } = createKey()
  return { text, entry: { id, name, hash: hashOf(text), scopes: ['admin'], createdAt: '2026-01-01T00:00:00Z', ...more } }
}

export function fileOf (...keys: { entry: KeyEntry }[]): string {
  return JSON.stringify({ keys: keys.map(({ entry }) => entry) })
}

export interface LogLine {
  level: string
  fields: any
  message: string
}

/** A log that keeps its lines. */
export function keptLog (): Log & { lines: LogLine[] } {
  const lines: LogLine[] = []
  const at = (level: string) => (fields: object, message: string) => { lines.push({ level, fields, message }) }
  return { lines, debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') }
}
