import { InvalidArgumentError } from 'commander'

/** The id of a tool or a call, for commander. What only the gateway can know of it is the gateway's to say. */
export function pathId (text: string): string {
  if (/^\.{0,2}$/.test(text)) throw new InvalidArgumentError('There can be no such id.')
  return text
}

/** An idempotency key, for commander: what a header carries as it is. */
export function idempotencyKey (text: string): string {
  if (!/^[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?$/.test(text)) throw new InvalidArgumentError('It must be ASCII, with no control characters, and no spaces around it.')
  return text
}
