import type { ToolExecutionUpdateEvent } from '../contract/event.ts'
import type { InvokeResponse } from '../contract/invocation.ts'
import { responseOfEnd } from './answers.ts'
import type { RunOptions } from './calls.ts'
import { ConnectionError, ProtocolError } from './errors.ts'
import { EventSubscription, itemOf, type SubscriptionItem } from './event-subscription.ts'
import { assertSubject, assertVerdict } from './held-answers.ts'
import { LINGER_MS, unlessAborted } from './lingering.ts'
import { isAbsence } from './losses.ts'
import type { Records } from './records.ts'
import { readMessages } from './stream-messages.ts'
import type { Ask, Transport } from './transport.ts'
import { pathText } from './url-text.ts'

/** A stream's silence that tells a lost connection from a slow tool, milliseconds. */
const SILENCE_MS = 45_000
/** The status of every stream. */
const OK = 200

/** A call that is answered with its events: its updates as they come, its end as the answer. */
export class FollowedCall {
  readonly #transport: Transport
  readonly #records: Records
  readonly #toolId: string
  readonly #ask: Ask
  readonly #options: Pick<RunOptions, 'onUpdate' | 'signal'>
  /** Aborted where the caller wants no more of the call, with what that is told; and when all is over. */
  readonly #hangUp = new AbortController()
  /** Whether hanging up leaves it running: a call with a key goes on, and so may one whose connection was lost on the way. */
  #goesOn: boolean
  #invocationId: string | undefined
  #lastEventId: string | undefined

  constructor (transport: Transport, records: Records, toolId: string, ask: Ask, options: Pick<RunOptions, 'onUpdate' | 'signal'>) {
    this.#transport = transport
    this.#records = records
    this.#toolId = toolId
    this.#ask = ask
    this.#options = options
    this.#goesOn = ask.isRepeatable
  }

  /** Sends it, and gives its answer, through whatever becomes of the connection. */
  async end (): Promise<InvokeResponse> {
    const { signal } = this.#options
    const hangUp = this.#hangUp
    const onAbort = () => hangUp.abort(signal!.reason)
    const response = await this.#open()
    signal?.addEventListener('abort', onAbort)
    if (signal?.aborted === true) onAbort()
    try {
      return await this.#read(response) ?? await this.#resume()
    } catch (error) {
      if (!hangUp.signal.aborted) throw error
      if (this.#goesOn) this.#cancel()
      throw hangUp.signal.reason
    } finally {
      signal?.removeEventListener('abort', onAbort)
      hangUp.abort()
    }
  }

  async #open (): Promise<Response> {
    const { signal } = this.#options
    const note = (response: Response | undefined) => { this.#invocationId = response?.headers.get('toolgate-invocation-id') ?? undefined }
    const opening = this.#transport.stream({ ...this.#ask, signal: this.#hangUp.signal, noMore: signal })
    const response = await unlessAborted(opening, {
      signal,
      hangUp: this.#hangUp,
      lingerMs: this.#goesOn ? LINGER_MS : 0,
      onLate: (late) => {
        note(late)
        this.#cancel()
      }
    })
    if (response === undefined) throw new ProtocolError('The call was answered with nothing.', 204)
    note(response)
    return response
  }

  /** Reads the answer's stream; undefined where it is lost, and the call is known. */
  async #read (response: Response): Promise<InvokeResponse | undefined> {
    try {
      for await (const message of readMessages(response, { silenceMs: SILENCE_MS })) {
        const answer = await this.#see(itemOf(message, response.status))
        if (message.id !== undefined) this.#lastEventId = message.id
        if (answer !== undefined) return answer
      }
      throw new ConnectionError('interrupted', 'The stream ended before the call did.')
    } catch (error) {
      if (this.#isFinal(error) || this.#invocationId === undefined) throw error
      this.#goesOn = true
    }
  }

  /** Goes on with the call's events where the stream was lost, and with its record where they cannot be had. */
  async #resume (): Promise<InvokeResponse> {
    const invocationId = this.#invocationId!
    const { signal } = this.#hangUp
    const events = new EventSubscription(this.#transport.persistent, pathText('invocations', invocationId, '/events'), '', { lastEventId: this.#lastEventId, signal }, true)
    try {
      for await (const item of events) {
        const answer = await this.#see(item)
        if (answer !== undefined) return answer
      }
    } catch (error) {
      if (this.#isFinal(error)) throw error
    }
    return await this.#records.ending({ invocationId, toolId: this.#toolId }, signal)
  }

  /** Takes what is told; the answer, where that was the end. */
  async #see (item: SubscriptionItem | undefined): Promise<InvokeResponse | undefined> {
    if (item === undefined || item.type === 'events_lost') return undefined
    assertSubject(item, { toolId: this.#toolId, invocationId: this.#invocationId }, OK)
    this.#invocationId = item.invocationId
    if (item.type === 'tool_execution_update') await this.#tell(item)
    if (item.type !== 'tool_execution_end') return undefined
    assertVerdict(item.isError, item, OK)
    const answer = responseOfEnd(item)
    if (answer === undefined) return await this.#records.ending(item, this.#hangUp.signal)
    assertVerdict(answer.isError, item, OK)
    return answer
  }

  async #tell (event: ToolExecutionUpdateEvent): Promise<void> {
    if (event.partialResult === undefined) return
    try {
      await this.#options.onUpdate?.(event.partialResult, event)
    } catch (error) {
      this.#hangUp.abort(error)
    }
    this.#hangUp.signal.throwIfAborted()
  }

  /** Whether a failure is more than a connection that was lost. */
  #isFinal (error: unknown): boolean {
    return this.#hangUp.signal.aborted || !isAbsence(error)
  }

  #cancel (): void {
    if (this.#invocationId !== undefined) this.#records.cancel(this.#invocationId).catch(() => {})
  }
}
