import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Clock } from '../../clock.ts'
import { GatewayError } from '../../errors.ts'
import type { Retention } from '../retention.ts'
import type { CallEnd, CallFilter, CallPage, CallStart, Earlier, EventPage, KeyClaim, Maybe, ReadLimits, Store, StoredCall, StoredEvent } from '../store.ts'
import { CallList } from './call-list.ts'
import { readCall, readCallAt, readRunning } from './call-reader.ts'
import { Checkpoints } from './checkpoints.ts'
import { Database } from './database.ts'
import { eventEntries, recordEntries } from './entries.ts'
import { Epochs } from './epochs.ts'
import { readEvents } from './event-reader.ts'
import { faultOf } from './faults.ts'
import { Floor } from './floor.ts'
import { Health } from './health.ts'
import { Keys, type Holder } from './keys.ts'
import { Batch, Begin, Mark, Progress, RunningCall, Settle, type Operation, type RunningCalls } from './operations.ts'
import { readStanding } from './standing.ts'
import { refused, StoreFile, type Synchronous } from './store-file.ts'
import { Sweeper } from './sweeper.ts'
import { Writer } from './writer.ts'

export interface SqliteStoreOptions extends Retention {
  /** The file; it and its folder are made where they are not there. */
  path: string
  /** 16 hex digits, new for each opening. */
  epoch: string
  clock: Clock
  /** `full` survives a power cut to the last write, and waits for the disk at each. */
  synchronous: Synchronous
}

/**
 * Keeps records and events in an SQLite file. What one turn of the event loop brings is one transaction; whoever wrote
 * waits for its commit. Reads see what is committed.
 *
 * One gateway at a time has the file. Running calls are never removed, nor are those that hold an idempotency key;
 * their events may be.
 */
export class SqliteStore implements Store {
  readonly #clock: Clock
  readonly #file: StoreFile
  readonly #database: Database
  readonly #keys: Keys
  readonly #writer: Writer
  readonly #epochs: Epochs
  readonly #events: Floor
  readonly #records: Floor
  readonly #sweeper: Sweeper
  readonly #checkpoints: Checkpoints
  readonly #health: Health
  readonly #running: RunningCalls = new Map()
  readonly #listeners = new Set<(event: StoredEvent) => void>()
  #batch: Batch | undefined
  #closing: Promise<void> | undefined

  /** @throws {GatewayError} `store_refused` where the file cannot be used; it is then as it was */
  static open (options: SqliteStoreOptions): SqliteStore {
    const file = StoreFile.open(options.path, options.synchronous)
    try {
      return new SqliteStore(file, options)
    } catch (error) {
      file.close()
      throw refused(options.path, faultOf(error), error)
    }
  }

  private constructor (file: StoreFile, options: SqliteStoreOptions) {
    const { epoch, clock } = options
    this.#clock = clock
    this.#file = file
    this.#database = new Database(file.connection)
    const { totals, settledBelow, eventsGone, recordsGone } = readStanding(this.#database)
    this.#keys = new Keys(this.#database, totals, options)
    this.#writer = new Writer(this.#database, this.#keys, totals, () => clock.now())
    this.#events = new Floor(eventEntries(this.#database, totals),
      { maxCount: options.maxEvents, maxBytes: options.maxEventBytes, maxAgeMs: options.maxEventAgeMs }, eventsGone)
    this.#records = new Floor(recordEntries(this.#database, totals),
      { maxCount: options.maxRecords, maxBytes: options.maxRecordBytes, maxAgeMs: options.maxRecordAgeMs }, recordsGone)
    this.#events.advance(clock.now())
    this.#epochs = new Epochs(this.#database, epoch, totals.head, this.earliest)
    for (const call of readRunning(this.#database, settledBelow)) this.#running.set(call.start.invocationId, call)
    this.#checkpoints = new Checkpoints(file.path, this.#flush)
    this.#health = new Health(file, this.#database, this.#checkpoints, clock)
    this.#sweeper = new Sweeper({
      database: this.#database,
      writer: this.#writer,
      keys: this.#keys,
      events: this.#events,
      records: this.#records,
      clock,
      settledBelow: () => this.#settledBelow(),
      isHeld: () => this.#checkpoints.isHolding || this.#health.fault !== undefined,
      onFailed: (error) => this.#health.fail(error)
    })
  }

  get head (): number { return this.#writer.totals.head }
  get earliest (): number { return this.#events.gone.place + 1 }
  get fault (): string | undefined { return this.#health.fault }

  begin (start: CallStart, key?: KeyClaim): Maybe<Earlier | undefined> {
    this.#assertOpen()
    const call = new RunningCall(start, key)
    if (key !== undefined) {
      const earlier = this.holder(key.scope)
      if (earlier !== undefined) return earlier
      this.#read(() => this.#keys.claim(call, this.#clock.now()))
    }
    this.#running.set(start.invocationId, call)
    return this.#write(new Begin(call)).done
  }

  holder (scope: string): Maybe<Earlier | undefined> {
    this.#assertOpen()
    const holder = this.#read(() => this.#keys.holder(scope, this.#clock.now()))
    return holder && this.#earlier(holder)
  }

  mark (invocationId: string): Maybe<void> {
    this.#assertOpen()
    const call = this.#running.get(invocationId)
    if (call === undefined) return
    call.attempts++
    // Its row, with that in it, is still to be written.
    if (call.startSequence === 0) return this.#batch!.done
    return this.#write(new Mark(call)).done
  }

  progress (invocationId: string, partialResult: string): Maybe<void> {
    this.#assertOpen()
    const call = this.#running.get(invocationId)
    if (call !== undefined) return this.#write(new Progress(call, partialResult)).done
  }

  settle (invocationId: string, end: CallEnd): Maybe<boolean> {
    this.#assertOpen()
    const call = this.#running.get(invocationId)
    if (call === undefined) return false
    if (call.key !== undefined && !end.executed) this.#read(() => this.#keys.release(call, this.#clock.now()))
    this.#running.delete(invocationId)
    return this.#write(new Settle(call, end)).won
  }

  get (invocationId: string): StoredCall | undefined {
    this.#assertOpen()
    const nowMs = this.#clock.now()
    return this.#read(() => {
      this.#records.advance(nowMs)
      return readCall(this.#database, invocationId, this.#records.gone.place, nowMs)
    })
  }

  unsettled (): Maybe<readonly StoredCall[]> {
    this.#assertOpen()
    const running = () => [...this.#running.values()].filter((call) => call.startSequence > 0).sort((one, other) => one.startSequence - other.startSequence)
    return this.#batch === undefined ? running() : this.#batch.done.then(running, running)
  }

  list (filter: CallFilter, before: number | undefined, limit: number): Maybe<CallPage> {
    this.#assertOpen()
    const nowMs = this.#clock.now()
    return this.#read(() => {
      this.#records.advance(nowMs)
      const isOfRunning = filter.status?.every((status) => status === 'running') === true
      const list = new CallList(this.#database, {
        filter,
        limit,
        nowMs,
        before: Math.min(before ?? Infinity, this.head + 1),
        from: isOfRunning ? this.#settledBelow() : 1,
        gone: this.#records.gone.place
      }, () => this.#clock.monotonic())
      return list.step() ? list.page : this.#goOn(list)
    })
  }

  async #goOn (list: CallList): Promise<CallPage> {
    do {
      await nextTurn()
      this.#assertOpen()
    } while (!this.#read(() => list.step()))
    return list.page
  }

  readEvents (after: number, limits: ReadLimits): EventPage {
    this.#assertOpen()
    return this.#read(() => {
      this.#events.advance(this.#clock.now())
      const { earliest, head } = this
      const from = Math.max(after, earliest - 1)
      const events = readEvents(this.#database, from + 1, head, limits)
      return { events, through: from + events.length, lost: after < earliest - 1 }
    })
  }

  follow (listener: (event: StoredEvent) => void): () => void {
    this.#assertOpen()
    this.#listeners.add(listener)
    return () => { this.#listeners.delete(listener) }
  }

  eventId (sequence: number): string {
    return this.#epochs.eventId(sequence)
  }

  locate (id: string): number | undefined {
    return this.#epochs.locate(id, this.head)
  }

  /** Commits what was written before, and lets go of the file. */
  close (): Promise<void> {
    this.#closing ??= this.#close()
    return this.#closing
  }

  async #close (): Promise<void> {
    this.#sweeper.close()
    this.#health.close()
    await this.#checkpoints.stop()
    await this.#health.last
    this.#flush()
    this.#listeners.clear()
    try {
      this.#database.transaction(() => this.#sweeper.save())
    } catch {
      // The next opening finds it out.
    }
    this.#file.close()
  }

  #write (operation: Operation): Batch {
    if (this.#batch === undefined) {
      this.#batch = new Batch()
      setImmediate(this.#flush)
    }
    this.#batch.operations.push(operation)
    return this.#batch
  }

  readonly #flush = (): void => {
    const batch = this.#batch
    if (batch === undefined || this.#checkpoints.isHolding) return
    this.#batch = undefined
    this.#keys.written()
    try {
      this.#file.check()
      this.#writer.transact(() => {
        for (const operation of batch.operations) operation.write(this.#writer)
      })
    } catch (error) {
      for (const operation of batch.operations.reverse()) operation.undo(this.#running)
      return batch.reject(unavailable(this.#health.fail(error), error))
    }
    this.#health.recover()
    this.#events.advance(this.#clock.now())
    if (this.#listeners.size > 0) this.#tell(batch)
    batch.resolve(undefined)
    this.#checkpoints.consider(this.#file.logBytes)
  }

  #tell (batch: Batch): void {
    for (const { event } of batch.operations) {
      if (event === undefined) continue
      for (const listener of this.#listeners) listener(event)
    }
  }

  #earlier ({ fingerprint, call, isNew }: Holder): Maybe<Earlier> {
    const read = () => ({ call: this.#read(() => readCallAt(this.#database, call.startSequence)), fingerprint })
    if (this.#batch === undefined) return read()
    // What this turn does to the call is to be seen; where it fails, the call may not have been.
    return isNew ? this.#batch.done.then(read) : this.#batch.done.then(read, read)
  }

  /** What is not committed yet has not settled. */
  #settledBelow (): number {
    let lowest = this.head + 1
    const look = ({ startSequence }: RunningCall) => { if (startSequence > 0 && startSequence < lowest) lowest = startSequence }
    this.#running.forEach(look)
    this.#batch?.operations.forEach(({ call }) => look(call))
    return lowest
  }

  #read<T> (read: () => T): T {
    try {
      return read()
    } catch (error) {
      throw error instanceof GatewayError ? error : unavailable(faultOf(error), error)
    }
  }

  #assertOpen (): void {
    if (this.#closing !== undefined) throw new GatewayError('store_closed', 'The store is closed.')
  }
}

function unavailable (fault: string, cause: unknown): GatewayError {
  return new GatewayError('store_unavailable', `The store cannot be used at the moment: ${fault}.`, { cause })
}
