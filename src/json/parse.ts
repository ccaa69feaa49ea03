import { isUtf8 } from 'node:buffer'
import { GatewayError } from '../errors.ts'
import { scan } from './scan.ts'

/**
 * Parses a request body as JSON that can be passed on unchanged.
 *
 * Contract:
 * - Bytes that are not UTF-8 or not JSON: `malformed_json`.
 * - More than `maxDepth` containers inside one another, not counting the `envelopeDepth` around them: `too_deep`.
 *   Checked before anything recurses.
 * - A number that a double cannot carry (an integer past 2^53, 1e400, 1e-400): `number_not_exact`.
 * - A key `__proto__`, or a key `constructor` whose value has a key `prototype`: `forbidden_key`.
 *
 * @throws {GatewayError} with one of those codes; the message names what was found
 */
export function parseJson (bytes: Buffer, maxDepth: number, envelopeDepth = 0): unknown {
  if (!isUtf8(bytes)) throw new GatewayError('malformed_json', 'The body is not valid UTF-8.')
  const text = bytes.toString('utf8')
  const found = scan(text)
  const depth = found.depth - envelopeDepth
  if (depth > maxDepth) throw new GatewayError('too_deep', `The body carries a value nested ${depth} levels deep; the limit is ${maxDepth}.`)
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (cause) {
    throw new GatewayError('malformed_json', `The body is not JSON: ${(cause as Error).message}`, { cause })
  }
  if (found.inexactNumber !== undefined) {
    throw new GatewayError('number_not_exact', `The number ${shorten(found.inexactNumber)} cannot be carried exactly; send it as a string.`)
  }
  // Keys may be written with escapes, so the text alone cannot tell; it can rule out nearly every body.
  if (text.includes('__proto__') || text.includes('constructor') || text.includes('\\u')) refuseForbiddenKeys(value)
  return value
}

function shorten (number: string): string {
  return number.length <= 40 ? number : `${number.slice(0, 40)}…`
}

function refuseForbiddenKeys (root: unknown): void {
  const pending: unknown[] = [root]
  while (pending.length > 0) {
    const value = pending.pop()
    if (typeof value !== 'object' || value === null) continue
    for (const key of Object.keys(value)) {
      const child = (value as Record<string, unknown>)[key]
      const poisoned = key === '__proto__' ||
        (key === 'constructor' && typeof child === 'object' && child !== null && Object.hasOwn(child, 'prototype'))
      if (poisoned) throw new GatewayError('forbidden_key', `The key "${key === '__proto__' ? key : 'constructor.prototype'}" is never accepted.`)
      pending.push(child)
    }
  }
}
