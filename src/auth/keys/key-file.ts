import { readFile, stat } from 'node:fs/promises'
import { Type, type Static } from '@sinclair/typebox'
import { Value, ValueErrorType } from '@sinclair/typebox/value'
import type { Fault } from '../../contract/problem.ts'
import { isToolPattern } from '../../contract/tool.ts'
import { GatewayError } from '../../errors.ts'
import { parseScope } from '../scopes.ts'
import { instantOf } from './instant.ts'

export const keyNamePattern = '^[A-Za-z0-9][A-Za-z0-9_.@-]{0,63}$'
export const keyNameExpected = 'must have 1 to 64 letters, digits, and _ . @ -, the first a letter or a digit'

const Instant = Type.String({ expected: 'must be a time as in 2027-01-31T12:00:00Z, or a date' })
const listOf = (expected: string) => Type.Array(Type.String({ expected: 'must be a text' }), { minItems: 1, expected })

/** A key as it stands in the file. */
export const KeyEntry = Type.Object({
  id: Type.String({ pattern: '^[0-9a-z]{12}$', expected: 'must be 12 digits and small letters' }),
  name: Type.String({ pattern: keyNamePattern, expected: keyNameExpected }),
  hash: Type.String({ pattern: '^sha256:[0-9a-f]{64}$', expected: 'must be sha256: and 64 hexadecimal digits' }),
  scopes: listOf('must be a list of scopes, at least one'),
  /** Narrows all of the scopes. */
  tools: Type.Optional(listOf('must be a list of tool patterns, at least one')),
  createdAt: Instant,
  expiresAt: Type.Optional(Instant),
  revokedAt: Type.Optional(Instant)
}, { additionalProperties: false, expected: 'must be an object' })
export type KeyEntry = Static<typeof KeyEntry>

const KeyFile = Type.Object({
  keys: Type.Array(KeyEntry, { expected: 'must be a list of keys' })
}, { additionalProperties: false, expected: 'must be an object with the member keys' })

/** More of them help nobody. */
const MAX_FAULTS = 20
/** Of the name of a member that there is not, which may be anything, a key that went astray included. */
const MAX_STRANGE = 32

export type KeyStatus = 'active' | 'expired' | 'revoked'

export function statusOf ({ expiresAt, revokedAt }: Pick<KeyEntry, 'expiresAt' | 'revokedAt'>, nowMs: number): KeyStatus {
  if (revokedAt !== undefined) return 'revoked'
  return expiresAt !== undefined && instantOf(expiresAt)! <= nowMs ? 'expired' : 'active'
}

/** @throws {GatewayError} `invalid_config` for a file that is not there, cannot be read, or is refused */
export async function readKeys (path: string): Promise<KeyEntry[]> {
  let bytes: Uint8Array
  try {
    // Of what is no file the end may never come.
    if (!(await stat(path)).isFile()) throw new GatewayError('invalid_config', `The keys file ${path} is no file.`)
    bytes = await readFile(path)
  } catch (cause) {
    if (cause instanceof GatewayError) throw cause
    const { code } = cause as NodeJS.ErrnoException
    throw new GatewayError('invalid_config', code === 'ENOENT'
      ? `There is no keys file ${path}; \`toolgate keys create\` makes a new one, without the keys of any other.`
      : `The keys file ${path} cannot be read (${code}).`, { cause })
  }
  return parseKeys(bytes, path)
}

/**
 * The keys of a file.
 * @param path told in refusals
 * @throws {GatewayError} `invalid_config` that names every fault by JSON Pointer, and quotes neither keys nor hashes
 */
export function parseKeys (bytes: Uint8Array, path: string): KeyEntry[] {
  const content = contentOf(bytes, path)
  const faults = shapeFaults(content)
  if (faults.length === 0) faults.push(...entryFaults((content as Static<typeof KeyFile>).keys))
  if (faults.length === 0) return (content as Static<typeof KeyFile>).keys
  const lines = faults.slice(0, MAX_FAULTS).map(({ path, message }) => `  ${path === '' ? '' : `${path}: `}${message}`)
  if (faults.length > MAX_FAULTS) lines.push(`  and ${faults.length - MAX_FAULTS} more`)
  throw new GatewayError('invalid_config', `The keys file ${path} cannot be used:\n${lines.join('\n')}`, { errors: faults.slice(0, MAX_FAULTS) })
}

function contentOf (bytes: Uint8Array, path: string): unknown {
  let text: string
  try {
    text = new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch {
    throw new GatewayError('invalid_config', `The keys file ${path} is not UTF-8.`)
  }
  try {
    return JSON.parse(text)
  } catch (error) {
    // Of the engine's message only the place, where it has one: the rest quotes the file.
    const [, line, column] = /\(line (\d+) column (\d+)\)/.exec((error as Error).message) ?? []
    throw new GatewayError('invalid_config', `The keys file ${path} is not JSON${line === undefined ? '' : ` from line ${line}, column ${column} on`}.`)
  }
}

function shapeFaults (content: unknown): Fault[] {
  const faults = new Map<string, Fault>()
  for (const { type, path, schema } of Value.Errors(KeyFile, content)) {
    const isStrange = type === ValueErrorType.ObjectAdditionalProperties
    const place = isStrange ? path.slice(0, path.lastIndexOf('/') + 1 + MAX_STRANGE) : path
    // What is missing is told a second time as what has the wrong type.
    if (!faults.has(place)) faults.set(place, faultAt(place, isStrange ? 'there is no such member' : schema.expected as string))
  }
  return [...faults.values()]
}

function entryFaults (keys: readonly KeyEntry[]): Fault[] {
  const ids = new Set<string>()
  const hashes = new Set<string>()
  return keys.flatMap(({ id, hash, scopes, tools = [], createdAt, expiresAt, revokedAt }, at) => {
    const place = `/keys/${at}`
    const faults: Fault[] = []
    if (ids.size === ids.add(id).size) faults.push(faultAt(`${place}/id`, 'another key has this id'))
    if (hashes.size === hashes.add(hash).size) faults.push(faultAt(`${place}/hash`, 'another key has this hash'))
    scopes.forEach((scope, index) => {
      const fault = scopeFault(scope)
      if (fault !== undefined) faults.push(faultAt(`${place}/scopes/${index}`, fault))
    })
    tools.forEach((pattern, index) => {
      if (!isToolPattern(pattern)) faults.push(faultAt(`${place}/tools/${index}`, 'no tool can have an id that fits this'))
    })
    for (const [name, text] of Object.entries({ createdAt, expiresAt, revokedAt })) {
      if (text !== undefined && instantOf(text) === undefined) faults.push(faultAt(`${place}/${name}`, Instant.expected))
    }
    return faults
  })
}

function scopeFault (scope: string): string | undefined {
  try {
    parseScope(scope)
    return undefined
  } catch (error) {
    return (error as SyntaxError).message
  }
}

function faultAt (path: string, message: string): Fault {
  return { path, keyword: 'config', message }
}
