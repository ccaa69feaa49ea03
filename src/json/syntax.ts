const space = /[ \t\n\r]*/y
const text = /"(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[\dA-Fa-f]{4}))*"/y // eslint-disable-line no-control-regex
const scalar = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\w.+-])|(?:true|false|null)(?!\w)/y

/**
 * Where a text stops being JSON, as the offset of what should not stand there, or the text's length where its end is
 * missing; undefined where it is JSON. Unlike the engine's own message, this says a place for every fault, and quotes
 * nothing.
 */
export function syntaxFault (source: string): number | undefined {
  let at = 0
  const take = (rule: RegExp): boolean => {
    rule.lastIndex = at
    if (!rule.test(source)) return false
    at = rule.lastIndex
    return true
  }
  const takeMark = (mark: string): boolean => {
    take(space)
    if (source[at] !== mark) return false
    at++
    return true
  }
  const takeKey = (): boolean => {
    take(space)
    return take(text) && takeMark(':')
  }

  // What each open container ends with, the innermost last.
  const open: ('}' | ']')[] = []
  for (;;) {
    take(space)
    if (takeMark('{')) {
      if (!takeMark('}')) {
        if (!takeKey()) return at
        open.push('}')
        continue
      }
    } else if (takeMark('[')) {
      if (!takeMark(']')) {
        open.push(']')
        continue
      }
    } else if (!take(text) && !take(scalar)) return at

    while (open.length > 0 && takeMark(open.at(-1)!)) open.pop()
    if (open.length === 0) {
      take(space)
      return at === source.length ? undefined : at
    }
    if (!takeMark(',')) return at
    if (open.at(-1) === '}' && !takeKey()) return at
  }
}

/** The line and column of an offset, both from 1. */
export function placeOf (source: string, offset: number): { line: number, column: number } {
  const lines = source.slice(0, offset).split(/\r\n|\n|\r/)
  return { line: lines.length, column: lines.at(-1)!.length + 1 }
}
