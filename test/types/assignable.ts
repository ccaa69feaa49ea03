// Nothing here runs: `tsc` is the test. A line that must not compile is marked, and the mark fails where it would.
import type { AgentTool as PiAgentTool } from '@earendil-works/pi-agent-core'
import { Type } from '@sinclair/typebox'
import { obj, str } from '@earendil-works/pi-schema'
import type { ToolExecutionEndEvent } from '../../src/contract/event.ts'
import type { InvocationReceipt, InvokeResponse } from '../../src/contract/invocation.ts'
import type { GatewayOptions } from '../../src/gateway.ts'
import { ToolRegistry, type AnyTool } from '../../src/tools/registry.ts'
import { defineTool } from '../../src/tools/tool.ts'

type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends (<T>() => T extends B ? 1 : 2) ? true : false
function holds<T extends true> (): T | undefined { return undefined }

const base = { id: 'tool', description: 'd', kind: 'read' }

// — pi's tools are taken as they are, whatever their parameters —

const emptyParameters = obj({})
export const inspect: PiAgentTool<typeof emptyParameters> = {
  name: 'inspect', label: 'Inspect', description: 'd', parameters: emptyParameters, outputSchema: obj({ name: str() }), execute: async () => ({ content: [{ type: 'text', text: 'x' }], details: { a: 1 }, structuredContent: { name: 'x' } })
}
export const typeBoxParameters = Type.Object({ n: Type.Number() })
declare const withTypeBox: PiAgentTool<typeof typeBoxParameters>
declare const withAnything: PiAgentTool<any>
declare const plain: PiAgentTool
export const takesPi = new ToolRegistry().register(inspect).register(withTypeBox).register(withAnything).register(plain)
export const anyTools: AnyTool[] = [inspect, withTypeBox, withAnything, plain]
export const gatewayTools: GatewayOptions = { tools: [inspect, withTypeBox, withAnything, plain] }

// — The end event is pi's —

declare const end: ToolExecutionEndEvent
/** pi's own end event, as its subscribers are told of it; ours may have left the result out. */
interface PiEndEvent { type: 'tool_execution_end', toolCallId: string, toolName: string, result?: any, isError: boolean, durationMs?: number }
export const asPi: PiEndEvent = end

// — defineTool: parameters and structured content are inferred —

const parameters = Type.Object({ n: Type.Number(), word: Type.Optional(Type.String()) })
const outputSchema = Type.Object({ sum: Type.Number() })
const errorSchema = Type.Object({ code: Type.String() })

export const inferred = defineTool({
  ...base,
  parameters,
  outputSchema,
  errorSchema,
  async execute (toolCallId, params, signal, onUpdate, context) {
    holds<Same<typeof params, { n: number, word?: string }>>()
    holds<Same<typeof toolCallId, string>>()
    signal.throwIfAborted()
    onUpdate({ details: params.n })
    context.log.info({}, context.invocationId)
    // @ts-expect-error there is no such parameter
    if (params.m) return { structuredContent: { sum: 0 } }
    if (params.n < 0) return { isError: true as const, structuredContent: { code: 'negative' } }
    return { content: [{ type: 'text', text: 'x' }], structuredContent: { sum: params.n } }
  }
})

// @ts-expect-error the sum is a number
export const wrongOutput = defineTool({ ...base, parameters, outputSchema, execute: () => ({ structuredContent: { sum: 'x' } }) })
// @ts-expect-error the same, later
export const wrongOutputLater = defineTool({ ...base, parameters, outputSchema, execute: async () => ({ structuredContent: { sum: 'x' } }) })
// @ts-expect-error a success of a tool with an outputSchema has structured content
export const noOutput = defineTool({ ...base, parameters, outputSchema, execute: () => ({ content: [] }) })
// @ts-expect-error a failure keeps the errorSchema
export const wrongFailure = defineTool({ ...base, parameters, outputSchema, errorSchema, execute: () => ({ isError: true, structuredContent: { code: 5 } }) })
// @ts-expect-error content is blocks
export const wrongContent = defineTool({ ...base, parameters, execute: () => ({ content: 'text' }) })
// @ts-expect-error a kind is needed
export const noKind = defineTool({ id: 'x', description: 'd', parameters, execute: () => ({}) })
export const noSchemas = defineTool({ ...base, parameters, execute: () => ({ structuredContent: { what: 'ever' }, details: 5 }) })
export const failureWithoutSchema = defineTool({ ...base, parameters, outputSchema, execute: () => ({ isError: true, structuredContent: [1] }) })

/** Literals in a schema are literals in what is returned, without `as const`. */
const Unit = Type.Object({ unit: Type.Union([Type.Literal('cm'), Type.Literal('in')]) })
export const literal = defineTool({ ...base, parameters, outputSchema: Unit, execute: () => ({ structuredContent: { unit: 'cm' } }) })
export const literalLater = defineTool({ ...base, parameters, outputSchema: Unit, async execute () { return { structuredContent: { unit: 'in' } } } })
export const literalFailure = defineTool({ ...base, parameters, outputSchema, errorSchema: Unit, execute: () => ({ isError: true, structuredContent: { unit: 'cm' } }) })
// @ts-expect-error there is no such unit
export const wrongLiteral = defineTool({ ...base, parameters, outputSchema: Unit, execute: () => ({ structuredContent: { unit: 'mm' } }) })

export const takesRegistryTools = new ToolRegistry()
  .register({ id: 'now', kind: 'read', parseInput: () => 1, execute: () => 1, parseOutput: (value: unknown) => Number(value) })
  .register({ id: 'later', kind: 'read', parseInput: () => 1, execute: async () => 1, parseOutput: (value: unknown) => String(value) })
  .seal()
export const takesOwn = new ToolRegistry().register(inferred).register(noSchemas)

// — A registry of any tools is what a gateway takes —

export const gatewayOfRegistry: GatewayOptions[] = [{ tools: takesRegistryTools }, { tools: takesOwn }, { tools: takesPi }]
const filledInALoop = new ToolRegistry()
for (const tool of anyTools) filledInALoop.register(tool)
export const gatewayOfLoop: GatewayOptions = { tools: filledInALoop }

// — What is told of a call is the same wherever it is told —

declare const response: InvokeResponse
export const sameReceipt: InvocationReceipt = response.invocation
