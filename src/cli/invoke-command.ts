import { Option, type Command } from 'commander'
import type { InvokeResponse } from '../client.ts'
import { printAnswer } from './answer.ts'
import { readInput } from './call-input.ts'
import { asConsumer, commonHelp, consume, type Consumer, type ConsumerOptions } from './consumer.ts'
import { progressText } from './content-text.ts'
import { idempotencyKey, pathId } from './identifiers.ts'
import { openProgress } from './progress-display.ts'
import { wholeNumber } from './whole-number.ts'

interface InvokeCommandOptions extends ConsumerOptions {
  input?: string
  set?: string[]
  follow?: true
  async?: true
  timeoutMs?: number
  runId?: string
  idempotencyKey?: string
}

export function addInvoke (program: Command): void {
  asConsumer(program.command('invoke').argument('<tool>', 'id of the tool', pathId))
    .description('Run a tool, and print what it came to.')
    .option('--input <json>', 'the input: JSON, @file for a file that holds it, - for standard input (default: {})')
    .option('--set <name=value>', 'one member of the input: JSON where it can be read as JSON, else a text; name=@file takes the text of a file; repeatable', (value: string, before: string[] = []) => [...before, value])
    .option('--follow', 'show progress on standard error')
    .addOption(new Option('--async', 'print the receipt at once, and do not wait').conflicts('follow'))
    .option('--timeout-ms <number>', 'time the call gets, milliseconds; the tool\'s own where that is less', wholeNumber)
    .option('--run-id <id>', 'the run that the call belongs to')
    .option('--idempotency-key <key>', 'sent again with equal input within 24 hours, it is the same call', idempotencyKey)
    .addHelpText('after', `${commonHelp}
Ctrl-C cancels the call, but for one with --async.

Examples:
  toolgate invoke convert_units --input '{"value": 26.2, "from": "mile", "to": "km"}'
  toolgate invoke convert_units --set value=26.2 --set from=mile --set to=km
  toolgate invoke profile_csv --set csv=@orders.csv --follow
  toolgate invoke profile_csv --input @input.json --follow | jq .structuredContent`)
    .action((id: string, options: InvokeCommandOptions) => consume(options, (consumer) => invoke(id, options, consumer)))
}

async function invoke (id: string, options: InvokeCommandOptions, { client, output, signal, isDumbTerminal }: Consumer): Promise<number> {
  const { timeoutMs, runId, idempotencyKey: key } = options
  const input = await readInput(options.input, options.set ?? [], {
    standardInput: process.stdin,
    signal,
    onTerminal: () => output.note('Reading the input from the terminal; Ctrl-D ends it.')
  })
  const given = { timeoutMs, runId, idempotencyKey: key, signal }
  if (options.async === true) {
    const invocation = await client.invokeAsync(id, input, given)
    await (output.isForPeople ? output.text(`${invocation.toolId} ${invocation.status}: ${invocation.invocationId}`) : output.json({ invocation }))
    return 0
  }
  const progress = options.follow === true ? openProgress(id, output, isDumbTerminal) : undefined
  let answer: InvokeResponse
  try {
    answer = await client.invoke(id, input, {
      ...given,
      throwOnError: false,
      // Also where nobody looks: an answer that comes as a stream may take any time, and its call can be found again.
      onUpdate: (partialResult) => progress?.update(progressText(partialResult))
    })
  } finally {
    progress?.end()
  }
  return await printAnswer(answer, output, options.follow === true)
}
