import { compile } from '@earendil-works/pi-schema'
import type { JsonValue, PiToolEvent } from '../../../../src/client.ts'

/** What a host does with the end of a tool call: failures first, and data only once it has been looked at. */
export interface Host {
  report: (toolName: string, content: readonly object[]) => void
  save: (data: JsonValue) => void
}

/** The callback of a subscriber: the same for an agent's events and for a gateway's. */
export function hostOf (schema: object, { report, save }: Host): (event: { type: string }) => void {
  const validator = compile(schema)
  return (event) => {
    if (!isEnd(event)) return
    const { toolName, result, isError } = event
    if (isError) return report(toolName, result.content)
    if (result.structuredContent === undefined) return
    if (!validator.check(result.structuredContent)) return report(toolName, [{ type: 'text', text: 'The data is not what was promised.' }])
    save(result.structuredContent)
  }
}

function isEnd (event: { type: string }): event is Extract<PiToolEvent, { type: 'tool_execution_end' }> {
  return event.type === 'tool_execution_end'
}
