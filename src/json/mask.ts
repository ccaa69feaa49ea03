import { MaskPointer } from '../contract/tool.ts'
import { GatewayError } from '../errors.ts'
import { endOfString, endOfValue, isNumberPart } from './scan.ts'

/** What stands in the place of a value that is masked. */
export const MASKED = '[masked]'

/** A part of a text. */
export interface Span {
  readonly start: number
  readonly end: number
}

/** How far pointers have come: which go on by a key or an index, which by any, and whether one ends here. */
interface Step {
  isEnd: boolean
  readonly named: Map<string, Step>
  any: Step | undefined
}

const pointerRule = new RegExp(MaskPointer.pattern!)

/** Places in JSON, by pointers into `/input` and `/result`, in which `*` stands for every index and every key. */
export class Mask {
  readonly pointers: readonly string[]
  readonly #root: Step = newStep()

  /** @throws {GatewayError} `invalid_config` for what is no such pointer */
  constructor (pointers: Iterable<string>) {
    this.pointers = [...new Set(pointers)]
    for (const pointer of this.pointers) this.#add(pointer)
  }

  /** Undefined for no pointers. */
  static of (pointers: readonly string[]): Mask | undefined {
    return pointers.length === 0 ? undefined : new Mask(pointers)
  }

  #add (pointer: unknown): void {
    if (typeof pointer !== 'string' || pointer.length > MaskPointer.maxLength! || !pointerRule.test(pointer)) {
      throw new GatewayError('invalid_config', `The mask ${JSON.stringify(pointer)} cannot be used: it ${MaskPointer.expected}.`)
    }
    let step = this.#root
    for (const segment of pointer.split('/').slice(1)) {
      const key = segment.replaceAll('~1', '/').replaceAll('~0', '~')
      const next = (segment === '*' ? step.any : step.named.get(key)) ?? newStep()
      if (segment === '*') step.any = next
      else step.named.set(key, next)
      step = next
    }
    step.isEnd = true
  }

  /** What either of both masks. */
  and (other: Mask | undefined): Mask {
    return other === undefined ? this : new Mask([...this.pointers, ...other.pointers])
  }

  /** Whether any pointer points into this part. */
  isAbout (part: 'input' | 'result'): boolean {
    return this.#root.named.has(part)
  }

  /**
   * The values that the pointers into a part point at, in their order. None lies within another: the outer one is there.
   * @param text JSON text of the part, as JSON.stringify gives it
   */
  find (part: 'input' | 'result', text: string): Span[] {
    const found: Span[] = []
    const step = this.#root.named.get(part)
    if (step !== undefined) find(text, 0, [step], found)
    return found
  }
}

function newStep (): Step {
  return { isEnd: false, named: new Map(), any: undefined }
}

/**
 * Looks at the value that begins at `at`. Recurs no deeper than the pointers are long.
 * @returns where the value ends
 */
function find (text: string, at: number, steps: readonly Step[], found: Span[]): number {
  if (steps.some(({ isEnd }) => isEnd)) {
    const end = endOfValue(text, at)
    found.push({ start: at, end })
    return end
  }
  const isArray = text[at] === '['
  if (steps.length === 0 || (!isArray && text[at] !== '{')) return endOfValue(text, at)
  const close = isArray ? ']' : '}'
  let next = at + 1
  for (let index = 0; next < text.length && text[next] !== close; index++) {
    let key = String(index)
    if (!isArray) {
      const end = endOfString(text, next)
      key = JSON.parse(text.slice(next, end)) as string
      next = end + 1
    }
    next = find(text, next, following(steps, key), found)
    if (text[next] === ',') next++
  }
  return next + 1
}

function following (steps: readonly Step[], key: string): Step[] {
  const next: Step[] = []
  for (const { named, any } of steps) {
    const step = named.get(key)
    if (step !== undefined) next.push(step)
    if (any !== undefined) next.push(any)
  }
  return next
}

/**
 * A part of a JSON text, with some of its strings and numbers replaced. All the rest stays as it is, to the letter.
 *
 * @param text as JSON.stringify gives it
 * @param replace given the JSON text of each string, each key and each number; gives another one, or undefined to leave it
 */
export function replaceScalars (text: string, { start, end }: Span, replace: (scalar: string, isKey: boolean) => string | undefined): string {
  let replaced = ''
  let done = start
  let at = start
  while (at < end) {
    const code = text.charCodeAt(at)
    const first = at++
    if (code === QUOTE) at = endOfString(text, first)
    else if (isNumberPart(code) && code !== LOWER_E) while (at < end && isNumberPart(text.charCodeAt(at))) at++
    else continue
    const other = replace(text.slice(first, at), text.charCodeAt(at) === COLON)
    if (other === undefined) continue
    replaced += text.slice(done, first) + other
    done = at
  }
  return replaced + text.slice(done, end)
}

const QUOTE = 34
const COLON = 58
/** Numbers may have one; it is also in `true` and `false`. */
const LOWER_E = 101
