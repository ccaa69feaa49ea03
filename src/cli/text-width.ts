const segmenter = new Intl.Segmenter()
/** Scripts and signs that take two columns. Where terminals do not agree, the wider is taken: a line may be short, never too long. */
const wide = /[\p{Emoji_Presentation}\p{Script=Han}\p{Script=Hangul}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Bopomofo}\p{Script=Yi}\p{Script=Tangut}\u2329\u232A\u3000-\u303E\u31C0-\u33FF\uFE10-\uFE19\uFE30-\uFE6F\uFF01-\uFF60\uFFE0-\uFFE6]/u
/** Drawn over what is before them; but the selector of emoji widens it. */
const none = /[^\P{M}\p{Mc}\uFE0F]|\p{Cf}/u

/** Columns that a text without line breaks takes in a terminal. */
export function widthOf (text: string): number {
  let width = 0
  for (const character of text) width += none.test(character) ? 0 : wide.test(character) ? 2 : 1
  return width
}

/** As much of a line as fits, with an ellipsis where that is not all. Never half of what is seen as one character. */
export function cut (text: string, columns: number): string {
  if (columns < 1) return ''
  let width = 0
  let length = 0
  /** Of what leaves room for the ellipsis. */
  let roomy = 0
  for (const { segment } of segmenter.segment(text)) {
    width += widthOf(segment)
    if (width > columns) return `${text.slice(0, roomy)}…`
    length += segment.length
    if (width < columns) roomy = length
  }
  return text
}

/** A line filled up with spaces to `columns`. */
export function pad (text: string, columns: number): string {
  return text + ' '.repeat(Math.max(0, columns - widthOf(text)))
}
