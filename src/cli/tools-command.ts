import type { Command } from 'commander'
import type { ToolDescriptor } from '../client.ts'
import { asConsumer, commonHelp, consume, type ConsumerOptions } from './consumer.ts'
import { pathId } from './identifiers.ts'
import { jsonForTerminals } from './output.ts'
import { table } from './table.ts'

export function addTools (program: Command): void {
  asConsumer(program.command('tools').argument('[tool]', 'id of one tool, to describe it in full', pathId))
    .description('List the tools of a gateway, or describe one.')
    .addHelpText('after', `${commonHelp}

Examples:
  toolgate tools
  toolgate tools convert_units
  toolgate tools --json | jq '.tools[].id'`)
    .action((id: string | undefined, options: ConsumerOptions) => consume(options, async ({ client, output, signal }) => {
      if (id === undefined) {
        const tools = await client.tools({ signal })
        if (!output.isForPeople) await output.json({ tools })
        else if (tools.length === 0) output.note('There are no tools.')
        else await output.text(table(tools.map(({ id, kind, description }) => [id, kind, description]), output.columns))
      } else {
        const tool = await client.tool(id, { signal })
        await (output.isForPeople ? output.text(description(tool)) : output.json(tool))
      }
      return 0
    }))
}

function description (tool: ToolDescriptor): string {
  const { id, label, kind, timeoutMs, executionMode, replay, inputMode, source, parameters, outputSchema, errorSchema } = tool
  const schema = (title: string, of: object | undefined) => of === undefined ? [] : ['', `${title}:`, jsonForTerminals(of)]
  return [
    `${id} (${kind})${label === id ? '' : `: ${label}`}`,
    ...tool.description === '' ? [] : ['', tool.description],
    '',
    `timeout ${timeoutMs} ms, ${executionMode}, replay ${replay}, input ${inputMode}, from ${source}`,
    ...schema('Input', parameters),
    ...schema('structuredContent', outputSchema),
    ...schema('structuredContent of a failure', errorSchema)
  ].join('\n')
}
