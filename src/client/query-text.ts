/** The same names, each with one value or several. */
export type OneOrMany<T> = {
  [Name in keyof T]?: (T[Name] extends infer Value | undefined ? Value extends readonly (infer One)[] ? One | readonly One[] : Value : never) | undefined
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
