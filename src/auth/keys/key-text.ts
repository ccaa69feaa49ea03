import { hash, randomBytes } from 'node:crypto'

const keyText = /^tgk_[0-9a-z]{12}_[A-Za-z0-9_-]{43}$/

export interface NewKey {
  /** Public: it names the key in lists and logs. */
  id: string
  /** The key itself, `tgk_<id>_<secret>`. It is kept nowhere. */
  text: string
}

export function createKey (): NewKey {
  const id = randomBytes(6).toString('hex')
  return { id, text: `tgk_${id}_${randomBytes(32).toString('base64url')}` }
}

/** Whether a token has the form of a key. What somebody thought up, and others can guess, does not. */
export function isKeyText (token: string): boolean {
  return keyText.test(token)
}

/**
 * What is kept of a key. A fast hash without salt is right here: with 256 random bits there is nothing to guess or to look
 * up in a table, and a slow one would cost each request what it was to cost those who guess passwords.
 */
export function hashOf (text: string): string {
  return `sha256:${hash('sha256', text)}`
}
