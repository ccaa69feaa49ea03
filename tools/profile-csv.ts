import { setImmediate } from 'node:timers/promises'
import { Type, type Static } from '@sinclair/typebox'
import { defineTool } from 'toolgate'
import { ColumnProfile, ColumnProfiler } from './lib/csv-column.ts'
import { detectDelimiter, explain, normaliseLineEnds, readRecords } from './lib/csv-records.ts'

const ROWS_PER_UPDATE = 4_000
const MAX_COLUMNS = 1_000
const COLUMNS_IN_TEXT = 20
const MISSING = ['NA', 'N/A', 'NaN', 'null', 'NULL']

const CsvProfile = Type.Object({
  rows: Type.Integer({ minimum: 0, description: 'Records, without the header. Blank lines do not count' }),
  delimiter: Type.String({ description: 'The delimiter that was given or detected' }),
  columns: Type.Array(ColumnProfile, { description: 'In the order of the file' })
}, { additionalProperties: false })
export type CsvProfile = Static<typeof CsvProfile>

export default defineTool({
  id: 'profile_csv',
  label: 'Profile CSV',
  description: 'Describes a CSV text column by column: type, missing and distinct values, range, mean, quantiles, most frequent values. ' +
    'Handles quoted fields, any line ends and a byte order mark; fails with the line number where the text is malformed.',
  kind: 'read',
  replay: 'safe',
  parameters: Type.Object({
    csv: Type.String({ description: 'The CSV text itself, not a path or an address' }),
    delimiter: Type.Optional(Type.String({
      pattern: '^[^"\\r\\n]$', description: 'One character between fields. Detected among comma, semicolon, tab and | where absent'
    })),
    header: Type.Optional(Type.Boolean({ default: true, description: 'Whether the first record names the columns' })),
    missing: Type.Optional(Type.Array(Type.String(), {
      maxItems: 50, default: MISSING, description: 'Texts that stand for a missing value, exactly as written. Empty fields are always missing'
    }))
  }, { additionalProperties: false }),
  outputSchema: CsvProfile,
  async execute (_toolCallId, params, signal, onUpdate) {
    signal.throwIfAborted()
    const csv = normaliseLineEnds(params.csv)
    const delimiter = params.delimiter ?? detectDelimiter(csv)
    const missing = new Set([...params.missing ?? MISSING, ''])
    const bytes = Buffer.from(csv)

    let columns: ColumnProfiler[] | undefined
    let rows = 0
    try {
      for await (const record of readRecords(bytes, delimiter, signal)) {
        if (columns === undefined) {
          columns = openColumns(record, params.header ?? true)
          if (params.header ?? true) continue
        }
        for (const [index, column] of columns.entries()) {
          const text = record[index]!.trim()
          if (missing.has(text)) column.addMissing()
          else column.add(text)
        }
        if (++rows % ROWS_PER_UPDATE === 0) {
          onUpdate({ content: [{ type: 'text', text: `${grouped(rows)} rows read` }], details: { rows } })
        }
      }
    } catch (error) {
      signal.throwIfAborted()
      throw explain(error, bytes)
    }
    if (columns === undefined) throw new Error('The CSV is empty: it has neither a header nor a row.')

    const profile: CsvProfile = { rows, delimiter, columns: [] }
    for (const column of columns) {
      profile.columns.push(column.profile())
      await setImmediate() // sorting a long column takes its time; others run in between
      signal.throwIfAborted()
    }
    return {
      content: [{ type: 'text', text: describe(profile) }],
      details: { delimiterDetected: params.delimiter === undefined, missing: [...missing], rowsPerUpdate: ROWS_PER_UPDATE },
      structuredContent: profile
    }
  }
})

function openColumns (first: string[], header: boolean): ColumnProfiler[] {
  if (first.length > MAX_COLUMNS) {
    throw new Error(`The CSV has ${first.length} columns, and at most ${MAX_COLUMNS} are profiled. Is the delimiter right?`)
  }
  const taken = new Set<string>()
  return first.map((field, index) => {
    const wanted = (header ? field.trim() : '') || `column_${index + 1}`
    let name = wanted
    for (let repeat = 2; taken.has(name); repeat++) name = `${wanted}_${repeat}`
    taken.add(name)
    return new ColumnProfiler(name)
  })
}

/** For the model: a line a column, as far as a context bears it. */
function describe ({ rows, delimiter, columns }: CsvProfile): string {
  const lines = columns.slice(0, COLUMNS_IN_TEXT).map(describeColumn)
  if (columns.length > COLUMNS_IN_TEXT) lines.push(`and ${columns.length - COLUMNS_IN_TEXT} more columns`)
  return [`${counted(rows, 'row')}, ${counted(columns.length, 'column')}, delimiter ${JSON.stringify(delimiter)}`, ...lines].join('\n')
}

function describeColumn (column: ColumnProfile): string {
  const facts = [`${counted(column.count, 'value')}, ${grouped(column.missing)} missing, ${column.distinctCapped ? 'over ' : ''}${grouped(column.distinct)} distinct`]
  if (column.min !== null) facts.push(`${short(column.min)} to ${short(column.max!)}`)
  if (column.mean !== null) facts.push(`mean ${short(column.mean)}, median ${short(column.quantiles!.p50)}`)
  const [mostFrequent] = column.top ?? []
  if (mostFrequent !== undefined) facts.push(`most often ${short(mostFrequent.value)} (${grouped(mostFrequent.count)} times)`)
  return `- ${short(column.name)} (${column.type}): ${facts.join('; ')}`
}

function counted (count: number, noun: string): string {
  return `${grouped(count)} ${noun}${count === 1 ? '' : 's'}`
}

function grouped (count: number): string {
  return count.toLocaleString('en-US')
}

function short (value: number | string): string {
  if (typeof value === 'number') return String(Number.isSafeInteger(value) ? value : Number(value.toPrecision(6)))
  return JSON.stringify(value.length > 40 ? `${value.slice(0, 40)}…` : value)
}
