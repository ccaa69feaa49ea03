import { mkdirSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { fileURLToPath } from 'node:url'

/** Where the reports of a run are. Set, it is that of a test of the gathering itself. */
export const folder = process.env.EVIDENCE ?? fileURLToPath(new URL('../../.evidence', import.meta.url))

/** Where something could leak to. What a caller gets as its own answer is not among them. */
export const places = ['log line', 'error output', 'event', 'record', 'audit entry', 'problem'] as const
export type Place = typeof places[number]

export const secrets = ['static key', 'key', 'ticket', 'token', 'masked field'] as const
export type Secret = typeof secrets[number]

/** What secrets look like, wherever they come from. `isOne` looks again at what a pattern alone cannot tell. */
const shapes: { secret: Secret, pattern: RegExp, isOne?: (found: string) => boolean }[] = [
  { secret: 'key', pattern: /tgk_[a-z0-9]+_[\w-]{43}/g },
  { secret: 'key', pattern: /[Bb]earer\s+[\w.~+/-]{8,}/g },
  { secret: 'ticket', pattern: /tgt_[\w-]{43}/g },
  { secret: 'ticket', pattern: /[?&]ticket=[\w%-]{8,}/g },
  // Each of the first two parts of a JWT, alone or in its place; other texts, such as random ids, may begin like that, too.
  { secret: 'token', pattern: /(?<![\w-])eyJ[\w-]{9,}/g, isOne: (word) => /^\{"[\w-]+":/.test(Buffer.from(word, 'base64url').toString('latin1')) },
  { secret: 'masked field', pattern: /canary-[0-9a-f]{16}/g }
]

export interface Finding {
  secret: Secret
  place: Place
  /** What stands around it, without it. */
  text: string
}

export interface Report {
  /** The test file. */
  file: string
  looked: Partial<Record<Place, number>>
  /** How many different ones. */
  inUse: Partial<Record<Secret, number>>
  findings: Finding[]
  /** The beginning of the first few texts of each place, for people who want to know what was looked through. */
  samples: Partial<Record<Place, string[]>>
}

const MAX_FINDINGS = 20
const MAX_SAMPLES = 3
/** The least that a key has where it is a setting. Shorter ones stand in ordinary words. */
const MIN_KEY_LENGTH = 16

/** Looks through texts for secrets as they come: there are far too many to keep. */
export class Witness {
  readonly #looked = new Map<Place, number>()
  readonly #inUse = new Map<Secret, Set<string>>()
  readonly #staticKeys = new Set<string>()
  /** Static keys in every form that is looked for. */
  readonly #forms = new Set<string>()
  /** The secret parts of keys, tickets and tokens in use, which say nothing by their shape. */
  readonly #words = new Map<string, Secret>()
  readonly #findings: Finding[] = []
  readonly #samples = new Map<Place, string[]>()

  /** A key without a shape of its own. To be told before anything is written that could have it. */
  lookFor (staticKey: string): void {
    if (staticKey.length < MIN_KEY_LENGTH || this.#staticKeys.has(staticKey)) return
    this.#staticKeys.add(staticKey)
    for (const form of formsOf(staticKey)) this.#forms.add(form)
  }

  /** Credentials that a gateway has accepted. */
  accepted (credentials: string): void {
    const [, secret, part] = /^tg(k_[a-z0-9]+|t)_(.+)$/.exec(credentials) ?? []
    if (secret !== undefined) return this.inUse(secret === 't' ? 'ticket' : 'key', credentials, [part!])
    if (credentials.startsWith('eyJ')) return this.inUse('token', credentials, credentials.split('.'))
    if (this.#staticKeys.has(credentials)) this.inUse('static key', credentials)
  }

  /** @param parts that must not stand anywhere alone either */
  inUse (secret: Secret, value: string, parts: string[] = []): void {
    const values = this.#inUse.get(secret) ?? new Set()
    this.#inUse.set(secret, values.add(value))
    for (const part of parts) this.#words.set(part, secret)
  }

  look (place: Place, text: string): void {
    const looked = this.#looked.get(place) ?? 0
    this.#looked.set(place, looked + 1)
    if (looked < MAX_SAMPLES) this.#samples.set(place, [...this.#samples.get(place) ?? [], text.slice(0, 300)])
    for (const { secret, pattern, isOne } of shapes) {
      for (const { 0: found, index } of text.matchAll(pattern)) if (isOne?.(found) !== false) this.#found(secret, place, text, index, found)
    }
    for (const form of this.#forms) {
      const index = text.indexOf(form)
      if (index >= 0) this.#found('static key', place, text, index, form)
    }
    if (this.#words.size === 0) return
    for (const { 0: word, index } of text.matchAll(/[\w-]{20,}/g)) {
      const secret = this.#words.get(word)
      if (secret !== undefined) this.#found(secret, place, text, index, word)
    }
  }

  #found (secret: Secret, place: Place, text: string, index: number, found: string): void {
    if (this.#findings.length >= MAX_FINDINGS) return
    const end = index + found.length
    this.#findings.push({ secret, place, text: `${text.slice(Math.max(0, index - 80), index)}[${secret}]${text.slice(end, end + 80)}` })
  }

  report (file: string): Report {
    return {
      file,
      looked: Object.fromEntries(this.#looked),
      inUse: Object.fromEntries([...this.#inUse].map(([secret, values]) => [secret, values.size])),
      findings: this.#findings,
      samples: Object.fromEntries(this.#samples)
    }
  }

  write (file: string): void {
    mkdirSync(folder, { recursive: true })
    writeFileSync(join(folder, `${basename(file)}.${process.pid}.json`), JSON.stringify(this.report(file), null, 2))
  }
}

/** A key as it is, in a URL, in a JSON text, and in Base64, of which it may be any part: after one or two other bytes it looks different. */
function formsOf (key: string): string[] {
  const encoded = [0, 1, 2].map((before) => {
    const text = Buffer.from('\0'.repeat(before) + key).toString('base64')
    // Only the characters that are made of the key alone.
    return text.slice(Math.ceil(before * 8 / 6), Math.floor((before + key.length) * 8 / 6))
  })
  const base64url = encoded.map((text) => text.replaceAll('+', '-').replaceAll('/', '_'))
  return [key, encodeURIComponent(key), JSON.stringify(key).slice(1, -1), ...encoded, ...base64url]
}

/** That of this process. Where nobody gathers, it is told nothing, and nothing comes of it. */
export const witness = new Witness()
