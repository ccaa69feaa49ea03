import { Type, type Static, type TSchema } from '@sinclair/typebox'
import { MaskPointer, MaskPointers } from '../contract/tool.ts'
import { addressRange } from './address-range.ts'

interface Setting<Schema extends TSchema> {
  /** Also bounds and type-checks the value. `default` stands in the schema; so does `expected`, where a fault needs words of its own. */
  schema: Schema
  /** What it is, in one line; stands in `--help` and docs/configuration.md. */
  about: string
  /** For limits: what a consumer sees past it. */
  past?: string
  /** Never shown, and without a flag: arguments can be read by every process on the machine. */
  secret?: true
  /** A path, or a list of them; or one only where it follows this. In the file they are taken from the file's folder. */
  path?: true | 'sqlite:'
  /** Cannot stand in the file. */
  fileless?: true
  /** The name in variables and flags, where it is not the setting's own. */
  alias?: string
}

const setting = <Schema extends TSchema>(schema: Schema, about: string, more: Omit<Setting<Schema>, 'schema' | 'about'> = {}): Setting<Schema> =>
  ({ schema, about, ...more })

/** How much is kept; what is meant where nothing is said depends on the store. */
const kept = (maximum = Number.MAX_SAFE_INTEGER) => Type.Optional(Type.Integer({ minimum: 1, maximum }))
const whole = (value: number, minimum = 1, maximum = Number.MAX_SAFE_INTEGER) => Type.Integer({ default: value, minimum, maximum })
const names = () => Type.Array(Type.String({ minLength: 1 }), { default: [] as string[], expected: 'must be a list of texts' })
const MiB = 1024 * 1024
const DAY_MS = 86_400_000
const MAX_ENTRIES = 100_000_000
const anOrigin = 'an origin as in https://app.example, without a path, or *'
const aHost = 'a name or address as in a Host header, with or without a port and without wildcards: gateway.example'
const aProxy = 'an address, a range as in 10.0.0.0/8, loopback, linklocal or uniquelocal'
/** A list of texts, empty where nothing is said. */
const listOf = (rule: { pattern: string } | { format: string }, what: string) =>
  Type.Array(Type.String({ ...rule, expected: `must be ${what}` }), { default: [], expected: `must be a list, each of it ${what}` })

const jwtAlgorithms = ['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512', 'ES256', 'ES384', 'ES512', 'EdDSA', 'Ed25519'] as const

/** Read where it is in the working directory and no other is named. */
export const defaultFile = 'toolgate.config.json'

/**
 * Every setting there is: the source of environment variables (`TOOLGATE_` + name), flags, the file, types, help and
 * docs/configuration.md, which a test compares with it.
 */
export const settings = {
  config: setting(Type.Optional(Type.String({ minLength: 1 })), `File of settings, in JSON (default: ${defaultFile}, where it is there).`, { path: true, fileless: true }),
  host: setting(Type.String({ default: '127.0.0.1', minLength: 1 }), 'Address to listen on. Beyond loopback credentials have to be asked for.'),
  port: setting(Type.Integer({ default: 8080, minimum: 0, maximum: 65_535 }), 'Port to listen on; 0 takes a free one.'),
  toolDirectories: setting(Type.Array(Type.String({ minLength: 1 }), { default: ['./tools'], minItems: 1 }), 'Directories of tool modules, separated by commas.', { alias: 'tools', path: true }),
  strict: setting(Type.Boolean({ default: false }), 'Refuse to start where a tool module fails or a tool is refused.'),
  watch: setting(Type.Boolean({ default: false }), 'Reload the tools when their files change.'),
  hooks: setting(Type.Optional(Type.String({ minLength: 1 })), 'Module that exports beforeToolCall and afterToolCall, or a list of such hooks.', { path: true }),
  apiKey: setting(Type.Optional(Type.String({ minLength: 16, maxLength: 512, pattern: '^(?!tgk_)[\\x21-\\x7e]+$', expected: 'must have 16 to 512 characters, of visible ASCII without spaces, and be no key of a keys file: those begin with tgk_' })), 'Key that callers send as a Bearer token; 16 characters at least.', { secret: true }),
  keysFile: setting(Type.Optional(Type.String({ minLength: 1 })), 'File of API keys, as toolgate keys writes it.', { path: true }),
  auth: setting(Type.Union([Type.Literal('key'), Type.Literal('none')], { default: 'key' }), 'none allows to serve beyond loopback without asking for credentials, said on purpose.'),
  jwksUrl: setting(Type.Optional(Type.String({
    pattern: '^(https://[^\\s/?#@\\\\]+|http://(localhost|127(\\.\\d{1,3}){3}|\\[::1\\])(:\\d+)?)([/?][^\\s#]*)?$',
    expected: 'must be an https URL without a user or fragment; http only on localhost, 127.x.x.x or [::1]'
  })), 'URL of the keys (JWKS) of the issuer whose JWTs are let in.'),
  jwtIssuer: setting(names(), 'Issuer that a JWT must be from, or its names, separated by commas. Needed with the URL of its keys.'),
  jwtAudience: setting(names(), 'Audience that a JWT must be for, or several, separated by commas. Needed with the URL of the keys.'),
  jwtAlgorithms: setting(Type.Array(
    Type.Union(jwtAlgorithms.map((algorithm) => Type.Literal(algorithm))),
    { default: ['RS256', 'PS256', 'ES256', 'EdDSA'], minItems: 1, expected: `must be a list of ${jwtAlgorithms.join(', ')}, at least one` }
  ), 'Algorithms that a JWT may be signed with, separated by commas.'),
  jwtSkewMs: setting(whole(30_000, 0, 300_000), "How far the clock of a JWT's issuer may be off, milliseconds."),
  jwtScopeClaim: setting(Type.String({ default: 'scope', minLength: 1 }), 'Claim of a JWT that holds its scopes: a text with spaces between them, or a list.'),
  corsOrigins: setting(listOf({ pattern: '^(\\*|https?://[^/\\s]+)$' }, anOrigin), 'Origins that browsers may call from, separated by commas; * for any.'),
  allowedHosts: setting(listOf({ pattern: '^(\\[[\\d.:a-fA-F]+\\]|[\\w.-]+)(:\\d{1,5})?$' }, aHost), 'Names that the gateway may be called by, beside those of this machine. With any, a request by another name is refused.'),
  trustProxy: setting(listOf({ format: addressRange }, aProxy), 'Proxies whose X-Forwarded-For tells where a request is from: addresses, ranges, loopback, linklocal, uniquelocal.'),
  mask: setting(Type.Array(MaskPointer, { default: [], expected: MaskPointers.expected }), 'JSON Pointers to values that are masked in events, records and logs, separated by commas: /input/password.'),
  logLevel: setting(Type.Union(
    (['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'] as const).map((level) => Type.Literal(level)), { default: 'info' }
  ), 'The least level that is logged.'),
  shutdownGraceMs: setting(whole(8000, 0, DAY_MS), 'Time that running calls get to end on SIGTERM, milliseconds.'),
  heartbeatMs: setting(whole(15_000, 100, 24_000), 'Silence after which a subscriber is told the place reached, milliseconds.'),
  ticketLifeMs: setting(whole(30_000, 1000, 600_000), 'Time in which a ticket of POST /events/tickets can be used, milliseconds.'),

  requestTimeoutMs: setting(whole(60_000, 1000, DAY_MS), 'Time a request may take to arrive whole, milliseconds.', { past: '408 `request_timeout`' }),
  timeoutMs: setting(whole(60_000, 1, DAY_MS), 'Time a call gets where its tool says nothing, milliseconds.', { past: '504 or 200 with `timeout`' }),
  maxTimeoutMs: setting(whole(DAY_MS, 1, DAY_MS), 'The most time a call can be given, milliseconds.', { past: 'longer times are cut to it' }),
  maxBodyBytes: setting(whole(MiB, 1, 256 * MiB), 'Bytes of a request body.', { past: '413 `body_too_large`' }),
  maxJsonDepth: setting(whole(100, 1, 1000), 'Arrays and objects inside one another in an input, and in each part of a result.', { past: '400 `too_deep` in, `invalid_output` out' }),
  maxResultBytes: setting(whole(8 * MiB, 1024, 256 * MiB), "Bytes of a result's JSON text.", { past: '200 with `result_too_large`' }),
  maxEventPartBytes: setting(whole(256 * 1024), 'Bytes of `args`, `partialResult` or `result` in an event.', { past: 'the part is left out and named in `omitted`' }),
  maxConcurrentCalls: setting(whole(256), 'Calls that execute at once; a child call runs in the slot of the call that made it.', { past: 'calls wait for a slot' }),
  maxWaitingCalls: setting(whole(100, 0), 'Calls of one tool that wait for a slot.', { past: '503 `overloaded`' }),
  maxConcurrentAsyncCalls: setting(whole(64), 'Async calls that execute at once, beside the others.', { past: 'async calls wait for a slot' }),
  maxAsyncBacklog: setting(whole(1000, 0), 'Async calls that wait for a slot, whatever their tools.', { past: '503 `overloaded`' }),
  maxAttempts: setting(whole(10, 1, 1000), 'How often a call of a `replay: "safe"` tool is run in all, where the process dies under it.', { past: '`outcome_unknown`' }),
  slotReleaseMs: setting(whole(60_000, 0, DAY_MS), 'Time after which a call that goes on although it was stopped gives its slot away, milliseconds.'),
  maxChildDepth: setting(whole(8, 0, 64), 'Child calls inside one another.', { past: "the tool's `context.invoke` rejects" }),
  maxChildCalls: setting(whole(1000, 0), 'Child calls under one root call at once, at any depth.', { past: "the tool's `context.invoke` rejects with `overloaded`" }),
  maxBatchCalls: setting(whole(64, 1, 1000), 'Calls of one batch.', { past: '400 `invalid_request`' }),
  maxWaitMs: setting(whole(60_000, 0, DAY_MS), 'The longest that `Prefer: wait` can ask for, milliseconds.', { past: 'longer waits are cut to it' }),
  maxUpdates: setting(whole(10_000, 0), 'Updates published a call.', { past: 'further ones are dropped and counted' }),
  maxBacklogBytes: setting(whole(MiB), 'Bytes that may wait for a subscriber behind the message being sent.', { past: 'the stream is cut; resume by the last id' }),
  maxSubscribers: setting(whole(10_000, 0), 'Streams and polls of `GET /events` at once; a poll counts until its answer was read.', { past: '429 `too_many_subscribers`' }),
  maxUrlBytes: setting(whole(4096, 256, 16_384), 'Bytes of a request URL.', { past: '414 `url_too_long`' }),
  maxHeaderBytes: setting(whole(16_384, 1024, MiB), "Bytes of a request's headers, the URL included.", { past: '431 `headers_too_large`' }),

  store: setting(
    Type.String({ default: 'sqlite:./data/toolgate.db', pattern: '^(memory|sqlite:.+)$', expected: 'must be memory, or sqlite: and the path of a file' }),
    'Where calls and events are recorded: sqlite: and the path of a file, or memory, which a restart empties.', { path: 'sqlite:' }
  ),
  storeSynchronous: setting(Type.Union([Type.Literal('normal'), Type.Literal('full')], { default: 'normal' }), 'full waits for the disk at each write of the file, so that even a power cut loses nothing.'),
  storeMaxRecords: setting(kept(MAX_ENTRIES), 'Settled records that are kept (default: 1000000 in a file, 10000 in memory).', { past: 'the oldest are gone' }),
  storeMaxRecordBytes: setting(kept(), 'Bytes of text of records that are kept (default: 4 GiB in a file, 64 MiB in memory).', { past: 'the oldest are gone' }),
  storeMaxRecordAgeMs: setting(kept(), 'How long records are kept, milliseconds (default: 30 days in a file, 1 hour in memory).', { past: 'the oldest are gone' }),
  storeMaxEvents: setting(kept(MAX_ENTRIES), 'Events that are kept (default: 3000000 in a file, 30000 in memory).', { past: '`events_lost` on resume' }),
  storeMaxEventBytes: setting(kept(), 'Bytes of text of events that are kept (default: 4 GiB in a file, 64 MiB in memory).', { past: '`events_lost` on resume' }),
  storeMaxEventAgeMs: setting(kept(), 'How long events are kept, milliseconds (default: 7 days in a file, 1 hour in memory).', { past: '`events_lost` on resume' })
} as const satisfies Record<string, Setting<TSchema>>

type Settings = typeof settings
export type SettingName = keyof Settings
export type Config = { [Name in SettingName]: Static<Settings[Name]['schema']> }

export const settingNames = Object.keys(settings) as SettingName[]

/** Its name in flags, as commander gives it. */
export function outerName (name: SettingName): string {
  return settingOf(name).alias ?? name
}

/** `maxBodyBytes` → `TOOLGATE_MAX_BODY_BYTES` */
export function variableOf (name: SettingName): string {
  return `TOOLGATE_${outerName(name).replace(/[A-Z]/g, (letter) => `_${letter}`).toUpperCase()}`
}

/** `maxBodyBytes` → `--max-body-bytes` */
export function flagOf (name: SettingName): string {
  return `--${outerName(name).replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`
}

/** Its row of the table, with what only some rows have. */
export function settingOf (name: SettingName): Setting<TSchema> {
  return settings[name]
}

export function defaultOf (name: SettingName): unknown {
  return settingOf(name).schema.default
}

/** The configuration with nothing set from outside. */
export function defaultConfig (): Config {
  return Object.fromEntries(settingNames.map((name) => [name, structuredClone(defaultOf(name))])) as Config
}
