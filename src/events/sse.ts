/** Server-sent events as text. Pure: the data is JSON in one line, so nothing in it can break out of its message. */

/** The first bytes of a stream, sent with its headers: the connection stands, and how soon to come back. */
export const opening = ': connected\nretry: 2000\n\n'

export const headers = {
  'content-type': 'text/event-stream',
  'cache-control': 'no-store, no-transform',
  'x-accel-buffering': 'no'
} as const

export function message (id: string, event: string, json: string): string {
  return `id: ${id}\nevent: ${event}\ndata: ${json}\n\n`
}

/** A message about the stream itself; it is no place to resume from. */
export function notice (event: string, json: string): string {
  return `event: ${event}\ndata: ${json}\n\n`
}

/** The place reached, without data: an EventSource keeps the id and fires nothing. */
export function place (id: string): string {
  return `id: ${id}\n\n`
}
