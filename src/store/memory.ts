import type { ToolExecutionEventType } from '../contract/event.ts'
import { GatewayError } from '../errors.ts'
import { CallIndex } from './call-index.ts'
import { formatEventId, parseEventId } from './event-id.ts'
import type { CallEnd, CallStart, EventPage, ReadLimits, Store, StoredCall, StoredEvent } from './store.ts'

export interface MemoryStoreOptions {
  /** 16 hex digits, new for each opening. */
  epoch: string
  /** Epoch milliseconds. */
  now: () => number
  /** Settled records kept at most. */
  maxRecords: number
  /** Events kept at most. */
  maxEvents: number
  /** Bytes of JSON text kept at most, of records and of events each; they share it where both are kept. */
  maxBytes: number
  /** How long settled records and events are kept, milliseconds. */
  maxAgeMs: number
}

/** A record, which its start and end events point at instead of copying it. */
class Call implements StoredCall {
  readonly start: CallStart
  readonly startSequence: number
  executing = false
  end: CallEnd | undefined = undefined
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
 * new log, whose ids no other one honours. Running calls are never evicted; their events may be.
 */
export class MemoryStore implements Store {
  readonly #options: MemoryStoreOptions
  readonly #running = new Map<string, Call>()
  readonly #settled: CallIndex<Call>
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
    this.#log = new Array<Call | Update | undefined>(options.maxEvents).fill(undefined)
    this.#loggedAtMs = new Float64Array(options.maxEvents)
  }

  get head (): number { return this.#head }
  get earliest (): number { return this.#earliest }

  begin (start: CallStart): void {
    this.#assertOpen()
    const call = new Call(start, this.#head + 1)
    this.#running.set(start.invocationId, call)
    this.#append(call, 'tool_execution_start', this.#options.now())
  }

  mark (invocationId: string): void {
    this.#assertOpen()
    const call = this.#running.get(invocationId)
    if (call !== undefined) call.executing = true
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
    call.settledAtMs = this.#options.now()
    if (this.#settled.full) this.#evictRecord()
    this.#settled.add(call)
    this.#recordBytes += recordBytes(call)
    this.#trimRecords(call.settledAtMs)
    this.#append(call, 'tool_execution_end', call.settledAtMs)
    return true
  }

  get (invocationId: string): StoredCall | undefined {
    this.#assertOpen()
    this.#trimRecords(this.#options.now())
    return this.#running.get(invocationId) ?? this.#settled.get(invocationId)
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

  locate (id: string): number | undefined {
    const parsed = parseEventId(id)
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
    const { maxEvents, maxBytes, maxAgeMs } = this.#options
    while (this.#earliest <= this.#head &&
      (this.#eventBytes > maxBytes || this.#loggedAtMs[this.#earliest % maxEvents]! < nowMs - maxAgeMs)) this.#evictEvent()
  }

  #evictEvent (): void {
    const at = this.#earliest % this.#options.maxEvents
    const entry = this.#log[at]!
    this.#eventBytes -= bytesOf(entry, typeOf(entry, this.#earliest))
    this.#log[at] = undefined
    this.#earliest++
  }

  #trimRecords (nowMs: number): void {
    const { maxBytes, maxAgeMs } = this.#options
    for (let oldest = this.#settled.oldest; oldest !== undefined; oldest = this.#settled.oldest) {
      if (this.#recordBytes <= maxBytes && oldest.settledAtMs >= nowMs - maxAgeMs) return
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
