import { createPublicKey, KeyObject } from 'node:crypto'
import { createLocalJWKSet, errors, type CryptoKey, type JWK, type JWSHeaderParameters } from 'jose'

const MIN_RSA_BITS = 2048
/** Keys that one token is tried with, where its header does not tell them apart. */
const MAX_CANDIDATES = 16

/** Keys that signatures can be checked with. Others are passed over: a set may hold them for other purposes. */
export class KeySet {
  /** By which one set is told from the next. */
  readonly text: string
  readonly #identities: ReadonlySet<string>
  readonly #find: (header: JWSHeaderParameters) => Promise<CryptoKey>

  constructor (keys: readonly unknown[]) {
    const usable = keys.map((key) => ({ key: key as JWK, identity: identityOfUsable(key) })).filter(({ identity }) => identity !== undefined)
    const set = { keys: usable.map(({ key }) => key) }
    this.text = JSON.stringify(set)
    this.#identities = new Set(usable.map(({ identity }) => identity!))
    this.#find = createLocalJWKSet(set)
  }

  get size (): number {
    return this.#identities.size
  }

  holds (identity: string): boolean {
    return this.#identities.has(identity)
  }

  /** Those that may have signed what has this header. */
  async candidates (header: JWSHeaderParameters): Promise<CryptoKey[]> {
    try {
      return [await this.#find(header)]
    } catch (error) {
      if (error instanceof errors.JWKSNoMatchingKey) return []
      if (!(error instanceof errors.JWKSMultipleMatchingKeys)) throw error
      const keys: CryptoKey[] = []
      for await (const key of error) if (keys.push(key) === MAX_CANDIDATES) break
      return keys
    }
  }
}

/** What is the same for two keys that are one, however they are written down. */
export function identityOf (key: CryptoKey | KeyObject): string {
  const object = key instanceof KeyObject ? key : KeyObject.from(key)
  return object.export({ type: 'spki', format: 'der' }).toString('base64')
}

/** Undefined for what is no key, or one that is secret or private, not for signatures, or too weak. */
function identityOfUsable (value: unknown): string | undefined {
  if (typeof value !== 'object' || value === null) return undefined
  const jwk = value as JWK
  if (jwk.kty === 'oct' || 'd' in jwk || (jwk.use !== undefined && jwk.use !== 'sig')) return undefined
  try {
    const key = createPublicKey({ key: jwk, format: 'jwk' })
    return (key.asymmetricKeyDetails?.modulusLength ?? MIN_RSA_BITS) < MIN_RSA_BITS ? undefined : identityOf(key)
  } catch {
    return undefined
  }
}
