import type { ExecutionMode, ReplayPolicy, ToolSettings } from '../../contract/tool.ts'
import type { RegisteredTool } from '../registered-tool.ts'
import { registerSchemaTool, type ShapeOptions } from './schema-tool.ts'

/** The AgentTool of `@earendil-works/pi-agent-core`, as far as a gateway needs it. */
export interface AgentTool {
  name: string
  label?: string
  description: string
  parameters: object
  outputSchema?: object
  prepareArguments?: (args: unknown) => any
  // `any`, since pi's own type fits every parameter schema only so.
  execute: (toolCallId: string, params: any, signal?: AbortSignal, onUpdate?: (partialResult: any) => void) => Promise<unknown>
  executionMode?: ExecutionMode
  replay?: ReplayPolicy
}

const agentToolSettings: ToolSettings = { kind: 'tool', inputMode: 'coerce' }

/** `name` is the id, `kind` is `tool`, and input is coerced: as pi does it. */
export function registerAgentTool (tool: AgentTool, options: ShapeOptions): RegisteredTool {
  return registerSchemaTool(
    { ...pick(tool), id: tool.name, source: tool, execute: tool.execute, prepareArguments: tool.prepareArguments },
    { ...options, settings: { ...agentToolSettings, ...options.settings } }
  )
}

function pick ({ label, description, parameters, outputSchema, executionMode, replay }: AgentTool) {
  return { label, description, parameters, outputSchema, executionMode, replay }
}
