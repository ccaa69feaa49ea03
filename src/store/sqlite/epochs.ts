import { formatEventId, parseEventId } from '../event-id.ts'
import { SealedIds } from '../sealed-ids.ts'
import type { Database } from './database.ts'

interface Epoch {
  readonly epoch: string
  /** The first place that it names. */
  readonly first: number
}

/**
 * Which opening of the log gave out the id of a place: each began a new epoch, at the place after the last one that it
 * found. So an id is the same for ever; and one of a future that a restored backup does not have lies outside of its
 * epoch's places.
 */
export class Epochs {
  /** Oldest first. */
  readonly #epochs: readonly Epoch[]
  readonly #latest: Epoch
  readonly #seals: SealedIds

  /**
   * Records a new epoch, and forgets those that name no place or only ones that are long gone.
   *
   * @param earliest the oldest place kept
   */
  constructor (database: Database, epoch: string, head: number, earliest: number) {
    this.#seals = new SealedIds(database.statement('SELECT id_secret FROM log').get()![0] as string)
    const before = database.statement('SELECT epoch, first_sequence FROM epochs ORDER BY first_sequence, rowid').all()
      .map((row): Epoch => ({ epoch: row[0] as string, first: row[1] as number }))
    this.#latest = { epoch, first: before.length === 0 ? 0 : head + 1 }
    const epochs = [...before, this.#latest]
    const firstAfter = (index: number) => epochs[index + 1]?.first ?? Infinity
    // The place before the oldest kept is one to resume from.
    const isOfUse = ({ first }: Epoch, index: number) => firstAfter(index) > first && firstAfter(index) > earliest - 1
    this.#epochs = epochs.filter(isOfUse)
    database.transaction(() => {
      database.statement('INSERT INTO epochs (epoch, first_sequence) VALUES (?, ?)').run(this.#latest.epoch, this.#latest.first)
      for (const { epoch } of epochs.filter((known) => !this.#epochs.includes(known))) database.statement('DELETE FROM epochs WHERE epoch = ?').run(epoch)
    })
  }

  eventId (sequence: number): string {
    return formatEventId(this.#epochOf(sequence), sequence)
  }

  sealedId (sequence: number, isPlace: boolean): string {
    return this.#seals.seal(this.#epochOf(sequence), sequence, isPlace)
  }

  #epochOf (sequence: number): string {
    if (sequence >= this.#latest.first) return this.#latest.epoch
    return (this.#epochs.findLast(({ first }) => first <= sequence) ?? this.#epochs[0]!).epoch
  }

  locate (id: string, head: number): number | undefined {
    const parsed = parseEventId(id) ?? this.#seals.open(id)
    if (parsed === undefined || parsed.sequence > head) return undefined
    const index = this.#epochs.findIndex(({ epoch }) => epoch === parsed.epoch)
    if (index === -1 || parsed.sequence < this.#epochs[index]!.first) return undefined
    return parsed.sequence < (this.#epochs[index + 1]?.first ?? Infinity) ? parsed.sequence : undefined
  }
}
