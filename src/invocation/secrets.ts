import { MASKED } from '../json/mask.ts'
import { TextSearch } from './text-search.ts'

/** Shorter texts and numbers would be found in too much that has nothing to do with them. */
const LEAST_LENGTH = 4
const LEAST_DIGITS = 4
/** Of a longer text the beginning is looked for. */
const MAX_LENGTH = 1000
/** Characters that are looked for in a call. */
const MAX_LENGTH_OF_ALL = 65_536

/** The masked values of a call, and where else they come up. */
export class Secrets {
  /** JSON texts. */
  readonly #scalars = new Set<string>()
  /** What to look for: each text as it is, and as JSON has it, and JSON within JSON. */
  readonly #texts = new Set<string>()
  #length = 0
  #search: TextSearch | undefined

  /** Adds those of another call. */
  addAll (others: Secrets): void {
    for (const scalar of others.#scalars) this.add(scalar)
  }

  /** @param scalar JSON text of a string or a number */
  add (scalar: string): void {
    const isText = scalar.startsWith('"')
    const text = isText ? JSON.parse(scalar) as string : scalar
    if (isText ? text.length < LEAST_LENGTH : scalar.replace(/\D/g, '').length < LEAST_DIGITS) return
    if (this.areTooMany || this.#scalars.has(scalar)) return
    this.#scalars.add(scalar)
    this.#search = undefined
    for (const form of [text, escaped(text), escaped(escaped(text))]) {
      if (this.#texts.has(form)) continue
      this.#texts.add(form)
      this.#length += Math.min(form.length, MAX_LENGTH)
    }
  }

  /** Whether they are more than can be looked for. */
  get areTooMany (): boolean {
    return this.#length > MAX_LENGTH_OF_ALL
  }

  get areNone (): boolean {
    return this.#texts.size === 0
  }

  /** Whether a number is one of them, as a number or as a text. */
  hasNumber (number: string): boolean {
    return this.areTooMany || this.#texts.has(number)
  }

  /** A text without them. */
  scrub (text: string): string {
    if (this.areTooMany) return MASKED
    if (this.areNone) return text
    this.#search ??= new TextSearch(this.#texts, MAX_LENGTH)
    let scrubbed = ''
    let done = 0
    for (const { start, end } of this.#search.find(text)) {
      scrubbed += text.slice(done, start) + MASKED
      done = end
    }
    return done === 0 ? text : scrubbed + text.slice(done)
  }
}

function escaped (text: string): string {
  return JSON.stringify(text).slice(1, -1)
}
