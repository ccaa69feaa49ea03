import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import closeWithGrace from 'close-with-grace'
import { Command } from 'commander'
import { pino, type Logger } from 'pino'
import { defaultOf, flagOf, isLoopback, outerName, readConfig, settingNames, settings, unknownVariables, variableOf, type Config } from './config.ts'
import { GatewayError } from './errors.ts'
import { createGateway } from './gateway.ts'
import type { Hooks } from './invocation/hooks.ts'
import { importUrl, packageFolder, resolveForToolsIn } from './tools/sources/module-resolution.ts'

/** Time beyond the grace period after which a shutdown that hangs is given up, milliseconds. */
const SHUTDOWN_SLACK_MS = 2000

const { version } = JSON.parse(readFileSync(resolve(packageFolder, 'package.json'), 'utf8')) as { version: string }

const program = new Command('toolgate')
  .description('Runs tools over HTTP and tells of every execution over server-sent events.')
  .version(version)
  .showHelpAfterError('(toolgate --help tells more)')

const serveCommand = program.command('serve')
  .description('Serve the tools of one or more directories.')
  .addHelpText('after', `
Every option is also a variable: ${flagOf('maxBodyBytes')} is ${variableOf('maxBodyBytes')}; options win.
${variableOf('apiKey')} sets the key that callers send as "Authorization: Bearer <key>".

Examples:
  toolgate serve                                 serve ./tools on 127.0.0.1:8080
  toolgate serve --tools ./tools,./more --port 0
  TOOLGATE_API_KEY=… toolgate serve --host 0.0.0.0`)
  .action(serve)

for (const name of settingNames) {
  const { schema, about, ...more } = settings[name]
  if ('flagless' in more) continue
  const preset = defaultOf(name)
  const value = schema.type === 'boolean' ? '' : ` <${schema.type === 'integer' ? 'number' : 'value'}>`
  serveCommand.option(`${flagOf(name)}${value}`, preset === undefined || preset === false || String(preset) === '' ? about : `${about} (default: ${preset})`)
}

await program.parseAsync()

async function serve (options: Record<string, string | boolean>): Promise<void> {
  try {
    const config = readConfig(Object.fromEntries(settingNames.map((name) => [name, options[outerName(name)]])))
    const log: Logger<string> = pino({ level: config.logLevel, base: null }, pino.destination({ sync: false, minLength: 4096, periodicFlush: 100 }))
    for (const variable of unknownVariables()) log.warn({ variable }, 'unknown variable')

    const { host, port, hooks, ...settings } = config
    const app = createGateway({
      ...settings,
      hooks: hooks === undefined ? [] : await loadHooks(hooks),
      logger: log
    } as Parameters<typeof createGateway>[0])
    closeOnSignals(app, config, log)
    await app.listen({ host, port })
    log.info({ tools: app.toolgate.invoker.registry.size, authentication: config.apiKey === undefined ? 'none' : 'key' }, 'toolgate is ready')
    if (!isLoopback(host) && config.apiKey === undefined) log.warn('everyone who can reach this address can run every tool')
    log.flush()
  } catch (error) {
    const { code, message, stack } = error as NodeJS.ErrnoException
    const isExpected = error instanceof GatewayError || code === 'EADDRINUSE' || code === 'EADDRNOTAVAIL' || code === 'EACCES' || code === 'ENOTFOUND'
    process.stderr.write(`${isExpected ? message : stack ?? String(error)}\n`)
    process.exit(1)
  }
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

/** The first signal drains and ends with 0, a second one exits at once. A tool's stray rejection is logged and no more. */
function closeOnSignals (app: ReturnType<typeof createGateway>, config: Config, log: Logger<string>): void {
  process.on('unhandledRejection', (err) => log.error({ err }, 'a promise was rejected and nobody handled it'))
  closeWithGrace({ delay: config.shutdownGraceMs + SHUTDOWN_SLACK_MS, logger: log, skip: ['unhandledRejection'] }, async ({ signal, err }) => {
    if (err !== undefined) log.fatal({ err }, 'an exception was not caught')
    else log.info({ signal }, 'shutting down')
    await app.close()
    log.info('shut down')
    log.flush()
  })
}
