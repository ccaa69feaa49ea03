import { randomBytes } from 'node:crypto'
import { linkSync, mkdirSync, readFileSync, readlinkSync, realpathSync, renameSync, rmSync, statSync, writeFileSync, type Stats } from 'node:fs'
import { open, readFile, rename, rm } from 'node:fs/promises'
import { basename, dirname, join, resolve } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'

/** Age at which a lock belongs to nobody any more, milliseconds. What is done under one takes a few. */
const STALE_MS = 10_000
/** Time that one waits for others, milliseconds. */
const PATIENCE_MS = 20_000
const RETRY_MS = 20

/** Others change the file all the while. */
export class FileBusyError extends Error {}

/**
 * Changes a file that others may be reading and changing. Readers see what was there before or what is there after, and no
 * change is lost. The file and its folder are made where they are not there; links stay links.
 *
 * @param change gives the new content for the one of now, which is undefined where there is none; undefined for no change. What it
 *   throws changes nothing
 * @throws {FileBusyError}, or what the file system throws
 */
export async function rewriteFile (path: string, change: (content: Uint8Array | undefined) => string | undefined): Promise<void> {
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 })
  const file = targetOf(path)
  const there = statOf(file)
  // Of what is neither a file nor a folder, which is refused when it is read, the end may never come.
  if (there !== undefined && !there.isFile() && !there.isDirectory()) throw Object.assign(new Error(`${file} is no file`), { code: 'EINVAL', path: file })
  const lock = await acquire(`${file}.lock`)
  try {
    const text = change(await contentOf(file))
    if (text !== undefined) await replace(file, text, () => lock.isHeld())
  } finally {
    lock.release()
  }
}

/** Where a path leads in the end, whether something is there or not. */
function targetOf (path: string): string {
  try {
    return realpathSync(path)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
  }
  const folder = realpathSync(dirname(path))
  const file = join(folder, basename(path))
  let link: string
  try {
    link = readlinkSync(file)
  } catch {
    return file
  }
  return targetOf(resolve(folder, link))
}

async function contentOf (file: string): Promise<Uint8Array | undefined> {
  try {
    return await readFile(file)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
}

async function replace (file: string, text: string, mayGoOn: () => boolean): Promise<void> {
  const before = statOf(file)
  const draft = `${file}.${randomBytes(6).toString('hex')}.tmp`
  try {
    const handle = await open(draft, 'wx', 0o600)
    try {
      await handle.writeFile(text)
      if (before !== undefined) {
        // Its owner, too, as far as we may: a gateway that could read the file has to be able to read the next one.
        await handle.chown(before.uid, before.gid).catch(() => {})
        await handle.chmod(before.mode & 0o7777)
      }
      await handle.sync()
    } finally {
      await handle.close()
    }
    if (!mayGoOn()) throw new FileBusyError('Somebody else changed the file meanwhile; try again.')
    await rename(draft, file)
  } catch (error) {
    await rm(draft, { force: true })
    throw error
  }
  const folder = await open(dirname(file))
  // Not every file system knows how to; the file itself is there in any case.
  await folder.sync().catch(() => {})
  await folder.close()
}

interface Lock {
  /** Whether nobody took it away as one that was left behind. */
  isHeld (): boolean
  release (): void
}

/** A file that only one can make: it holds on any file system, and across containers that share a volume. */
async function acquire (path: string): Promise<Lock> {
  const until = performance.now() + PATIENCE_MS
  // Not told by its inode, as a file system may give the next file the same one.
  const token = randomBytes(12).toString('hex')
  while (!make(path, token)) {
    if (performance.now() > until) throw new FileBusyError(`Others are changing the file all the while; if none is, remove ${path}.`)
    takeAwayStale(path)
    await delay(RETRY_MS * (0.5 + Math.random()))
  }
  const isHeld = () => tokenOf(path) === token
  return { isHeld, release: () => { if (isHeld()) rmSync(path, { force: true }) } }
}

function make (path: string, token: string): boolean {
  try {
    writeFileSync(path, token, { flag: 'wx', mode: 0o600 })
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false
    throw error
  }
}

/** One that is younger than it looked was made meanwhile, and is put back. */
function takeAwayStale (path: string): void {
  if (!isStale(statOf(path))) return
  const aside = `${path}.${randomBytes(6).toString('hex')}`
  try {
    renameSync(path, aside)
    if (!isStale(statOf(aside))) linkSync(aside, path)
  } catch {} // somebody else was faster
  rmSync(aside, { force: true })
}

function isStale (stats: Stats | undefined): boolean {
  return stats !== undefined && Math.abs(Date.now() - stats.mtimeMs) > STALE_MS
}

function tokenOf (path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return undefined
  }
}

function statOf (path: string): Stats | undefined {
  return statSync(path, { throwIfNoEntry: false })
}
