import { createCipheriv, createDecipheriv, randomInt, type Cipheriv, type Decipheriv } from 'node:crypto'

const shape = /^[0-9a-f]{32}$/
const MAX_SALT = 0xffff

/**
 * Ids of places that tell nothing but to their log: the epoch and the sequence, encrypted as one block. Who does not have
 * the log's secret can neither count with them nor make one up.
 */
export class SealedIds {
  /** Each id is one block, and blocks do not depend on one another: one cipher does for all of them. */
  readonly #cipher: Cipheriv
  readonly #decipher: Decipheriv

  /** @param secret 32 hex digits, the same for as long as the log is there */
  constructor (secret: string) {
    const key = Buffer.from(secret, 'hex')
    this.#cipher = createCipheriv('aes-128-ecb', key, null).setAutoPadding(false)
    this.#decipher = createDecipheriv('aes-128-ecb', key, null).setAutoPadding(false)
  }

  /** @param isSalted another id each time, for the same place */
  seal (epoch: string, sequence: number, isSalted: boolean): string {
    const block = Buffer.alloc(16)
    block.write(epoch, 'hex')
    block.writeUIntBE(sequence, 8, 6)
    if (isSalted) block.writeUInt16BE(randomInt(1, MAX_SALT), 14)
    return this.#cipher.update(block, undefined, 'hex')
  }

  /** The plain parts; undefined for what cannot be one of ours. What was made up gives an epoch that no log has. */
  open (id: string): { epoch: string, sequence: number } | undefined {
    if (!shape.test(id)) return undefined
    const block = this.#decipher.update(Buffer.from(id, 'hex'))
    return { epoch: block.toString('hex', 0, 8), sequence: block.readUIntBE(8, 6) }
  }
}
