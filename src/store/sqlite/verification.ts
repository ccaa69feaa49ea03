import { accessSync, closeSync, constants, openSync, readSync, statSync, type Stats } from 'node:fs'
import { dirname } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { pathToFileURL } from 'node:url'
import { APPLICATION_ID, versions } from './schema.ts'

/** Up to this size a file is read through at each start, bytes: a second or less. */
const MOST_CHECKED_BYTES = 256 * 2 ** 20

/** Places in the header of an SQLite file, which is big-endian; see https://www.sqlite.org/fileformat.html. */
const MAGIC = 'SQLite format 3\u0000'
const PAGE_SIZE = 16
const PAGE_COUNT = 28
const USER_VERSION = 60
const ID = 68
const HEADER_BYTES = 100

export function sizeOf (path: string): number {
  return statSync(path, { throwIfNoEntry: false })?.size ?? 0
}

/** Why a path cannot be that of a store, before anything is made beside it. */
export function refusalOfPlace (path: string): string | undefined {
  const file: Stats | undefined = statSync(path, { throwIfNoEntry: false })
  if (file?.isDirectory() === true) return 'it is a directory'
  if (file !== undefined && !file.isFile()) return 'it is not a file'
  try {
    if (file !== undefined) accessSync(path, constants.R_OK | constants.W_OK)
    accessSync(dirname(path), constants.R_OK | constants.W_OK | constants.X_OK)
    return undefined
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EROFS' ? 'its file system is read-only' : 'the file or its folder cannot be written'
  }
}

/** Why a file cannot be opened as a store. Looks without changing a byte of it, which takes the lock. */
export function refusalOfContent (path: string): string | undefined {
  const size = sizeOf(path)
  // What is not yet in the file stands there.
  const hasLog = sizeOf(`${path}-wal`) > 0
  if (size === 0) return hasLog ? 'its log (-wal) is there without it; put the file back, or move the log away' : undefined
  const header = readHeader(path)
  if (header.toString('latin1', 0, MAGIC.length) !== MAGIC) return 'it is not an SQLite file'
  if (header.readUInt32BE(ID) !== APPLICATION_ID) return 'it belongs to another program'
  const version = header.readUInt32BE(USER_VERSION)
  if (version > versions.length) return `a newer version of Toolgate made it (schema ${version}; this one knows ${versions.length})`
  const pageSize = header.readUInt16BE(PAGE_SIZE)
  if (!hasLog && header.readUInt32BE(PAGE_COUNT) * (pageSize === 1 ? 65_536 : pageSize) > size) return 'it is cut short'
  return size > MOST_CHECKED_BYTES ? undefined : damageOf(path, hasLog)
}

function readHeader (path: string): Buffer {
  const header = Buffer.alloc(HEADER_BYTES)
  const file = openSync(path, 'r')
  readSync(file, header, 0, HEADER_BYTES, 0)
  closeSync(file)
  return header
}

function damageOf (path: string, hasLog: boolean): string | undefined {
  const url = pathToFileURL(path)
  // Without a log there is nothing to recover, and not even a lock is needed.
  if (!hasLog) url.searchParams.set('immutable', '1')
  let connection: DatabaseSync | undefined
  try {
    connection = new DatabaseSync(url, { readOnly: true })
    const { quick_check: found } = connection.prepare('PRAGMA quick_check(1)').get() as { quick_check: string }
    return found === 'ok' ? undefined : 'it is damaged'
  } catch {
    return 'it is damaged'
  } finally {
    connection?.close()
  }
}
