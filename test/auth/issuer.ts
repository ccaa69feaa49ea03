import { createServer, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { exportJWK, generateKeyPair, SignJWT, type CryptoKey, type JWK } from 'jose'
import type { Clock } from '../../src/clock.ts'
import type { Scope } from '../e2e/harness.ts'

/** A key of an issuer: what it signs with, and what it publishes. */
export interface SigningKey {
  alg: string
  kid: string | undefined
  privateKey: CryptoKey
  jwk: JWK
}

/** @param more wins over what is published of it; a member of undefined is left out */
export async function signingKey (kid: string, alg = 'ES256', more: Partial<JWK> = {}): Promise<SigningKey> {
  const { publicKey, privateKey } = await generateKeyPair(alg, { extractable: true })
  const jwk = { ...await exportJWK(publicKey), kid, alg, use: 'sig', ...more }
  return { alg, kid: jwk.kid, privateKey, jwk: JSON.parse(JSON.stringify(jwk)) }
}

/** Of a token; a claim of undefined is left out. */
export type Claims = Record<string, unknown>

/** How the endpoint of keys behaves. */
export type Behaviour = 'up' | 'down' | 'hanging' | 'hanging in the body' | ((response: ServerResponse) => void)

export const audience = 'https://gateway.example'

/** An issuer of JWTs, with an endpoint of keys on the loopback that can be made to fail. */
export class Issuer {
  readonly name = 'https://issuer.example'
  readonly key: SigningKey
  /** What its endpoint gives. */
  published: JWK[]
  behaviour: Behaviour = 'up'
  /** Requests for its keys that have come. */
  fetches = 0
  /** The headers of the last of them. */
  headers: NodeJS.Dict<string | string[]> = {}
  readonly #server: Server
  readonly #clock: Clock

  constructor (server: Server, clock: Clock, key: SigningKey) {
    this.#server = server
    this.#clock = clock
    this.key = key
    this.published = [key.jwk]
    server.on('request', (request, response) => {
      this.fetches++
      this.headers = request.headers
      this.#answer(response)
    })
  }

  #answer (response: ServerResponse): void {
    const text = JSON.stringify({ keys: this.published })
    if (typeof this.behaviour === 'function') this.behaviour(response)
    else if (this.behaviour === 'down') response.destroy()
    else if (this.behaviour === 'hanging in the body') response.writeHead(200, { 'content-type': 'application/json' }).write(text.slice(0, 9))
    else if (this.behaviour === 'up') response.writeHead(200, { 'content-type': 'application/json' }).end(text)
  }

  get url (): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/keys`
  }

  /** What a gateway is told to let its tokens in. */
  get settings (): { jwksUrl: string, jwtIssuer: string[], jwtAudience: string[] } {
    return { jwksUrl: this.url, jwtIssuer: [this.name], jwtAudience: [audience] }
  }

  /** Seconds since the epoch. */
  now (): number {
    return Math.floor(this.#clock.now() / 1000)
  }

  /** A token that is right in everything, for ten minutes; `claims` win. */
  async sign (claims: Claims = {}, { key = this.key, header = {} }: { key?: SigningKey, header?: object } = {}): Promise<string> {
    const now = this.now()
    const all = { iss: this.name, aud: audience, sub: 'alice', iat: now, exp: now + 600, scope: 'admin', ...claims }
    return await new SignJWT(JSON.parse(JSON.stringify(all)))
      .setProtectedHeader({ alg: key.alg, ...(key.kid === undefined ? {} : { kid: key.kid }), ...header })
      .sign(key.privateKey)
  }
}

export async function startIssuer (t: Scope, clock: Clock, key?: SigningKey): Promise<Issuer> {
  const server = createServer()
  t.after(() => new Promise((resolve) => {
    server.close(resolve)
    server.closeAllConnections()
  }))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return new Issuer(server, clock, key ?? await signingKey('first'))
}

export const base64url = (value: unknown): string => Buffer.from(typeof value === 'string' ? value : JSON.stringify(value)).toString('base64url')
