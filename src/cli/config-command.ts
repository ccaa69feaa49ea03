import type { Command } from 'commander'
import { readKeys } from '../auth/keys/key-file.ts'
import { shownConfig, unknownVariables } from '../config/configuration.ts'
import { defaultFile } from '../config/settings.ts'
import { configurationOf, withSettings, type SettingsOptions } from './settings-options.ts'
import { fail } from './startup-failure.ts'

export function addConfig (program: Command): void {
  withSettings(program.command('config'))
    .description(`Print the settings that serve would run with, as ${defaultFile} says them; secrets are masked.`)
    .action(printConfig)
}

async function printConfig (options: SettingsOptions): Promise<void> {
  try {
    const configuration = configurationOf(options)
    const { keysFile } = configuration.config
    // What it would not start with, it says here.
    if (keysFile !== undefined) await readKeys(keysFile)
    const shown = shownConfig(configuration)
    for (const variable of unknownVariables()) process.stderr.write(`${variable}: there is no such variable\n`)
    process.stdout.write(`${JSON.stringify(shown, undefined, 2)}\n`)
  } catch (error) {
    fail(error)
  }
}
