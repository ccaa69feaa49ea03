import { randomBytes } from 'node:crypto'
import type { ToolExecutionEventType } from '../contract/event.ts'
import { GatewayError } from '../errors.ts'
import { compileCallFilter } from './call-filter.ts'
import { CallIndex } from './call-index.ts'
import { formatEventId, parseEventId } from './event-id.ts'
import { HeldKeys, keysExhausted } from './held-keys.ts'
import type { Retention } from './retention.ts'
import { SealedIds } from './sealed-ids.ts'
import type { CallEnd, CallFilter, CallPage, CallStart, Earlier, EventPage, KeyClaim, ReadLimits, Store, StoredCall, StoredEvent } from './store.ts'

export interface MemoryStoreOptions extends Retention {
  /** 16 hex digits, new for each opening. */
  epoch: string
  /** Epoch milliseconds. */
  now: () => number
}

/** A record, which its start and end events point at instead of copying it. */
class Call implements StoredCall {
  readonly start: CallStart
  readonly startSequence: number
  attempts = 0
  /** The key that it holds. */
  key: string | undefined = undefined
  end: CallEnd | undefined = undefined
  endSequence: number | undefined = undefined
  settledAtMs = 0

  constructor (start: CallStart, startSequence: number) {
    this.start = start
    this.startSequence = startSequence
  }
}

class Update {
  readonly call: Call
  readonly partialResult: string

  constructor (call: Call, partialResult: string) {
    this.call = call
    this.partialResult = partialResult
  }
}

/** What a call takes beside its texts, roughly, in bytes. */
const OVERHEAD_BYTES = 400

/**
 * Keeps records and events in memory, bounded by count, bytes and age. Nothing survives a restart: each opening is a
 * new log, whose ids no other one honours. Running calls are never evicted, nor are those that hold an idempotency key;
 * their events may be.
 */
export class MemoryStore implements Store {
  readonly #options: MemoryStoreOptions
  readonly #seals = new SealedIds(randomBytes(16).toString('hex'))
  readonly #running = new Map<string, Call>()
  readonly #settled: CallIndex<Call>
  readonly #keys: HeldKeys<Call>
  /** Settled calls that hold a key, by their ids. */
  readonly #held = new Map<string, Call>()
  #heldBytes = 0
  /** The event at a place stands at `place % maxEvents`: a call for its start and its end, or an update. */
  readonly #log: (Call | Update | undefined)[]
  readonly #loggedAtMs: Float64Array
  readonly #listeners = new Set<(event: StoredEvent) => void>()
  #head = 0
  #earliest = 1
  #eventBytes = 0
  #recordBytes = 0
  #closed = false

  constructor (options: MemoryStoreOptions) {
    this.#options = options
    this.#settled = new CallIndex(options.maxRecords, (call) => call.start.invocationId)
    this.#keys = new HeldKeys(options.maxRecords, (call) => this.#letGo(call))
    this.#log = new Array<Call | Update | undefined>(options.maxEvents).fill(undefined)
    this.#loggedAtMs = new Float64Array(options.maxEvents)
  }

  get head (): number { return this.#head }
  get earliest (): number { return this.#earliest }
  get fault (): undefined { return undefined }

  begin (start: CallStart, key?: KeyClaim): Earlier | undefined {
    this.#assertOpen()
    const nowMs = this.#options.now()
    const call = new Call(start, this.#head + 1)
    if (key !== undefined) {
      const holder = this.#keys.get(key.scope, nowMs)
      if (holder !== undefined) return holder
      if (this.#heldBytes > this.#options.maxRecordBytes) throw keysExhausted()
      this.#keys.hold(key, call)
      call.key = key.scope
    }
    this.#running.set(start.invocationId, call)
    this.#append(call, 'tool_execution_start', nowMs)
    return undefined
  }

  holder (scope: string): Earlier | undefined {
    this.#assertOpen()
    return this.#keys.get(scope, this.#options.now())
  }

  mark (invocationId: string): void {
    this.#assertOpen()
    const call = this.#running.get(invocationId)
    if (call !== undefined) call.attempts++
  }

  progress (invocationId: string, partialResult: string): void {
    this.#assertOpen()
    const call = this.#running.get(invocationId)
    if (call !== undefined) this.#append(new Update(call, partialResult), 'tool_execution_update', this.#options.now())
  }

  settle (invocationId: string, end: CallEnd): boolean {
    this.#assertOpen()
    const call = this.#running.get(invocationId)
    if (call === undefined) return false
    this.#running.delete(invocationId)
    call.end = end
    call.endSequence = this.#head + 1
    call.settledAtMs = this.#options.now()
    if (this.#settled.full) this.#evictRecord()
    this.#settled.add(call)
    this.#recordBytes += recordBytes(call)
    if (call.key !== undefined) this.#hold(call, call.key, end.executed)
    this.#trimRecords(call.settledAtMs)
    this.#append(call, 'tool_execution_end', call.settledAtMs)
    return true
  }

  get (invocationId: string): StoredCall | undefined {
    this.#assertOpen()
    this.#trimRecords(this.#options.now())
    return this.#running.get(invocationId) ?? this.#settled.get(invocationId) ?? this.#held.get(invocationId)
  }

  list (filter: CallFilter, before: number | undefined, limit: number): CallPage {
    this.#assertOpen()
    this.#trimRecords(this.#options.now())
    const matches = compileCallFilter(filter)
    const found = [...this.#running.values(), ...this.#settled, ...this.#held.values()]
      .filter((call) => (before === undefined || call.startSequence < before) && matches(call.start, call.end))
    // A call that holds a key may be among the settled as well.
    const calls = [...new Set(found)].sort((one, other) => other.startSequence - one.startSequence).slice(0, limit + 1)
    return { calls: calls.slice(0, limit), next: calls.length > limit ? calls[limit - 1]!.startSequence : undefined }
  }

  unsettled (): readonly StoredCall[] {
    this.#assertOpen()
    return [...this.#running.values()]
  }

  readEvents (after: number, limits: ReadLimits): EventPage {
    this.#assertOpen()
    this.#trimEvents(this.#options.now())
    const events: StoredEvent[] = []
    let bytes = 0
    let through = Math.max(after, this.#earliest - 1)
    while (through < this.#head && events.length < limits.events && bytes < limits.bytes) {
      const entry = this.#log[++through % this.#options.maxEvents]!
      const type = typeOf(entry, through)
      events.push(toEvent(entry, type, through))
      bytes += bytesOf(entry, type)
    }
    return { events, through, lost: after < this.#earliest - 1 }
  }

  follow (listener: (event: StoredEvent) => void): () => void {
    this.#assertOpen()
    this.#listeners.add(listener)
    return () => { this.#listeners.delete(listener) }
  }

  eventId (sequence: number): string {
    return formatEventId(this.#options.epoch, sequence)
  }

  sealedId (sequence: number, isPlace = false): string {
    return this.#seals.seal(this.#options.epoch, sequence, isPlace)
  }

  locate (id: string): number | undefined {
    const parsed = parseEventId(id) ?? this.#seals.open(id)
    return parsed?.epoch === this.#options.epoch && parsed.sequence <= this.#head ? parsed.sequence : undefined
  }

  close (): void {
    this.#closed = true
    this.#listeners.clear()
    this.#running.clear()
  }

  #append (entry: Call | Update, type: ToolExecutionEventType, nowMs: number): void {
    const { maxEvents } = this.#options
    if (this.#head - this.#earliest + 1 === maxEvents) this.#evictEvent()
    const sequence = ++this.#head
    const at = sequence % maxEvents
    this.#log[at] = entry
    this.#loggedAtMs[at] = nowMs
    this.#eventBytes += bytesOf(entry, type)
    this.#trimEvents(nowMs)
    if (this.#listeners.size === 0) return
    const event = toEvent(entry, type, sequence)
    for (const listener of this.#listeners) listener(event)
  }

  #trimEvents (nowMs: number): void {
    const { maxEvents, maxEventBytes, maxEventAgeMs } = this.#options
    while (this.#earliest <= this.#head &&
      (this.#eventBytes > maxEventBytes || this.#loggedAtMs[this.#earliest % maxEvents]! < nowMs - maxEventAgeMs)) this.#evictEvent()
  }

  #evictEvent (): void {
    const at = this.#earliest % this.#options.maxEvents
    const entry = this.#log[at]!
    this.#eventBytes -= bytesOf(entry, typeOf(entry, this.#earliest))
    this.#log[at] = undefined
    this.#earliest++
  }

  /** A key is kept by calls that executed alone. */
  #hold (call: Call, key: string, hasExecuted: boolean): void {
    // A call may run for longer than its key is held.
    if (this.#keys.get(key, call.settledAtMs)?.call !== call) return
    if (!hasExecuted) return this.#keys.release(key)
    this.#held.set(call.start.invocationId, call)
    this.#heldBytes += recordBytes(call)
  }

  #letGo (call: Call): void {
    if (this.#held.delete(call.start.invocationId)) this.#heldBytes -= recordBytes(call)
  }

  #trimRecords (nowMs: number): void {
    const { maxRecordBytes, maxRecordAgeMs } = this.#options
    this.#keys.trim(nowMs)
    for (let oldest = this.#settled.oldest; oldest !== undefined; oldest = this.#settled.oldest) {
      if (this.#recordBytes <= maxRecordBytes && oldest.settledAtMs >= nowMs - maxRecordAgeMs) return
      this.#evictRecord()
    }
  }

  #evictRecord (): void {
    this.#recordBytes -= recordBytes(this.#settled.oldest!)
    this.#settled.evict()
  }

  #assertOpen (): void {
    if (this.#closed) throw new GatewayError('store_closed', 'The store is closed.')
  }
}

function typeOf (entry: Call | Update, sequence: number): ToolExecutionEventType {
  if (entry instanceof Update) return 'tool_execution_update'
  return sequence === entry.startSequence ? 'tool_execution_start' : 'tool_execution_end'
}

function toEvent (entry: Call | Update, type: ToolExecutionEventType, sequence: number): StoredEvent {
  if (entry instanceof Update) return { sequence, type, start: entry.call.start, partialResult: entry.partialResult, end: undefined }
  return { sequence, type, start: entry.start, partialResult: undefined, end: type === 'tool_execution_end' ? entry.end : undefined }
}

function bytesOf (entry: Call | Update, type: ToolExecutionEventType): number {
  if (entry instanceof Update) return OVERHEAD_BYTES + entry.partialResult.length
  return type === 'tool_execution_end' ? OVERHEAD_BYTES + entry.end!.result.length : startBytes(entry.start)
}

function startBytes ({ input, toolCallId, runId, parentInvocationId }: CallStart): number {
  return OVERHEAD_BYTES + (input?.length ?? 0) + toolCallId.length + (runId?.length ?? 0) + (parentInvocationId?.length ?? 0)
}

function recordBytes (call: Call): number {
  return startBytes(call.start) + (call.end?.result.length ?? 0)
}
