import type { Store } from '../store/store.ts'
import type { Log } from '../tools/tool.ts'
import type { Call } from './call.ts'
import type { CallLimits } from './limits.ts'
import { partialText, redactedResult } from './outcome.ts'

interface ProgressOptions {
  store: Store
  log: Log
  limits: CallLimits
}

/**
 * Publishes what tools report while they run: live and in order, never after `execute` has settled, and not more a call
 * than the limit says. What is dropped is counted.
 */
export class Progress {
  readonly #options: ProgressOptions
  /** Calls that lost one already: on a full disk a line for each update would be what keeps it full. */
  readonly #lossy = new WeakSet<Call>()
  readonly #counters: { updatesDropped: number, updatesInvalid: number }

  constructor (options: ProgressOptions, counters: { updatesDropped: number, updatesInvalid: number }) {
    this.#options = options
    this.#counters = counters
  }

  publish (call: Call, partial: unknown): void {
    if (call.isOver) return
    const { limits, store } = this.#options
    if (++call.updates > limits.maxUpdates) {
      if (call.updates === limits.maxUpdates + 1) this.#warn(call, 'a call reached the limit of updates; further ones are dropped')
      this.#counters.updatesDropped++
      return
    }
    const text = call.tool.sensitive ? redactedResult(false) : partialText(partial, limits)
    if (text === undefined) {
      if (this.#counters.updatesInvalid++ === 0) this.#warn(call, 'a partial result is not valid and was dropped')
      return
    }
    try {
      const recorded = store.progress(call.invocationId, call.masking === undefined ? text : call.masking.result(text))
      if (recorded instanceof Promise) recorded.catch(() => this.#lose(call))
    } catch {
      this.#lose(call)
    }
  }

  #lose (call: Call): void {
    if (this.#lossy.has(call)) return
    this.#lossy.add(call)
    this.#warn(call, 'an update could not be recorded; it is lost, and so may others be')
  }

  #warn (call: Call, message: string): void {
    this.#options.log.warn({ tool: call.start.toolId, invocation: call.invocationId }, message)
  }
}
