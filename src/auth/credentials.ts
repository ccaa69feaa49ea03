import type { Clock } from '../clock.ts'
import type { Log } from '../tools/tool.ts'
import { singleKey } from './api-key.ts'
import type { Credentials } from './caller.ts'
import { FileKeys } from './keys/file-keys.ts'

export interface CredentialOptions {
  apiKey: string | undefined
  /** The file of keys. */
  keysFile: string | undefined
}

/** Every kind of credentials that is configured. */
export interface OpenCredentials {
  /** Asked one after the other. With none, nobody is asked for credentials. */
  readonly sources: readonly Credentials[]
  close (): Promise<void>
}

/** @throws {GatewayError} `invalid_config` */
export async function openCredentials ({ apiKey, keysFile }: CredentialOptions, clock: Clock, log: Log): Promise<OpenCredentials> {
  const keys = keysFile === undefined ? undefined : await FileKeys.open(keysFile, clock, log)
  return {
    sources: [apiKey === undefined ? undefined : singleKey(apiKey), keys].filter((source) => source !== undefined),
    close: async () => { await keys?.close() }
  }
}
