import { dirname, relative, sep } from 'node:path'
import { watch } from 'chokidar'

/**
 * Silence after which a change is told, milliseconds, so that files written together are one. Longer than the 50 that
 * chokidar is silent on a file after it told of a change: what it left out is there when ours is told.
 */
const SETTLE_MS = 100

export interface WatchOptions {
  /** Watched with all that is in them, but for `node_modules` and what begins with a dot. Absolute. */
  directories: readonly string[]
  /** Watched whether they are there or not, as long as their folders are. Absolute. */
  files: readonly string[]
  onChange: () => void
  onError: (error: unknown) => void
}

export interface Watch {
  /** Nothing is told any more. */
  close (): Promise<void>
}

/** Tells of changes to files, from when it resolves until it is closed. */
export async function watchFiles ({ directories, files, onChange, onError }: WatchOptions): Promise<Watch> {
  const folders = files.map((file) => dirname(file))
  const isWatched = (path: string) => files.includes(path) || folders.includes(path) || directories.some((directory) => isVisibleIn(directory, path))
  let timer: NodeJS.Timeout | undefined
  const watcher = watch([...directories, ...folders], { ignoreInitial: true, ignored: (path) => !isWatched(path) })
  watcher.on('error', onError)
  watcher.on('all', () => {
    clearTimeout(timer)
    timer = setTimeout(onChange, SETTLE_MS)
  })
  await new Promise<void>((resolve) => watcher.once('ready', resolve))
  return {
    async close () {
      clearTimeout(timer)
      watcher.removeAllListeners('all')
      await watcher.close()
    }
  }
}

function isVisibleIn (directory: string, path: string): boolean {
  const inside = relative(directory, path)
  return inside === '' || inside.split(sep).every((part) => part !== 'node_modules' && !part.startsWith('.'))
}
