import type { InvokeResponse } from '../contract/invocation.ts'
import { GatewayError } from '../errors.ts'
import { spanIdOf } from '../ids.ts'
import type { CallRequest } from './arrival.ts'
import { Breather } from './breather.ts'
import type { InvokeChild } from './call-context.ts'
import type { Call } from './call.ts'

/** Calls that running tools make, by `context.invoke`. */
export class ChildCalls {
  readonly #limits: { maxChildDepth: number }
  readonly #run: (request: CallRequest) => Promise<InvokeResponse>
  readonly #breather = new Breather()

  /** @param run takes a call the whole way */
  constructor (limits: { maxChildDepth: number }, run: (request: CallRequest) => Promise<InvokeResponse>) {
    this.#limits = limits
    this.#run = run
  }

  /** See `ToolContext.invoke`. A tool that does not wait for the answer need not hear that there is none. */
  readonly invoke: InvokeChild = (parent, toolId, input) => {
    const answered = this.#start(parent, toolId, input)
    answered.catch(() => {})
    return answered
  }

  async #start (parent: Call, toolId: string, input: unknown): Promise<InvokeResponse> {
    const pause = this.#breather.pause()
    if (pause !== undefined) await pause
    if (parent.isOver) throw new GatewayError('cancelled', `The call of tool "${parent.toolId}" is over and can make no child calls.`)
    const { maxChildDepth } = this.#limits
    if (parent.depth >= maxChildDepth) throw new GatewayError('calls_too_deep', `Child calls may be ${maxChildDepth} deep.`)
    const { invocationId, runId, traceId } = parent.start
    return await this.#run({
      toolId,
      input,
      parent,
      parentInvocationId: invocationId,
      runId,
      trace: { traceId, parentSpanId: spanIdOf(invocationId) },
      principal: parent.principal
    })
  }
}
