/**
 * Whether a function may look at its argument number `index` (from 0). Only a function whose source shows that it cannot
 * gives false: `length` alone does not count parameters with defaults, rest parameters, or uses of `arguments`.
 */
export function mayTake (fn: Function, index: number): boolean {
  if (fn.length > index) return true
  const source = Function.prototype.toString.call(fn)
  if (/\.\.\.|\barguments\b|\[native code\]/.test(source)) return true
  return /=(?![=>])/.test(parameterList(source))
}

/** What stands between a function's first parenthesis and its partner; all of it where that cannot be told. */
function parameterList (source: string): string {
  const open = source.indexOf('(')
  const arrow = source.indexOf('=>')
  if (open === -1 || (arrow !== -1 && arrow < open)) return '' // one bare parameter
  let depth = 0
  for (let at = open; at < source.length; at++) {
    if (source[at] === '(') depth++
    else if (source[at] === ')' && --depth === 0) return source.slice(open, at)
  }
  return source
}
