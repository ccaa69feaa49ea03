import type { Store } from '../store/store.ts'

/** The id of an event for a reader. One that does not see everything gets it sealed: it is not to count what it does not see. */
export function eventIdFor (store: Store, sequence: number, isSealed: boolean): string {
  return isSealed ? store.sealedId(sequence) : store.eventId(sequence)
}

/** The same of a place that a reader has come to, where there may be no event that it sees. */
export function placeId (store: Store, sequence: number, isSealed: boolean): string {
  return isSealed ? store.sealedId(sequence, true) : store.eventId(sequence)
}
