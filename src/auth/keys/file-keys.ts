import { resolve } from 'node:path'
import type { Clock } from '../../clock.ts'
import type { Log } from '../../tools/tool.ts'
import type { Caller, Credentials, CredentialsFault } from '../caller.ts'
import { FollowedFile } from './followed-file.ts'
import { readKeys } from './key-file.ts'
import { KeyRing } from './key-ring.ts'

/** Keys that stand in a file. What changes there takes effect within a second. */
export class FileKeys implements Credentials {
  readonly #ring: KeyRing
  readonly #file: FollowedFile

  private constructor (ring: KeyRing, file: FollowedFile) {
    this.#ring = ring
    this.#file = file
  }

  /**
   * Once it is open, a file that cannot be used leaves the keys from before in force.
   * @throws {GatewayError} `invalid_config` where it cannot be used now
   */
  static async open (given: string, clock: Clock, log: Log): Promise<FileKeys> {
    const path = resolve(given)
    const ring = new KeyRing(clock)
    let isFirst = true
    const file = new FollowedFile({
      path,
      clock,
      async read () {
        const { added, changed, removed } = ring.use(await readKeys(path))
        if (!isFirst && added.length + changed.length + removed.length === 0) return
        isFirst = false
        log.info({ file: path, keys: ring.size, inForce: ring.inForce, added, changed, removed }, 'keys were loaded')
        if (ring.inForce === 0) log.warn({ file: path }, 'no key of the file is in force')
      },
      onFault: (reason) => log.error({ file: path, reason }, 'the keys file cannot be used; the keys from before stay in force'),
      onMended: () => log.info({ file: path }, 'the keys file can be used again')
    })
    await file.open()
    return new FileKeys(ring, file)
  }

  // The reason names the file and stays in the log: everyone may be told this.
  get fault (): CredentialsFault | undefined {
    if (this.#file.fault === undefined) return undefined
    return { code: 'keys_unreadable', message: 'The keys file cannot be used; the keys from before stay in force. The log says why.' }
  }

  find (token: string): Caller | undefined {
    return this.#ring.find(token)
  }

  async close (): Promise<void> {
    await this.#file.close()
  }
}
