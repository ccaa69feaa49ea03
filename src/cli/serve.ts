import { resolve } from 'node:path'
import closeWithGrace from 'close-with-grace'
import type { Logger } from 'pino'
import { credentialKinds, isLoopback, unknownVariables, type Configuration } from '../config/configuration.ts'
import { createGateway } from '../gateway.ts'
import { openLog } from '../log.ts'
import { Reloads, reloadTools, warnOfUnusedSettings } from '../reload.ts'
import { watchTerminals } from '../terminal.ts'
import { watchFiles, type Watch } from '../watch.ts'
import { loadHooks } from './hooks-module.ts'
import { configurationOf, type SettingsOptions } from './settings-options.ts'
import { fail } from './startup-failure.ts'

/** Time beyond the grace period after which a shutdown that hangs is given up, milliseconds. */
const SHUTDOWN_SLACK_MS = 2000

/** Serves until a signal ends it. */
export async function serve (options: SettingsOptions): Promise<void> {
  // From the start, as without a listener the signal ends the process.
  const reloads = new Reloads()
  const isTerminalGone = watchTerminals()
  let end = (): void => process.exit(0)
  // Of a terminal that was closed it says what it says to every program; else it asks for a reload.
  process.on('SIGHUP', () => {
    if (!isTerminalGone()) return reloads.ask()
    end()
    end = () => {}
  })
  try {
    const configuration = configurationOf(options)
    const { config, toolSettings } = configuration
    const { log, silence } = openLog(config.logLevel)
    for (const variable of unknownVariables()) log.warn({ variable }, 'unknown variable')

    const { host, port, hooks, config: file, watch, ...settings } = config
    const app = createGateway({
      ...settings,
      toolSettings,
      hooks: hooks === undefined ? [] : await loadHooks(hooks),
      logger: log
    } as Parameters<typeof createGateway>[0])
    // Before the tools are loaded, so that no change of theirs is missed.
    const watching = watch ? await watchConfiguration(configuration, reloads, log) : undefined
    // Also of tools that a reload has taken away: their calls may still run.
    let hasSecrets = false
    const mayTell = () => {
      hasSecrets ||= [...app.toolgate?.invoker.registry ?? []].some(({ sensitive, mask }) => sensitive || mask !== undefined)
      return !hasSecrets
    }
    const close = closeOnSignals(log, config.shutdownGraceMs, mayTell, async () => {
      reloads.close()
      await Promise.all([app.close(), watching?.close()])
    })
    end = () => {
      silence()
      close()
    }
    await app.listen({ host, port })
    const kinds = credentialKinds(config)
    log.info({ pid: process.pid, tools: app.toolgate.invoker.registry.size, authentication: kinds.join(', ') || 'none' }, 'toolgate is ready')
    if (!isLoopback(host) && kinds.length === 0) log.warn('everyone who can reach this address can run every tool')
    warnOfUnusedSettings(app, toolSettings, log)
    log.flush()
    reloads.start(async () => {
      mayTell()
      await reloadTools(app, configuration, () => configurationOf(options), log)
    })
  } catch (error) {
    fail(error)
  }
}

function watchConfiguration ({ config, file }: Configuration, reloads: Reloads, log: Logger<string>): Promise<Watch> {
  return watchFiles({
    directories: config.toolDirectories.map((directory) => resolve(directory)),
    files: [file],
    onChange: () => reloads.ask(),
    onError: (err) => log.error({ err }, 'files cannot be watched')
  })
}

/**
 * The first signal drains and ends with 0, a second one exits at once. A tool's stray rejection is logged and no more.
 * @param mayTell whether no tool has anything to hide: of what it left behind, nobody knows which call it was
 * @returns what does the same as the first signal
 */
function closeOnSignals (log: Logger<string>, graceMs: number, mayTell: () => boolean, close: () => Promise<unknown>): () => void {
  process.on('unhandledRejection', (err) => log.error({ err: strayOf(err, mayTell()) }, 'a promise was rejected and nobody handled it'))
  const grace = closeWithGrace({ delay: graceMs + SHUTDOWN_SLACK_MS, logger: log, skip: ['unhandledRejection', 'SIGHUP'] }, async ({ signal, err }) => {
    if (err !== undefined) log.fatal({ err: strayOf(err, mayTell()) }, 'an exception was not caught')
    else log.info({ signal }, 'shutting down')
    await close()
    log.info('shut down')
    log.flush()
  })
  return () => { void grace.close() }
}

/**
 * An error that came from nowhere. Where it may not be told in its own words, its kind, and where it was thrown as far as that
 * can be told from the words. Never throws: it would end the process.
 */
function strayOf (error: unknown, mayTell: boolean): unknown {
  if (mayTell) return error
  try {
    const { name, message, stack } = error as Error
    const words = `${name}: ${message}`
    const isPlain = typeof name === 'string' && typeof stack === 'string' && stack.startsWith(words)
    return isPlain ? { type: name, stack: stack.slice(words.length) } : { type: 'Error' }
  } catch {
    return { type: 'Error' }
  }
}
