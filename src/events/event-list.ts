/**
 * What one page holds at most. It stands in memory whole, once for each answer on its way, so it is kept to what a slow
 * stream may have waiting; and its reader has it parsed in a few milliseconds.
 */
export const pageLimits = { events: 1000, bytes: 1024 * 1024 } as const

/** The text of an EventList, put together from events that are text already. */
export class EventListText {
  readonly #entries: string[] = []
  #bytes = 0
  #lost = ''

  /** Whether there is anything to tell: an event, or a loss. */
  get hasNews (): boolean {
    return this.#entries.length > 0 || this.#lost !== ''
  }

  get isFull (): boolean {
    return this.#entries.length >= pageLimits.events || this.#bytes >= pageLimits.bytes
  }

  /**
   * Adds an event, given as JSON text. The first one always has room, whatever its size.
   * @returns false where it has no room: it belongs to the next page
   */
  add (id: string, json: string): boolean {
    const entry = `{"id":"${id}","event":${json}}`
    const bytes = Buffer.byteLength(entry)
    if (this.#entries.length > 0 && (this.isFull || this.#bytes + bytes > pageLimits.bytes)) return false
    this.#entries.push(entry)
    this.#bytes += bytes
    return true
  }

  /** Says that events after `requestedId` are gone; it comes before everything else in the list. */
  tellLoss (requestedId: string, earliestId: string): void {
    this.#lost = `,"lost":${JSON.stringify({ requestedId, earliestId })}`
  }

  /** The whole, with the id to go on from. */
  finish (next: string): string {
    return `{"events":[${this.#entries.join(',')}],"next":"${next}"${this.#lost}}`
  }
}
