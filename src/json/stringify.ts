import { scan } from './scan.ts'

/** A value that has no faithful JSON text; `path` is a JSON Pointer to the first place that has none, where known. */
export class NotJsonError extends Error {
  override readonly name = 'NotJsonError'
  readonly path: string

  constructor (message: string, path = '', options?: ErrorOptions) {
    super(message, options)
    this.path = path
  }
}

/**
 * The JSON text of `value`, as JSON.stringify gives it, but strict: what JSON would bend silently is refused.
 *
 * Contract:
 * - NaN and the infinities, BigInt, cycles, getters and `toJSON` methods that throw, functions and symbols as the whole
 *   value, and nesting beyond `maxDepth`: {@link NotJsonError}.
 * - A Date is its ISO string, an object with `toJSON` what that returns, an undefined property is absent.
 * - Lone surrogates come out escaped, so the text is always valid UTF-8.
 */
export function stringifyJson (value: unknown, maxDepth: number): string {
  let text: string | undefined
  try {
    text = JSON.stringify(value)
    // Non-finite numbers become null: only text that holds one needs the slow look.
    if (text?.includes('null') === true) refuseNonFinite(value)
  } catch (cause) {
    if (cause instanceof NotJsonError) throw cause
    throw new NotJsonError(reason(cause), '', { cause })
  }
  if (text === undefined) throw new NotJsonError(`a ${typeof value} has no JSON form`)
  // Two characters a level at least, so short text cannot be too deep.
  if (text.length >= 2 * maxDepth) {
    const { depth } = scan(text)
    if (depth > maxDepth) throw new NotJsonError(`nested ${depth} levels deep; the limit is ${maxDepth}`)
  }
  return text
}

function refuseNonFinite (value: unknown): void {
  const pointers = new WeakMap<object, string>()
  JSON.stringify(value, function (this: unknown, key: string, member: unknown) {
    const parent = typeof this === 'object' && this !== null ? pointers.get(this) : undefined
    const pointer = parent === undefined ? '' : `${parent}/${key.replaceAll('~', '~0').replaceAll('/', '~1')}`
    if (typeof member === 'number' && !Number.isFinite(member)) throw new NotJsonError(`${member} has no JSON form`, pointer)
    if (typeof member === 'object' && member !== null) pointers.set(member, pointer)
    return member
  })
}

function reason (cause: unknown): string {
  if (cause instanceof RangeError) return 'nested too deeply'
  if (cause instanceof TypeError && /circular/i.test(cause.message)) return 'holds a cycle'
  if (cause instanceof TypeError && /BigInt/.test(cause.message)) return 'holds a BigInt'
  return 'a getter or toJSON method failed'
}
