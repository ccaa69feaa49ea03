import { readdir, realpath } from 'node:fs/promises'
import { dirname, join, sep } from 'node:path'
import { pathToFileURL } from 'node:url'
import { GatewayError } from '../../errors.ts'
import { messageOf } from '../error-message.ts'
import { ToolRegistry, type AnyTool } from '../registry.ts'
import { resolveForToolsIn } from './module-resolution.ts'
import { findChanges, importModule } from './module-versions.ts'
import { within } from './patience.ts'
import type { Found, FoundTool, LoadFailure, ToolSource } from './source.ts'

const isModule = /^[^.].*\.(js|mjs|ts)$/
const isNoTool = /\.(d|test|spec)\.(js|mjs|ts)$/
/** Under the ten seconds that Fastify gives a start as a whole, so that it is the module that is named. */
const PATIENCE_MS = 9000

/**
 * The tools that the modules of a directory export: each `.js`, `.mjs` and `.ts` file directly in it.
 * An export may be a tool, a list of tools, a sealed or open ToolRegistry, or a function that gives any of these.
 *
 * Loading again imports anew what was edited, what imports it, and what failed. All other modules stay as they are.
 */
export class ModuleDirectory implements ToolSource {
  readonly name: string
  readonly #patienceMs: number

  /**
   * @param path of the directory, absolute or from the working directory
   * @param patienceMs how long a module may take to load, and a function of it to give tools; then it has failed
   */
  constructor (path: string, patienceMs = PATIENCE_MS) {
    this.name = path
    this.#patienceMs = patienceMs
  }

  async load (): Promise<Found> {
    let directory: string
    let files: string[]
    try {
      directory = await realpath(this.name)
      files = (await readdir(directory)).filter((file) => isModule.test(file) && !isNoTool.test(file)).sort()
    } catch (cause) {
      throw new GatewayError('source_failed', `The tools directory ${this.name} cannot be read: ${(cause as NodeJS.ErrnoException).code}.`, { cause })
    }
    resolveForToolsIn(directory, true)
    const revert = findChanges()
    const tools: FoundTool[] = []
    const failures: LoadFailure[] = []
    for (const file of files) {
      let path = join(directory, file)
      try {
        // Each time anew, as Node remembers where a link once led.
        path = await realpath(path)
        const exports = await importModule(path, this.#patienceMs)
        const found = await within(toolsOf(exports), this.#patienceMs)
        tools.push(...found.map((tool) => ({ tool, origin: file })))
      } catch (cause) {
        failures.push({ file, reason: reasonOf(cause, path), ...placeOf(cause, path) })
      }
    }
    return { tools, failures, revert }
  }
}

/** The same failure has the same words, whatever the directory is a link to, and whichever version it was. */
function reasonOf (cause: unknown, path: string): string {
  return inside(path, messageOf(cause), '')
}

/** Where in the directory it went wrong, as far as the engine says. */
function placeOf (cause: unknown, path: string): { at: string } | undefined {
  const stack = cause instanceof Error ? cause.stack : undefined
  const [, at] = /\0([^\0\s()]+:\d+)/.exec(inside(path, String(stack), '\0')) ?? []
  return at === undefined ? undefined : { at }
}

/** A text in which the module's folder is called `name`, and versions have no say. */
function inside (path: string, text: string, name: string): string {
  const folder = dirname(path)
  return text.replaceAll(`${pathToFileURL(folder).href}/`, name).replaceAll(folder + sep, name).replace(/[?&]v=\d+/g, '')
}

/** The tools that a module exports. A module without any is a helper of the others, unless its default export says otherwise. */
async function toolsOf (exports: Record<string, unknown>): Promise<FoundTool['tool'][]> {
  const found = new DistinctTools()
  if (exports.default !== undefined) {
    const given = await toolsIn(exports.default, true)
    if (given === undefined) throw new Error('the default export is not a tool, a list of tools, or a function that gives them')
    for (const tool of given) found.add(tool)
  }
  for (const [name, value] of Object.entries(exports)) {
    if (name === 'default') continue
    const given = await toolsIn(value, false)
    if (given === undefined && isUnfinishedTool(value)) throw new Error(`the export "${name}" looks like a tool, and has no execute function`)
    if (given === undefined && isOtherRegistry(value)) throw new Error(`the export "${name}" is a registry of another package, which keeps its tools to itself; export the tools as well`)
    for (const tool of given ?? []) found.add(tool)
  }
  if (found.isEmpty) {
    // Named functions are taken for helpers where a module exports tools; where it exports none, they may give them.
    for (const value of Object.values(exports)) {
      if (typeof value !== 'function' || value.length > 0 || isClass(value)) continue
      for (const tool of await toolsIn(value, true) ?? []) found.add(tool)
    }
  }
  return found.tools
}

/** Tools by what their author wrote, so that one exported twice, or beside a registry that holds it, is one. */
class DistinctTools {
  readonly #tools = new Map<object, FoundTool['tool']>()

  add (tool: FoundTool['tool']): void {
    const source = 'descriptor' in tool ? tool.source : tool
    if ('descriptor' in tool || !this.#tools.has(source)) this.#tools.set(source, tool)
  }

  get isEmpty (): boolean { return this.#tools.size === 0 }
  get tools (): FoundTool['tool'][] { return [...this.#tools.values()] }
}

async function toolsIn (value: unknown, callFunctions: boolean): Promise<FoundTool['tool'][] | undefined> {
  if (value instanceof ToolRegistry) return [...value]
  if (Array.isArray(value)) return value.length > 0 && value.every(looksLikeTool) ? value as AnyTool[] : undefined
  if (looksLikeTool(value)) return [value]
  if (callFunctions && typeof value === 'function') return await toolsIn(await value(), false)
  return undefined
}

function looksLikeTool (value: unknown): value is AnyTool {
  return typeof value === 'object' && value !== null && typeof (value as { execute?: unknown }).execute === 'function'
}

/** Told rather than taken for a helper: a misspelt `execute` should not make a tool vanish. */
function isUnfinishedTool (value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false
  const has = (name: string) => Object.hasOwn(value, name)
  return (has('id') || has('name')) && (has('parseInput') || (has('description') && has('parameters')))
}

/** That of the registry system, where its package is installed nearer than ours; or a second copy of ours. */
function isOtherRegistry (value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false
  return ['register', 'seal', 'invoke'].every((name) => typeof (value as Record<string, unknown>)[name] === 'function')
}

function isClass (value: Function): boolean {
  return /^class\b/.test(Function.prototype.toString.call(value))
}
