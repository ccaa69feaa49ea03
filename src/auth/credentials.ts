import { singleKey } from './api-key.ts'
import type { Credentials } from './caller.ts'

export interface CredentialOptions {
  apiKey: string | undefined
}

/** Every kind of credentials that is configured. */
export interface OpenCredentials {
  /** Asked one after the other. With none, nobody is asked for credentials. */
  readonly sources: readonly Credentials[]
  close (): Promise<void>
}

export async function openCredentials ({ apiKey }: CredentialOptions): Promise<OpenCredentials> {
  return {
    sources: apiKey === undefined ? [] : [singleKey(apiKey)],
    close: async () => {}
  }
}
