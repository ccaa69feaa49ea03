// Nothing here runs: `tsc` is the test. A line that must not compile is marked, and the mark fails where it would.
import { Agent, type AgentEvent, type AgentTool, type AgentToolResult } from '@earendil-works/pi-agent-core'
import type { ToolResultMessage } from '@earendil-works/pi-ai'
import { num, obj } from '@earendil-works/pi-schema'
import { Type } from '@sinclair/typebox'
import {
  asAgentTools, toModelMessage, toPiEvents, type Client, type InvokeResponse, type ModelMessage, type PiToolEvent, type PiToolResult, type RemoteAgentTool
} from '../../src/client.ts'

declare const client: Client

// — pi takes remote tools as they are —

declare const remote: RemoteAgentTool
export const one: AgentTool = remote
export const any: AgentTool<any>[] = [remote]
export const agentOf = async () => new Agent({ streamFn: undefined as any, initialState: { tools: await asAgentTools(client) } })
export const setLater = async (agent: Agent) => { agent.state.tools = [...agent.state.tools, ...await asAgentTools(client, ['stats'])] }
export const chosen = () => asAgentTools(client, ({ kind, id }) => kind === 'read' && id.startsWith('a'), { runId: 'r', timeoutMs: 5, traceparent: '00', parentInvocationId: 'p' })
// @ts-expect-error a key would make one call of all
export const keyed = () => asAgentTools(client, undefined, { idempotencyKey: 'k' })
// @ts-expect-error the agent gives the signal
export const signalled = () => asAgentTools(client, undefined, { signal: AbortSignal.timeout(5) })

declare const result: PiToolResult
export const whole: AgentToolResult<any> = result
export const plain: AgentToolResult = result

// — Events are those of pi's subscribers —

declare const told: PiToolEvent
export const asAgentEvent: AgentEvent = told
export async function host (listener: (event: AgentEvent) => void): Promise<void> {
  for await (const event of toPiEvents(client.events(), { record: client.invocation, onEventsLost: ({ requestedId }) => requestedId })) {
    listener(event)
    if (event.type === 'tool_execution_end') listener({ ...event, result: event.result.structuredContent })
    // @ts-expect-error only an end has a result
    else listener(event.result)
  }
}

// — Messages go into a transcript, and take whatever a call gave —

declare const response: InvokeResponse
export const message: ToolResultMessage = { ...toModelMessage(response), timestamp: 0 }
export const exact: ModelMessage = toModelMessage(response)
// @ts-expect-error data is for programs
export const data = toModelMessage(response).structuredContent
// @ts-expect-error details are for people
export const details = toModelMessage(response).details

export async function answers (): Promise<ModelMessage[]> {
  const { results } = await client.batch([{ toolId: 'stats' }])
  return [
    toModelMessage(await client.invoke('stats')),
    toModelMessage(await client.invoke('stats', {}, { throwOnError: false })),
    toModelMessage(await client.invoke('stats', {}, { output: Type.Object({ count: Type.Number() }) })),
    toModelMessage(await client.invoke('stats', {}, { output: obj({ count: num() }) })),
    toModelMessage(await client.invoke('stats', {}, { output: { type: 'object' } })),
    toModelMessage(await client.wait('id', { throwOnError: false })),
    ...results.flatMap((each) => 'problem' in each ? [] : [toModelMessage(each)])
  ]
}
