import { InvokeRequest } from '../contract/invocation.ts'
import type { ExecutionMode, ReplayPolicy, ToolDescriptor } from '../contract/tool.ts'
import type { CallOptions } from './calls.ts'
import type { Client } from './client.ts'
import { ToolError } from './errors.ts'
import { piResult, thrownText, type PiToolResult } from './pi-result.ts'
import { faultsOf } from './shapes.ts'

/** An AgentTool of `@earendil-works/pi-agent-core` that runs on a gateway. */
export interface RemoteAgentTool {
  name: string
  label: string
  description: string
  parameters: object
  outputSchema?: object
  execute: (toolCallId: string, params: unknown, signal?: AbortSignal, onUpdate?: (partialResult: PiToolResult) => void) => Promise<PiToolResult>
  executionMode: ExecutionMode
  replay: ReplayPolicy
}

/** Said of every call of these tools. */
export type AgentToolsOptions = Pick<CallOptions, 'runId' | 'timeoutMs' | 'traceparent' | 'parentInvocationId'>

/** What a gateway takes for one; some providers' ids may be longer. */
const { toolCallId: callId } = InvokeRequest.properties

/**
 * Tools of a gateway as tools of a pi agent: `new Agent({ initialState: { tools: await asAgentTools(client) }, … })`. The
 * agent does what it does with tools of its own; what they come to reaches its model and its subscribers as if they ran here.
 *
 * Contract, for each tool's `execute`:
 * - Gives what the tool returned, a failure with its data included. Where the tool threw, or the gateway ended the call or
 *   could not be reached, it throws an error with that text, of which pi makes its own result.
 * - Aborting its signal cancels the call, and rejects with the signal's reason at once: what the tool says of it is not heard.
 * - Progress comes as it is told. Content that pi has no block for comes as text.
 * - pi holds arguments to `parameters` before it calls: those that only the tool's own `prepareArguments` would make valid
 *   are refused by pi already.
 *
 * The tools are those of the moment. After a reload of the gateway's tools, ask again, and set them as the agent's.
 *
 * @param filter the ids of the tools wanted, in this order, or what chooses; absent, all
 * @throws {ProblemError} `unknown_tool` for an id that the gateway does not have
 */
export async function asAgentTools (
  client: Client, filter?: readonly string[] | ((tool: ToolDescriptor) => boolean), options: AgentToolsOptions = {}
): Promise<RemoteAgentTool[]> {
  const all = await client.tools()
  if (filter === undefined || typeof filter === 'function') return all.filter(filter ?? (() => true)).map((tool) => remote(client, tool, options))
  const tools = new Map(all.map((tool) => [tool.id, tool]))
  // One that is not listed is asked for by its name, so that it is the gateway that says so.
  return await Promise.all([...new Set(filter)].map(async (id) => remote(client, tools.get(id) ?? await client.tool(id), options)))
}

function remote (client: Client, tool: ToolDescriptor, { runId, timeoutMs, traceparent, parentInvocationId }: AgentToolsOptions): RemoteAgentTool {
  const { id, label, description, parameters, outputSchema, executionMode, replay } = tool
  return {
    name: id,
    label,
    description,
    parameters: ofObjects(parameters),
    ...(outputSchema === undefined ? {} : { outputSchema }),
    async execute (toolCallId, params, signal, onUpdate) {
      const response = await client.invoke(id, params, {
        runId,
        timeoutMs,
        traceparent,
        parentInvocationId,
        toolCallId: faultsOf(callId, toolCallId).length === 0 ? toolCallId : undefined,
        signal,
        onUpdate: onUpdate && ((partialResult) => onUpdate(piResult(partialResult))),
        throwOnError: false
      })
      const { errorCode } = response.invocation
      if (thrownText(response, errorCode) !== undefined) throw new ToolError(response)
      return piResult(response, errorCode)
    },
    executionMode,
    replay
  }
}

const annotations = new Set(['$schema', '$id', '$comment', 'title', 'description', 'default', 'examples', 'deprecated', 'readOnly', 'writeOnly'])

/** A model's arguments are an object, and providers want a schema to say so where it says nothing at all. */
function ofObjects (parameters: Record<string, unknown>): object {
  return Object.keys(parameters).every((keyword) => annotations.has(keyword)) ? { type: 'object', properties: {}, ...parameters } : parameters
}
