import type { RegisteredTool } from '../registered-tool.ts'
import type { Tool } from '../tool.ts'
import { registerAgentTool, type AgentTool } from './agent-tool.ts'
import { registerRegistryTool, type RegistryTool } from './registry-tool.ts'
import { registerSchemaTool, type SchemaTool, type ShapeOptions } from './schema-tool.ts'

/** Any of the three shapes that a registry takes. */
export type AnyTool = Tool<any, any, any> | AgentTool | RegistryTool

/**
 * The tool as the gateway runs it. The shapes are told apart by what only each of them has.
 * @throws where it is none of them, or a setting or a schema of it is refused
 */
export function adapt (tool: AnyTool, options: ShapeOptions): RegisteredTool {
  requireFunction(tool, 'execute')
  if ('parseInput' in tool || 'parseOutput' in tool) {
    requireFunction(tool, 'parseInput')
    requireFunction(tool, 'parseOutput')
    requireString(tool, 'kind')
    return registerRegistryTool(tool as RegistryTool, options)
  }
  requireString(tool, 'description')
  checkSettings(tool)
  if ('id' in tool) {
    requireString(tool, 'kind')
    return registerOwnTool(tool as Tool, options)
  }
  return registerAgentTool(tool, options)
}

/** Fields are read by name, so that a class with getters is as good as an object. */
function registerOwnTool (tool: Tool, options: ShapeOptions): RegisteredTool {
  const {
    id, label, description, kind, parameters, outputSchema, errorSchema, executionMode, replay, timeoutMs, maxConcurrent, sensitive, mask, inputMode, outputValidation
  } = tool
  return registerSchemaTool({
    id, label, description, kind, parameters, outputSchema, errorSchema, executionMode, replay, timeoutMs, maxConcurrent, sensitive, mask, inputMode, outputValidation,
    execute: tool.execute as SchemaTool['execute'],
    prepareArguments: tool.prepareArguments,
    source: tool
  }, options)
}

function requireFunction (tool: object, name: string): void {
  if (typeof (tool as Record<string, unknown>)[name] !== 'function') throw new Error(`${name} must be a function`)
}

function requireString (tool: object, name: string): void {
  if (typeof (tool as Record<string, unknown>)[name] !== 'string') throw new Error(`${name} must be a string`)
}

const choices: Record<string, readonly string[]> = {
  executionMode: ['parallel', 'sequential'],
  replay: ['safe', 'never'],
  inputMode: ['strict', 'coerce'],
  outputValidation: ['enforce', 'warn']
}

function checkSettings (tool: object): void {
  const fields = tool as Record<string, unknown>
  for (const [name, allowed] of Object.entries(choices)) {
    if (fields[name] !== undefined && !allowed.includes(fields[name] as string)) throw new Error(`${name} must be one of ${allowed.join(', ')}`)
  }
  for (const name of ['timeoutMs', 'maxConcurrent']) {
    const value = fields[name]
    if (value !== undefined && !(Number.isInteger(value) && (value as number) > 0)) throw new Error(`${name} must be a whole number above 0`)
  }
  if (fields.timeoutMs !== undefined && (fields.timeoutMs as number) > 86_400_000) throw new Error('timeoutMs is at most 86400000 (24 hours)')
  if (fields.mask !== undefined && !Array.isArray(fields.mask)) throw new Error('mask must be a list of JSON Pointers')
  if (fields.prepareArguments !== undefined) requireFunction(tool, 'prepareArguments')
}
