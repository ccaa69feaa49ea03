const QUOTE = 34
const BACKSLASH = 92
const COMMA = 44
const MINUS = 45
const ZERO = 48
const NINE = 57
const OPEN_ARRAY = 91
const CLOSE_ARRAY = 93
const OPEN_OBJECT = 123
const CLOSE_OBJECT = 125

export interface ScanResult {
  /** The most containers that stand inside one another; 0 for a bare value. */
  depth: number
  /** The first number literal that a double cannot carry. */
  inexactNumber?: string
}

/**
 * One pass over JSON text, without recursion, for what `JSON.parse` does not tell: how deep it goes, and which
 * numbers lose their value. The text need not be valid; then the answer is only good for refusing it.
 */
export function scan (text: string): ScanResult {
  const result: ScanResult = { depth: 0 }
  let depth = 0
  let at = 0
  while (at < text.length) {
    const code = text.charCodeAt(at)
    if (code === QUOTE) {
      at = endOfString(text, at)
    } else if (code === OPEN_OBJECT || code === OPEN_ARRAY) {
      if (++depth > result.depth) result.depth = depth
      at++
    } else if (code === CLOSE_OBJECT || code === CLOSE_ARRAY) {
      depth--
      at++
    } else if (code === MINUS || (code >= ZERO && code <= NINE)) {
      const start = at++
      while (at < text.length && isNumberPart(text.charCodeAt(at))) at++
      // Fifteen digits always fit; an exponent needs a look.
      if (result.inexactNumber === undefined && !isExact(text, start, at)) result.inexactNumber = text.slice(start, at)
    } else {
      at++
    }
  }
  return result
}

/** The index behind the string that opens at `open`. */
export function endOfString (text: string, open: number): number {
  let at = open + 1
  for (;;) {
    const close = text.indexOf('"', at)
    if (close === -1) return text.length
    let slashes = 0
    while (text.charCodeAt(close - 1 - slashes) === BACKSLASH) slashes++
    if (slashes % 2 === 0) return close + 1
    at = close + 1
  }
}

/** The index behind the value that begins at `at`, in valid JSON text without spaces. */
export function endOfValue (text: string, at: number): number {
  let depth = 0
  for (;;) {
    const code = text.charCodeAt(at)
    if (code === QUOTE) {
      at = endOfString(text, at)
    } else if (code === OPEN_OBJECT || code === OPEN_ARRAY) {
      depth++
      at++
    } else if (code === CLOSE_OBJECT || code === CLOSE_ARRAY) {
      depth--
      at++
    } else {
      at++
      // A literal ends where something else begins.
      if (depth === 0) while (at < text.length && !isEndOfLiteral(text.charCodeAt(at))) at++
    }
    if (depth === 0 || at >= text.length) return at
  }
}

function isEndOfLiteral (code: number): boolean {
  return code === COMMA || code === CLOSE_OBJECT || code === CLOSE_ARRAY
}

export function isNumberPart (code: number): boolean {
  // Digits, and + - . E e
  return (code >= ZERO && code <= NINE) || code === 43 || code === MINUS || code === 46 || code === 69 || code === 101
}

/**
 * Whether a double carries the literal: integers up to 2^53, fractions rounded as usual, nothing lost to 0 or infinity.
 * Past 2^53 only what is written as a measurement is taken (1e20), and only where no digit of it is lost.
 */
function isExact (text: string, start: number, end: number): boolean {
  if (end - start <= 15 && text.charCodeAt(end - 1) >= ZERO) {
    let plain = true
    for (let at = start; at < end && plain; at++) plain = (text.charCodeAt(at) | 32) !== 101
    if (plain) return true
  }
  const literal = text.slice(start, end)
  const value = Number(literal)
  if (Number.isNaN(value)) return true // not a number at all: JSON.parse says so
  if (!Number.isFinite(value)) return false
  if (value === 0) return !/[1-9]/.test(literal.replace(/e.*$/i, ''))
  if (Math.abs(value) < 2 ** 53) return true
  if (/^-?\d+$/.test(literal)) return /^-?9007199254740992$/.test(literal)
  return significand(literal) === significand(String(value))
}

/** The digits that say how much, without sign, point, exponent, and zeros around them. */
function significand (literal: string): string {
  const digits = literal.replace(/e.*$/i, '').replace(/[-.]/g, '')
  let start = 0
  let end = digits.length
  while (digits.charCodeAt(start) === ZERO) start++
  while (end > start && digits.charCodeAt(end - 1) === ZERO) end--
  return digits.slice(start, end)
}
