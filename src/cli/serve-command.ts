import type { Command } from 'commander'
import { defaultFile, flagOf, variableOf } from '../config/settings.ts'
import { withSettings, type SettingsOptions } from './settings-options.ts'

export function addServe (program: Command): void {
  withSettings(program.command('serve'))
    .description('Serve the tools of one or more directories.')
    .addHelpText('after', `
Every option is also a variable, and a setting of ${defaultFile}: ${flagOf('maxBodyBytes')} is
${variableOf('maxBodyBytes')}, and maxBodyBytes. Options win over variables, variables over the file.
${variableOf('apiKey')} sets the key that callers send as "Authorization: Bearer <key>";
${variableOf('keysFile')} names a file of several, which toolgate keys manages.
On SIGHUP, the tools and their settings are loaded anew.

Examples:
  toolgate serve                                 serve ./tools on 127.0.0.1:8080
  toolgate serve --tools ./tools,./more --port 0
  TOOLGATE_API_KEY=… toolgate serve --host 0.0.0.0`)
    .action(async (options: SettingsOptions) => {
      // Loaded here, as the other commands need no gateway and should not wait for one.
      const { serve } = await import('./serve.ts')
      await serve(options)
    })
}
