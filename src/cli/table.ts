import { plainLine } from './plain-text.ts'
import { cut, pad, widthOf } from './text-width.ts'

/** A longer cell moves the rest of its line, and of no other. */
const MAX_COLUMN = 32

/** Rows of cells for a person, each a line of the terminal's width at most. */
export function table (rows: readonly (readonly string[])[], columns: number): string {
  const plain = rows.map((cells) => cells.map(plainLine))
  const widths = plain[0]?.map((_cell, at) => Math.min(MAX_COLUMN, Math.max(...plain.map((cells) => widthOf(cells[at]!))))) ?? []
  return plain.map((cells) => cut(cells.map((cell, at) => pad(cell, widths[at]!)).join('  ').trimEnd(), columns)).join('\n')
}
