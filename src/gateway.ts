import { fileURLToPath } from 'node:url'
import accepts from '@fastify/accepts'
import autoload from '@fastify/autoload'
import cors from '@fastify/cors'
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import { Value } from '@sinclair/typebox/value'
import fastifyPlugin from 'fastify-plugin'
import Fastify, { type FastifyInstance } from 'fastify'
import { pino } from 'pino'
import { createAuthenticate, type Authenticate } from './auth/authentication.ts'
import { openCredentials } from './auth/credentials.ts'
import type { Caller, Credentials } from './auth/caller.ts'
import { checkAgain, createGuard } from './auth/guard.ts'
import { createPageCheck, type PageCheck } from './auth/pages.ts'
import { Refusals } from './auth/refusals.ts'
import { Tickets } from './auth/tickets.ts'
import { systemClock, type Clock } from './clock.ts'
import { defaultConfig, type Config } from './config/settings.ts'
import { InvokeRequest, type InvokeResponse } from './contract/invocation.ts'
import { GatewayError } from './errors.ts'
import { Hub } from './events/hub.ts'
import { useJsonBodies } from './http/body-parser.ts'
import { corsOptions, useBrowserHeaders } from './http/browser-headers.ts'
import { trackConnections } from './http/connections.ts'
import { checkRequestLine, clientErrorHandler, createFrameworkErrors, useProblems } from './http/problems.ts'
import { validatorCompiler } from './http/validation.ts'
import { createIdSource, type IdSource } from './ids.ts'
import { Invoker } from './invocation/invoker.ts'
import { recover } from './invocation/recovery.ts'
import type { TraceParent } from './invocation/traceparent.ts'
import type { Hooks } from './invocation/hooks.ts'
import { MemoryStore } from './store/memory.ts'
import { defaultRetention } from './store/retention.ts'
import { SqliteStore } from './store/sqlite/sqlite-store.ts'
import type { Store } from './store/store.ts'
import type { RegisteredTool } from './tools/registered-tool.ts'
import type { AnyTool } from './tools/registry.ts'
import { ServedTools, type SettingsByPattern } from './tools/served-tools.ts'
import { ModuleDirectory } from './tools/sources/module-directory.ts'
import { silentLog, type Log, type Principal } from './tools/tool.ts'

/** Settings of a gateway; each has a default. `tools` and `hooks` are given as values, directories apart. */
export interface GatewayOptions extends Partial<Omit<Config, 'config' | 'hooks' | 'host' | 'port' | 'watch'>> {
  /** Tools in code, or a ToolRegistry of them. */
  tools?: Iterable<AnyTool | RegisteredTool>
  /**
   * Settings that win over the tools' own, by tool id or pattern: `{ 'pi_*': { timeoutMs: 5000 } }`. They are for tools in
   * code and in directories; a ToolRegistry has its tools as it registered them.
   */
  toolSettings?: SettingsByPattern
  hooks?: Hooks | readonly Hooks[]
  /** A pino logger, or false for none. Default: one of its own on standard output, at `logLevel`. */
  logger?: Log | false
  clock?: Clock
  ids?: IdSource
}

/** What the routes work with. */
export interface Toolgate {
  readonly config: Config
  readonly clock: Clock
  readonly store: Store
  readonly hub: Hub
  readonly invoker: Invoker
  readonly tools: ServedTools
  readonly authenticate: Authenticate
  readonly credentials: readonly Credentials[]
  readonly checkPage: PageCheck
  readonly tickets: Tickets
  readonly refusals: Refusals
  readonly log: Log
}

declare module 'fastify' {
  interface FastifyInstance {
    /** The gateway's parts; there once the instance is ready. */
    toolgate: Toolgate
    /** Runs a tool the whole way, in process. */
    invoke (call: InProcessCall): Promise<InvokeResponse>
    /**
     * Loads the tool directories anew and serves what is in them now, with the tools in code as before. Calls that are
     * running finish with the tool that they began with. A reload that fails changes nothing.
     *
     * Calls of this are done one after the other. What was refused already when the tools in force were loaded, and is
     * refused again, for whatever reason, is logged and no failure.
     *
     * @throws {GatewayError} `source_failed` for a directory that cannot be read, or with every module and tool that is
     *   refused; `invalid_config` for `toolSettings`; `invalid_tool` for a tool in code that these settings do not suit;
     *   `shutting_down` during and after `close()`
     */
    reloadTools (changes?: ToolChanges): Promise<void>
  }
}

/** A call from the program that embeds the gateway: what a request's body may say, and which tool. */
export interface InProcessCall extends Omit<InvokeRequest, 'input'> {
  toolId: string
  input?: unknown
  principal?: Principal
  trace?: TraceParent
  /** Sent again within 24 hours with JSON-equal input, it is the same call. */
  idempotencyKey?: string
}

/** What a reload changes beside the directories. */
export interface ToolChanges {
  /** Takes the place of all settings from outside; where absent, those in force stay. */
  toolSettings?: SettingsByPattern
}

/** The end of the grace time that is kept for sending what has been answered, milliseconds. */
const FLUSH_MS = 1000

const embedder: Principal = { id: 'in-process' }

/**
 * Puts a gateway together. Await the instance (or `ready()`, or `listen()`) before use; that loads the tools.
 *
 * `close()` drains: no more calls are taken, running ones get `shutdownGraceMs`, then streams end.
 *
 * The store is in memory where nothing else is said; a file is open from here until `close()`.
 *
 * @throws {GatewayError} `store_refused` for a file that cannot be used; `invalid_config` for a store of no kind
 * @throws on ready: {@link GatewayError} `invalid_config` for `toolSettings`, `mask` and settings of credentials; `invalid_tool` for a tool in code;
 *   `source_failed` for a directory that cannot be read or, with `strict`, a module or tool that is refused
 */
export function createGateway (options: GatewayOptions = {}): FastifyInstance {
  const config: Config = { ...defaultConfig(), toolDirectories: [], store: 'memory', ...definedOf(options) }
  const clock = options.clock ?? systemClock
  const ids = options.ids ?? createIdSource()
  const log = loggerOf(options.logger, config.logLevel)

  const app = Fastify({
    // Fastify's own would make a child for each request and watch each response; our lines name their invocation instead.
    logger: false,
    bodyLimit: config.maxBodyBytes,
    return503OnClosing: false,
    // No part of a URL is longer than the headers it comes in: the limit of the URL itself is told as such.
    routerOptions: { maxParamLength: config.maxHeaderBytes },
    requestTimeout: config.requestTimeoutMs,
    // A missing Host is refused further on, in the shape of every other refusal.
    http: { maxHeaderSize: config.maxHeaderBytes, requireHostHeader: false },
    // By then every answer has been sent, as far as the grace time allowed: see preClose below.
    forceCloseConnections: true,
    // For addresses in the log. Nothing else of a request is taken from what a proxy says of it.
    trustProxy: config.trustProxy.length > 0 && config.trustProxy,
    frameworkErrors: createFrameworkErrors(config.corsOrigins),
    clientErrorHandler
  }).withTypeProvider<TypeBoxTypeProvider>()

  // Input is checked as it came, and answers go out as they are: nothing coerces, prunes or reorders.
  app.setValidatorCompiler(validatorCompiler)
  app.setSerializerCompiler(() => (value) => JSON.stringify(value))
  useJsonBodies(app, config.maxJsonDepth)
  const refusals = new Refusals(log, clock)
  const tickets = new Tickets(clock, config.ticketLifeMs)
  let authenticate: Authenticate
  let credentials: readonly Credentials[]
  let checkPage: PageCheck
  useProblems(app, config, log, (error, request) => refusals.note(error, request))
  useBrowserHeaders(app)
  app.register(accepts)
  if (config.corsOrigins.length > 0) app.register(cors, corsOptions(config.corsOrigins))
  // After CORS, so that a preflight, which carries no credentials, is answered first, and refusals carry its headers.
  app.register(fastifyPlugin(async (scope) => {
    const opened = await openCredentials({ ...config, clock, log })
    scope.addHook('onClose', () => opened.close())
    credentials = opened.sources
    authenticate = createAuthenticate(credentials)
    checkPage = createPageCheck({ ...config, isOpen: credentials.length === 0 })
    scope.decorateRequest('caller', null as unknown as Caller)
    scope.addHook('onRequest', createGuard({
      authenticate,
      tickets,
      checkAll: (request) => checkRequestLine(request, config.maxUrlBytes),
      check: checkPage
    }))
    scope.addHook('preHandler', checkAgain)
  }))

  const store = openStore(config, clock, ids.epoch(), log)
  const hub = new Hub({
    store,
    clock,
    maxSubscribers: config.maxSubscribers,
    maxBacklogBytes: config.maxBacklogBytes,
    maxPartBytes: config.maxEventPartBytes,
    heartbeatMs: config.heartbeatMs
  })

  app.decorate('toolgate', null as unknown as Toolgate)
  app.decorate('invoke', async (call: InProcessCall) => {
    const { toolId, principal, trace, idempotencyKey, ...request } = call
    if (!Value.Check(InvokeRequest, request)) {
      const errors = [...Value.Errors(InvokeRequest, request)].map(({ path, message }) => ({ path, keyword: 'schema', message }))
      throw new GatewayError('invalid_request', 'The call is not valid.', { errors })
    }
    // Once it closes, `ready` waits for the end of that.
    if (app.toolgate === null) await app.ready()
    return await app.toolgate.invoker.invoke({ ...request, toolId, trace, idempotencyKey, principal: principal ?? embedder })
  })

  app.decorate('reloadTools', async ({ toolSettings }: ToolChanges = {}) => {
    if (app.toolgate === null) await app.ready()
    const { tools, invoker } = app.toolgate
    await tools.reload(toolSettings, {
      admit: () => {
        if (!invoker.accepting) throw new GatewayError('shutting_down', 'The gateway is shutting down and loads no more tools.')
      },
      use: (registry) => invoker.use(registry)
    })
  })

  app.register(async () => {
    const tools = await ServedTools.load({
      given: options.tools ?? [],
      sources: config.toolDirectories.map((directory) => new ModuleDirectory(directory)),
      settings: options.toolSettings ?? {},
      mask: config.mask,
      defaultTimeoutMs: config.timeoutMs,
      strict: config.strict,
      log,
      now: () => clock.now()
    })
    const invoker = new Invoker(tools.registry, { store, clock, ids, log, hooks: [options.hooks ?? []].flat(), limits: config })
    app.toolgate = { config, clock, store, hub, invoker, tools, authenticate, credentials, checkPage, tickets, refusals, log }
    await recover(invoker, { store, log, maxAttempts: config.maxAttempts })
  })
  app.register(autoload, {
    dir: fileURLToPath(new URL('../routes', import.meta.url)),
    forceESM: true,
    ignorePattern: /\.d\.ts$/
  })

  app.addHook('onListen', (done) => {
    log.info({}, `Server listening at ${app.listeningOrigin}`)
    done()
  })
  // Before the server stops listening, so that probes learn of it and streams carry the last end events.
  const allSent = trackConnections(app.server)
  app.addHook('preClose', async () => {
    const until = clock.monotonic() + config.shutdownGraceMs
    const left = () => Math.max(0, until - clock.monotonic())
    await app.toolgate?.invoker.drain(config.shutdownGraceMs - Math.min(FLUSH_MS, config.shutdownGraceMs / 4))
    await hub.close(left())
    await allSent(left())
    await store.close()
  })
  return app as unknown as FastifyInstance
}

function openStore (config: Config, clock: Clock, epoch: string, log: Log): Store {
  const path = /^sqlite:(.+)$/.exec(config.store)?.[1]
  if (path === undefined && config.store !== 'memory') throw new GatewayError('invalid_config', 'The store must be memory, or sqlite: and the path of a file.')
  const preset = defaultRetention[path === undefined ? 'memory' : 'sqlite']
  const retention = {
    maxRecords: config.storeMaxRecords ?? preset.maxRecords,
    maxRecordBytes: config.storeMaxRecordBytes ?? preset.maxRecordBytes,
    maxRecordAgeMs: config.storeMaxRecordAgeMs ?? preset.maxRecordAgeMs,
    maxEvents: config.storeMaxEvents ?? preset.maxEvents,
    maxEventBytes: config.storeMaxEventBytes ?? preset.maxEventBytes,
    maxEventAgeMs: config.storeMaxEventAgeMs ?? preset.maxEventAgeMs
  }
  if (path === undefined) return new MemoryStore({ epoch, now: () => clock.now(), ...retention })
  const onFault = (fault: string | undefined) => {
    if (fault === undefined) log.info({}, 'calls are recorded again')
    else log.error({ fault }, 'calls cannot be recorded')
  }
  return SqliteStore.open({ epoch, clock, path, synchronous: config.storeSynchronous, onFault, ...retention })
}

/** What was set, without what was set to undefined. */
function definedOf (options: GatewayOptions): Partial<Config> {
  const { tools, toolSettings, hooks, logger, clock, ids, ...settings } = options
  return Object.fromEntries(Object.entries(settings).filter(([, value]) => value !== undefined))
}

function loggerOf (logger: Log | false | undefined, level: string): Log {
  return logger === false ? silentLog : logger ?? pino({ level, base: null })
}
