/**
 * Bytes for many receivers at once: what one turn of the event loop brought, encoded one time however many listen.
 * A chunked HTTP/1.1 body gets them with their chunk framing, so they go to the socket as they are.
 */
export class Burst {
  readonly #text: string
  #plain: Buffer | undefined
  #chunked: Buffer | undefined

  constructor (text: string) {
    this.#text = text
  }

  get plain (): Buffer {
    this.#plain ??= Buffer.from(this.#text)
    return this.#plain
  }

  get chunked (): Buffer {
    this.#chunked ??= Buffer.from(`${Buffer.byteLength(this.#text).toString(16)}\r\n${this.#text}\r\n`)
    return this.#chunked
  }
}
