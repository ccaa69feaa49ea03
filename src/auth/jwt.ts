import { hash } from 'node:crypto'
import { errors, jwtVerify, type CryptoKey, type JWTPayload, type JWTVerifyGetKey, type JWTVerifyOptions, type JWTVerifyResult } from 'jose'
import type { Clock } from '../clock.ts'
import { GatewayError } from '../errors.ts'
import type { Log } from '../tools/tool.ts'
import { Access } from './access.ts'
import { unauthorized } from './authentication.ts'
import type { Caller, Credentials } from './caller.ts'
import { Jwks, type JwksOptions } from './jwks.ts'
import { identityOf } from './key-set.ts'
import { grantsOf, parseScope, scopeNames, type Scope } from './scopes.ts'

export interface JwtOptions extends JwksOptions {
  /** Names of the one issuer whose keys these are. */
  jwtIssuer: readonly string[]
  /** Names of this gateway, one of which a token must be for. */
  jwtAudience: readonly string[]
  jwtAlgorithms: readonly string[]
  /** How far the issuer's clock and ours may differ. */
  jwtSkewMs: number
  jwtScopeClaim: string
}

/** Tokens that are not verified again at each use. */
const MAX_KNOWN = 1000

/** Header, claims and signature of a JWS, of which the last may be empty. */
const jwsShape = /^[\w-]+\.[\w-]+\.[\w-]*$/
/** Signed by a key that its issuer alone has. With a shared secret, whoever can verify could sign. */
const asymmetric = /^((RS|PS|ES)(256|384|512)|EdDSA|Ed25519)$/
/** Of a token that says what its holder may do; issuers sign others with the same keys, of logouts and events. */
const tokenType = /^(application\/)?(at\+)?jwt$/i
/** What can be kept on record as it is: no control characters, no halves of characters. */
const subject = /^[^\p{Cc}\p{Cs}]{1,256}$/u

/** Callers with a token that an issuer signed. */
export class Jwts implements Credentials {
  readonly #jwks: Jwks
  readonly #clock: Clock
  readonly #log: Log
  readonly #skewMs: number
  readonly #scopeClaim: string
  readonly #required: JWTVerifyOptions
  /** By the digest of their token, so that no token is kept; the oldest first. */
  readonly #known = new Map<string, Caller>()

  /** @throws {GatewayError} `invalid_config` for options by which anybody could get in, or nobody */
  constructor (options: JwtOptions) {
    const { clock, log, jwtIssuer, jwtAudience, jwtAlgorithms, jwtSkewMs, jwtScopeClaim } = options
    if (jwtIssuer.length === 0 || jwtAudience.length === 0) throw new GatewayError('invalid_config', 'jwksUrl needs jwtIssuer and jwtAudience.')
    if (jwtAlgorithms.length === 0 || !jwtAlgorithms.every((algorithm) => asymmetric.test(algorithm))) {
      throw new GatewayError('invalid_config', 'jwtAlgorithms must be a list of algorithms with public keys, such as RS256.')
    }
    this.#jwks = new Jwks(options)
    this.#clock = clock
    this.#log = log
    this.#skewMs = jwtSkewMs
    this.#scopeClaim = jwtScopeClaim
    this.#required = {
      algorithms: [...jwtAlgorithms],
      issuer: [...jwtIssuer],
      audience: [...jwtAudience],
      requiredClaims: ['exp', 'sub'],
      clockTolerance: jwtSkewMs / 1000
    }
  }

  find (token: string): Caller | undefined | Promise<Caller> {
    if (!jwsShape.test(token)) return undefined
    const digest = hash('sha256', token, 'base64')
    const known = this.#known.get(digest)
    if (known?.isCurrent() === true) return known
    this.#known.delete(digest)
    return this.#verify(token, digest)
  }

  async close (): Promise<void> {
    await this.#jwks.close()
  }

  async #verify (token: string, digest: string): Promise<Caller> {
    try {
      const { payload, key } = await this.#signed(token)
      const caller = this.#callerOf(payload, identityOf(key))
      this.#known.set(digest, caller)
      if (this.#known.size > MAX_KNOWN) this.#known.delete(this.#known.keys().next().value!)
      return caller
    } catch (error) {
      throw error instanceof GatewayError ? error : refusalOf(error)
    }
  }

  /** Tries each key that may have signed it; looks at its claims only once it is known to be the issuer's. */
  async #signed (token: string): Promise<{ payload: JWTPayload, key: CryptoKey }> {
    const options = { ...this.#required, currentDate: new Date(this.#clock.now()) }
    let others: CryptoKey[] = []
    let next: JWTVerifyGetKey = async (header) => {
      const [first, ...rest] = await this.#jwks.candidates(header)
      if (first === undefined) throw new errors.JWKSNoMatchingKey()
      others = rest
      return first
    }
    for (;;) {
      try {
        const verified = await jwtVerify(token, next, options) as JWTVerifyResult & { key: CryptoKey }
        if (!tokenType.test(verified.protectedHeader.typ ?? 'JWT')) throw new errors.JWTClaimValidationFailed('', verified.payload, 'typ', 'check_failed')
        return verified
      } catch (error) {
        const other = others.shift()
        if (other === undefined || !(error instanceof errors.JWSSignatureVerificationFailed)) throw error
        next = async () => other
      }
    }
  }

  #callerOf (claims: JWTPayload, keyIdentity: string): Caller {
    const { sub, exp, iat = 0 } = claims
    if (typeof sub !== 'string' || !subject.test(sub)) throw new errors.JWTClaimValidationFailed('', claims, 'sub', 'check_failed')
    if (iat * 1000 > this.#clock.now() + this.#skewMs) throw new errors.JWTClaimValidationFailed('', claims, 'iat', 'check_failed')
    // With what it begins, no subject can be taken for a caller of another kind.
    const id = `jwt:${sub}`
    const scopes = this.#scopesOf(claims, id)
    const endsAtMs = exp! * 1000 + this.#skewMs
    return {
      principal: frozen({ id, scopes: [...scopes.keys()], claims }),
      access: new Access(grantsOf([...scopes.values()], id), id),
      // A key that its issuer no longer vouches for takes its tokens with it.
      isCurrent: () => this.#clock.now() < endsAtMs && this.#jwks.holds(keyIdentity)
    }
  }

  /** Those that are ours, by their texts: tokens carry scopes of other services, too. */
  #scopesOf (claims: JWTPayload, principal: string): Map<string, Scope> {
    const claim = Object.hasOwn(claims, this.#scopeClaim) ? claims[this.#scopeClaim] : undefined
    const texts = typeof claim === 'string' ? claim.split(' ') : Array.isArray(claim) ? claim : []
    const scopes = new Map<string, Scope>()
    for (const text of texts) {
      if (typeof text !== 'string' || !scopeNames.some((name) => text === name || text.startsWith(`${name}?`))) continue
      try {
        scopes.set(text, parseScope(text))
      } catch (error) {
        this.#log.debug({ principal, reason: (error as Error).message }, 'a scope of a token was passed over')
      }
    }
    return scopes
  }
}

const messages: Readonly<Record<string, string>> = {
  exp: 'The token has expired.',
  nbf: 'The token is not valid yet.',
  iat: 'The token was issued in the future.',
  iss: 'The token is not from an issuer that is trusted here.',
  aud: 'The token is not for this audience.',
  sub: 'The token does not say whose it is.',
  typ: 'The token is none by which one is let in.'
}

/** Of a claim its name alone is told: claims are about people, and may be secret. */
function refusalOf (error: unknown): GatewayError {
  const { code, name, claim, reason } = error as Partial<errors.JWTClaimValidationFailed>
  const message = reason === 'missing' ? `The token has no claim ${claim}.` : reason === 'check_failed' ? messages[claim!] : undefined
  return unauthorized(message ?? 'The token is not valid.', ['token:', code ?? name, claim].filter((part) => part !== undefined).join(' '))
}

/** Frozen to the bottom, as all calls of a token share it. */
function frozen<T extends object> (value: T): T {
  const open: unknown[] = [value]
  while (open.length > 0) {
    const part = open.pop()
    if (typeof part === 'object' && part !== null) open.push(...Object.values(Object.freeze(part)))
  }
  return value
}
