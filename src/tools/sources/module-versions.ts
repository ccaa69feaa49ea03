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
  /**
   * What it, or an earlier version of it, got by `require`: Node does not ask again for what is in its cache. One too many
   * only means that the file is loaded anew for nothing.
   */
  readonly requires: Set<string>
  /** Of a module that a source imported; `loaded` of all that such a one imported to be loaded, too, but not of late imports. */
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
    noteLoaded(href)
    return exports
  } catch (error) {
    if (file !== undefined) file.state = 'failed'
    throw error
  }
}

/** What was loaded before is left out with its imports, as some may have come late, and failed. */
function noteLoaded (href: string): void {
  const isNew = (url: string) => files.has(url) && files.get(url)!.state !== 'loaded'
  const loaded = closure([href].filter(isNew), (url) => [...importsOf(files.get(url))].filter(isNew))
  for (const url of loaded) files.get(url)!.state = 'loaded'
}

/** The URL under which Node has, or gets, the present version of a module file. */
function versionedUrl (url: string): string {
  const file = entryOf(fileOf(url))
  if (file === undefined || file.version === 0) return url
  return `${url}${url.includes('?') ? '&' : '?'}v=${file.version}`
}

/**
 * Takes down that one module file imports another, and gives the URL of the present version of that.
 * @param asked the URL asked for, or a name that is none
 * @param found what Node found for it
 */
export function noteImport (importer: string, asked: string, found: string): string {
  // Node remembers for good where a link once led.
  const url = realFile(asked) ?? found
  files.get(fileOf(importer))?.imports.set(fileOf(asked), fileOf(url))
  return versionedUrl(url)
}

/** Takes down that one module file requires another. CommonJS goes by the file's name, and has only the present version. */
export function noteRequire (importer: string, found: string): void {
  entryOf(fileOf(found))
  files.get(fileOf(importer))?.requires.add(fileOf(found))
}

/**
 * Looks at every module file that was loaded, and gives another version to those that were edited, touched or removed, to
 * all that import them, and to those that failed with what they import. Done in one step, so loads may run side by side.
 *
 * @returns puts everything back, for where what was loaded since is not put in force: a late import gets what it got
 *   before, and the next `findChanges` finds the same changes again. What was found later is to be put back earlier.
 */
export function findChanges (): () => void {
  const changed = new Set<string>()
  const gone = new Set<string>()
  const askedBefore = new Set<string>()
  for (const [url, file] of files) {
    const stamp = stampOf(url)
    if (stamp === undefined) gone.add(url)
    // A version that nobody has asked for yet is new as it is.
    if (file.stamp === undefined) continue
    askedBefore.add(url)
    if (stamp !== file.stamp || leadsElsewhere(file)) changed.add(url)
  }
  const outdated = new Set([...withImporters(changed), ...failed(), ...gone])
  const before = [...outdated].map((url) => ({ url, file: files.get(url)!, module: commonJs[fileURLToPath(url)] }))
  giveVersion(outdated)
  if (gone.size > 0) firstVersion = latest
  for (const url of gone) files.delete(url)
  for (const { requires } of files.values()) for (const url of gone) requires.delete(url)
  return () => {
    // What was asked for since may have got the others in the versions that are taken back.
    giveVersion([...files].filter(([url, { stamp }]) => stamp !== undefined && !askedBefore.has(url)).map(([url]) => url))
    for (const { url, file, module } of before) {
      files.set(url, file)
      if (module === undefined) delete commonJs[fileURLToPath(url)]
      else commonJs[fileURLToPath(url)] = module
    }
  }
}

/** Gives them a version that no file had yet, and that nobody has asked for. */
function giveVersion (urls: Iterable<string>): void {
  latest++
  for (const url of urls) {
    const requires = new Set(files.get(url)!.requires)
    files.set(url, { version: latest, stamp: undefined, imports: new Map(), requires, state: undefined })
    delete commonJs[fileURLToPath(url)]
  }
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
  const file = known ?? { version: firstVersion, stamp, imports: new Map<string, string>(), requires: new Set<string>(), state: undefined }
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
  return [...imports].some(([asked, got]) => {
    const url = realFile(asked)
    return url !== undefined && fileOf(url) !== got
  })
}

/** The file that a URL leads to now. Undefined where that is none: what was found then, was found in another way. */
function realFile (asked: string): string | undefined {
  if (!asked.startsWith('file:')) return undefined
  try {
    const path = realpathSync(fileURLToPath(asked))
    return statSync(path).isFile() ? `${pathToFileURL(path).href}${asked.slice(fileOf(asked).length)}` : undefined
  } catch {
    return undefined
  }
}

function importsOf (file: ModuleFile | undefined): Set<string> {
  return new Set([...file?.imports.values() ?? [], ...file?.requires ?? []])
}

function withImporters (urls: ReadonlySet<string>): Set<string> {
  const importers = new Map<string, string[]>()
  for (const [importer, file] of files) {
    for (const imported of importsOf(file)) {
      const others = importers.get(imported)
      if (others === undefined) importers.set(imported, [importer])
      else others.push(importer)
    }
  }
  return closure(urls, (url) => importers.get(url) ?? [])
}

/** Modules that failed, with what they import, as the error of any of them is kept by Node. What loaded is left as it is. */
function failed (): Set<string> {
  const isSuspect = (url: string) => files.has(url) && files.get(url)!.state !== 'loaded'
  const failing = [...files].filter(([, file]) => file.state === 'failed').map(([url]) => url)
  return closure(failing, (url) => [...importsOf(files.get(url))].filter(isSuspect))
}

function closure (from: Iterable<string>, next: (url: string) => Iterable<string>): Set<string> {
  const reached = new Set(from)
  // A set hands out what is added to it meanwhile, too.
  for (const url of reached) for (const further of next(url)) reached.add(further)
  return reached
}
