import type { Command } from 'commander'
import { FileBusyError } from '../auth/keys/file-rewrite.ts'
import { addKey, revokeKeys } from '../auth/keys/key-changes.ts'
import { readKeys, statusOf, type KeyEntry } from '../auth/keys/key-file.ts'
import { scopeNames } from '../auth/scopes.ts'
import { readKeysFile } from '../config/configuration.ts'
import { defaultFile, flagOf, variableOf } from '../config/settings.ts'
import { GatewayError } from '../errors.ts'
import { endingOf, exitCodes, UsageError, type Ending } from './exit-codes.ts'
import { expiry, keyName, scopes, toolPatterns } from './key-options.ts'
import { Output } from './output.ts'
import { table } from './table.ts'

/** To use tools, and to see what became of it. */
const usualScopes = ['tools:read', 'tools:invoke', 'events:read?own', 'invocations:read?own', 'invocations:cancel?own']

interface KeysOptions {
  keysFile?: string
  config?: string
}

interface CreateOptions extends KeysOptions {
  scope?: string[]
  tool?: string[]
  expires?: number
}

interface ListOptions extends KeysOptions {
  json?: true
}

interface RevokeOptions extends KeysOptions {
  all?: true
}

export function addKeys (program: Command): void {
  const keys = program.command('keys')
    .description('Manage the API keys that stand in a file.')
    .showHelpAfterError('(toolgate keys --help tells more)')
  withFile(keys.command('create').argument('<name>', 'whose key it is; keys of one name are one caller', keyName))
    .description('Make a key, and print it: it is shown this once.')
    .option('--scope <scope>', `what it allows, as in 'events:read?tool=get_*&own'; repeatable (default: ${usualScopes.join(', ')})`, scopes)
    .option('--tool <pattern>', 'narrows all scopes to these tools; repeatable', toolPatterns)
    .option('--expires <when>', '90d, 12h or 30m from now, or a date or time as in 2027-01-31 (default: never)', expiry)
    .addHelpText('after', `
Scopes are ${scopeNames.join(', ')}.
The file is made where it is not there. The key goes to standard output, all else to
standard error. A gateway that has the file takes the key within a second.

Examples:
  toolgate keys create ci --keys-file keys.json --expires 90d
  toolgate keys create helper --tool 'get_*'
  toolgate keys create dashboard --scope tools:read --scope events:read --scope invocations:read`)
    .action((name: string, options: CreateOptions) => manage(options, (file, output) => create(file, name, options, output)))
  withFile(keys.command('list'))
    .description('List the keys: for people on a terminal, as JSON elsewhere.')
    .option('--json', 'print JSON on a terminal, too')
    .action((options: ListOptions) => manage(options, list, options.json === true))
  withFile(keys.command('revoke').argument('<key>', 'its id, or the name that it alone has'))
    .description('Revoke a key. Its entry stays in the file.')
    .option('--all', 'revoke every key of this name')
    .addHelpText('after', `
A gateway that has the file refuses the key within a second, and ends its streams; calls
that run go on.`)
    .action((key: string, options: RevokeOptions) => manage(options, (file, output) => revoke(file, key, options, output)))
}

function withFile (command: Command): Command {
  return command
    .showHelpAfterError(`(toolgate keys ${command.name()} --help tells more)`)
    .option(`${flagOf('keysFile')} <file>`, `the file of keys (default: ${variableOf('keysFile')}, or keysFile of the file of settings)`)
    .option(`${flagOf('config')} <file>`, `the file of settings (default: ${variableOf('config')}, or ${defaultFile}, where it is there)`)
}

async function create (file: string, name: string, options: CreateOptions, output: Output): Promise<void> {
  const { text, entry, isNew } = await addKey(file, {
    name,
    scopes: options.scope ?? usualScopes,
    tools: options.tool,
    expiresAtMs: options.expires
  }, Date.now())
  if (isNew) output.note(`${file} is new.`)
  output.note(`Key ${entry.id} of ${name}, ${entry.expiresAt === undefined ? 'which does not expire' : `until ${entry.expiresAt}`}: ${allowedBy(entry)}. It is shown this once:`)
  await output.text(text)
}

async function list (file: string, output: Output): Promise<void> {
  const now = Date.now()
  const keys = await readKeys(file)
  if (!output.isForPeople) await output.json({ keys: keys.map(({ hash, ...key }) => ({ ...key, status: statusOf(key, now) })) })
  else if (keys.length === 0) output.note('There are no keys.')
  else await output.text(table(keys.map((key) => [key.id, key.name, standingOf(key, now), `created ${timeOf(key.createdAt)}`, key.tools?.join(', ') ?? 'all tools', key.scopes.join(', ')]), output.columns))
}

async function revoke (file: string, key: string, { all }: RevokeOptions, output: Output): Promise<void> {
  const outcome = await revokeKeys(file, key, all === true, Date.now())
  switch (outcome.type) {
    case 'unknown': throw new UsageError(`there is no key with the id or name ${JSON.stringify(key)}`)
    case 'several': throw new UsageError(`${key} has several keys: ${outcome.keys.map(({ id, createdAt }) => `${id} of ${timeOf(createdAt)}`).join(', ')}; name one of them, or revoke them with --all`)
    case 'nothing_active': return output.note(`${key} is not in force any more: there is nothing to revoke.`)
    case 'revoked': return output.note(`Revoked: ${idsOf(outcome.keys)}.`)
  }
}

function standingOf (key: KeyEntry, now: number): string {
  const status = statusOf(key, now)
  const at = key.revokedAt ?? key.expiresAt
  return at === undefined ? status : `${status}${status === 'active' ? ' until' : ''} ${timeOf(at)}`
}

/** To the minute: keys of one name are often of one day. UTC, as in the file. */
function timeOf (text: string): string {
  return text.slice(0, 'yyyy-mm-ddThh:mm'.length).replace('T', ' ')
}

function allowedBy ({ scopes, tools }: KeyEntry): string {
  return `${scopes.join(', ')}${tools === undefined ? '' : ` for the tools ${tools.join(', ')}`}`
}

function idsOf (keys: readonly KeyEntry[]): string {
  return keys.map(({ id, name }) => `${id} (${name})`).join(', ')
}

/** Runs one of these commands to its end, and sets the exit code. */
async function manage ({ keysFile, config }: KeysOptions, run: (file: string, output: Output) => Promise<void>, json = false): Promise<void> {
  const output = new Output(process.stdout, process.stderr, json, () => {})
  try {
    const file = readKeysFile({ keysFile, config })
    if (file === undefined) throw new UsageError(`${flagOf('keysFile')} or ${variableOf('keysFile')} has to name the file of keys`)
    await run(file, output)
  } catch (error) {
    const ending = endingOf(error) ?? endingOfFile(error)
    if (ending === undefined) throw error
    output.note(ending.message)
    process.exitCode = ending.exitCode
  }
}

/** How a command ends that could not do what it was to do with the file. */
function endingOfFile (error: unknown): Ending | undefined {
  const { message, code, path } = error as NodeJS.ErrnoException
  if (error instanceof FileBusyError) return { exitCode: exitCodes.unavailable, message }
  if (error instanceof GatewayError && code === 'invalid_config') return { exitCode: exitCodes.usage, message }
  if (path !== undefined && code !== undefined) return { exitCode: exitCodes.usage, message: `error: ${path} cannot be written (${code})` }
  return undefined
}
