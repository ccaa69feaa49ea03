/** A preference without its parameters, and without spaces around it. */
const pair = /^([!#$%&'*+.^_`|~\w-]+)(?:[ \t]*=[ \t]*([!#$%&'*+.^_`|~\w-]+|"(?:[^"\\]|\\[^])*")?)?$/

/**
 * The preferences that a `Prefer` header states (RFC 7240), by their names in lower case; `''` for one without a value.
 * Parameters are left out, and so is whatever is no preference. Of one that is stated twice, the first counts.
 *
 * @param header as Node gives it: several headers are one, joined by commas
 */
export function parsePrefer (header: string | readonly string[] | undefined): ReadonlyMap<string, string> {
  const preferences = new Map<string, string>()
  if (header === undefined) return preferences
  for (const stated of split([header].flat().join(','), ',')) {
    const [, name, value = ''] = pair.exec(split(stated, ';')[0]!.trim()) ?? []
    if (name === undefined || preferences.has(name.toLowerCase())) continue
    preferences.set(name.toLowerCase(), value.startsWith('"') ? value.slice(1, -1).replace(/\\([^])/g, '$1') : value)
  }
  return preferences
}

/**
 * The whole seconds that `Prefer: wait=S` asks for, cut to what `maxWaitMs` has of them.
 * @returns undefined where nothing is asked for, or not in whole seconds
 */
export function waitSeconds (preferences: ReadonlyMap<string, string>, maxWaitMs: number): number | undefined {
  const wait = preferences.get('wait')
  if (wait === undefined || !/^[0-9]+$/.test(wait)) return undefined
  return Math.min(Number(wait), Math.floor(maxWaitMs / 1000))
}

/** How the caller of a tool would have its answer. */
export interface AnswerPreference {
  /** Time after which it goes on without, milliseconds; undefined where it waits for as long as it takes. */
  waitMs: number | undefined
  /** What is done of what it asked for, in its own words. */
  applied: string | undefined
}

const none: AnswerPreference = { waitMs: undefined, applied: undefined }

/** What `Prefer: respond-async` and `wait=S` ask for: `respond-async` alone is not to wait at all. */
export function answerPreference (header: string | readonly string[] | undefined, maxWaitMs: number): AnswerPreference {
  // As most calls come.
  if (header === undefined) return none
  const preferences = parsePrefer(header)
  const seconds = waitSeconds(preferences, maxWaitMs)
  const applied = [preferences.has('respond-async') ? 'respond-async' : [], seconds === undefined ? [] : `wait=${seconds}`].flat()
  return applied.length === 0 ? none : { waitMs: (seconds ?? 0) * 1000, applied: applied.join(', ') }
}

/** Cuts at each separator that does not stand in quotes. */
function split (text: string, separator: ',' | ';'): string[] {
  const parts: string[] = []
  let isQuoted = false
  let from = 0
  for (let at = 0; at < text.length; at++) {
    if (isQuoted && text[at] === '\\') at++
    else if (text[at] === '"') isQuoted = !isQuoted
    else if (text[at] === separator && !isQuoted) {
      parts.push(text.slice(from, at))
      from = at + 1
    }
  }
  return [...parts, text.slice(from)]
}
