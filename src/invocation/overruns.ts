import type { Clock } from '../clock.ts'
import type { Log } from '../tools/tool.ts'
import type { Call } from './call.ts'
import type { Slots } from './slots.ts'

interface OverrunOptions {
  clock: Clock
  log: Log
  limits: { slotReleaseMs: number }
}

/** Time that a stopped call gets to end before it is told of, milliseconds. */
const NOTICE_MS = 1000

/**
 * Calls that go on although they were stopped: tools that ignore their signal. Such a call keeps its slot until it ends,
 * so that no more calls of its tool execute than may; but not for ever, or one that never ends would take it for good.
 */
export class Overruns {
  readonly #options: OverrunOptions
  readonly #slots: Slots
  readonly #counters: { signalsIgnored: number, slotsGivenAway: number }

  constructor (options: OverrunOptions, slots: Slots, counters: { signalsIgnored: number, slotsGivenAway: number }) {
    this.#options = options
    this.#slots = slots
    this.#counters = counters
  }

  /** @param call one that was stopped, and may still execute; `unwatch` of it is to be called once it does not */
  watch (call: Call): void {
    if (call.standing !== 'holding') return
    const { clock, limits: { slotReleaseMs } } = this.#options
    const noticeMs = Math.min(NOTICE_MS, slotReleaseMs)
    call.unwatch = clock.after(noticeMs, () => {
      this.#counters.signalsIgnored++
      this.#warn(call, 'a call goes on although it was stopped; it keeps its slot')
      call.unwatch = clock.after(slotReleaseMs - noticeMs, () => {
        this.#counters.slotsGivenAway++
        this.#warn(call, 'a call still goes on although it was stopped; its slot is given away')
        this.#slots.release(call, true)
      })
    })
  }

  #warn (call: Call, message: string): void {
    this.#options.log.warn({ tool: call.toolId, invocation: call.invocationId }, message)
  }
}
