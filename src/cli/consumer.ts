import type { Command } from 'commander'
import { consumerVariables } from '../config/configuration.ts'
import { createClient, type Client } from '../client.ts'
import { endingOf, endingSignals, Interruption, UsageError } from './exit-codes.ts'
import { Output } from './output.ts'

const DEFAULT_URL = 'http://127.0.0.1:8080'
/** Fewer tries than the client's own: a person is waiting. */
const retry = { retries: 2 }

export interface ConsumerOptions {
  url?: string
  json?: true
}

/** What a consumer's command works with. */
export interface Consumer {
  client: Client
  output: Output
  /** Aborted when the command is to end: by a signal, or because nobody reads its results. */
  signal: AbortSignal
  /** Whether the terminal can do no more than a printer. */
  isDumbTerminal: boolean
}

export const commonHelp = `
Results are written to standard output: for people on a terminal, as JSON with --json or
where they go to a pipe or a file. All else goes to standard error.
TOOLGATE_API_KEY is the key or token that the gateway asks for.
Exit codes: 0 success; 1 the tool failed; 2 something has to be changed: arguments, input,
key; 3 the gateway cannot be reached or has no room; 130 ended by Ctrl-C.`

export function asConsumer (command: Command): Command {
  return command
    .showHelpAfterError(`(toolgate ${command.name()} --help tells more)`)
    .option('--url <url>', `where the gateway is (default: TOOLGATE_URL, or ${DEFAULT_URL})`)
    .option('--json', 'print JSON on a terminal, too')
}

/** Runs a consumer's command to its end, and sets the exit code. */
export async function consume ({ url, json }: ConsumerOptions, run: (consumer: Consumer) => Promise<number>): Promise<void> {
  const stop = new AbortController()
  for (const signal of Object.keys(endingSignals) as (keyof typeof endingSignals)[]) {
    const before = process.listeners(signal)
    process.once(signal, () => stop.abort(new Interruption(signal)))
    // What bin/toolgate.js does until then. It goes last: with no listener for a moment, a signal under way would be lost.
    // The second time, a signal ends the process as ever.
    for (const listener of before) process.off(signal, listener)
  }
  const output = new Output(process.stdout, process.stderr, json === true, () => stop.abort(new ReaderGone()))
  try {
    const { url: urlVariable, apiKey, isDumbTerminal } = consumerVariables()
    const client = clientOf(url ?? urlVariable ?? DEFAULT_URL, url === undefined ? 'TOOLGATE_URL' : '--url', apiKey)
    process.exitCode = await run({ client, output, signal: stop.signal, isDumbTerminal })
  } catch (error) {
    if (error instanceof ReaderGone) return
    const ending = endingOf(error)
    if (ending === undefined) throw error
    output.note(ending.message)
    process.exitCode = ending.exitCode
  }
}

/** Who read the results has seen enough. */
class ReaderGone extends Error {}

function clientOf (url: string, origin: string, apiKey: string | undefined): Client {
  if (!URL.canParse(url)) throw new UsageError(`${origin} is no URL; it looks like ${DEFAULT_URL}`)
  const { protocol, username, password, search } = new URL(url)
  if (!/^https?:$/.test(protocol)) throw new UsageError(`${origin} must begin with http:// or https://`)
  if (username !== '' || password !== '') throw new UsageError(`${origin} must hold neither name nor password; TOOLGATE_API_KEY is the key`)
  if (search !== '') throw new UsageError(`${origin} must hold no query`)
  if (apiKey !== undefined && !/^[\x21-\x7e]+$/.test(apiKey)) throw new UsageError('TOOLGATE_API_KEY must be visible ASCII without spaces')
  return createClient({ url, auth: apiKey, retry })
}
