import { InvalidArgumentError } from 'commander'

/** What an option of a number is given, for commander. */
export function wholeNumber (text: string): number {
  if (!/^[1-9]\d{0,14}$/.test(text)) throw new InvalidArgumentError('It must be a whole number, 1 or more.')
  return Number(text)
}
