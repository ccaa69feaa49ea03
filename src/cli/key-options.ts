import { InvalidArgumentError } from 'commander'
import { instantOf } from '../auth/keys/instant.ts'
import { keyNameExpected, keyNamePattern } from '../auth/keys/key-file.ts'
import { parseScope } from '../auth/scopes.ts'
import { isToolPattern } from '../contract/tool.ts'

const unitsMs: Readonly<Record<string, number>> = { d: 86_400_000, h: 3_600_000, m: 60_000 }
/** The last moment that ISO 8601 can say with four digits for the year. */
const LAST_MS = Date.UTC(10_000, 0) - 1

/** The name of a key, for commander, as are the others. */
export function keyName (text: string): string {
  if (!new RegExp(keyNamePattern).test(text)) throw new InvalidArgumentError(`It ${keyNameExpected}.`)
  return text
}

export function scopes (text: string, before: string[] = []): string[] {
  try {
    parseScope(text)
  } catch (error) {
    throw new InvalidArgumentError(`${(error as SyntaxError).message}.`)
  }
  return [...before, text]
}

export function toolPatterns (text: string, before: string[] = []): string[] {
  if (!isToolPattern(text)) throw new InvalidArgumentError('No tool can have an id that fits this.')
  return [...before, text]
}

/** Epoch milliseconds of a time to come. */
export function expiry (text: string): number {
  const [, count, unit] = /^(\d{1,9})([dhm])$/.exec(text) ?? []
  const now = Date.now()
  const epochMs = count === undefined ? instantOf(text) : now + Number(count) * unitsMs[unit!]!
  if (epochMs === undefined || epochMs > LAST_MS) throw new InvalidArgumentError('It must be as in 90d, 12h, 30m, 2027-01-31 or 2027-01-31T12:00:00Z.')
  if (epochMs <= now) throw new InvalidArgumentError('It must be in the future.')
  return epochMs
}
