/**
 * A request's body as JSON text. Members that are undefined are left out, as ever.
 * @throws {TypeError} for what would arrive as something else: NaN and infinite numbers, integers past 2^53 (and BigInt, a cycle)
 */
export function requestText (body: object): string {
  return JSON.stringify(body, (_key, value: unknown) => {
    if (typeof value === 'number' && (!Number.isFinite(value) || (Number.isInteger(value) && !Number.isSafeInteger(value) && Math.abs(value) < 1e21))) {
      throw new TypeError(`${value} cannot be sent: JSON does not carry it exactly.`)
    }
    return value
  })
}
