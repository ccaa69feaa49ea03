import { isDeepStrictEqual } from 'node:util'
import type { Clock } from '../../clock.ts'
import { Access } from '../access.ts'
import { unauthorized } from '../authentication.ts'
import type { Caller } from '../caller.ts'
import { grantsOf, parseScope } from '../scopes.ts'
import { instantOf } from './instant.ts'
import type { KeyEntry } from './key-file.ts'
import { hashOf, isKeyText } from './key-text.ts'

/** What tells of keys in logs. */
export type PublicKey = Pick<KeyEntry, 'id' | 'name'>

export interface KeyChanges {
  added: PublicKey[]
  changed: PublicKey[]
  removed: PublicKey[]
}

/** A key in force, with the caller that holds it. */
interface RingKey {
  readonly entry: KeyEntry
  readonly expiresAtMs: number
  readonly caller: Caller
}

/** The keys in force, and who holds them. */
export class KeyRing {
  readonly #clock: Clock
  #byHash = new Map<string, RingKey>()
  #byId = new Map<string, RingKey>()

  constructor (clock: Clock) {
    this.#clock = clock
  }

  get size (): number {
    return this.#byId.size
  }

  /** How many of them let anybody in now. */
  get inForce (): number {
    return [...this.#byId.values()].filter((key) => key.entry.revokedAt === undefined && !this.#hasExpired(key)).length
  }

  /**
   * Puts these keys in the place of those from before. An entry that is still the same keeps its caller, so that what its
   * holder has open goes on.
   */
  use (entries: readonly KeyEntry[]): KeyChanges {
    const before = this.#byId
    const keys = entries.map((entry) => {
      const known = before.get(entry.id)
      return isDeepStrictEqual(known?.entry, entry) ? known! : this.#keyOf(entry)
    })
    this.#byId = new Map(keys.map((key) => [key.entry.id, key]))
    this.#byHash = new Map(keys.map((key) => [key.entry.hash, key]))
    return {
      added: publicOf(keys.filter(({ entry }) => !before.has(entry.id))),
      changed: publicOf(keys.filter((key) => before.has(key.entry.id) && before.get(key.entry.id) !== key)),
      removed: publicOf([...before.values()].filter(({ entry }) => !this.#byId.has(entry.id)))
    }
  }

  /**
   * @returns undefined where the token is no key of these
   * @throws {GatewayError} `unauthorized` for one that was revoked or has expired
   */
  find (token: string): Caller | undefined {
    if (!isKeyText(token)) return undefined
    // How long the look-up takes depends on the digest, from which nobody comes back to a key: there is nothing to hide.
    const key = this.#byHash.get(hashOf(token))
    if (key === undefined) return undefined
    const { id, name, revokedAt } = key.entry
    if (revokedAt !== undefined) throw unauthorized('The key was revoked.', `revoked key ${id} (${name})`)
    if (this.#hasExpired(key)) throw unauthorized('The key has expired.', `expired key ${id} (${name})`)
    return key.caller
  }

  #keyOf (entry: KeyEntry): RingKey {
    const { id, name, scopes, tools, expiresAt } = entry
    // Keys of one name are one caller, so that who changes from one to the next keeps its calls and their idempotency keys.
    const principal = { id: `key:${name}`, scopes }
    const access = new Access(grantsOf(scopes.map(parseScope), principal.id, tools), principal.id)
    const isCurrent = () => this.#byId.get(id) === key && !this.#hasExpired(key)
    const key: RingKey = { entry, expiresAtMs: expiresAt === undefined ? Infinity : instantOf(expiresAt)!, caller: { principal, access, isCurrent } }
    return key
  }

  #hasExpired ({ expiresAtMs }: RingKey): boolean {
    return expiresAtMs <= this.#clock.now()
  }
}

function publicOf (keys: readonly RingKey[]): PublicKey[] {
  return keys.map(({ entry: { id, name } }) => ({ id, name }))
}
