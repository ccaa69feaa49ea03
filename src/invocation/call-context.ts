import type { InvokeResponse } from '../contract/invocation.ts'
import { spanIdOf } from '../ids.ts'
import type { Log, Principal, ToolContext } from '../tools/tool.ts'
import type { Call } from './call.ts'

/** Runs a child call of `parent`. */
export type InvokeChild = (parent: Call, toolId: string, input: unknown) => Promise<InvokeResponse>

/** What a tool is told about its call, worked out only as far as it looks. */
export class CallContext implements ToolContext {
  readonly #call: Call
  readonly #invokeChild: InvokeChild
  readonly log: Log

  constructor (call: Call, log: Log, invokeChild: InvokeChild) {
    this.#call = call
    this.log = call.ownLog(log)
    this.#invokeChild = invokeChild
  }

  get attempt (): number { return this.#call.attemptsBefore + 1 }
  get invocationId (): string { return this.#call.invocationId }
  get runId (): string | undefined { return this.#call.start.runId }
  get spanId (): string { return spanIdOf(this.#call.invocationId) }
  get principal (): Principal { return this.#call.principal }

  /** A function of its own, since tools take the context apart. */
  get invoke (): ToolContext['invoke'] {
    return (toolId, input) => this.#invokeChild(this.#call, toolId, input)
  }
}
