import { flagOf } from '../config/settings.ts'
import { GatewayError } from '../errors.ts'

/** Ends the process once what went wrong is written: a pipe takes 64 KiB at once. The last thing that its caller does. */
export function fail (error: unknown): void {
  const { code, message, stack } = error as NodeJS.ErrnoException
  const isExpected = error instanceof GatewayError || code === 'EADDRINUSE' || code === 'EADDRNOTAVAIL' || code === 'EACCES' || code === 'ENOTFOUND'
  process.stderr.write(`${isExpected ? message + hintOn(error as NodeJS.ErrnoException) : stack ?? String(error)}\n`, () => process.exit(1))
}

/** The flag that lets a second gateway run beside the first. */
function hintOn ({ code, message }: NodeJS.ErrnoException): string {
  if (code === 'EADDRINUSE') return `; ${flagOf('port')} takes another one`
  return code === 'store_refused' && message.endsWith('in use by another gateway.') ? ` ${flagOf('store')} takes another one.` : ''
}
