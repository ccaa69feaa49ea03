import { createHash } from 'node:crypto'
import { readFileSync, realpathSync, statSync } from 'node:fs'
import { createRequire } from 'node:module'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { within } from './patience.ts'

/**
 * Node loads a module once for each URL and keeps it. So that an edited one is loaded again, its URL gets a version, and
 * so do those of all that import it; the others keep their URL, and with it the instance that is running.
 *
 * An ES module of an earlier version stays in memory, as Node has no way to unload it. What is kept here is one entry
 * for each module file that there is.
 */
interface ModuleFile {
  /** 0 as long as the URL is the plain one. No file has one version twice. */
  readonly version: number
  /** Of the text before it was loaded, so that an edit made meanwhile shows; undefined where nobody asked for this version. */
  stamp: string | undefined
  /** What it asked for, and the file that it got. */
  readonly imports: Map<string, string>
  /** Of a module that a source imported. */
  state: 'loaded' | 'failed' | undefined
}

/** By URL, without the query. */
const files = new Map<string, ModuleFile>()
let latest = 0
/** A file that comes back after it was forgotten must not get the URL of a version that Node still has. */
let firstVersion = 0
const { cache: commonJs } = createRequire(import.meta.url)

/**
 * Imports a module in its present version.
 * @param path of the file itself, symbolic links resolved
 * @param patienceMs how long its top level may take
 * @throws what the import throws; the next `findChanges` then gives the module, and what it imports, another version
 */
export async function importModule (path: string, patienceMs: number): Promise<Record<string, unknown>> {
  const { href } = pathToFileURL(path)
  const url = versionedUrl(href)
  const file = files.get(href)
  try {
    const exports = await within(import(url) as Promise<Record<string, unknown>>, patienceMs)
    if (file !== undefined) file.state = 'loaded'
    return exports
  } catch (error) {
    if (file !== undefined) file.state = 'failed'
    throw error
  }
}

/** The URL under which Node has, or gets, the present version of a module file. */
export function versionedUrl (url: string): string {
  const file = entryOf(fileOf(url))
  if (file === undefined || file.version === 0) return url
  return `${url}${url.includes('?') ? '&' : '?'}v=${file.version}`
}

/**
 * Takes down that one module file asked for another.
 * @param asked the URL asked for, or a name that is none
 * @param got the file's URL
 */
export function noteImport (importer: string, asked: string, got: string): void {
  entryOf(fileOf(got))
  files.get(fileOf(importer))?.imports.set(fileOf(asked), fileOf(got))
}

/**
 * Looks at every module file that was loaded, and gives another version to those that were edited, touched or removed, to
 * all that import them, and to those that failed with what they import. Done in one step, so loads may run side by side.
 */
export function findChanges (): void {
  const changed = new Set<string>()
  const gone = new Set<string>()
  for (const [url, file] of files) {
    const stamp = stampOf(url)
    if (stamp === undefined) gone.add(url)
    // A version that nobody has asked for yet is new as it is.
    if (file.stamp !== undefined && (stamp !== file.stamp || leadsElsewhere(file))) changed.add(url)
  }
  const outdated = new Set([...withImporters(changed), ...failed(), ...gone])
  if (outdated.size === 0) return
  latest++
  for (const url of outdated) {
    files.set(url, { version: latest, stamp: undefined, imports: new Map(), state: undefined })
    delete commonJs[fileURLToPath(url)]
  }
  for (const url of gone) files.delete(url)
  if (gone.size > 0) firstVersion = latest
}

/** How many module files are known; for tests. */
export function knownFiles (): number {
  return files.size
}

function fileOf (url: string): string {
  return url.startsWith('file:') ? url.replace(/[?#].*$/, '') : url
}

/** Undefined where there is no such file. */
function entryOf (url: string): ModuleFile | undefined {
  const known = files.get(url)
  if (known?.stamp !== undefined) return known
  const stamp = stampOf(url)
  if (stamp === undefined) return undefined
  const file = known ?? { version: firstVersion, stamp, imports: new Map<string, string>(), state: undefined }
  file.stamp = stamp
  files.set(url, file)
  return file
}

/** Content and time of change, so that touching is enough, and an edit that keeps the time shows too. */
function stampOf (url: string): string | undefined {
  try {
    const path = fileURLToPath(url)
    const { mtimeNs } = statSync(path, { bigint: true })
    return `${mtimeNs} ${createHash('sha256').update(readFileSync(path)).digest('base64')}`
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    return code === 'ENOENT' || code === 'ENOTDIR' ? undefined : `${code}`
  }
}

/** Whether something it asked for is another file by now: a link was changed, or a nearer file was added. */
function leadsElsewhere ({ imports }: ModuleFile): boolean {
  for (const [asked, got] of imports) {
    if (!asked.startsWith('file:')) continue
    try {
      const path = realpathSync(fileURLToPath(asked))
      // What is not there, or is a folder, was found in another way.
      if (statSync(path).isFile() && pathToFileURL(path).href !== got) return true
    } catch {}
  }
  return false
}

function withImporters (urls: ReadonlySet<string>): Set<string> {
  const importers = new Map<string, string[]>()
  for (const [importer, { imports }] of files) {
    for (const imported of new Set(imports.values())) importers.set(imported, [...importers.get(imported) ?? [], importer])
  }
  return closure(urls, (url) => importers.get(url) ?? [])
}

/**
 * Modules that failed, with what they import: the error of any of them is kept by Node. What a module that loaded imports
 * as well has not failed, and is left as it is.
 */
function failed (): Set<string> {
  const inState = (state: ModuleFile['state']) => [...files].filter(([, file]) => file.state === state).map(([url]) => url)
  const importsOf = (url: string) => files.get(url)?.imports.values() ?? []
  const failing = inState('failed')
  const sound = closure(inState('loaded'), importsOf)
  return new Set([...failing, ...[...closure(failing, importsOf)].filter((url) => !sound.has(url))])
}

function closure (from: Iterable<string>, next: (url: string) => Iterable<string>): Set<string> {
  const reached = new Set(from)
  // A set hands out what is added to it meanwhile, too.
  for (const url of reached) for (const further of next(url)) reached.add(further)
  return reached
}
