/** What JSON has, as `Object.prototype.toString` names it. */
const carried = new Set(['[object Object]', '[object Array]', '[object String]', '[object Number]', '[object Boolean]', '[object Null]'])

/**
 * A request's body as JSON text. Members that are undefined are left out, as ever, and what has `toJSON` says itself what it is.
 * @throws {TypeError} for what would arrive as something else: NaN and infinite numbers, integers past 2^53, what is undefined
 *   in an array, functions, maps, promises and such (and BigInt, a cycle)
 */
export function requestText (body: object): string {
  return JSON.stringify(body, function (this: unknown, key, value: unknown) {
    const isInexact = typeof value === 'number' && (!Number.isFinite(value) || (Number.isInteger(value) && !Number.isSafeInteger(value) && Math.abs(value) < 1e21))
    if (isInexact) throw new TypeError(`${value} (at "${key}") cannot be sent: JSON does not carry it exactly.`)
    if (value === undefined && !Array.isArray(this)) return undefined
    const name = Object.prototype.toString.call(value)
    if (!carried.has(name) && typeof value !== 'bigint') throw new TypeError(`${name} (at "${key}") cannot be sent: JSON does not carry it.`)
    return value
  })
}
