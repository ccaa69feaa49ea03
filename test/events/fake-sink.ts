import { createParser } from 'eventsource-parser'
import type { Burst } from '../../src/events/burst.ts'
import type { Sink } from '../../src/events/sink.ts'

export interface Message { id: string | undefined, event: string | undefined, data: any }

/** A receiver in memory. It takes everything at once, until a test makes it slow. */
export class FakeSink implements Sink {
  text = ''
  writes = 0
  state: 'open' | 'ended' | 'destroyed' | 'gone' = 'open'
  /** Bytes that wait, as a test sets them; a slow sink adds what is written. */
  backlog = 0
  slow = false
  #listeners: (() => void)[] = []
  #drained: PromiseWithResolvers<void> | undefined

  write (burst: Burst): void {
    if (this.state !== 'open') throw new Error(`written to when ${this.state}`)
    // As an HTTP chunk, nothing at all would be the end of the stream.
    if (burst.plain.length === 0) throw new Error('nothing was written')
    this.writes++
    this.text += burst.plain.toString()
    if (this.slow) this.backlog += burst.plain.length
  }

  drained (): Promise<void> | undefined {
    if (this.backlog === 0) return undefined
    this.#drained ??= Promise.withResolvers()
    return this.#drained.promise
  }

  end (): void {
    this.#finish('ended')
  }

  destroy (): void {
    this.#finish('destroyed')
  }

  onClose (listener: () => void): void {
    if (this.state === 'open') this.#listeners.push(listener)
    else listener()
  }

  /** The receiver reads all that waits. */
  drain (): void {
    this.backlog = 0
    const drained = this.#drained
    this.#drained = undefined
    drained?.resolve()
  }

  /** The receiver goes away. */
  leave (): void {
    this.#finish('gone')
  }

  #finish (state: FakeSink['state']): void {
    if (this.state !== 'open') return
    this.state = state
    for (const listener of this.#listeners.splice(0)) listener()
    this.drain()
  }

  /** The messages so far. */
  get messages (): Message[] {
    const messages: Message[] = []
    createParser({ onEvent: ({ id, event, data }) => messages.push({ id, event, data: JSON.parse(data) }) }).feed(this.text)
    return messages
  }

  /** The events among them, by their place in the log. */
  get places (): number[] {
    return this.messages.filter(({ event }) => event !== 'events_lost').map(({ id }) => Number(id!.split('-')[1]))
  }

  /** The id that an EventSource would resume with. */
  get lastId (): string | undefined {
    return [...this.text.matchAll(/^id: (.*)$/gm)].at(-1)?.[1]
  }
}
