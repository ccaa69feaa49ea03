import { receiptText } from '../store/wire.ts'
import type { CallStart, Maybe, Store, StoredCall, StoredEvent } from '../store/store.ts'
import { Settlement, type Call } from './call.ts'

/** What answers a call whose idempotency key another one holds: that one, whether it has settled or not. */
export class Replay {
  readonly start: CallStart
  /** A place in the log before its start event. */
  readonly startsAfter: number
  readonly #running: Call | undefined
  readonly #settled: Maybe<Settlement> | undefined

  /** @param running the call itself, where it has not settled */
  constructor ({ start, startSequence, end }: StoredCall, running: Call | undefined, store: Store) {
    this.start = start
    this.#running = running
    this.startsAfter = startSequence - 1
    if (running !== undefined) return
    this.#settled = end === undefined ? whenSettled(start, store) : new Settlement(start, end)
    // Where the store cannot tell, those are told who wait; nobody has to.
    if (this.#settled instanceof Promise) this.#settled.catch(() => {})
  }

  /** How the call ended, once that is on record. */
  get settled (): Maybe<Settlement> {
    return this.#running?.settled ?? this.#settled!
  }

  /** The same, or undefined once `over` resolves. */
  settledBefore (over: Promise<undefined>): Maybe<Settlement | undefined> {
    if (this.#running !== undefined) return this.#running.settledBefore(over)
    return this.#settled instanceof Promise ? Promise.race([this.#settled, over]) : this.#settled
  }

  get invocationId (): string {
    return this.start.invocationId
  }

  get isSettled (): boolean {
    return this.#settled instanceof Settlement
  }

  get runningReceipt (): string {
    return receiptText(this.start, undefined)
  }

  /** An event of the call as its caller may have it: what is withheld or masked is there for as long as the call runs. */
  reveal (event: StoredEvent): StoredEvent {
    return this.#running?.reveal(event) ?? event
  }
}

/** How a call ends that is on record and does not run in this process any more, or not yet. */
async function whenSettled (start: CallStart, store: Store): Promise<Settlement> {
  const { invocationId } = start
  const ended = Promise.withResolvers<Settlement>()
  const stop = store.follow((event) => {
    if (event.start.invocationId === invocationId && event.end !== undefined) ended.resolve(new Settlement(start, event.end))
  })
  try {
    const end = (await store.get(invocationId))?.end
    return end === undefined ? await ended.promise : new Settlement(start, end)
  } finally {
    stop()
  }
}
