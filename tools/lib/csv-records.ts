import { addAbortSignal, pipeline, type Readable } from 'node:stream'
import { setImmediate } from 'node:timers/promises'
import { CsvError, parse } from 'csv-parse'

const SLICE_BYTES = 32 * 1024
const SNIFFED_CHARS = 64 * 1024
const SNIFFED_RECORDS = 20

const delimiters = [',', ';', '\t', '|'] as const

/** All line ends become `\n`, also those in quotes, so that lines count as an editor counts them. */
export function normaliseLineEnds (csv: string): string {
  return csv.replace(/\r\n?/g, '\n')
}

/**
 * The delimiter among `, ; tab |` that splits the first records into equally many fields, the most fields first.
 * Where none does, the one that the first record has most of; a comma where it has none.
 */
export function detectDelimiter (csv: string): string {
  const counts = countDelimiters(csv)
  let best = { delimiter: ',', even: false, fields: 0 }
  delimiters.forEach((delimiter, column) => {
    const fields = counts[0]?.[column] ?? 0
    const even = counts.every((count) => count[column] === fields)
    if (fields > 0 && (even === best.even ? fields > best.fields : even)) best = { delimiter, even, fields }
  })
  return best.delimiter
}

/** How often each candidate stands outside quotes, for every whole record at the start. */
function countDelimiters (csv: string): number[][] {
  const records: number[][] = []
  let counts = delimiters.map(() => 0)
  let quoted = false
  let blank = true
  const end = Math.min(csv.length, SNIFFED_CHARS)
  for (let at = 0; at < end && records.length < SNIFFED_RECORDS; at++) {
    const char = csv[at]!
    if (char === '"') quoted = !quoted
    if (quoted) continue
    if (char === '\n') {
      if (!blank) records.push(counts)
      counts = delimiters.map(() => 0)
      blank = true
      continue
    }
    blank &&= char.trim() === '' && char !== '\t'
    const candidate = delimiters.indexOf(char as typeof delimiters[number])
    if (candidate !== -1) counts[candidate]!++
  }
  const atEnd = end === csv.length && records.length < SNIFFED_RECORDS
  if (!blank && (atEnd || records.length === 0)) records.push(counts)
  return records
}

/**
 * Reads records as arrays of fields. Blank lines are skipped, spaces around quotes are let pass, every record must
 * have as many fields as the first.
 *
 * Contract:
 * - Parses a slice a turn of the event loop, so that others get theirs, however long the text is.
 * - An abort, and leaving the loop early, stop the parser. What iteration then throws is for {@link explain}.
 */
export function readRecords (bytes: Buffer, delimiter: string, signal: AbortSignal): Readable & AsyncIterable<string[]> {
  const parser = addAbortSignal(signal, parse({ delimiter, bom: true, trim: true, skip_empty_lines: true, record_delimiter: '\n' }))
  pipeline(slices(bytes), parser, () => {}) // a failure reaches the reader through the parser
  return parser
}

async function * slices (bytes: Buffer): AsyncGenerator<Buffer> {
  for (let start = 0; start < bytes.length; start += SLICE_BYTES) {
    yield bytes.subarray(start, start + SLICE_BYTES)
    await setImmediate()
  }
}

/** Says what is wrong with a text that the parser refused, and on which line. Other errors come back as they are. */
export function explain (error: unknown, bytes: Buffer): unknown {
  if (!(error instanceof CsvError)) return error
  return new Error(`Malformed CSV: ${reason(error as CsvError & Position, bytes)}`, { cause: error })
}

/** Where the parser stood: the line, and the bytes up to the last whole field. Its errors have both, their type does not. */
interface Position { lines: number, bytes: number }

function reason ({ code, lines: line, bytes: read, message }: CsvError & Position, bytes: Buffer): string {
  switch (code) {
    case 'CSV_RECORD_INCONSISTENT_FIELDS_LENGTH': {
      const [, expected, found] = /expect (\d+), got (\d+)/.exec(message) ?? []
      return `fields in the record on line ${line}: ${found}, in the first record: ${expected}. Is the delimiter right, and is every field that holds it quoted?`
    }
    case 'CSV_QUOTE_NOT_CLOSED':
      return `the quote that opens on line ${lineOf(bytes, bytes.indexOf('"', read))} is never closed.`
    case 'INVALID_OPENING_QUOTE':
      return `line ${line} has a quote inside an unquoted field. Quote the whole field and double the quotes in it.`
    case 'CSV_INVALID_CLOSING_QUOTE':
    case 'CSV_NON_TRIMABLE_CHAR_AFTER_CLOSING_QUOTE':
      return `line ${line} has text after a closing quote. Double the quotes inside a quoted field.`
    default:
      return message
  }
}

function lineOf (bytes: Buffer, end: number): number {
  let line = 1
  for (let at = bytes.indexOf('\n'); at !== -1 && at < end; at = bytes.indexOf('\n', at + 1)) line++
  return line
}
