const ESC = '\u001B'
const controlSequence = new RegExp(`(?:${ESC}\\[|\u009B)[0-?]*[ -/]*[@-~]`, 'g')
/** Sequences that carry a text, as those that set a title or make a link do. */
const controlString = new RegExp(`(?:${ESC}[\\]PX^_]|[\u009D\u0090\u0098\u009E\u009F])[^\u0007${ESC}\u009C]*(?:\u0007|${ESC}\\\\|\u009C)`, 'g')

/**
 * A text of somebody else's, such as a tool's, as a terminal may be given it: nothing in it moves the cursor, sets
 * colours, rings, or turns the order of what follows. Line breaks and tabs stay. What is left of a control is shown as U+FFFD.
 */
export function plainText (text: string): string {
  return text
    .replace(controlString, '')
    .replace(controlSequence, '')
    .replace(/\r\n?|[\u2028\u2029]/g, '\n')
    .replace(/[^\P{Cc}\n\t]|\p{Cs}/gu, '\uFFFD')
    // Joiners are part of words and of emoji.
    .replace(/[^\P{Cf}\u200C\u200D]/gu, '')
}

/** The same on one line, and no more of it than any line can show. */
export function plainLine (text: string): string {
  return plainText(text.slice(0, 2000)).replace(/\s+/g, ' ').trim()
}

/** JSON text for a terminal: the same value, its controls as escapes. They stand in its strings alone. */
export function plainJson (text: string): string {
  return text.replace(/[^\P{Cc}\n]|[\p{Cf}\p{Zl}\p{Zp}]/gu, (found) => Array.from({ length: found.length }, (_unit, at) => `\\u${found.charCodeAt(at).toString(16).padStart(4, '0')}`).join(''))
}
