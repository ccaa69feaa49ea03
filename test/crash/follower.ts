import { once } from 'node:events'
import { request } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Target } from './target.ts'

/** A message of a stream that has data, as it came. */
export interface Message {
  id: string | undefined
  event: string
  data: string
}

export interface StreamHandlers {
  onHead?: (status: number, headers: NodeJS.Dict<string | string[]>) => void
  onMessage: (message: Message) => void
  /** The place that a message with an id names, with data or without. */
  onPlace?: (id: string) => void
  /** What no server-sent event stream of ours has. */
  onFault: (what: string) => void
  /** The answer's body, where it is no stream. */
  onOther?: (text: string) => void
  signal?: AbortSignal | undefined
}

export interface StreamRequest {
  method?: string
  headers?: Record<string, string>
  body?: string
}

/**
 * Reads a stream by hand, over a connection of its own: only what is whole counts, as an EventSource has it.
 * @returns how it ended; `none` where there was no answer
 */
export function readStream (url: string, { method = 'GET', headers = {}, body }: StreamRequest, handlers: StreamHandlers): Promise<'ended' | 'cut' | 'none'> {
  return new Promise((resolve) => {
    const call = request(url, { method, headers, agent: false, ...(handlers.signal === undefined ? {} : { signal: handlers.signal }) })
    call.once('error', () => resolve('none')) // where it had answered, this comes too late
    call.once('response', (response) => {
      handlers.onHead?.(response.statusCode!, response.headers)
      const isStream = response.headers['content-type'] === 'text/event-stream'
      const decoder = new TextDecoder('utf-8', { fatal: true })
      let pending = ''
      response.on('data', (chunk: Buffer) => {
        const blocks = (pending + decoder.decode(chunk, { stream: true })).split('\n\n')
        pending = blocks.pop()!
        if (!isStream) pending = [...blocks, pending].join('\n\n')
        else for (const block of blocks) readBlock(block, handlers)
      })
      response.on('error', () => {}) // a cut
      response.once('close', () => {
        if (!isStream && response.complete) handlers.onOther?.(pending)
        else if (response.complete && pending !== '') handlers.onFault(`the stream ended inside a message: ${pending}`)
        resolve(response.complete ? 'ended' : 'cut')
      })
    })
    call.end(body)
  })
}

function readBlock (block: string, { onMessage, onPlace, onFault }: StreamHandlers): void {
  let id: string | undefined
  let event = 'message'
  let data: string | undefined
  for (const line of block.split('\n')) {
    const [, name, value] = /^([a-z]*): (.*)$/.exec(line) ?? []
    if (name === 'id') id = value!
    else if (name === 'event') event = value!
    else if (name === 'data' && data === undefined) data = value!
    else if (name !== '' && name !== 'retry') onFault(`a line that says nothing: ${line}`)
  }
  if (data !== undefined) onMessage({ id, event, data })
  if (id !== undefined) onPlace?.(id)
}

/** Follows the events of a path through every restart, each time from the last place that it was told. */
export class Follower {
  readonly path: string
  readonly messages: Message[] = []
  readonly faults: string[] = []
  connections = 0
  lastId: string | undefined
  /** How the last stream ended. */
  how: 'ended' | 'cut' | 'none' | undefined
  readonly #target: Target
  readonly #stopped = new AbortController()
  readonly #aborted: Promise<unknown>

  constructor (target: Target, path: string) {
    this.#target = target
    this.path = path
    this.#aborted = once(this.#stopped.signal, 'abort')
  }

  /** Resolves when it was stopped, or when `isOver` says of the messages that came that nothing more will. */
  async run (isOver: (last: Message | undefined) => boolean = () => false): Promise<void> {
    const { signal } = this.#stopped
    while (!signal.aborted && !isOver(this.messages.at(-1))) {
      await Promise.race([this.#target.up, this.#aborted])
      if (signal.aborted) return
      let isDone = false
      const headers = this.lastId === undefined ? {} : { 'last-event-id': this.lastId }
      this.how = await readStream(this.#target.url + this.path, { headers }, {
        signal,
        onHead: (status) => {
          this.connections++
          // Told that there is nothing more to come.
          if (status === 204) isDone = true
          else if (status !== 200) this.faults.push(`status ${status}`)
        },
        onMessage: (message) => { this.messages.push(message) },
        onPlace: (id) => { this.lastId = id },
        onFault: (what) => { this.faults.push(what) }
      })
      if (isDone) return
      if (this.how !== 'ended') await sleep(5)
    }
  }

  stop (): void {
    this.#stopped.abort()
  }
}
