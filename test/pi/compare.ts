import assert from 'node:assert/strict'
import { isDeepStrictEqual } from 'node:util'
import type { Answers, Case, CallAnswer, Outcome, OwnCase, Told } from './case.ts'

/** What holds of every call, and so is not told of each. A case holds each of these rows as well. */
const everywhere: Record<string, { row: string, holds: (pi: unknown, toolgate: unknown, own: Answers, prefix: string) => boolean }> = {
  resultIsError: { row: 'verdict-in-result', holds: (_pi, toolgate, own, prefix) => toolgate === own[`${prefix}isError`] },
  partialIsError: { row: 'verdict-in-result', holds: (pi, toolgate) => isDeepStrictEqual(toolgate, (pi as unknown[]).map((said) => said === true)) },
  durationMs: { row: 'duration-zero', holds: (pi, toolgate) => pi === 'absent' && toolgate === 'zero' }
}

export const rowsEverywhere: readonly string[] = Object.values(everywhere).map(({ row }) => row)

/** The fields of an outcome in one list, those of a call with its place before them where there are several. */
export function flatten ({ calls, ...more }: Outcome): Answers {
  const flat: Answers = { ...more }
  calls.forEach((call, index) => {
    const prefix = calls.length === 1 ? '' : `${index}.`
    if ('toModel' in call) assertTranscript(call)
    for (const [name, value] of Object.entries(call)) if (name !== 'toModel') flat[prefix + name] = value
  })
  return flat
}

/** A model gets the content and the verdict, and nothing else of a result. */
function assertTranscript ({ toModel, content, isError }: CallAnswer): void {
  assert.deepEqual(toModel, { content: content ?? [], isError })
}

/** Where the two answers are not the same, and the case does not say so, or says something else. */
export function assertSame (given: Case | OwnCase, pi: Answers, toolgate: Answers): void {
  const { differs, expect = { pi: {}, toolgate: {} } } = given
  assert.equal(differs === undefined, given.expect === undefined, 'a case that differs says how')
  const claimed = new Set([...Object.keys(expect.pi), ...Object.keys(expect.toolgate)])
  if (differs !== undefined) assert.ok(claimed.size > 0, 'a case that differs says in what')
  const found: Record<'pi' | 'toolgate', Answers> = { pi: {}, toolgate: {} }
  for (const field of new Set([...Object.keys(pi), ...Object.keys(toolgate), ...claimed])) {
    const isSame = isDeepStrictEqual(pi[field], toolgate[field])
    if (claimed.has(field) ? isSame : isSame || isEverywhere(field, pi, toolgate)) continue
    if (pi[field] !== undefined) found.pi[field] = pi[field]
    if (toolgate[field] !== undefined) found.toolgate[field] = toolgate[field]
  }
  assert.deepEqual(found, expect)
}

function isEverywhere (field: string, pi: Answers, toolgate: Answers): boolean {
  const [, prefix, name] = /^(\d+\.)?(\w+)$/.exec(field)!
  return everywhere[name!]?.holds(pi[field], toolgate[field], toolgate, prefix ?? '') === true
}

/** The answers of a side in one line; what differs is shown in any case. */
export function brief (answers: Answers, { expect }: Case | OwnCase): string {
  const differing = { ...expect?.pi, ...expect?.toolgate }
  const words = Object.entries(answers).flatMap(([field, value]) => field in differing || !isDull(field, value) ? [`${field} ${shown(field, value)}`] : [])
  const text = words.join(' · ')
  return text.length <= 240 ? text : `${text.slice(0, 239)}…`
}

function isDull (field: string, value: unknown): boolean {
  return value === undefined || value === false || (Array.isArray(value) && value.length === 0 && field !== 'content') || /resultIsError|partialIsError|durationMs|events|more/.test(field)
}

function shown (field: string, value: unknown): string {
  if (field === 'events') return (value as Told[]).map(({ type, toolCallId }) => `${type.replace('tool_execution_', '')} ${toolCallId}`).join(', ') || 'none'
  try {
    return JSON.stringify(value) ?? String(value)
  } catch {
    return Object.prototype.toString.call(value) // a cycle, a BigInt
  }
}
