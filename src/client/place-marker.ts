/** The name under which a message that has an id and no data is read. */
export const placeEvent = 'place'

/** As much of a line as tells `id:` and `data:` from others. */
const HEAD_LENGTH = 5

/**
 * Gives messages that hold an id alone a name and empty data, without which a parser passes over them, as an EventSource
 * does but for keeping the id. They tell of the place that a stream has reached. Lines come out ending in `\n`, however they ended.
 */
export class PlaceMarker {
  /** How the unfinished line begins. */
  #head = ''
  #hasId = false
  #hasData = false
  /** Whether the last line ended in `\r`, of which a `\n` may still be a part. */
  #isAfterCr = false

  /** The next piece of the stream, marked. */
  mark (piece: string): string {
    const chunk = this.#withNewlines(piece)
    let marked = ''
    let copied = 0
    let start = 0
    for (let end = chunk.indexOf('\n'); end !== -1; end = chunk.indexOf('\n', start)) {
      const line = this.#head + chunk.slice(start, Math.min(end, start + HEAD_LENGTH))
      this.#head = ''
      if (line !== '') {
        this.#note(line)
      } else {
        if (this.#hasId && !this.#hasData) {
          marked += `${chunk.slice(copied, start)}event: ${placeEvent}\ndata:\n`
          copied = start
        }
        this.#hasId = this.#hasData = false
      }
      start = end + 1
    }
    this.#head += chunk.slice(start, start + HEAD_LENGTH - this.#head.length)
    return marked + chunk.slice(copied)
  }

  #note (line: string): void {
    if (line.startsWith('id:')) this.#hasId = true
    else if (line === 'data' || line.startsWith('data:')) this.#hasData = true
  }

  #withNewlines (piece: string): string {
    if (piece === '') return ''
    const chunk = this.#isAfterCr && piece.startsWith('\n') ? piece.slice(1) : piece
    this.#isAfterCr = piece.endsWith('\r')
    return chunk.includes('\r') ? chunk.replace(/\r\n?/g, '\n') : chunk
  }
}
