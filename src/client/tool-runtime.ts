import type { InvocationReceipt } from '../contract/invocation.ts'
import type { JsonValue } from '../contract/json.ts'
import type { OutputOf } from './answers.ts'
import type { CallOptions } from './calls.ts'
import type { Client } from './client.ts'

/** What a call through a runtime gives: the value that its tool came to, and who ran what, when. */
export interface Invoked<Value = unknown> { value: Value, invocation: InvocationReceipt }

/** Which tool, and with what. */
export interface RuntimeCall {
  toolId: string
  /** Absent is `{}`. */
  input?: unknown
  /** The caller's own id for the call. */
  toolCallId?: string
}

/**
 * What a workflow is bound to, so that its nodes need no tool injected: a sealed `ToolRegistry` in the same process, or
 * the tools of a gateway. Await what `invoke` gives, and it does not matter which. A failed call throws, or rejects.
 */
export interface ToolRuntime {
  invoke: (call: RuntimeCall) => Invoked | Promise<Invoked>
}

/** A call of a gateway's tool. */
export interface RemoteCall<Schema = undefined> extends Omit<RuntimeCall, 'toolCallId'> {
  toolCallId?: string | undefined
  /** TypeBox or any JSON Schema: the value is held to it on this side, and typed by it. */
  output?: Schema
}

/** The tools of a gateway as a {@link ToolRuntime}. */
export interface RemoteToolRuntime extends ToolRuntime {
  /**
   * Runs a tool. `value` is its `structuredContent`, undefined where it gave none. May be taken off and called alone.
   *
   * @throws {ToolError} where the call failed, with the whole answer
   * @throws {OutputError} where a success breaks `output`
   * @throws {ProblemError} where the gateway refused, as for `unknown_tool`, and {@link ConnectionError} where there was no answer
   * @throws {TypeError} for input that JSON cannot carry
   */
  invoke: <const Schema extends object | undefined = undefined> (call: RemoteCall<Schema>) => Promise<Invoked<RemoteValue<Schema>>>
}

/** What a call gives as its value: of the type of its `output`, or any JSON or nothing. */
export type RemoteValue<Schema> = Schema extends object ? OutputOf<Schema> : JsonValue | undefined

/** What holds for every call of a runtime. One that is made for each run, with its `runId`, ties the events of the run together. */
export type ToolRuntimeOptions = Pick<CallOptions, 'runId' | 'timeoutMs' | 'traceparent' | 'parentInvocationId' | 'signal'>

/** A runtime of the tools that a gateway serves, to be bound where a local registry would be. It holds no connection: make as many as there are runs. */
export function createToolRuntime (client: Pick<Client, 'invoke'>, options: ToolRuntimeOptions = {}): RemoteToolRuntime {
  // One by one: an idempotency key that came along would make one call of all calls.
  const { runId, timeoutMs, traceparent, parentInvocationId, signal } = options
  return {
    async invoke<const Schema extends object | undefined = undefined> ({ toolId, input, toolCallId, output }: RemoteCall<Schema>) {
      const answer = await client.invoke(toolId, input, { runId, timeoutMs, traceparent, parentInvocationId, signal, toolCallId, ...(output === undefined ? {} : { output }) })
      return { value: answer.structuredContent as RemoteValue<Schema>, invocation: answer.invocation }
    }
  }
}
