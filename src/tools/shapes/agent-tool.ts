import type { ExecutionMode, ReplayPolicy, ToolSettings } from '../../contract/tool.ts'
import type { RegisteredTool } from '../registered-tool.ts'
import { isPromiseLike } from '../promise-like.ts'
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

/** `name` is the id, `kind` is `tool`, input is coerced, and `execute` gets four arguments: as pi does it. */
export function registerAgentTool (tool: AgentTool, options: ShapeOptions): RegisteredTool {
  const registered = registerSchemaTool(
    { ...pick(tool), id: tool.name, source: tool, execute: tool.execute, prepareArguments: copying(tool) },
    { ...options, settings: { ...agentToolSettings, ...options.settings } }
  )
  const execute = tool.execute.bind(tool)
  return { ...registered, execute: (toolCallId, params, signal, onUpdate) => execute(toolCallId, params, signal, onUpdate) }
}

/** What is prepared belongs to the call, as in pi: it may be one object for all calls, and tools and hooks write to it. */
function copying (tool: AgentTool): AgentTool['prepareArguments'] {
  const prepareArguments = tool.prepareArguments?.bind(tool)
  return prepareArguments && ((input) => {
    const prepared: unknown = prepareArguments(input)
    return prepared === input || isPromiseLike(prepared) ? prepared : structuredClone(prepared)
  })
}

function pick ({ label, description, parameters, outputSchema, executionMode, replay }: AgentTool) {
  return { label, description, parameters, outputSchema, executionMode, replay }
}
