import { rewriteFile } from './file-rewrite.ts'
import { parseKeys, readKeys, statusOf, type KeyEntry } from './key-file.ts'
import { createKey, hashOf } from './key-text.ts'

export interface KeyWish {
  name: string
  scopes: string[]
  tools: string[] | undefined
  expiresAtMs: number | undefined
}

/**
 * Adds a key to the file, which is made where it is not there.
 * @returns the key itself, which stands nowhere else, with its entry, and whether the file was made for it
 * @throws as {@link changeKeys}
 */
export async function addKey (path: string, { name, scopes, tools, expiresAtMs }: KeyWish, nowMs: number): Promise<{ text: string, entry: KeyEntry, isNew: boolean }> {
  const { id, text } = createKey()
  const entry: KeyEntry = {
    id,
    name,
    hash: hashOf(text),
    scopes,
    ...tools === undefined ? {} : { tools },
    createdAt: isoOf(nowMs),
    ...expiresAtMs === undefined ? {} : { expiresAt: isoOf(expiresAtMs) }
  }
  let isNew = false
  await changeKeys(path, (keys, isThere) => {
    isNew = !isThere
    return [...keys, entry]
  })
  return { text, entry, isNew }
}

/** What came of a wish to revoke. */
export type Revocation =
  | { type: 'revoked', keys: KeyEntry[] }
  /** No key has this id or name. */
  | { type: 'unknown' }
  /** None of them was of use to anybody any more. */
  | { type: 'nothing_active' }
  /** The name stands for several. */
  | { type: 'several', keys: KeyEntry[] }

/**
 * Revokes the key with this id, or the active one with this name. Their entries stay, so that lists and logs can tell of them.
 * @param all whether several of one name, and those that have expired, are meant
 * @throws as {@link changeKeys}
 */
export async function revokeKeys (path: string, idOrName: string, all: boolean, nowMs: number): Promise<Revocation> {
  // Where there is no file, none is made.
  await readKeys(path)
  let outcome: Revocation = { type: 'unknown' }
  await changeKeys(path, (keys) => {
    const withId = keys.filter(({ id }) => id === idOrName)
    const meant = withId.length > 0 ? withId : keys.filter(({ name }) => name === idOrName)
    const isWide = all || withId.length > 0
    const due = meant.filter((key) => isWide ? key.revokedAt === undefined : statusOf(key, nowMs) === 'active')
    outcome = meant.length === 0
      ? { type: 'unknown' }
      : due.length === 0
        ? { type: 'nothing_active' }
        : due.length > 1 && !all ? { type: 'several', keys: due } : { type: 'revoked', keys: due }
    return outcome.type === 'revoked' ? keys.map((key) => due.includes(key) ? { ...key, revokedAt: isoOf(nowMs) } : key) : keys
  })
  return outcome
}

/**
 * @throws {GatewayError} `invalid_config` where the file is refused as it is, or would be afterwards; {@link FileBusyError};
 *   or what the file system throws
 */
async function changeKeys (path: string, change: (keys: KeyEntry[], isThere: boolean) => KeyEntry[]): Promise<void> {
  await rewriteFile(path, (content) => {
    const before = content === undefined ? [] : parseKeys(content, path)
    const keys = change(before, content !== undefined)
    if (keys === before) return undefined
    const text = `${JSON.stringify({ keys }, undefined, 2)}\n`
    parseKeys(Buffer.from(text), path)
    return text
  })
}

function isoOf (epochMs: number): string {
  return new Date(epochMs).toISOString()
}
