/** What one value reads as. `value` is the number, or a date's epoch milliseconds. */
export type Cell =
  | { kind: 'integer' | 'number' | 'date', value: number }
  | { kind: 'boolean' | 'string' }

// No leading zeros: 00501 is a postcode, and as a number it would lose them.
const integer = /^[+-]?(?:0|[1-9]\d*)$/
const decimal = /^[+-]?(?:(?:0|[1-9]\d*)(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?$/
const boolean = /^(?:true|false)$/i
const date = /^(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?)(Z|[+-]\d\d:\d\d)?)?$/

/** Past it the squares that a standard deviation sums would overflow. */
const LARGEST = 1e150

const string: Cell = { kind: 'string' }
const truth: Cell = { kind: 'boolean' }

/**
 * Reads a value as the narrowest kind that keeps it exactly.
 *
 * - `integer`: digits with an optional sign, up to 2^53 - 1 in size. Longer ones are identifiers: `string`.
 * - `number`: a decimal point or exponent, no thousands separator, decimal commas not taken.
 * - `boolean`: true or false in any case.
 * - `date`: ISO 8601 and in the calendar, `2024-05-01` alone or with a time and an offset; UTC where none is told.
 *
 * @param text not empty, without spaces around it
 */
export function readCell (text: string): Cell {
  if (integer.test(text)) {
    const value = Number(text)
    return Number.isSafeInteger(value) ? { kind: 'integer', value: value + 0 } : string // + 0 turns -0 into 0
  }
  if (decimal.test(text)) {
    const value = Number(text)
    return Math.abs(value) <= LARGEST ? { kind: 'number', value: value + 0 } : string
  }
  if (boolean.test(text)) return truth
  const value = epochOf(text)
  return value === undefined ? string : { kind: 'date', value }
}

function epochOf (text: string): number | undefined {
  const match = date.exec(text)
  if (match === null) return undefined
  const [, day, time = '00:00', zone = 'Z'] = match
  const midnight = new Date(`${day}T00:00Z`)
  // Date.parse takes February 30 for March 1; a round trip tells.
  if (Number.isNaN(midnight.getTime()) || midnight.toISOString().slice(0, 10) !== day) return undefined
  const value = Date.parse(`${day}T${time}${zone}`)
  return Number.isNaN(value) ? undefined : value
}
