import type { Command } from 'commander'
import { printAnswer } from './answer.ts'
import { asConsumer, commonHelp, consume, type Consumer, type ConsumerOptions } from './consumer.ts'
import { pathId } from './identifiers.ts'

interface InvocationCommandOptions extends ConsumerOptions {
  wait?: true
}

export function addInvocation (program: Command): void {
  asConsumer(program.command('invocation').argument('<id>', 'id of the call, as a receipt has it', pathId))
    .description('Tell what is on record of a call.')
    .option('--wait', 'wait until it is over, and print what it came to, as invoke does')
    .addHelpText('after', `${commonHelp}

Examples:
  toolgate invocation 01a22dc749185c2d377742ba6ff65112
  toolgate invocation --wait "$(toolgate invoke profile_csv --set csv=@orders.csv --async | jq -r .invocation.invocationId)"`)
    .action((id: string, options: InvocationCommandOptions) => consume(options, (consumer) => tell(id, options, consumer)))
}

async function tell (id: string, options: InvocationCommandOptions, { client, output, signal }: Consumer): Promise<number> {
  if (options.wait === true) return await printAnswer(await client.wait(id, { signal, throwOnError: false }), output, true)
  const record = await client.invocation(id, { signal })
  const { invocation, result } = record
  if (!output.isForPeople) await output.json(record)
  else if (result === undefined) await output.text(`${invocation.toolId} ${invocation.status} (${id})`)
  else await printAnswer({ ...result, invocation }, output, true)
  return 0
}
