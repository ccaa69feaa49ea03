import type { BatchMode } from '../contract/batch.ts'
import { GatewayError, toProblem } from '../errors.ts'
import type { Log } from '../tools/tool.ts'
import type { CallRequest } from './arrival.ts'
import { Settlement, type Call } from './call.ts'
import type { Invoker } from './invoker.ts'
import { saysTerminate } from './outcome.ts'

/**
 * Several calls that one request makes, by pi's rules.
 *
 * Contract:
 * - Results are in the order of the calls, whatever the order in which they end.
 * - In sequence, a call begins once the one before it has ended; so it is where one of the tools is `sequential`.
 * - No call's failure fails another. What gets no invocation is its problem, in its place.
 */
export class Batch {
  readonly #invoker: Invoker
  readonly #log: Log
  readonly #onRefusal: (error: GatewayError, request: CallRequest) => void
  readonly #running = new Set<Call>()
  #isCancelled = false

  /** @param onRefusal told of each call that gets no invocation */
  constructor (invoker: Invoker, log: Log, onRefusal: (error: GatewayError, request: CallRequest) => void = () => {}) {
    this.#invoker = invoker
    this.#log = log
    this.#onRefusal = onRefusal
  }

  /** @returns JSON text of a BatchResponse, in pieces: together they may be longer than a string can be */
  async run (calls: readonly CallRequest[], mode: BatchMode): Promise<string[]> {
    const ends = mode === 'sequential' || calls.some((call) => this.#isSequential(call))
      ? await this.#inSequence(calls)
      : await Promise.all(calls.map((call) => this.#run(call)))
    const terminate = ends.every((end) => end instanceof Settlement && saysTerminate(end.end.result))
    return ['{"results":[', ...ends.flatMap((end, index) => index === 0 ? [textOf(end)] : [',', textOf(end)]), `],"terminate":${terminate}}`]
  }

  /** Ends the calls that run, and begins no more. */
  cancel (): void {
    this.#isCancelled = true
    for (const call of this.#running) this.#invoker.cancel(call)
  }

  /** What its caller may not call has no part in how the others run: it could tell that it is there. */
  #isSequential ({ toolId, refusalOf }: CallRequest): boolean {
    const descriptor = this.#invoker.registry.get(toolId)?.descriptor
    return descriptor?.executionMode === 'sequential' && refusalOf?.(toolId, descriptor.kind) === undefined
  }

  async #inSequence (calls: readonly CallRequest[]): Promise<(Settlement | GatewayError)[]> {
    const ends: (Settlement | GatewayError)[] = []
    for (const call of calls) {
      if (this.#isCancelled) break
      ends.push(await this.#run(call))
    }
    return ends
  }

  async #run (request: CallRequest): Promise<Settlement | GatewayError> {
    try {
      const call = await this.#invoker.start(request)
      this.#running.add(call)
      if (this.#isCancelled) this.#invoker.cancel(call)
      const settlement = await call.settled
      this.#running.delete(call)
      return settlement
    } catch (cause) {
      // As if the gateway had crashed: of the others nobody is told, either.
      if (cause instanceof GatewayError && cause.code === 'not_recorded') throw cause
      if (cause instanceof GatewayError) {
        this.#onRefusal(cause, request)
        return cause
      }
      // The others have run or will: an error of the whole would say that they have not.
      this.#log.error({ err: cause, tool: request.toolId }, 'a call of a batch could not be made')
      return new GatewayError('internal_error', 'The gateway failed to make the call.', { cause })
    }
  }
}

function textOf (end: Settlement | GatewayError): string {
  return end instanceof Settlement ? end.responseText : `{"problem":${JSON.stringify(toProblem(end).problem)}}`
}
