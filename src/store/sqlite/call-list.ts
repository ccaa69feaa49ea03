import type { SQLInputValue } from 'node:sqlite'
import type { CallGrant } from '../call-sight.ts'
import type { CallFilter, CallPage, ListedCall } from '../store.ts'
import type { Database, Statement } from './database.ts'
import { identityColumns, IDENTITY_WIDTH, toColumn, toIdentity, toVerdict, verdictColumns } from './rows.ts'

const FIRST_WIDTH = 2048
/** How long a step should take, milliseconds. */
const STEP_MS = 3
const VERDICT = IDENTITY_WIDTH

interface Wanted {
  readonly filter: CallFilter
  /** Only calls that began before this place. */
  readonly before: number
  /** Only calls that began there or later. */
  readonly from: number
  readonly limit: number
  /** Records whose ends stand up to there are gone, but for those that hold a key. */
  readonly gone: number
  readonly nowMs: number
}

/**
 * A page of a list, looked for backwards in ranges of places: what a filter lets through may be far apart, and nothing else
 * of the gateway is to wait for it. Inputs and results are not read.
 */
export class CallList {
  readonly #wanted: Wanted
  readonly #statement: Statement
  readonly #values: readonly SQLInputValue[]
  readonly #monotonic: () => number
  readonly #found: { call: ListedCall, place: number }[] = []
  #before: number
  #width = FIRST_WIDTH

  constructor (database: Database, wanted: Wanted, monotonic: () => number) {
    const { conditions, values } = conditionsOf(wanted.filter)
    this.#wanted = wanted
    this.#before = wanted.before
    this.#values = [...values, wanted.gone, wanted.nowMs]
    this.#monotonic = monotonic
    this.#statement = database.prepare(`SELECT ${identityColumns}, ${verdictColumns}
      FROM calls c LEFT JOIN ends e ON e.start_sequence = c.start_sequence
      WHERE ${['c.start_sequence >= ? AND c.start_sequence < ?', ...conditions].join(' AND ')} AND (e.end_sequence IS NULL OR e.end_sequence > ?
        OR EXISTS (SELECT 1 FROM idempotency_keys k WHERE k.start_sequence = c.start_sequence AND k.expires_at_ms > ?))
      ORDER BY c.start_sequence DESC LIMIT ?`)
  }

  /** Looks through one more range. @returns whether the page is complete */
  step (): boolean {
    const { limit, from } = this.#wanted
    const startedAt = this.#monotonic()
    const lowest = Math.max(from, this.#before - this.#width)
    for (const row of this.#statement.iterate(lowest, this.#before, ...this.#values, limit + 1 - this.#found.length)) {
      this.#found.push({ call: { start: toIdentity(row), end: toVerdict(row, VERDICT) }, place: row[0] as number })
    }
    this.#before = lowest
    const tookMs = this.#monotonic() - startedAt
    if (tookMs < STEP_MS / 2) this.#width *= 2
    else if (tookMs > STEP_MS) this.#width = Math.max(1, this.#width >> 1)
    return this.#found.length > limit || lowest <= from
  }

  get page (): CallPage {
    const { limit } = this.#wanted
    return {
      calls: this.#found.slice(0, limit).map(({ call }) => call),
      next: this.#found.length > limit ? this.#found[limit - 1]!.place : undefined
    }
  }
}

/** The same as `compileCallFilter` in SQL. */
function conditionsOf ({ toolId, kind, status, runId, from, to, principalId, sight }: CallFilter): { conditions: string[], values: SQLInputValue[] } {
  const conditions: string[] = []
  const values: SQLInputValue[] = []
  const add = (condition: string, ...given: SQLInputValue[]) => {
    conditions.push(condition)
    values.push(...given)
  }
  if (toolId !== undefined) add(oneOf('c.tool_id', toolId), ...toolId)
  if (kind !== undefined) add(oneOf('c.kind', kind), ...kind)
  if (runId !== undefined) add(oneOf('c.run_id', runId), ...runId.map(toColumn))
  if (status !== undefined) add(`${oneOf("ifnull(e.status, 'running')", status)}`, ...status)
  if (from !== undefined) add('c.started_at_ms >= ?', from)
  if (to !== undefined) add('c.started_at_ms < ?', to)
  if (principalId !== undefined) add(oneOf('c.principal_id', principalId), ...principalId)
  if (sight !== undefined) add(...seen(sight.grants))
  return { conditions, values }
}

function oneOf (column: string, given: readonly string[]): string {
  return `${column} IN (${given.map(() => '?').join(', ')})`
}

/** The same as `CallSight.sees`. In a pattern of ours only the star means something, to SQLite as well. */
function seen (grants: readonly CallGrant[]): [condition: string, ...values: string[]] {
  const values: string[] = []
  const alternatives = grants.map(({ tools, kinds, principalId }) => {
    const all = tools.map((patterns) => `(${patterns.map(() => 'c.tool_id GLOB ?').join(' OR ')})`)
    values.push(...tools.flat(), ...kinds ?? [], ...principalId === undefined ? [] : [principalId])
    if (kinds !== undefined) all.push(oneOf('c.kind', kinds))
    if (principalId !== undefined) all.push('c.principal_id = ?')
    return all.length === 0 ? 'TRUE' : all.join(' AND ')
  })
  return [alternatives.length === 0 ? 'FALSE' : `(${alternatives.join(' OR ')})`, ...values]
}
