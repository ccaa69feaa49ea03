import { Type, type Static, type TSchema } from '@sinclair/typebox'
import { readCell, type Cell } from './csv-cell.ts'
import { statisticsOf } from './statistics.ts'

/** Distinct texts that a column remembers. Bounds memory; numeric columns do without. */
export const DISTINCT_CAP = 100_000

const TOP = 5
const closed = { additionalProperties: false } as const
const orNull = <T extends TSchema>(schema: T, description: string) => Type.Union([schema, Type.Null()], { description })
const count = (description: string) => Type.Integer({ minimum: 0, description })

const Value = Type.Union([Type.Number(), Type.String()])

export const ColumnProfile = Type.Object({
  name: Type.String({ description: 'From the header; column_N where that is empty or there is none; a repeated name gets _2, _3 …' }),
  type: Type.Union(['integer', 'number', 'boolean', 'date', 'string', 'empty'].map((type) => Type.Literal(type as Cell['kind'] | 'empty')), {
    description: 'The narrowest type that every value fits (integers among numbers are numbers); string where kinds mix; empty where all are missing. ' +
      'Numbers have a decimal point; digits with leading zeros or beyond 2^53 are strings, dates are ISO 8601'
  }),
  count: count('Values that are not missing'),
  missing: count('Missing values; count + missing = rows'),
  distinct: count('Different values that are not missing: by value in integer, number and boolean columns, by text in others'),
  distinctCapped: Type.Boolean({ description: `true where a column of texts has more than ${DISTINCT_CAP.toLocaleString('en-US')} different ones: distinct is then that bound` }),
  kinds: Type.Object({
    integer: count('Values read as integers'),
    number: count('Values read as numbers with a decimal point or exponent'),
    boolean: count('Values read as booleans'),
    date: count('Values read as dates'),
    string: count('All other values')
  }, { ...closed, description: 'How many values read as what: shows the few that keep a column from being numeric' }),
  min: orNull(Value, 'Smallest: a number; the earliest date as written; the first string by code unit. null for booleans and no values'),
  max: orNull(Value, 'Largest, in the same way'),
  mean: orNull(Type.Number(), 'Arithmetic mean; null unless integer or number'),
  stddev: orNull(Type.Number(), 'Sample standard deviation (n - 1); null unless integer or number, and for fewer than two values'),
  quantiles: orNull(Type.Object({
    p05: Type.Number(), p25: Type.Number(), p50: Type.Number({ description: 'The median' }), p75: Type.Number(), p95: Type.Number()
  }, closed), 'Exact, interpolated linearly between neighbours (R type 7, the default of NumPy and pandas); null unless integer or number'),
  top: orNull(Type.Array(Type.Object({ value: Value, count: Type.Integer({ minimum: 2 }) }, closed), { maxItems: TOP }),
    `The values that occur most often, at most ${TOP}, and only those that repeat; the smaller first among equals. null where distinctCapped`)
}, closed)
export type ColumnProfile = Static<typeof ColumnProfile>

type Top = NonNullable<ColumnProfile['top']>
type Findings = Pick<ColumnProfile, 'min' | 'max' | 'mean' | 'stddev' | 'quantiles' | 'top' | 'distinct' | 'distinctCapped'>

/** Gathers one column, value by value. Keeps its numbers, and its different texts up to {@link DISTINCT_CAP}. */
export class ColumnProfiler {
  readonly #name: string
  readonly #kinds = { integer: 0, number: 0, boolean: 0, date: 0, string: 0 }
  readonly #texts = new Map<string, number>()
  #missing = 0
  #capped = false
  readonly #numbers: number[] = []
  #first: string | undefined
  #last: string | undefined
  #earliest = { value: Infinity, text: '' }
  #latest = { value: -Infinity, text: '' }

  constructor (name: string) {
    this.#name = name
  }

  addMissing (): void {
    this.#missing++
  }

  /** @param text without spaces around it, not empty */
  add (text: string): void {
    const cell = readCell(text)
    this.#kinds[cell.kind]++
    if (cell.kind === 'integer' || cell.kind === 'number') this.#numbers.push(cell.value)
    else if (cell.kind === 'date') {
      if (cell.value < this.#earliest.value) this.#earliest = { value: cell.value, text }
      if (cell.value > this.#latest.value) this.#latest = { value: cell.value, text }
    }
    if (this.#first === undefined || text < this.#first) this.#first = text
    if (this.#last === undefined || text > this.#last) this.#last = text

    const seen = this.#texts.get(text)
    if (seen !== undefined) this.#texts.set(text, seen + 1)
    else if (this.#texts.size < DISTINCT_CAP) this.#texts.set(text, 1)
    else this.#capped = true
  }

  profile (): ColumnProfile {
    const type = this.#type()
    return {
      name: this.#name,
      type,
      count: Object.values(this.#kinds).reduce((sum, kind) => sum + kind),
      missing: this.#missing,
      kinds: this.#kinds,
      ...this.#findings(type)
    }
  }

  #type (): ColumnProfile['type'] {
    const kinds = (Object.keys(this.#kinds) as Cell['kind'][]).filter((kind) => this.#kinds[kind] > 0)
    if (kinds.length === 0) return 'empty'
    if (kinds.length === 1) return kinds[0]!
    return kinds.every((kind) => kind === 'integer' || kind === 'number') ? 'number' : 'string'
  }

  #findings (type: ColumnProfile['type']): Findings {
    if (type === 'integer' || type === 'number') {
      const { runs, ...statistics } = statisticsOf(this.#numbers)
      return { ...statistics, distinct: runs.size, distinctCapped: false, top: topOf(runs) }
    }
    const texts = type === 'boolean' ? lowerCased(this.#texts) : this.#texts
    const bounds = type === 'date'
      ? { min: this.#earliest.text, max: this.#latest.text }
      : type === 'string' ? { min: this.#first!, max: this.#last! } : { min: null, max: null }
    return {
      ...bounds,
      mean: null,
      stddev: null,
      quantiles: null,
      distinct: texts.size,
      distinctCapped: this.#capped,
      top: this.#capped ? null : topOf(texts)
    }
  }
}

function lowerCased (texts: Map<string, number>): Map<string, number> {
  const merged = new Map<string, number>()
  for (const [text, count] of texts) merged.set(text.toLowerCase(), (merged.get(text.toLowerCase()) ?? 0) + count)
  return merged
}

function topOf<Value extends number | string> (counts: Map<Value, number>): Top {
  const repeated = [...counts].filter(([, count]) => count > 1)
  repeated.sort(([a, countA], [b, countB]) => countB - countA || (a < b ? -1 : 1))
  return repeated.slice(0, TOP).map(([value, count]) => ({ value, count }))
}
