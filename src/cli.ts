import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import closeWithGrace from 'close-with-grace'
import { Command } from 'commander'
import type { Logger } from 'pino'
import { isLoopback, readConfig, shownConfig, unknownVariables, type Configuration } from './config/configuration.ts'
import { defaultFile, defaultOf, flagOf, outerName, settingNames, settingOf, variableOf } from './config/settings.ts'
import { GatewayError } from './errors.ts'
import { createGateway } from './gateway.ts'
import type { Hooks } from './invocation/hooks.ts'
import { openLog } from './log.ts'
import { Reloads, reloadTools, warnOfUnusedSettings } from './reload.ts'
import { watchTerminals } from './terminal.ts'
import { importUrl, packageFolder, resolveForToolsIn } from './tools/sources/module-resolution.ts'
import { watchFiles, type Watch } from './watch.ts'

/** Time beyond the grace period after which a shutdown that hangs is given up, milliseconds. */
const SHUTDOWN_SLACK_MS = 2000

const { version } = JSON.parse(readFileSync(resolve(packageFolder, 'package.json'), 'utf8')) as { version: string }

type Options = Record<string, string | boolean>

const program = new Command('toolgate')
  .description('Runs tools over HTTP and tells of every execution over server-sent events.')
  .version(version)
  .showHelpAfterError('(toolgate --help tells more)')

withSettings(program.command('serve'))
  .description('Serve the tools of one or more directories.')
  .addHelpText('after', `
Every option is also a variable, and a setting of ${defaultFile}: ${flagOf('maxBodyBytes')} is
${variableOf('maxBodyBytes')}, and maxBodyBytes. Options win over variables, variables over the file.
${variableOf('apiKey')} sets the key that callers send as "Authorization: Bearer <key>".
On SIGHUP, the tools and their settings are loaded anew.

Examples:
  toolgate serve                                 serve ./tools on 127.0.0.1:8080
  toolgate serve --tools ./tools,./more --port 0
  TOOLGATE_API_KEY=… toolgate serve --host 0.0.0.0`)
  .action(serve)

withSettings(program.command('config'))
  .description(`Print the settings that serve would run with, as ${defaultFile} says them; secrets are masked.`)
  .action(printConfig)

await program.parseAsync()

function withSettings (command: Command): Command {
  for (const name of settingNames) {
    const { schema, about, secret } = settingOf(name)
    if (secret === true) continue
    const preset = defaultOf(name)
    const value = schema.type === 'boolean' ? '' : ` <${schema.type === 'integer' ? 'number' : 'value'}>`
    command.option(`${flagOf(name)}${value}`, preset === undefined || preset === false || String(preset) === '' ? about : `${about} (default: ${preset})`)
  }
  return command
}

function configurationOf (options: Options): Configuration {
  return readConfig(Object.fromEntries(settingNames.map((name) => [name, options[outerName(name)]])))
}

function printConfig (options: Options): void {
  try {
    const shown = shownConfig(configurationOf(options))
    for (const variable of unknownVariables()) process.stderr.write(`${variable}: there is no such variable\n`)
    process.stdout.write(`${JSON.stringify(shown, undefined, 2)}\n`)
  } catch (error) {
    fail(error)
  }
}

async function serve (options: Options): Promise<void> {
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
    const close = closeOnSignals(log, config.shutdownGraceMs, async () => {
      reloads.close()
      await Promise.all([app.close(), watching?.close()])
    })
    end = () => {
      silence()
      close()
    }
    await app.listen({ host, port })
    log.info({ pid: process.pid, tools: app.toolgate.invoker.registry.size, authentication: config.apiKey === undefined ? 'none' : 'key' }, 'toolgate is ready')
    if (!isLoopback(host) && config.apiKey === undefined) log.warn('everyone who can reach this address can run every tool')
    warnOfUnusedSettings(app, toolSettings, log)
    log.flush()
    reloads.start(() => reloadTools(app, configuration, () => configurationOf(options), log))
  } catch (error) {
    fail(error)
  }
}

/** Ends the process once what went wrong is written: a pipe takes 64 KiB at once. The last thing that its caller does. */
function fail (error: unknown): void {
  const { code, message, stack } = error as NodeJS.ErrnoException
  const isExpected = error instanceof GatewayError || code === 'EADDRINUSE' || code === 'EADDRNOTAVAIL' || code === 'EACCES' || code === 'ENOTFOUND'
  process.stderr.write(`${isExpected ? message + hintOn(error as NodeJS.ErrnoException) : stack ?? String(error)}\n`, () => process.exit(1))
}

/** The flag that lets a second gateway run beside the first. */
function hintOn ({ code, message }: NodeJS.ErrnoException): string {
  if (code === 'EADDRINUSE') return `; ${flagOf('port')} takes another one`
  return code === 'store_refused' && message.endsWith('in use by another gateway.') ? ` ${flagOf('store')} takes another one.` : ''
}

function watchConfiguration ({ config, file }: Configuration, reloads: Reloads, log: Logger<string>): Promise<Watch> {
  return watchFiles({
    directories: config.toolDirectories.map((directory) => resolve(directory)),
    files: [file],
    onChange: () => reloads.ask(),
    onError: (err) => log.error({ err }, 'files cannot be watched')
  })
}

async function loadHooks (path: string): Promise<Hooks[]> {
  const file = resolve(path)
  resolveForToolsIn(resolve(file, '..'))
  let exports: { default?: Hooks | Hooks[] } & Hooks
  try {
    exports = await import(importUrl(file))
  } catch (cause) {
    throw new GatewayError('invalid_config', `The hooks module ${path} cannot be loaded: ${(cause as Error).message}`, { cause })
  }
  const hooks = [exports.default ?? exports].flat()
  if (!hooks.every(isHooks)) {
    throw new GatewayError('invalid_config', `The hooks module ${path} must export beforeToolCall or afterToolCall, or a list of such hooks as its default.`)
  }
  return hooks
}

function isHooks (hooks: Hooks | null | undefined): boolean {
  const given = [hooks?.beforeToolCall, hooks?.afterToolCall].filter((hook) => hook !== undefined)
  return given.length > 0 && given.every((hook) => typeof hook === 'function')
}

/**
 * The first signal drains and ends with 0, a second one exits at once. A tool's stray rejection is logged and no more.
 * @returns what does the same as the first signal
 */
function closeOnSignals (log: Logger<string>, graceMs: number, close: () => Promise<unknown>): () => void {
  process.on('unhandledRejection', (err) => log.error({ err }, 'a promise was rejected and nobody handled it'))
  const grace = closeWithGrace({ delay: graceMs + SHUTDOWN_SLACK_MS, logger: log, skip: ['unhandledRejection', 'SIGHUP'] }, async ({ signal, err }) => {
    if (err !== undefined) log.fatal({ err }, 'an exception was not caught')
    else log.info({ signal }, 'shutting down')
    await close()
    log.info('shut down')
    log.flush()
  })
  return () => { void grace.close() }
}
