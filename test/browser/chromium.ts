import { accessSync, constants } from 'node:fs'
import { delimiter, join } from 'node:path'

/** Debian's, or whatever has its name in the path; undefined where there is none. */
export const chromiumPath: string | undefined = (process.env.PATH ?? '').split(delimiter).map((folder) => join(folder, 'chromium')).find((path) => {
  try {
    accessSync(path, constants.X_OK)
    return true
  } catch {
    return false
  }
})

export const chromiumArguments = [
  '--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'
]
