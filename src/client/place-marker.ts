/** The name under which a message that has an id and no data is read. */
export const placeEvent = 'place'

/**
 * Gives messages that hold an id alone a name and empty data, without which a parser passes over them, as an EventSource
 * does but for keeping the id. They tell of the place that a stream has reached.
 */
export class PlaceMarker {
  /** How the unfinished line begins: as much as tells an `id` and `data` from others. */
  #head = ''
  #hasId = false
  #hasData = false

  /** The next piece of the stream, marked. */
  mark (chunk: string): string {
    let marked = ''
    let copied = 0
    let start = 0
    for (let end = chunk.indexOf('\n'); end !== -1; end = chunk.indexOf('\n', start)) {
      const line = this.#head + chunk.slice(start, Math.min(end, start + 5))
      this.#head = ''
      if (line === '') {
        if (this.#hasId && !this.#hasData) {
          marked += `${chunk.slice(copied, start)}event: ${placeEvent}\ndata:\n`
          copied = start
        }
        this.#hasId = this.#hasData = false
      } else {
        this.#note(line)
      }
      start = end + 1
    }
    if (this.#head.length < 5) this.#head += chunk.slice(start, start + 5)
    return marked + chunk.slice(copied)
  }

  #note (line: string): void {
    if (line.startsWith('id:')) this.#hasId = true
    else if (line.startsWith('data')) this.#hasData = true
  }
}
