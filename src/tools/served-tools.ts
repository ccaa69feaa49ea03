import type { ToolSettings } from '../contract/tool.ts'
import { GatewayError } from '../errors.ts'
import { loadTools, type LoadedTools } from './load.ts'
import { outsideSettings } from './outside-settings.ts'
import type { RegisteredTool } from './registered-tool.ts'
import type { AnyTool, ToolRegistry } from './registry.ts'
import type { LoadFailure, ToolSource } from './sources/source.ts'
import type { Log } from './tool.ts'

export type SettingsByPattern = Readonly<Record<string, ToolSettings>>

export interface ServedToolsOptions {
  /** Tools in code. Read once: they are the same at each reload. */
  given: Iterable<AnyTool | RegisteredTool>
  sources: readonly ToolSource[]
  settings: SettingsByPattern
  /** JSON Pointers to what is masked of all tools. */
  mask: readonly string[]
  defaultTimeoutMs: number
  /** Whether a module or tool that is refused keeps the gateway from starting. */
  strict: boolean
  log: Log
  now: () => number
}

/** What a reload asks of whoever runs the tools. */
export interface ReloadHost {
  /** Throws where there is to be no reload any more. Asked before the tools are loaded, and again before they are swapped in. */
  admit (): void
  /** Takes the new registry into service. */
  use (registry: ToolRegistry<any>): void
}

interface Loaded extends LoadedTools {
  settings: SettingsByPattern
  loadedAtMs: number
}

/**
 * The tools in force, and how others take their place.
 *
 * Contract:
 * - A reload takes effect as a whole or not at all, late imports of the tools included; nothing of the registry before is
 *   held once it has.
 * - Reloads come one after the other, in the order in which they were asked for.
 */
export class ServedTools {
  readonly #options: ServedToolsOptions
  readonly #given: readonly (AnyTool | RegisteredTool)[]
  #inForce: Loaded
  #lastReloadFailed = false
  #last: Promise<void> = Promise.resolve()

  private constructor (options: ServedToolsOptions, given: readonly (AnyTool | RegisteredTool)[], loaded: Loaded) {
    this.#options = options
    this.#given = given
    this.#inForce = loaded
    this.#report()
  }

  /**
   * @throws {GatewayError} `invalid_config` for the settings and the mask; `invalid_tool` or `duplicate_tool` for a tool in code;
   *   `source_failed` for a source that cannot be read or, with `strict`, for anything that it brings and is refused
   */
  static async load (options: ServedToolsOptions): Promise<ServedTools> {
    const given = [...options.given]
    const { loaded, revert } = await load(options, given, options.settings)
    if (options.strict) revertIfThrown(revert, () => refuse('Tools were refused, and strict is set:', loaded.failures, options.log))
    return new ServedTools(options, given, loaded)
  }

  get registry (): ToolRegistry<any> {
    return this.#inForce.registry
  }

  /** When the tools in force were loaded. */
  get loadedAtMs (): number {
    return this.#inForce.loadedAtMs
  }

  /** Whether the tools in force are there because later ones could not be loaded. */
  get lastReloadFailed (): boolean {
    return this.#lastReloadFailed
  }

  /**
   * Loads everything anew. What the registry in force was loaded without may fail again, for whatever reason; any other
   * failure keeps that registry in force.
   *
   * @param settings from outside; those in force where undefined
   * @throws {GatewayError} as `load` does, `source_failed` listing every failure that is new; what `admit` throws
   */
  reload (settings: SettingsByPattern | undefined, host: ReloadHost): Promise<void> {
    const reloading = this.#last.then(() => this.#reload(settings ?? this.#inForce.settings, host))
    this.#last = reloading.catch(() => {})
    return reloading
  }

  /** For a reload that failed before it came to the tools: what it would have been told to load is not to be had. */
  noteFailedReload (): void {
    this.#lastReloadFailed = true
  }

  async #reload (settings: SettingsByPattern, host: ReloadHost): Promise<void> {
    host.admit()
    const { loaded, revert } = await this.#loadAnew(settings)
    revertIfThrown(revert, () => {
      host.admit()
      host.use(loaded.registry)
    })
    this.#inForce = loaded
    this.#lastReloadFailed = false
    this.#report()
  }

  /** What can take the place of what is in force. */
  async #loadAnew (settings: SettingsByPattern): Promise<{ loaded: Loaded, revert: () => void }> {
    try {
      const { loaded, revert } = await load(this.#options, this.#given, settings)
      const failures = loaded.failures.filter((failure) => !isDoneWithout(failure, this.#inForce))
      revertIfThrown(revert, () => refuse('The tools cannot be used:', failures))
      return { loaded, revert }
    } catch (error) {
      this.#lastReloadFailed = true
      throw error
    }
  }

  #report (): void {
    const { log } = this.#options
    for (const failure of this.#inForce.failures) log.error(failure, 'a tool was not loaded')
    for (const { descriptor, ignoredKeywords } of this.#inForce.registry) {
      if (ignoredKeywords.length > 0) log.info({ tool: descriptor.id, keywords: ignoredKeywords }, 'schema keywords without effect')
    }
  }
}

async function load (
  { sources, defaultTimeoutMs, mask, now }: ServedToolsOptions,
  given: readonly (AnyTool | RegisteredTool)[],
  settings: SettingsByPattern
): Promise<{ loaded: Loaded, revert: () => void }> {
  const { revert, ...loaded } = await loadTools(given, sources, { defaultTimeoutMs, mask, settingsFor: outsideSettings(settings) })
  return { loaded: { ...loaded, settings, loadedAtMs: now() }, revert }
}

function revertIfThrown (revert: () => void, action: () => void): void {
  try {
    action()
  } catch (error) {
    revert()
    throw error
  }
}

function refuse (title: string, failures: readonly LoadFailure[], log?: Log): void {
  if (failures.length === 0) return
  for (const failure of failures) log?.error(failure, 'a tool was not loaded')
  const lines = failures.map(({ file, tool, reason, at }) => `  ${file}${tool === undefined ? '' : ` (${tool})`}: ${reason}${at === undefined ? '' : ` (${at})`}`)
  throw new GatewayError('source_failed', `${title}\n${lines.join('\n')}`)
}

/** Whether the same tool, or all of the same file, is missing as it is. The reason may be another one each time. */
function isDoneWithout ({ file, tool }: LoadFailure, { failures, files }: Loaded): boolean {
  return failures.some((before) => before.file === file && (before.tool === tool || !files.has(file)))
}
