import { existsSync } from 'node:fs'
import { registerHooks, type ResolveFnOutput, type ResolveHookContext } from 'node:module'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { noteImport, noteRequire } from './module-versions.ts'

/**
 * A tool file needs no install: what it imports of the gateway's own is resolved to the running gateway where nothing
 * nearer is found. Two more kindnesses let tools written elsewhere run unmodified: the registry system's package
 * resolves to our registry of the same shape, and `./x.js` to `./x.ts` where only that is there, as bundlers do it.
 */

const running = import.meta.url
const extension = running.endsWith('.ts') ? 'ts' : 'js'
const entry = new URL(`../../index.${extension}`, running).href
const clientEntry = new URL(`../../client.${extension}`, running).href
/** The package that is running: of its sources or its build, whichever was started. */
const packageRoot = new URL(extension === 'ts' ? '../../../' : '../../../../', running).href

const ownEntries = new Map([
  ['toolgate', entry], ['toolgate/client', clientEntry], ['@jangts/agent-core', entry], ['@jangts/agent-core/tools', entry]
])
const ownDependencies = /^(@sinclair\/typebox|@earendil-works\/pi-schema)(\/|$)/

type NextResolve = (specifier: string, context?: Partial<ResolveHookContext>) => ResolveFnOutput

/** By URL; true for those whose modules have versions. */
const directories = new Map<string, boolean>()
let registered = false

/**
 * Turns the resolution on for modules under `directory`.
 * @param versioned whether its modules can be loaded anew, those of packages installed in it excepted
 */
export function resolveForToolsIn (directory: string, versioned = false): void {
  for (const url of directories.keys()) if (!existsSync(fileURLToPath(url))) directories.delete(url)
  const { href } = pathToFileURL(directory)
  const url = href.replace(/\/?$/, '/')
  directories.set(url, versioned || directories.get(url) === true)
  if (registered) return
  registered = true
  registerHooks({
    resolve (specifier, context, nextResolve) {
      const { parentURL } = context
      if (parentURL === undefined || !isToolModule(parentURL)) return nextResolve(specifier, context)
      const found = resolveForTool(specifier, context, nextResolve)
      if (!isVersioned(found.url)) return found
      // A list or, in earlier versions of Node, a set.
      if (new Set(context.conditions).has('require')) {
        noteRequire(parentURL, found.url)
        return found
      }
      const asked = /^\.{1,2}\//.test(specifier) ? new URL(specifier, parentURL).href : specifier
      return { ...found, url: noteImport(parentURL, asked, found.url), shortCircuit: true }
    }
  })
}

function resolveForTool (specifier: string, context: ResolveHookContext, nextResolve: NextResolve): ResolveFnOutput {
  try {
    const found = nextResolve(specifier, context)
    // The package itself is not "nearer": a second copy of it must not be loaded beside the running one.
    return /^toolgate(\/client)?$/.test(specifier) && found.url.startsWith(packageRoot) ? { url: ownEntries.get(specifier)!, shortCircuit: true } : found
  } catch (error) {
    if (!isNotFound(error)) throw error
    const own = ownEntries.get(specifier)
    if (own !== undefined) return { url: own, shortCircuit: true }
    if (ownDependencies.test(specifier)) return nextResolve(specifier, { ...context, parentURL: running })
    if (/^\.{1,2}\/.*\.js$/.test(specifier)) return nextResolve(specifier.replace(/\.js$/, '.ts'), context)
    throw error
  }
}

function isToolModule (url: string): boolean {
  for (const directory of directories.keys()) if (url.startsWith(directory)) return true
  return false
}

function isVersioned (url: string): boolean {
  for (const [directory, versioned] of directories) {
    if (versioned && url.startsWith(directory) && !url.includes('/node_modules/', directory.length - 1)) return true
  }
  return false
}

function isNotFound (error: unknown): boolean {
  const code = (error as NodeJS.ErrnoException | undefined)?.code
  return code === 'ERR_MODULE_NOT_FOUND' || code === 'ERR_PACKAGE_PATH_NOT_EXPORTED' || code === 'MODULE_NOT_FOUND'
}

/** The path of a module, for `import()`. */
export function importUrl (path: string): string {
  return pathToFileURL(path).href
}

/** The running package's folder. */
export const packageFolder = fileURLToPath(packageRoot)
