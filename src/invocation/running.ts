import type { Call } from './call.ts'
import { Deadlines } from './deadlines.ts'

/** The calls that have not settled, by their ids, too. */
export class RunningCalls extends Deadlines<Call> {
  readonly #byId = new Map<string, Call>()

  get (invocationId: string): Call | undefined {
    return this.#byId.get(invocationId)
  }

  override add (call: Call): void {
    this.#byId.set(call.invocationId, call)
    super.add(call)
  }

  override delete (call: Call): void {
    this.#byId.delete(call.invocationId)
    super.delete(call)
  }
}
