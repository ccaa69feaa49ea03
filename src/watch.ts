import { statSync, type Stats } from 'node:fs'
import { dirname, relative, sep } from 'node:path'
import { watch } from 'chokidar'

/**
 * Silence after which a change is told, milliseconds, so that files written together are one. Longer than the 50 that
 * chokidar is silent on a file after it told of a change: what it left out is there when ours is told.
 */
const SETTLE_MS = 100
/** How often it is looked whether another directory stands where a watched one stood, milliseconds. */
const REPLACED_MS = 500

export interface WatchOptions {
  /** Watched with all that is in them, but for `node_modules` and what begins with a dot. Absolute. */
  directories: readonly string[]
  /** Watched whether they are there or not. Absolute. */
  files: readonly string[]
  onChange: () => void
  onError: (error: unknown) => void
}

export interface Watch {
  /** Nothing is told any more. */
  close (): Promise<void>
}

/**
 * Tells of changes to files, from when it resolves until it is closed. Directories may go and come, be replaced, or be
 * links that lead elsewhere by now, and so may what they stand in.
 */
export async function watchFiles ({ directories, files, onChange, onError }: WatchOptions): Promise<Watch> {
  const folders = files.map((file) => dirname(file))
  const roots = [...directories, ...folders]
  const isWatched = (path: string) => files.includes(path) || folders.includes(path) || directories.some((directory) => isVisibleIn(directory, path))
  let timer: NodeJS.Timeout | undefined
  const tell = () => {
    clearTimeout(timer)
    timer = setTimeout(onChange, SETTLE_MS)
  }
  /** By path: of each directory, that which the watcher has heard of first. Undefined for one that was not there. */
  const identities = new Map<string, string | undefined>()
  const open = () => {
    identities.clear()
    for (const root of roots) identities.set(root, undefined)
    const ignored = (path: string, stats?: Stats) => {
      if (!isWatched(path)) return true
      // It is asked before it watches.
      if (stats?.isDirectory() === true) identities.set(path, identities.get(path) ?? identityOf(stats))
      return false
    }
    return watch(roots, { ignoreInitial: true, ignored }).on('error', onError).on('all', tell)
  }
  let watcher = open()
  await new Promise<void>((resolve) => watcher.once('ready', resolve))
  // The system watches a directory, not its path: what takes its place has to be looked for.
  const looking = setInterval(() => {
    if ([...identities].every(([path, identity]) => identityAt(path) === identity)) return
    void watcher.close()
    // What it has begun may still fail.
    watcher.on('error', onError)
    // Of what is changed before it is ready it does not tell.
    watcher = open().once('ready', tell)
    tell()
  }, REPLACED_MS)
  return {
    async close () {
      clearInterval(looking)
      clearTimeout(timer)
      watcher.removeAllListeners('all')
      await watcher.close()
    }
  }
}

function identityAt (path: string): string | undefined {
  try {
    const stats = statSync(path)
    return stats.isDirectory() ? identityOf(stats) : undefined
  } catch {
    return undefined
  }
}

/** Of a directory, whatever is in it. The number alone may be given to the next one. */
function identityOf ({ dev, ino, birthtimeMs }: Stats): string {
  return `${dev} ${ino} ${birthtimeMs}`
}

function isVisibleIn (directory: string, path: string): boolean {
  const inside = relative(directory, path)
  return inside === '' || inside.split(sep).every((part) => part !== 'node_modules' && !part.startsWith('.'))
}
