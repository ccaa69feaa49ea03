import type { Clock } from '../clock.ts'
import type { Maybe } from '../store/store.ts'
import type { Log } from '../tools/tool.ts'
import type { Call } from './call.ts'
import { STORE_RETRY_MS } from './limits.ts'

interface UnrecordedOptions {
  clock: Clock
  log: Log
}

/**
 * Calls that are over while their ends cannot be recorded: the disk is full, say. They are kept, and tried again in the
 * order in which they ended, until the store takes them. Until then nobody is answered, and they count as running.
 */
export class Unrecorded {
  readonly #options: UnrecordedOptions
  readonly #record: (call: Call) => Maybe<void>
  readonly #calls = new Set<Call>()
  #isTrying = false
  #abandon: ((call: Call) => void) | undefined

  /** @param record puts a call's end on record and answers; throws or rejects where that fails */
  constructor (options: UnrecordedOptions, record: (call: Call) => Maybe<void>) {
    this.#options = options
    this.#record = record
  }

  add (call: Call, cause: unknown): void {
    if (this.#abandon !== undefined) return this.#drop(call, this.#abandon)
    call.ownLog(this.#options.log).warn({ invocation: call.invocationId, tool: call.toolId, err: cause }, 'the end of a call cannot be recorded yet')
    this.#calls.add(call)
    this.#tryLater()
  }

  /** @param abandon lets go of a call whose end is on record nowhere */
  giveUp (abandon: (call: Call) => void): void {
    this.#abandon = abandon
    for (const call of this.#calls) this.#drop(call, abandon)
    this.#calls.clear()
  }

  #drop (call: Call, abandon: (call: Call) => void): void {
    this.#options.log.error({ invocation: call.invocationId, tool: call.toolId }, 'the end of a call was not recorded')
    abandon(call)
  }

  #tryLater (): void {
    if (this.#isTrying) return
    this.#isTrying = true
    this.#options.clock.after(STORE_RETRY_MS, () => { void this.#try() })
  }

  async #try (): Promise<void> {
    try {
      for (const call of this.#calls) {
        await this.#record(call)
        this.#calls.delete(call)
      }
    } catch {
      // The store says why, where it is asked; the next try is as good as this one.
    }
    this.#isTrying = false
    if (this.#calls.size > 0) this.#tryLater()
  }
}
