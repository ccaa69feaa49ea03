import { compile } from '@earendil-works/pi-schema'
import { ContentBlock, ToolResult, Usage } from '../contract/result.ts'
import { Mask, MASKED, replaceScalars, type Span } from '../json/mask.ts'
import type { Log } from '../tools/tool.ts'
import { redactedResult } from './outcome.ts'
import { scrubbed } from './scrubbed.ts'
import { Secrets } from './secrets.ts'

const maskedText = JSON.stringify(MASKED)
const maskedBlock = { type: 'text', text: MASKED }
const block = compile(ContentBlock)

/** JSON texts of what a block may be: no secrets, as every result has them. */
const blockTypes: ReadonlySet<string> = new Set(ContentBlock.anyOf.map(({ properties }) => JSON.stringify(properties.type.const)))

/** JSON texts of the names in a ToolResult behind what tools make. */
const restNames: ReadonlySet<string> = new Set(
  [...Object.keys(ToolResult.properties), ...Object.keys(Usage.properties), ...Object.keys(Usage.properties.cost.properties)].map((name) => JSON.stringify(name)))

/** The parts of a ToolResult that tools make, of which the others cannot be masked. */
const resultParts = new Mask(['/result/content', '/result/details', '/result/structuredContent'])

/**
 * What is masked of a call: the values that its tool's pointers point at, and these values wherever else they come up in
 * what is recorded or logged of the call.
 */
export class Masking {
  readonly #mask: Mask | undefined
  readonly #secrets = new Secrets()
  /** JSON text of the input as it goes on record; undefined where it has to be withheld. */
  readonly input: string | undefined

  /**
   * @param found the values that are masked in the input
   * @param parent that of the call which makes this one: what is masked there is masked here
   */
  constructor (mask: Mask | undefined, input: string, found: readonly Span[], parent: Masking | undefined) {
    this.#mask = mask
    if (parent !== undefined) this.#secrets.addAll(parent.#secrets)
    this.#learn(input, found)
    this.input = this.#secrets.areTooMany ? undefined : this.#masked(input, { start: 0, end: input.length }, found)
  }

  /**
   * JSON text of a ToolResult, whole or partial, as it goes on record. Where there are more values than can be looked for,
   * it is withheld.
   */
  result (text: string): string {
    const found = this.#mask?.find('result', text) ?? []
    this.#learn(text, found)
    const parts = resultParts.find('result', text)
    const end = parts.at(-1)!.end
    if (this.#secrets.areTooMany) return redactedResult(text.startsWith(',"isError":true', end))
    let masked = ''
    let done = 0
    for (const part of parts) {
      const before = text.slice(done, part.start)
      const inner = this.#masked(text, part, found.filter(({ start, end }) => start >= part.start && end <= part.end))
      masked += before + (done === 0 ? asContent(inner) : inner)
      done = part.end
    }
    const rest = this.#scrubbedRest(text, { start: end, end: text.length })
    return masked + rest === text ? text : `${masked},"redacted":true${rest}`
  }

  /** What follows the parts that tools make: fields of ours, whose numbers say how much was used, and what tools add to `usage`. */
  #scrubbedRest (text: string, span: Span): string {
    if (this.#secrets.areNone) return text.slice(span.start, span.end)
    let isOurs = true
    return replaceScalars(text, span, (scalar, isKey) => {
      if (isKey) isOurs = restNames.has(scalar)
      if (scalar.startsWith('"')) return isKey && isOurs ? undefined : this.#scrubbedString(scalar)
      return !isOurs && this.#secrets.hasNumber(scalar) ? maskedText : undefined
    })
  }

  /** `log` for lines about the call. */
  log (log: Log): Log {
    const without = (level: keyof Log) => (...given: unknown[]) => {
      (log[level] as (...given: unknown[]) => void)(...given.map((one) => scrubbed(one, this.#secrets)))
    }
    return { debug: without('debug'), info: without('info'), warn: without('warn'), error: without('error') }
  }

  #learn (text: string, found: readonly Span[]): void {
    for (const span of found) {
      replaceScalars(text, span, (scalar, isKey) => {
        if (!isKey && !blockTypes.has(scalar)) this.#secrets.add(scalar)
        return undefined
      })
    }
  }

  /** @param found what is masked within `part` */
  #masked (text: string, part: Span, found: readonly Span[]): string {
    let masked = ''
    let done = part.start
    for (const { start, end } of found) {
      masked += this.#scrubbedText(text, { start: done, end: start }) + maskedText
      done = end
    }
    return masked + this.#scrubbedText(text, { start: done, end: part.end })
  }

  #scrubbedText (text: string, span: Span): string {
    const secrets = this.#secrets
    if (secrets.areNone) return text.slice(span.start, span.end)
    return replaceScalars(text, span, (scalar) => {
      return scalar.startsWith('"') ? this.#scrubbedString(scalar) : secrets.hasNumber(scalar) ? maskedText : undefined
    })
  }

  /** @param scalar JSON text of a string */
  #scrubbedString (scalar: string): string | undefined {
    const value = JSON.parse(scalar) as string
    const other = this.#secrets.scrub(value)
    return other === value ? undefined : JSON.stringify(other)
  }
}

/** What is masked of a call; undefined where nothing is or can be, as of nearly all calls. */
export function maskingOf (mask: Mask | undefined, input: string, parent: Masking | undefined): Masking | undefined {
  if (mask === undefined && parent === undefined) return undefined
  const found = mask?.find('input', input) ?? []
  const isOf = found.length > 0 || parent !== undefined || mask?.isAbout('result') === true
  return isOf ? new Masking(mask, input, found, parent) : undefined
}

/** Content is a list of blocks, also where a mask took what made it one. */
function asContent (text: string): string {
  const content: unknown = JSON.parse(text)
  if (!Array.isArray(content)) return JSON.stringify([maskedBlock])
  return content.every((one) => block.check(one)) ? text : JSON.stringify(content.map((one: unknown) => block.check(one) ? one : maskedBlock))
}
