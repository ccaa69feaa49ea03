import { createReadStream } from 'node:fs'
import { addAbortSignal, type Readable } from 'node:stream'
import { scan } from '../json/scan.ts'
import { UsageError } from './exit-codes.ts'

/** More than any gateway can be set to take. */
const MAX_BYTES = 256 * 1024 * 1024
const MAX_DEPTH = 1000

export interface Sources {
  /** Can be read once. */
  standardInput: Readable & { isTTY?: boolean }
  /** Told where a person has to type it. */
  onTerminal: () => void
  /** Aborting it ends the reading, and rejects with its reason. */
  signal: AbortSignal
}

/**
 * The input of a call, as its caller gave it: as a whole, by single members, or both; undefined where neither was given.
 *
 * @param given JSON, `@file`, or `-` for standard input
 * @param members `name=value`, in which the value is JSON where it can be read as such and else a text, or
 *   `name=@file` for the text of a file
 * @throws {UsageError} that says which of them is at fault
 */
export async function readInput (given: string | undefined, members: readonly string[], sources: Sources): Promise<unknown> {
  const values = [...given === undefined ? [] : [given], ...members.map((member) => member.slice(member.indexOf('=') + 1))]
  if (values.filter((value, index) => value === '@-' || (index === 0 && given === '-')).length > 1) throw new UsageError('standard input can be read once')
  const input = given === undefined ? undefined : parse(await textOf(given, '--input', sources), nameOf(given), given.startsWith('@'))
  if (members.length === 0) return input
  if (input !== undefined && (typeof input !== 'object' || input === null || Array.isArray(input))) throw new UsageError('--set needs an input that is an object')
  const entries = new Map(Object.entries(input ?? {}))
  for (const member of members) {
    const name = member.slice(0, member.indexOf('='))
    if (!member.includes('=') || name === '') throw new UsageError(`--set takes name=value, and ${JSON.stringify(member)} is none`)
    entries.set(name, await valueOf(member.slice(name.length + 1), `--set ${name}`, sources))
  }
  // Made from entries, so that a name such as __proto__ is a name like others; the gateway says what it thinks of it.
  return Object.fromEntries(entries)
}

async function valueOf (text: string, option: string, sources: Sources): Promise<unknown> {
  if (text.startsWith('@')) return await textOf(text, option, sources)
  try {
    JSON.parse(text)
  } catch {
    return text
  }
  return parse(text, option)
}

/** The text that is meant: that of a file, of standard input, or what stands there. */
async function textOf (given: string, option: string, { standardInput, onTerminal, signal }: Sources): Promise<string> {
  if (given === '@-' || (given === '-' && option === '--input')) {
    if (standardInput.isTTY === true) onTerminal()
    return await decoded(standardInput, 'standard input', signal)
  }
  if (!given.startsWith('@')) return given
  if (given === '@') throw new UsageError(`${option} names no file after the @`)
  return await decoded(createReadStream(given.slice(1)), given.slice(1), signal)
}

function nameOf (given: string): string {
  return given === '-' || given === '@-' ? 'standard input' : given.startsWith('@') ? given.slice(1) : '--input'
}

/** UTF-8, without a byte order mark. */
async function decoded (stream: Readable, name: string, signal: AbortSignal): Promise<string> {
  const chunks: Buffer[] = []
  let bytes = 0
  try {
    for await (const chunk of addAbortSignal(signal, stream) as AsyncIterable<Buffer>) {
      bytes += chunk.length
      if (bytes > MAX_BYTES) throw new UsageError(`${name} has more than ${MAX_BYTES} bytes, which no gateway takes`)
      chunks.push(chunk)
    }
  } catch (error) {
    signal.throwIfAborted()
    if (error instanceof UsageError) throw error
    const { code } = error as NodeJS.ErrnoException
    throw new UsageError(`${name} ${code === 'ENOENT' ? 'is not there' : code === 'EISDIR' ? 'is a directory' : `cannot be read (${code})`}`)
  }
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(Buffer.concat(chunks))
  } catch {
    throw new UsageError(`${name} is not UTF-8`)
  }
}

/** @throws {UsageError} for what is not JSON, and what JSON.parse would change */
function parse (text: string, name: string, isFile = false): unknown {
  if (text.trim() === '') throw new UsageError(`${name} is empty; JSON is needed`)
  const { depth, inexactNumber } = scan(text)
  if (depth > MAX_DEPTH) throw new UsageError(`${name} has values nested ${depth} levels deep, which no gateway takes`)
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (error) {
    throw new UsageError(`${name} is not JSON: ${(error as Error).message.replace(/\s+/g, ' ')}${isFile ? '\n--set name=@file sends the text of a file as one member of the input.' : ''}`)
  }
  if (inexactNumber !== undefined) throw new UsageError(`${name} has the number ${inexactNumber.slice(0, 40)}, which cannot be carried exactly; send it as a text, in quotation marks`)
  return value
}
