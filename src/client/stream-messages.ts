import { createParser } from 'eventsource-parser'
import { ConnectionError, ProtocolError } from './errors.ts'
import { PlaceMarker } from './place-marker.ts'

/** One message of an event stream. `event` is `placeEvent` where it tells of a place and nothing else. */
export interface StreamMessage {
  id: string | undefined
  event: string
  data: string
}

export interface ReadOptions {
  /** A connection that brings nothing for so long is given up, milliseconds; a gateway tells of itself every 15 seconds. */
  silenceMs: number
  /** How long the gateway would have a client wait before it comes back, milliseconds. */
  onRetry?: (ms: number) => void
  /** Characters of one message, past which it is none. Default: room for the largest result that a gateway can be set to send. */
  maxLength?: number
}

/** A result of 256 MiB, and what stands around it. */
const MAX_MESSAGE_LENGTH = 260 * 1024 * 1024

/**
 * Reads a response's messages as they come, no faster than they are taken. Whoever stops reading closes the connection.
 *
 * @throws {ConnectionError} `interrupted` where it is cut, or silent for too long
 * @throws {ProtocolError} where it is no event stream
 */
export async function * readMessages ({ body, headers, status }: Response, { silenceMs, onRetry, maxLength = MAX_MESSAGE_LENGTH }: ReadOptions): AsyncGenerator<StreamMessage, void, undefined> {
  const invocationId = headers.get('toolgate-invocation-id') ?? undefined
  const lost = (message: string, cause?: unknown) => new ConnectionError('interrupted', message, { cause, invocationId })
  const reader = body!.getReader()
  const decoder = new TextDecoder('utf-8', { fatal: true })
  const marker = new PlaceMarker()
  let messages: StreamMessage[] = []
  let garbage: unknown
  let hasSpoken = false
  const parser = createParser({
    maxBufferSize: maxLength,
    onEvent: ({ id, event, data }) => {
      hasSpoken = true
      messages.push({ id, event: event ?? 'message', data })
    },
    // Lines without a meaning are passed over, but where a stream begins with them it is something else.
    onError: (error) => {
      if (error.type === 'max-buffer-size-exceeded' || (error.type === 'unknown-field' && !hasSpoken)) garbage ??= error
    },
    onRetry: (ms) => {
      hasSpoken = true
      onRetry?.(ms)
    }
  })
  try {
    for (;;) {
      const { done, value } = await unlessSilent(reader.read(), silenceMs, lost)
      if (done) return
      try {
        parser.feed(marker.mark(decoder.decode(value, { stream: true })))
      } catch (cause) {
        garbage ??= cause
      }
      for (const message of messages) yield message
      messages = []
      if (garbage !== undefined) throw new ProtocolError('This is no event stream of a gateway.', status, { cause: garbage })
    }
  } finally {
    reader.cancel().catch(() => {})
  }
}

async function unlessSilent<T> (reading: Promise<T>, silenceMs: number, lost: (message: string, cause?: unknown) => ConnectionError): Promise<T> {
  let timer: ReturnType<typeof setTimeout> | undefined
  const silence = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(lost(`The stream was silent for ${silenceMs} ms.`)), silenceMs)
  })
  try {
    return await Promise.race([reading.catch((cause: unknown) => { throw lost('The stream was cut.', cause) }), silence])
  } finally {
    clearTimeout(timer)
  }
}
