import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { Command, CommanderError } from 'commander'
import { addConfig } from './cli/config-command.ts'
import { addEvents } from './cli/events-command.ts'
import { exitCodes } from './cli/exit-codes.ts'
import { addInvocation } from './cli/invocation-command.ts'
import { addInvoke } from './cli/invoke-command.ts'
import { addKeys } from './cli/keys-command.ts'
import { addServe } from './cli/serve-command.ts'
import { addTools } from './cli/tools-command.ts'
import { packageFolder } from './tools/sources/module-resolution.ts'

const { version } = JSON.parse(readFileSync(resolve(packageFolder, 'package.json'), 'utf8')) as { version: string }

const program = new Command('toolgate')
  .description('Runs tools over HTTP and tells of every execution over server-sent events.')
  .version(version)
  .showHelpAfterError('(toolgate --help tells more)')
  .exitOverride()

for (const add of [addServe, addConfig, addTools, addInvoke, addInvocation, addEvents, addKeys]) add(program)

try {
  await program.parseAsync()
} catch (error) {
  if (!(error instanceof CommanderError)) throw error
  // What it had to say is said. Help that was asked for is no fault.
  process.exitCode = error.exitCode === 0 ? 0 : exitCodes.usage
}
