import type { Principal } from '../tools/tool.ts'
import type { Access } from './access.ts'

/** Who sends a request, and what it may do. */
export interface Caller {
  readonly principal: Principal
  readonly access: Access
  /** Whether the credential that it came with still stands, and gives the same rights. */
  isCurrent (): boolean
}

/** Where callers are found by what they send as a Bearer token. */
export interface Credentials {
  /**
   * @returns undefined where the token is none of these
   * @throws {GatewayError} or rejects: `unauthorized` for one of these that does not stand (any more), with the reason in
   *   `refusedFor`; `auth_unavailable` where that cannot be told at the moment
   */
  find (token: string): Caller | undefined | Promise<Caller | undefined>
  /** What is wrong with them as a whole, though callers are found all the same. Everyone may be told. */
  readonly fault?: CredentialsFault | undefined
}

/** A reason of `GET /readyz`. */
export interface CredentialsFault {
  code: string
  message: string
}
