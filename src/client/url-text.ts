/** The same names, each with one value or several. */
export type OneOrMany<T> = {
  [Name in keyof T]?: (T[Name] extends infer Value | undefined ? Value extends readonly (infer One)[] ? One | readonly One[] : Value : never) | undefined
}

/**
 * A path below the gateway's URL.
 * @throws {TypeError} for an id that no path can carry
 */
export function pathText (room: string, id: string, rest = ''): string {
  if (/^\.{0,2}$/.test(id)) throw new TypeError(`There can be no id "${id}".`)
  return `${room}/${encodeURIComponent(id.toWellFormed())}${rest}`
}

/** A query with its question mark, or nothing where there is none. What is undefined is left out. */
export function queryText (query: Readonly<Record<string, unknown>>): string {
  const parameters = new URLSearchParams()
  for (const [name, given] of Object.entries(query)) {
    for (const value of [given].flat()) if (value !== undefined) parameters.append(name, String(value))
  }
  const text = parameters.toString()
  return text === '' ? '' : `?${text}`
}
