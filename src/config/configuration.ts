import type { Fault } from '../contract/problem.ts'
import type { ToolSettings } from '../contract/tool.ts'
import { GatewayError } from '../errors.ts'
import { pathsFrom, readConfigFile, type FileLayer } from './file.ts'
import { flagLayer, variableLayer, type Flags, type LayerFault } from './layer.ts'
import { defaultConfig, settingNames, settingOf, variableOf, type Config, type SettingName } from './settings.ts'

const MASK = '********'

export interface Configuration {
  config: Config
  /** Settings of tools, by id or pattern. */
  toolSettings: Readonly<Record<string, ToolSettings>>
  /** The file of settings, whether it is there or not. */
  file: string
}

/**
 * The configuration: flags over environment over file over defaults.
 *
 * @param flags as given, by setting name; texts, or true for a bare flag
 * @param directory that the file is looked for in
 * @throws {GatewayError} `invalid_config` with every fault of every origin at once, each named as the user wrote it
 */
export function readConfig (flags: Flags, environment: NodeJS.ProcessEnv = process.env, directory: string = process.cwd()): Configuration {
  const { config, file, found } = readLayers(flags, environment, directory)
  refuse([...found, ...exposureFaults(config, found), ...jwtFaults(config, found)])
  return { config, toolSettings: file.toolSettings, file: file.path }
}

/**
 * Where the keys are, for the commands that manage them; undefined where nothing says so. What else is at fault is no
 * hindrance to them.
 * @throws {GatewayError} `invalid_config`
 */
export function readKeysFile (flags: Pick<Flags, 'config' | 'keysFile'>, environment: NodeJS.ProcessEnv = process.env, directory: string = process.cwd()): string | undefined {
  const { config, found } = readLayers(flags, environment, directory)
  refuse(found.filter(({ setting }) => setting === 'keysFile' || setting === 'config'))
  return config.keysFile
}

/** What every origin gives, and every fault of theirs. */
function readLayers (flags: Flags, environment: NodeJS.ProcessEnv, directory: string): { config: Config, file: FileLayer, found: LayerFault[] } {
  const fromFlags = flagLayer(flags)
  const fromVariables = variableLayer(environment)
  const file = readConfigFile(fromFlags.values.config ?? fromVariables.values.config, directory)
  const config: Config = { ...defaultConfig(), ...file.values, ...fromVariables.values, ...fromFlags.values }
  return { config, file, found: [fromFlags, fromVariables, file].flatMap(({ faults }) => faults) }
}

function refuse (given: readonly Fault[]): void {
  const faults = given.map(({ path, keyword, message }) => ({ path, keyword, message }))
  if (faults.length === 0) return
  const lines = faults.map(({ path, message }) => `  ${path}: ${message}`)
  throw new GatewayError('invalid_config', `The configuration cannot be used:\n${lines.join('\n')}`, { errors: faults })
}

/** What kinds of credentials callers are asked for. None: nobody is asked. */
export function credentialKinds ({ apiKey, keysFile, jwksUrl }: Config): string[] {
  return Object.entries({ key: apiKey, 'keys file': keysFile, JWTs: jwksUrl }).filter(([, value]) => value !== undefined).map(([kind]) => kind)
}

/** Where the gateway is, for the commands of consumers. No setting of a gateway. */
export const urlVariable = 'TOOLGATE_URL'

export interface ConsumerVariables {
  url: string | undefined
  apiKey: string | undefined
  /** Whether the terminal says that it can do no more than a printer. */
  isDumbTerminal: boolean
}

/** What the commands of consumers take from the environment. Empty is unset. */
export function consumerVariables (environment: NodeJS.ProcessEnv = process.env): ConsumerVariables {
  return {
    url: environment[urlVariable] || undefined,
    apiKey: environment[variableOf('apiKey')] || undefined,
    isDumbTerminal: environment.TERM === 'dumb'
  }
}

/** Variables that look like ours and are not. */
export function unknownVariables (environment: NodeJS.ProcessEnv = process.env): string[] {
  const known = new Set([...settingNames.map(variableOf), urlVariable])
  return Object.keys(environment).filter((variable) =>
    variable.startsWith('TOOLGATE_') && !known.has(variable) && !/_(SERVICE|PORT)(_|$)/.test(variable))
}

/**
 * The configuration as a file of settings would say it. Secrets are masked by what a file is refused with, so that a
 * mask is never taken for a secret; paths are absolute, so that it can be saved anywhere.
 */
export function shownConfig ({ config, toolSettings }: Pick<Configuration, 'config' | 'toolSettings'>, directory: string = process.cwd()): Record<string, unknown> {
  const shown: Record<string, unknown> = {}
  for (const name of settingNames) {
    const { secret, fileless } = settingOf(name)
    const value = config[name]
    if (value === undefined || fileless === true) continue
    shown[name] = secret === true ? MASK : pathsFrom(directory, name, value)
  }
  return Object.keys(toolSettings).length === 0 ? shown : { ...shown, tools: toolSettings }
}

/** Said only where nothing else may be the reason: a key that is at fault is no missing key. */
function exposureFaults (config: Config, found: readonly LayerFault[]): Fault[] {
  if (isLoopback(config.host) || credentialKinds(config).length > 0 || config.auth === 'none') return []
  if (isAtFault(found, ['apiKey', 'keysFile', 'jwksUrl', 'auth'])) return []
  return [{
    path: variableOf('apiKey'),
    keyword: 'config',
    message: `this, ${variableOf('keysFile')} or ${variableOf('jwksUrl')} is needed to listen on ${config.host}, which is beyond loopback; or set ${variableOf('auth')}=none to serve everyone who can reach it`
  }]
}

/** Without an issuer and an audience, a token for somebody else would do; without keys, they are in vain. */
function jwtFaults (config: Config, found: readonly LayerFault[]): Fault[] {
  if (isAtFault(found, ['jwksUrl', 'jwtIssuer', 'jwtAudience'])) return []
  const companions = ['jwtIssuer', 'jwtAudience'] as const
  const given = companions.filter((name) => config[name].length > 0)
  const isOn = config.jwksUrl !== undefined
  const missing: SettingName[] = isOn ? companions.filter((name) => !given.includes(name)) : given.length > 0 ? ['jwksUrl'] : []
  const needing = isOn ? ['jwksUrl' as const] : given
  return missing.map((name) => ({ path: variableOf(name), keyword: 'config', message: `needed with ${needing.map(variableOf).join(' and ')}` }))
}

/** Whether it is not known what one of these is, as it, or the file that may have it, is at fault. */
function isAtFault (found: readonly LayerFault[], names: readonly SettingName[]): boolean {
  return found.some(({ setting }) => setting === 'config' || (setting !== undefined && names.includes(setting)))
}

export function isLoopback (host: string): boolean {
  return host === 'localhost' || host === '::1' || host === '[::1]' || /^127(\.\d{1,3}){3}$/.test(host)
}
