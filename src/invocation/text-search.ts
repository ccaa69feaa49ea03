import type { Span } from '../json/mask.ts'

/** A beginning this long counts where a text was cut. */
const LEAST = 4

const ELLIPSIS = 0x2026
const DOT = 46

/**
 * Finds many texts in one pass, by Aho and Corasick: what it takes is the time to read, whatever the texts look like. They
 * come from callers, and trying them one by one could be made to take for ever.
 */
export class TextSearch {
  /** What follows a node, by character. Nodes are beginnings of the texts; 0 is the empty one. */
  readonly #next: (Map<number, number> | undefined)[] = [undefined]
  /** The longest other node that a node ends with. */
  readonly #fallback = [0]
  readonly #length = [0]
  /** The length of the longest text that a node ends with; 0 for none. */
  readonly #found = [0]
  /** The same of beginnings of texts that are too long to be looked for as a whole. */
  readonly #begun = [0]

  /** @param maxLength of a longer text the beginning is looked for, and what follows it counts as the text */
  constructor (texts: Iterable<string>, maxLength: number) {
    for (const text of texts) this.#add(text, maxLength)
    this.#link()
  }

  #add (text: string, maxLength: number): void {
    const length = Math.min(text.length, maxLength)
    let node = 0
    for (let at = 0; at < length; at++) {
      const next = this.#next[node] ??= new Map<number, number>()
      const code = text.charCodeAt(at)
      let child = next.get(code)
      if (child === undefined) {
        child = this.#next.push(undefined) - 1
        this.#fallback.push(0)
        this.#length.push(at + 1)
        this.#found.push(0)
        this.#begun.push(0)
        next.set(code, child)
      }
      node = child
    }
    this.#found[node] = length
    if (length < text.length) this.#begun[node] = length
  }

  /** Shorter nodes first, as each falls back on a shorter one. */
  #link (): void {
    const nodes = [0]
    for (const node of nodes) {
      for (const [code, child] of this.#next[node] ?? []) {
        const fallback = node === 0 ? 0 : this.#step(this.#fallback[node]!, code)
        this.#fallback[child] = fallback
        this.#found[child] ||= this.#found[fallback]!
        this.#begun[child] ||= this.#begun[fallback]!
        nodes.push(child)
      }
    }
  }

  #step (from: number, code: number): number {
    for (let node = from; ; node = this.#fallback[node]!) {
      const next = this.#next[node]?.get(code)
      if (next !== undefined) return next
      if (node === 0) return 0
    }
  }

  /** Where the texts stand, in order, those that overlap as one; also the beginning of one, before the dots of a cut. */
  find (text: string): Span[] {
    const spans: Span[] = []
    let node = 0
    for (let at = 0; at < text.length; at++) {
      const code = text.charCodeAt(at)
      if (this.#length[node]! >= LEAST && isCut(text, at, code)) join(spans, at - this.#length[node]!, at)
      node = this.#step(node, code)
      const begun = this.#begun[node]!
      if (begun > 0) {
        join(spans, at + 1 - begun, text.length)
        return spans
      }
      const found = this.#found[node]!
      if (found > 0) join(spans, at + 1 - found, at + 1)
    }
    return spans
  }
}

function isCut (text: string, at: number, code: number): boolean {
  return code === ELLIPSIS || (code === DOT && text.startsWith('...', at))
}

/** Adds a span that ends behind all others, as one with those that it overlaps. */
function join (spans: Span[], start: number, end: number): void {
  let from = start
  while (spans.length > 0 && spans.at(-1)!.end > from) from = Math.min(from, spans.pop()!.start)
  spans.push({ start: from, end })
}
