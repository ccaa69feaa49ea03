import { BatchResponse, type BatchCall, type BatchMode } from '../contract/batch.ts'
import type { ToolExecutionUpdateEvent } from '../contract/event.ts'
import { InvocationAnswer, InvocationRecord, InvokeResponse, type InvocationReceipt } from '../contract/invocation.ts'
import type { ToolResult } from '../contract/result.ts'
import { responseOfEnd, responseOfRecord } from './answers.ts'
import { ConnectionError, ProtocolError } from './errors.ts'
import { EventSubscription, itemOf, type SubscriptionItem } from './event-subscription.ts'
import { requestText } from './request-text.ts'
import { assertShape } from './shapes.ts'
import { readMessages } from './stream-messages.ts'
import type { Ask, Transport } from './transport.ts'

/** What a call may say beside its input. */
export interface CallOptions {
  /** Sent again within 24 hours with equal input, it is the same call; so it may be tried again when its answer is lost. */
  idempotencyKey?: string | undefined
  /** The caller's own id for the call. */
  toolCallId?: string | undefined
  /** The run that it belongs to. */
  runId?: string | undefined
  /** The call that caused it. */
  parentInvocationId?: string | undefined
  /** Time that it gets, milliseconds from arrival; the tool's own where that is less. */
  timeoutMs?: number | undefined
  /** W3C trace context: the call's span becomes a child of it. */
  traceparent?: string | undefined
  /** Aborting it cancels the call, and rejects with the signal's reason. */
  signal?: AbortSignal | undefined
}

export interface RunOptions extends CallOptions {
  /** Told of progress as it comes, in order. What it throws cancels the call. */
  onUpdate?: ((partialResult: ToolResult, event: ToolExecutionUpdateEvent) => void) | undefined
}

export interface BatchOptions extends Pick<CallOptions, 'runId' | 'traceparent' | 'signal'> {
  /** Default: parallel. A batch with a call of a sequential tool runs in sequence in any case. */
  mode?: BatchMode | undefined
}

/** Time for an answer that is there at once, milliseconds, and beyond what a caller asked for. */
export const PATIENCE_MS = 30_000
/** One wait for a record, seconds; asked for again until the call is over. */
const WAIT_SECONDS = 25
/** Some runtimes give up an answer that has not begun after five minutes; a stream shows signs of life. */
const LONG_CALL_MS = 240_000
/** A stream's silence that tells a lost connection from a slow tool, milliseconds. */
const SILENCE_MS = 45_000

/** Calls of tools, to their end. What they come to is given back as it is; nothing is thrown for a failed call. */
export class Calls {
  readonly #transport: Transport

  constructor (transport: Transport) {
    this.#transport = transport
  }

  /** Runs a tool. Where the connection is lost once the call is known, its record and its events tell how it ends. */
  async run (toolId: string, input: unknown, options: RunOptions): Promise<InvokeResponse> {
    const { onUpdate, signal, idempotencyKey, timeoutMs } = options
    const ask = this.#invocation(toolId, input, options)
    // A call with a key goes on when its caller hangs up. To cancel it, its id has to be known before it is over.
    const isStream = onUpdate !== undefined || (idempotencyKey !== undefined && signal !== undefined) || (timeoutMs ?? 0) > LONG_CALL_MS
    if (isStream) return await this.#follow(ask, options)
    try {
      const { body, status } = await this.#transport.json({ ...ask, patienceMs: timeoutMs === undefined ? undefined : timeoutMs + PATIENCE_MS })
      return assertShape(InvokeResponse, body, 'The answer', status)
    } catch (error) {
      if (!(error instanceof ConnectionError) || error.invocationId === undefined) throw error
      return await this.outcome(error.invocationId, signal)
    }
  }

  /** Has a tool run, and does not wait for it. */
  async accept (toolId: string, input: unknown, options: CallOptions): Promise<InvocationReceipt> {
    const ask = this.#invocation(toolId, input, options)
    const { body, status } = await this.#transport.json({ ...ask, headers: { ...ask.headers, prefer: 'respond-async' }, patienceMs: PATIENCE_MS })
    return assertShape(InvocationAnswer, body, 'The answer', status).invocation
  }

  /** What is on record of a call, once it is over where `waitSeconds` allow for that. */
  async record (invocationId: string, signal?: AbortSignal, waitSeconds?: number): Promise<InvocationRecord> {
    const { body, status } = await this.#transport.json({
      method: 'GET',
      path: pathOf(invocationId),
      ...(waitSeconds === undefined ? {} : { headers: { prefer: `wait=${waitSeconds}` } }),
      signal,
      isRepeatable: true,
      patienceMs: PATIENCE_MS + (waitSeconds ?? 0) * 1000
    })
    return assertShape(InvocationRecord, body, 'The record', status)
  }

  /** How a call ends, by its record: waits for it. */
  async outcome (invocationId: string, signal?: AbortSignal): Promise<InvokeResponse> {
    for (;;) {
      const response = responseOfRecord(await this.record(invocationId, signal, WAIT_SECONDS))
      if (response !== undefined) return response
    }
  }

  /** Ends a call. */
  async cancel (invocationId: string, signal?: AbortSignal): Promise<InvocationReceipt> {
    const { body, status } = await this.#transport.json({
      method: 'POST',
      path: `${pathOf(invocationId)}/cancel`,
      signal,
      // A second cancel of a call is refused, and changes nothing.
      isRepeatable: true,
      patienceMs: PATIENCE_MS
    })
    return assertShape(InvocationAnswer, body, 'The answer', status).invocation
  }

  /** Runs several calls in one request. */
  async batch (calls: readonly BatchCall[], { mode, runId, traceparent, signal }: BatchOptions): Promise<BatchResponse> {
    const { body, status } = await this.#transport.json({
      method: 'POST',
      path: 'batch',
      body: requestText({ calls, mode, runId }),
      ...(traceparent === undefined ? {} : { headers: { traceparent } }),
      signal,
      isRepeatable: false
    })
    return assertShape(BatchResponse, body, 'The answer', status)
  }

  /** Runs a tool and follows it: its updates as they come, its end as the answer. */
  async #follow (ask: Ask, { onUpdate, signal }: RunOptions): Promise<InvokeResponse> {
    const response = await this.#transport.stream(ask)
    if (response === undefined) throw new ProtocolError('The call was answered with nothing.', 204)
    let invocationId = response.headers.get('toolgate-invocation-id') ?? undefined
    let lastEventId: string | undefined
    // Hanging up cancels a call, but one with a key goes on, and so may one whose connection was lost on the way.
    let goesOn = ask.isRepeatable

    const see = async (item: SubscriptionItem | undefined): Promise<InvokeResponse | undefined> => {
      if (item === undefined || item.type === 'events_lost') return undefined
      invocationId = item.invocationId
      if (item.type === 'tool_execution_update' && item.partialResult !== undefined) onUpdate?.(item.partialResult, item)
      return item.type === 'tool_execution_end' ? responseOfEnd(item) ?? await this.outcome(item.invocationId, signal) : undefined
    }

    try {
      try {
        for await (const message of readMessages(response, { silenceMs: SILENCE_MS })) {
          const answer = await see(itemOf(message, response.status))
          if (message.id !== undefined) lastEventId = message.id
          if (answer !== undefined) return answer
        }
        throw new ConnectionError('interrupted', 'The stream ended before the call did.', { invocationId })
      } catch (error) {
        signal?.throwIfAborted()
        if (!(error instanceof ConnectionError) || invocationId === undefined) throw error
      }
      goesOn = true
      for await (const item of new EventSubscription(this.#transport, `${pathOf(invocationId)}/events`, '', { lastEventId, signal }, true)) {
        const answer = await see(item)
        if (answer !== undefined) return answer
      }
      signal?.throwIfAborted()
      return await this.outcome(invocationId, signal)
    } catch (error) {
      if (invocationId !== undefined && goesOn) this.cancel(invocationId).catch(() => {})
      throw error
    }
  }

  #invocation (toolId: string, input: unknown, { idempotencyKey, traceparent, signal, toolCallId, runId, parentInvocationId, timeoutMs }: CallOptions): Ask {
    return {
      method: 'POST',
      path: `tools/${encodeURIComponent(toolId)}/invoke`,
      headers: {
        ...(idempotencyKey === undefined ? {} : { 'idempotency-key': idempotencyKey }),
        ...(traceparent === undefined ? {} : { traceparent })
      },
      body: requestText({ input, toolCallId, runId, parentInvocationId, timeoutMs }),
      signal,
      isRepeatable: idempotencyKey !== undefined
    }
  }
}

function pathOf (invocationId: string): string {
  return `invocations/${encodeURIComponent(invocationId)}`
}
