import { isDeepStrictEqual } from 'node:util'
import type { Configuration } from './config/configuration.ts'
import { settingNames } from './config/settings.ts'
import type { ToolSettings } from './contract/tool.ts'
import { GatewayError } from './errors.ts'
import { unusedPatterns } from './tools/outside-settings.ts'
import type { Log } from './tools/tool.ts'

/** What a reload needs of a gateway. */
export interface Reloadable {
  reloadTools (changes: { toolSettings: Readonly<Record<string, ToolSettings>> }): Promise<void>
  toolgate: {
    invoker: { registry: Iterable<{ descriptor: { id: string } }> & { readonly size: number } }
    tools: { noteFailedReload (): void }
  }
}

/** Carries out reloads one after another. What is asked for while one runs, or before the first can, is one more. */
export class Reloads {
  #reload: (() => Promise<void>) | undefined
  #isAskedFor = false
  #isRunning = false
  #isClosed = false

  ask (): void {
    this.#isAskedFor = true
    void this.#run()
  }

  /** @param reload what a reload is, from now on; never rejects */
  start (reload: () => Promise<void>): void {
    this.#reload = reload
    void this.#run()
  }

  /** One that runs goes on; no other begins. */
  close (): void {
    this.#isClosed = true
  }

  async #run (): Promise<void> {
    if (this.#isRunning) return
    this.#isRunning = true
    while (this.#reload !== undefined && this.#isAskedFor && !this.#isClosed) {
      this.#isAskedFor = false
      await this.#reload()
    }
    this.#isRunning = false
  }
}

/**
 * Reads the configuration again and loads the tools with it. Where that fails, everything stays as it was. Never rejects:
 * how it went is logged.
 *
 * @param started what the gateway was started with
 * @param read gives the configuration of now, or throws
 */
export async function reloadTools (app: Reloadable, started: Configuration, read: () => Configuration, log: Log): Promise<void> {
  try {
    const { config, toolSettings } = readNow(app, read)
    const changed = settingNames.filter((name) => !isDeepStrictEqual(config[name], started.config[name]))
    if (changed.length > 0) log.warn({ settings: changed }, 'these settings have changed, and take effect at the next start')
    await app.reloadTools({ toolSettings })
    log.info({ tools: app.toolgate.invoker.registry.size }, 'the tools were reloaded')
    warnOfUnusedSettings(app, toolSettings, log)
  } catch (error) {
    const { message } = error as Error
    if (error instanceof GatewayError && error.code === 'shutting_down') return
    log.error(error instanceof GatewayError ? { reason: message } : { reason: message, err: error }, 'the tools were not reloaded; those from before are served')
  }
}

function readNow (app: Reloadable, read: () => Configuration): Configuration {
  try {
    return read()
  } catch (error) {
    app.toolgate.tools.noteFailedReload()
    throw error
  }
}

/** A pattern may be there for a tool to come, so it is no fault; it may be misspelt, so it is told. */
export function warnOfUnusedSettings (app: Reloadable, toolSettings: Readonly<Record<string, ToolSettings>>, log: Log): void {
  const ids = [...app.toolgate.invoker.registry].map(({ descriptor }) => descriptor.id)
  for (const pattern of unusedPatterns(Object.keys(toolSettings), ids)) log.warn({ pattern }, 'no tool fits these settings')
}
