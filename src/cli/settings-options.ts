import type { Command } from 'commander'
import { readConfig, type Configuration } from '../config/configuration.ts'
import { defaultOf, flagOf, outerName, settingNames, settingOf } from '../config/settings.ts'

/** What commander found of the settings. */
export type SettingsOptions = Record<string, string | boolean>

/** Gives a command an option for every setting that may stand in arguments. */
export function withSettings (command: Command): Command {
  command.showHelpAfterError(`(toolgate ${command.name()} --help tells more)`)
  for (const name of settingNames) {
    const { schema, about, secret } = settingOf(name)
    if (secret === true) continue
    const preset = defaultOf(name)
    const value = schema.type === 'boolean' ? '' : ` <${schema.type === 'integer' ? 'number' : 'value'}>`
    command.option(`${flagOf(name)}${value}`, preset === undefined || preset === false || String(preset) === '' ? about : `${about} (default: ${preset})`)
  }
  return command
}

export function configurationOf (options: SettingsOptions): Configuration {
  return readConfig(Object.fromEntries(settingNames.map((name) => [name, options[outerName(name)]])))
}
