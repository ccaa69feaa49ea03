import type { Clock } from '../../clock.ts'
import { GatewayError } from '../../errors.ts'
import { PageTurns } from '../page-turns.ts'
import type { Retention } from '../retention.ts'
import type { CallEnd, CallFilter, CallPage, CallStart, Earlier, EventPage, KeyClaim, Maybe, ReadLimits, Store, StoredCall, StoredEvent } from '../store.ts'
import { CallList } from './call-list.ts'
import { readCall, readCallAt, readRunning } from './call-reader.ts'
import { Checkpoints } from './checkpoints.ts'
import { Database } from './database.ts'
import { eventEntries, recordEntries } from './entries.ts'
import { Epochs } from './epochs.ts'
import { readEvents } from './event-reader.ts'
import { faultOf, unavailable } from './faults.ts'
import { Floor } from './floor.ts'
import { Health } from './health.ts'
import { Keys, type Holder } from './keys.ts'
import { Begin, Mark, Progress, RunningCall, Settle, type Operation, type RunningCalls } from './operations.ts'
import { readStanding } from './standing.ts'
import { refused, StoreFile, type Synchronous } from './store-file.ts'
import { Sweeper } from './sweeper.ts'
import { Turns } from './turns.ts'
import { Writer } from './writer.ts'

export interface SqliteStoreOptions extends Retention {
  /** The file; it and its folder are made where they are not there. */
  path: string
  /** 16 hex digits, new for each opening. */
  epoch: string
  clock: Clock
  /** `full` survives a power cut to the last write, and waits for the disk at each. */
  synchronous: Synchronous
  /** Told when a fault begins, changes, or is over; see `Store.fault`. */
  onFault?: (fault: string | undefined) => void
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
  readonly #turns: Turns
  /** For the steps of lists that look on. */
  readonly #steps = new PageTurns(1)
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
    this.#turns = new Turns({
      running: this.#running,
      isHeld: () => this.#checkpoints.isHolding,
      commit: (operations) => this.#commit(operations),
      onFailed: (cause) => unavailable(this.#health.fail(cause), cause)
    })
    this.#checkpoints = new Checkpoints(file.path, this.#turns.flush)
    this.#health = new Health(file, this.#database, this.#checkpoints, clock, options.onFault ?? (() => {}))
    this.#sweeper = new Sweeper({
      database: this.#database,
      transact: (work) => this.#transact(work),
      totals,
      keys: this.#keys,
      events: this.#events,
      records: this.#records,
      clock,
      settledBelow: () => this.#settledBelow(),
      isHeld: () => this.#checkpoints.isHolding,
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
    return this.#turns.add(new Begin(call)).done
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
    if (call.startSequence === 0) return this.#turns.batch!.done
    return this.#turns.add(new Mark(call)).done
  }

  progress (invocationId: string, partialResult: string): Maybe<void> {
    this.#assertOpen()
    const call = this.#running.get(invocationId)
    if (call === undefined) return
    if (this.#turns.isFull) throw unavailable('what waits to be written is too much')
    return this.#turns.add(new Progress(call, partialResult)).done
  }

  settle (invocationId: string, end: CallEnd): Maybe<boolean> {
    this.#assertOpen()
    const call = this.#running.get(invocationId)
    if (call === undefined) return false
    if (call.key !== undefined && !end.executed) this.#read(() => this.#keys.release(call, this.#clock.now()))
    this.#running.delete(invocationId)
    return this.#turns.add(new Settle(call, end)).won
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
    return this.#turns.batch === undefined ? running() : this.#turns.batch.done.then(running, running)
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
      await this.#steps.next()
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
    this.#turns.listeners.add(listener)
    return () => { this.#turns.listeners.delete(listener) }
  }

  eventId (sequence: number): string {
    return this.#epochs.eventId(sequence)
  }

  sealedId (sequence: number, isPlace = false): string {
    return this.#epochs.sealedId(sequence, isPlace)
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
    await this.#health.last
    await this.#checkpoints.close()
    this.#turns.flush()
    this.#turns.listeners.clear()
    try {
      this.#file.check()
      this.#database.transaction(() => this.#sweeper.save())
    } catch {
      // The next opening finds it out.
    }
    this.#file.close()
  }

  #commit (operations: readonly Operation[]): void {
    this.#keys.written()
    this.#transact(() => {
      for (const operation of operations) operation.write(this.#writer)
    })
    this.#health.recover()
  }

  /** Writes to the file that people know, and sees to it that its log does not grow on and on. */
  #transact (work: () => void): void {
    this.#file.check()
    this.#writer.transact(work)
    this.#checkpoints.consider(this.#file.logBytes)
    try {
      this.#events.advance(this.#clock.now())
    } catch {
      // What is committed is committed; who reads is told that reading fails.
    }
  }

  #earlier ({ fingerprint, call, isNew }: Holder): Maybe<Earlier> {
    const read = () => ({ call: this.#read(() => readCallAt(this.#database, call.startSequence)), fingerprint })
    const { batch } = this.#turns
    if (batch === undefined) return read()
    // What this turn does to the call is to be seen; where it fails, the call may not have been.
    return isNew ? batch.done.then(read) : batch.done.then(read, read)
  }

  /** What is not committed yet has not settled. */
  #settledBelow (): number {
    let lowest = this.head + 1
    const look = ({ startSequence }: RunningCall) => { if (startSequence > 0 && startSequence < lowest) lowest = startSequence }
    this.#running.forEach(look)
    this.#turns.batch?.operations.forEach(({ call }) => look(call))
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
