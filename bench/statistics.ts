export function median (values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b)
  const middle = Math.floor(sorted.length / 2)
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2
}

export interface Row {
  what: string
  value: number
  unit: string
  /** The median of the ratios to the reference of the same round. */
  ratio: number
  /** What we claim, where we do. */
  target?: string
}

/** One row a subject: the median of its values, and of its ratios to the reference, round by round. */
export function compare (rounds: readonly Record<string, number>[], reference: string, unit: string, targets: Record<string, string> = {}): Row[] {
  return Object.keys(rounds[0]!).map((what) => ({
    what,
    value: median(rounds.map((round) => round[what]!)),
    unit,
    ratio: median(rounds.map((round) => round[what]! / round[reference]!)),
    ...(targets[what] === undefined ? {} : { target: targets[what] })
  }))
}

export function print (rows: readonly Row[]): void {
  const cells = rows.map(({ what, value, unit, ratio, target }) =>
    [what, `${Math.round(value).toLocaleString('en')} ${unit}`, ratio.toFixed(2), target ?? ''])
  const table = [['measured', 'median', 'ratio', 'target'], ...cells]
  const widths = [0, 1, 2, 3].map((column) => Math.max(...table.map((row) => row[column]!.length)))
  const lines = table.map((row) => `| ${row.map((cell, column) => column === 0 ? cell.padEnd(widths[0]!) : cell.padStart(widths[column]!)).join(' | ')} |`)
  lines.splice(1, 0, `|${widths.map((width, column) => `${'-'.repeat(width + 1)}${column === 0 ? '-' : ':'}`).join('|')}|`)
  process.stdout.write(`${lines.join('\n')}\n`)
}
