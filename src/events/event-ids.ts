import { parseEventId } from '../store/event-id.ts'
import type { Store } from '../store/store.ts'

/** The id of an event for a reader. One that does not see everything gets it sealed: it is not to count what it does not see. */
export function eventIdFor (store: Store, sequence: number, isSealed: boolean): string {
  return isSealed ? store.sealedId(sequence) : store.eventId(sequence)
}

/** The same of a place that a reader has come to, where there may be no event that it sees. */
export function placeId (store: Store, sequence: number, isSealed: boolean): string {
  return isSealed ? store.sealedId(sequence, true) : store.eventId(sequence)
}

/**
 * The place that an id names; undefined where it names none. One that says how many events there are is not told to be past
 * the end to a reader who is not to count: it would find the end by trying.
 */
export function placeOf (store: Store, id: string, isSealed: boolean): number | undefined {
  const place = store.locate(id)
  if (place !== undefined || !isSealed) return place
  const { head } = store
  return parseEventId(id)?.epoch === parseEventId(store.eventId(head + 1))!.epoch ? head : undefined
}
