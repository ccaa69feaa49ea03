import { isatty } from 'node:tty'

/** Tells whether a terminal that the process was started from is gone. */
export function watchTerminals (): () => boolean {
  const terminals = [0, 1, 2].filter((descriptor) => isatty(descriptor))
  return () => terminals.some((descriptor) => !isatty(descriptor))
}
