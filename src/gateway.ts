import { fileURLToPath } from 'node:url'
import accepts from '@fastify/accepts'
import autoload from '@fastify/autoload'
import cors from '@fastify/cors'
import { TypeBoxValidatorCompiler, type TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import fastifyPlugin from 'fastify-plugin'
import Fastify, { LogController, type FastifyBaseLogger, type FastifyInstance } from 'fastify'
import { createAuthenticate } from './auth/api-key.ts'
import { systemClock, type Clock } from './clock.ts'
import { defaultConfig, type Config } from './config.ts'
import type { InvokeResponse } from './contract/invocation.ts'
import { GatewayError } from './errors.ts'
import { Hub } from './events/hub.ts'
import { useJsonBodies } from './http/body-parser.ts'
import { clientErrorHandler, frameworkErrors, useProblems } from './http/problems.ts'
import { createIdSource, type IdSource } from './ids.ts'
import { Invoker, type CallRequest } from './invocation/invoker.ts'
import type { Hooks } from './invocation/hooks.ts'
import { MemoryStore } from './store/memory.ts'
import type { Store } from './store/store.ts'
import { loadTools } from './tools/load.ts'
import { ToolRegistry, type AnyTool } from './tools/registry.ts'
import { ModuleDirectory } from './tools/sources/module-directory.ts'
import type { Principal } from './tools/tool.ts'

/** Settings of a gateway; each has a default. `tools` and `hooks` are given as values, directories apart. */
export interface GatewayOptions extends Partial<Omit<Config, 'tools' | 'hooks' | 'host' | 'port'>> {
  /** Tools in code, or a registry of them. */
  tools?: readonly AnyTool[] | ToolRegistry<any>
  /** Directories of tool modules. */
  toolDirectories?: readonly string[]
  hooks?: Hooks | readonly Hooks[]
  /** A pino logger, or false for none. Default: a pino of Fastify's own, at `logLevel`. */
  logger?: FastifyBaseLogger | false
  clock?: Clock
  ids?: IdSource
}

/** What the routes work with. */
export interface Toolgate {
  readonly config: Config
  readonly store: Store
  readonly hub: Hub
  readonly invoker: Invoker
}

declare module 'fastify' {
  interface FastifyInstance {
    /** The gateway's parts; there once the instance is ready. */
    toolgate: Toolgate
    /** Runs a tool the whole way, in process. */
    invoke (call: Omit<CallRequest, 'principal'> & { principal?: Principal }): Promise<InvokeResponse>
  }
  interface FastifyRequest {
    principal: Principal
  }
  interface FastifyContextConfig {
    /** Served without credentials. */
    open?: boolean
  }
}

const embedder: Principal = { id: 'in-process' }

/**
 * Puts a gateway together. Await the instance (or `ready()`, or `listen()`) before use; that loads the tools.
 *
 * `close()` drains: no more calls are taken, running ones get `shutdownGraceMs`, then streams end.
 *
 * @throws on ready: {@link GatewayError} `invalid_tool` for a tool given in code; `source_failed` for a directory that
 *   cannot be read or, with `strict`, a module or tool that is refused
 */
export function createGateway (options: GatewayOptions = {}): FastifyInstance {
  const config: Config = { ...defaultConfig(), ...definedOf(options), tools: [...options.toolDirectories ?? []] }
  const clock = options.clock ?? systemClock
  const ids = options.ids ?? createIdSource()

  const app = Fastify({
    ...loggerOptions(options.logger, config.logLevel),
    logController: new LogController({ disableRequestLogging: true }),
    bodyLimit: config.maxBodyBytes,
    return503OnClosing: false,
    routerOptions: { maxParamLength: config.maxUrlBytes },
    http: { maxHeaderSize: config.maxHeaderBytes },
    frameworkErrors,
    clientErrorHandler
  }).withTypeProvider<TypeBoxTypeProvider>()

  // Input is checked as it came, and answers go out as they are: nothing coerces, prunes or reorders.
  app.setValidatorCompiler(TypeBoxValidatorCompiler)
  app.setSerializerCompiler(() => (value) => JSON.stringify(value))
  useJsonBodies(app, config.maxJsonDepth)
  useProblems(app, config)
  app.register(accepts)
  if (config.corsOrigins.length > 0) app.register(cors, corsOptions(config.corsOrigins))
  // After CORS, so that a preflight, which carries no credentials, is answered first.
  app.register(fastifyPlugin(async (scope) => requireCredentials(scope, config.apiKey)))

  const store = new MemoryStore({
    epoch: ids.epoch(),
    now: () => clock.now(),
    maxRecords: config.storeMaxRecords,
    maxEvents: config.storeMaxEvents,
    maxBytes: config.storeMaxBytes,
    maxAgeMs: config.storeMaxAgeMs
  })
  const hub = new Hub({
    store,
    clock,
    maxSubscribers: config.maxSubscribers,
    maxBacklogBytes: config.maxBacklogBytes,
    maxPartBytes: config.maxEventPartBytes,
    heartbeatMs: config.heartbeatMs
  })

  app.decorate('toolgate', null as unknown as Toolgate)
  app.decorate('invoke', (call: Omit<CallRequest, 'principal'> & { principal?: Principal }) =>
    app.toolgate.invoker.invoke({ principal: embedder, ...call }))

  app.register(async () => {
    const registry = await registryOf(options, config, app.log)
    const invoker = new Invoker(registry, { store, clock, ids, log: app.log, hooks: [options.hooks ?? []].flat(), limits: config })
    app.toolgate = { config, store, hub, invoker }
  })
  app.register(autoload, {
    dir: fileURLToPath(new URL('../routes', import.meta.url)),
    forceESM: true,
    ignorePattern: /\.d\.ts$/
  })

  // Before the server stops listening, so that probes learn of it and streams carry the last end events.
  app.addHook('preClose', async () => {
    await app.toolgate?.invoker.drain(config.shutdownGraceMs)
    hub.close()
    await store.close()
  })
  return app as unknown as FastifyInstance
}

/** What was set, without what was set to undefined. */
function definedOf (options: GatewayOptions): Partial<Config> {
  const { tools, toolDirectories, hooks, logger, clock, ids, ...settings } = options
  return Object.fromEntries(Object.entries(settings).filter(([, value]) => value !== undefined))
}

function loggerOptions (logger: FastifyBaseLogger | false | undefined, level: string) {
  if (logger === undefined) return { logger: { level, base: null } }
  return logger === false ? { logger: false } : { loggerInstance: logger }
}

function corsOptions (origins: readonly string[]) {
  return {
    origin: origins.includes('*') ? '*' : [...origins],
    methods: ['GET', 'HEAD', 'POST'],
    exposedHeaders: ['ETag', 'Location', 'Retry-After', 'Toolgate-Invocation-Id', 'Toolgate-Status', 'Toolgate-Error-Code'],
    maxAge: 600
  }
}

async function registryOf (options: GatewayOptions, config: Config, log: FastifyBaseLogger): Promise<ToolRegistry<any>> {
  const given = options.tools ?? []
  const tools = given instanceof ToolRegistry ? [...given].map((tool) => tool.source as AnyTool) : given
  const sources = config.tools.map((directory) => new ModuleDirectory(directory))
  const { registry, failures } = given instanceof ToolRegistry && sources.length === 0
    ? { registry: given.seal(), failures: [] }
    : await loadTools(tools, sources, { defaultTimeoutMs: config.timeoutMs })
  for (const failure of failures) log.error(failure, 'a tool was not loaded')
  if (config.strict && failures.length > 0) {
    const lines = failures.map(({ file, tool, reason }) => `  ${file}${tool === undefined ? '' : ` (${tool})`}: ${reason}`)
    throw new GatewayError('source_failed', `Tools were refused, and strict is set:\n${lines.join('\n')}`)
  }
  for (const tool of registry) {
    if (tool.ignoredKeywords.length > 0) log.info({ tool: tool.descriptor.id, keywords: tool.ignoredKeywords }, 'schema keywords without effect')
  }
  return registry
}

/** Guards every route but the probes. */
function requireCredentials (app: FastifyInstance, apiKey: string | undefined): void {
  const authenticate = createAuthenticate(apiKey)
  app.decorateRequest('principal', null as unknown as Principal)
  app.addHook('onRequest', (request, _reply, done) => {
    if (request.routeOptions.config.open === true) return done()
    try {
      request.principal = authenticate(request.headers.authorization)
      done()
    } catch (error) {
      done(error as Error)
    }
  })
}
