import type { Command } from 'commander'
import { shownConfig, unknownVariables } from '../config/configuration.ts'
import { defaultFile } from '../config/settings.ts'
import { configurationOf, withSettings, type SettingsOptions } from './settings-options.ts'
import { fail } from './startup-failure.ts'

export function addConfig (program: Command): void {
  withSettings(program.command('config'))
    .description(`Print the settings that serve would run with, as ${defaultFile} says them; secrets are masked.`)
    .action(printConfig)
}

function printConfig (options: SettingsOptions): void {
  try {
    const shown = shownConfig(configurationOf(options))
    for (const variable of unknownVariables()) process.stderr.write(`${variable}: there is no such variable\n`)
    process.stdout.write(`${JSON.stringify(shown, undefined, 2)}\n`)
  } catch (error) {
    fail(error)
  }
}
