import assert from 'node:assert/strict'
import { request, type IncomingHttpHeaders, type IncomingMessage } from 'node:http'
import { createParser, type EventSourceParser } from 'eventsource-parser'
import { waitFor, within, type Scope } from './harness.ts'

export interface StreamEvent {
  id: string | undefined
  event: string | undefined
  data: any
}

export interface StreamOptions {
  path?: string
  method?: string
  headers?: Record<string, string>
  body?: string
  /** Destroys the connection after this many body bytes, none of the later ones read. */
  cutAfterBytes?: number
  /** Keeps no more than the ids: for streams of very many events. */
  onEvent?: (event: StreamEvent) => void
}

/** A subscriber over a connection of its own: parses the stream, keeps what came, and knows how it ended. */
export class EventClient {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly events: StreamEvent[] = []
  /** All body bytes, as text. */
  text = ''
  /** The id of the last message that had one, with or without data: where an EventSource would resume. */
  lastId: string | undefined
  /** `ended` where the body was complete, `cut` where the connection went away inside it; undefined while it stands. */
  how: 'ended' | 'cut' | undefined
  readonly #response: IncomingMessage
  readonly #parser: EventSourceParser
  #bytes = 0
  #pending = ''
  readonly #closed: Promise<void>

  constructor (response: IncomingMessage, { cutAfterBytes = Infinity, onEvent }: StreamOptions) {
    this.#response = response
    this.status = response.statusCode!
    this.headers = response.headers
    const decoder = new TextDecoder('utf-8', { fatal: true })
    this.#parser = createParser({
      onEvent: ({ id, event, data }) => {
        const message = { id, event, data: JSON.parse(data) }
        if (onEvent === undefined) this.events.push(message)
        else onEvent(message)
      },
      onError: (error) => assert.fail(error)
    })
    response.on('data', (chunk: Buffer) => {
      const room = cutAfterBytes - this.#bytes
      this.#bytes += chunk.length
      if (room <= 0) return
      const text = decoder.decode(chunk.length > room ? chunk.subarray(0, room) : chunk, { stream: true })
      if (onEvent === undefined) this.text += text
      this.#noteIds(text)
      this.#parser.feed(text)
      if (this.#bytes >= cutAfterBytes) response.destroy()
    })
    this.#closed = new Promise((resolve) => response.once('close', () => {
      this.how = response.complete ? 'ended' : 'cut'
      resolve()
    }))
    response.on('error', () => {}) // a cut; `how` tells of it
  }

  /** Ids count once their message is complete: the parser tells no message without data, so they are read here. */
  #noteIds (text: string): void {
    const messages = (this.#pending + text).split('\n\n')
    this.#pending = messages.pop()!
    for (const message of messages) {
      const id = /^id: (.*)$/m.exec(message)?.[1]
      if (id !== undefined) this.lastId = id
    }
  }

  /** Events of one type, or all. */
  of (type: string): StreamEvent[] {
    return this.events.filter(({ event }) => event === type)
  }

  get ends (): any[] {
    return this.of('tool_execution_end').map(({ data }) => data)
  }

  /** The end event of a call, once it came. */
  async endOf (invocationId: string): Promise<any> {
    return await waitFor(() => this.ends.find((end) => end.invocationId === invocationId), `the end event of ${invocationId}`)
  }

  /** All events of a call. */
  about (invocationId: string): any[] {
    return this.events.map(({ data }) => data).filter((data) => data.invocationId === invocationId)
  }

  /** How the stream ended, once it has. */
  async closed (): Promise<'ended' | 'cut'> {
    await within(this.#closed, 'the end of the stream', 10_000)
    return this.how!
  }

  /** Stops reading; the operating system's buffers fill, then the gateway's. */
  pause (): void {
    this.#response.pause()
  }

  resume (): void {
    this.#response.resume()
  }

  destroy (): void {
    this.#response.destroy()
  }
}

/** Opens a stream; resolves with its headers. */
export function openStream (t: Scope, url: string, options: StreamOptions = {}): Promise<EventClient> {
  const { path = '/events', method = 'GET', headers = {}, body } = options
  return within(new Promise((resolve, reject) => {
    const call = request(url + path, { method, agent: false, headers: { ...(body === undefined ? {} : { 'content-type': 'application/json' }), ...headers } })
    call.once('error', reject)
    call.once('response', (response) => {
      call.off('error', reject)
      call.on('error', () => {})
      resolve(new EventClient(response, options))
    })
    t.after(() => call.destroy())
    call.end(body)
  }), `headers of ${method} ${path}`)
}

/** A call answered as a stream. */
export function invokeAsStream (t: Scope, url: string, toolId: string, input?: unknown): Promise<EventClient> {
  return openStream(t, url, {
    path: `/tools/${toolId}/invoke`,
    method: 'POST',
    headers: { accept: 'text/event-stream' },
    body: JSON.stringify(input === undefined ? {} : { input })
  })
}
