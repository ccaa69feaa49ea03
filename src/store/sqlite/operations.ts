import type { CallEnd, CallStart, KeyClaim, StoredCall, StoredEvent } from '../store.ts'
import type { Writer } from './writer.ts'

/** A call that has begun and not settled, as writes already made say it, committed or not. */
export class RunningCall implements StoredCall {
  readonly start: CallStart
  /** The key that it claimed. */
  readonly key: KeyClaim | undefined
  /** 0 until its beginning is written. */
  startSequence = 0
  attempts = 0
  /** What its row takes. */
  bytes = 0

  constructor (start: CallStart, key: KeyClaim | undefined) {
    this.start = start
    this.key = key
  }

  get end (): undefined {
    return undefined
  }

  get endSequence (): undefined {
    return undefined
  }
}

export type RunningCalls = Map<string, RunningCall>

/** A write. What it does to the running calls is done when it is made; the row follows with those of the same turn. */
export interface Operation {
  readonly call: RunningCall
  /** Writes its row, inside of a transaction. */
  write (writer: Writer): void
  /** Takes back what it did to the running calls. */
  undo (running: RunningCalls): void
  /** Its event, once it is written. */
  readonly event: StoredEvent | undefined
  /** What its text takes, roughly: until it is written, that is in memory. */
  readonly bytes: number
}

export class Begin implements Operation {
  readonly call: RunningCall

  constructor (call: RunningCall) {
    this.call = call
  }

  write (writer: Writer): void {
    writer.begin(this.call)
  }

  undo (running: RunningCalls): void {
    running.delete(this.call.start.invocationId)
  }

  get event (): StoredEvent {
    return { sequence: this.call.startSequence, type: 'tool_execution_start', start: this.call.start, partialResult: undefined, end: undefined }
  }

  get bytes (): number {
    return this.call.start.input?.length ?? 0
  }
}

export class Mark implements Operation {
  readonly call: RunningCall

  constructor (call: RunningCall) {
    this.call = call
  }

  write (writer: Writer): void {
    writer.mark(this.call)
  }

  undo (): void {
    this.call.attempts--
  }

  get event (): undefined {
    return undefined
  }

  get bytes (): number {
    return 0
  }
}

export class Progress implements Operation {
  readonly call: RunningCall
  readonly #partialResult: string
  #sequence = 0

  constructor (call: RunningCall, partialResult: string) {
    this.call = call
    this.#partialResult = partialResult
  }

  write (writer: Writer): void {
    this.#sequence = writer.progress(this.call, this.#partialResult)
  }

  undo (): void {}

  get event (): StoredEvent {
    return { sequence: this.#sequence, type: 'tool_execution_update', start: this.call.start, partialResult: this.#partialResult, end: undefined }
  }

  get bytes (): number {
    return this.#partialResult.length
  }
}

export class Settle implements Operation {
  readonly call: RunningCall
  readonly #end: CallEnd
  #sequence = 0

  constructor (call: RunningCall, end: CallEnd) {
    this.call = call
    this.#end = end
  }

  write (writer: Writer): void {
    this.#sequence = writer.settle(this.call, this.#end)
  }

  undo (running: RunningCalls): void {
    running.set(this.call.start.invocationId, this.call)
  }

  get event (): StoredEvent {
    return { sequence: this.#sequence, type: 'tool_execution_end', start: this.call.start, partialResult: undefined, end: this.#end }
  }

  get bytes (): number {
    return this.#end.result.length
  }
}

/** The writes of one turn, which are committed together or not at all. */
export class Batch {
  readonly operations: Operation[] = []
  /** Of their texts. */
  bytes = 0
  /** Settles once they are. */
  readonly done: Promise<undefined>
  #won: Promise<boolean> | undefined
  resolve!: (value: undefined) => void
  reject!: (error: Error) => void

  constructor () {
    this.done = new Promise<undefined>((resolve, reject) => {
      this.resolve = resolve
      this.reject = reject
    })
    // Not every writer waits.
    this.done.catch(() => {})
  }

  add (operation: Operation): void {
    this.operations.push(operation)
    this.bytes += operation.bytes
  }

  /** The same, for those whose write settled a call. */
  get won (): Promise<boolean> {
    if (this.#won === undefined) {
      this.#won = this.done.then(() => true)
      this.#won.catch(() => {})
    }
    return this.#won
  }
}
