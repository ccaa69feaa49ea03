import { spanIdOf } from '../ids.ts'
import type { Log, Principal, ToolContext } from '../tools/tool.ts'
import type { Call } from './call.ts'

/** What a tool is told about its call, worked out only as far as it looks. */
export class CallContext implements ToolContext {
  readonly #call: Call
  readonly log: Log
  readonly attempt = 1

  constructor (call: Call, log: Log) {
    this.#call = call
    this.log = log
  }

  get invocationId (): string { return this.#call.invocationId }
  get runId (): string | undefined { return this.#call.start.runId }
  get spanId (): string { return spanIdOf(this.#call.invocationId) }
  get principal (): Principal { return this.#call.principal }
}
