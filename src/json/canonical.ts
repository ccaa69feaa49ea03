/**
 * JSON text that is the same for all JSON-equal values: the keys of each object in one order, whatever order they came in.
 * @param value parsed JSON, no deeper than it is allowed to arrive
 */
export function canonicalJson (value: unknown): string {
  if (typeof value !== 'object' || value === null) return JSON.stringify(value)
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join(',')}]`
  const object = value as Record<string, unknown>
  return `{${Object.keys(object).sort().map((key) => `${JSON.stringify(key)}:${canonicalJson(object[key])}`).join(',')}}`
}
