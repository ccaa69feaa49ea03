import type { BatchCall, BatchMode, BatchResponse } from '../contract/batch.ts'
import type { ToolExecutionUpdateEvent } from '../contract/event.ts'
import type { InvocationReceipt, InvokeResponse } from '../contract/invocation.ts'
import type { ToolResult } from '../contract/result.ts'
import { ConnectionError } from './errors.ts'
import { FollowedCall } from './followed-call.ts'
import { answerOf, batchOf, receiptOf } from './held-answers.ts'
import { LINGER_MS, unlessAborted } from './lingering.ts'
import { Records } from './records.ts'
import { requestText } from './request-text.ts'
import { PATIENCE_MS, type Ask, type Transport } from './transport.ts'
import { pathText } from './url-text.ts'

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
  /**
   * Told of progress as it comes, in order, and awaited. What it throws cancels the call, and rejects. Where the connection was
   * lost on the way, what is over the size limit of events is left out.
   */
  onUpdate?: ((partialResult: ToolResult, event: ToolExecutionUpdateEvent) => unknown) | undefined
}

export interface BatchOptions extends Pick<CallOptions, 'runId' | 'traceparent' | 'signal'> {
  /** Default: parallel. A batch with a call of a sequential tool runs in sequence in any case. */
  mode?: BatchMode | undefined
}

/** Some runtimes give up an answer that has not begun after five minutes; a stream shows signs of life. */
const LONG_CALL_MS = 240_000

/** Calls of tools. What they come to is given back as it is; nothing is thrown for a failed call. */
export class Calls {
  readonly #transport: Transport
  readonly #records: Records

  constructor (transport: Transport, records: Records) {
    this.#transport = transport
    this.#records = records
  }

  /** Runs a tool. Where the connection is lost once the call is known, its record and its events tell how it ends. */
  async run (toolId: string, input: unknown, options: RunOptions): Promise<InvokeResponse> {
    const { onUpdate, signal, idempotencyKey, timeoutMs } = options
    const ask = askFor(toolId, input, options)
    // A call with a key goes on when its caller hangs up. To cancel it, its id has to be known before it is over.
    const isStream = onUpdate !== undefined || (idempotencyKey !== undefined && signal !== undefined) || (timeoutMs ?? 0) > LONG_CALL_MS
    if (isStream) return await new FollowedCall(this.#transport, this.#records, toolId, ask, options).end()
    try {
      return await this.#transport.json({ ...ask, signal, patienceMs: timeoutMs === undefined ? null : timeoutMs + PATIENCE_MS }, answerOf(toolId))
    } catch (error) {
      if (!(error instanceof ConnectionError) || error.invocationId === undefined) throw error
      return await this.#records.ending({ invocationId: error.invocationId, toolId }, signal)
    }
  }

  /** Has a tool run, and does not wait for it. */
  async accept (toolId: string, input: unknown, options: CallOptions): Promise<InvocationReceipt> {
    const { signal } = options
    const ask = askFor(toolId, input, options)
    const hangUp = new AbortController()
    const asking = this.#transport.json({
      ...ask, headers: { ...ask.headers, prefer: 'respond-async' }, signal: hangUp.signal, noMore: signal
    }, receiptOf({ toolId }))
    try {
      return await unlessAborted(asking, { signal, hangUp, lingerMs: LINGER_MS, onLate: ({ invocationId }) => this.#records.cancel(invocationId) })
    } catch (error) {
      if (!(error instanceof ConnectionError) || error.invocationId === undefined) throw error
      return (await this.#records.read(error.invocationId, signal)).invocation
    }
  }

  /** Runs several calls in one request. */
  async batch (calls: readonly BatchCall[], { mode, runId, traceparent, signal }: BatchOptions): Promise<BatchResponse> {
    return await this.#transport.json({
      method: 'POST',
      path: 'batch',
      body: requestText({ calls, mode, runId }),
      ...(traceparent === undefined ? {} : { headers: { traceparent } }),
      signal,
      isRepeatable: false,
      patienceMs: null
    }, batchOf(calls))
  }
}

function askFor (toolId: string, input: unknown, { idempotencyKey, traceparent, toolCallId, runId, parentInvocationId, timeoutMs }: CallOptions): Ask {
  return {
    method: 'POST',
    path: pathText('tools', toolId, '/invoke'),
    headers: {
      ...(idempotencyKey === undefined ? {} : { 'idempotency-key': idempotencyKey }),
      ...(traceparent === undefined ? {} : { traceparent })
    },
    body: requestText({ input, toolCallId, runId, parentInvocationId, timeoutMs }),
    isRepeatable: idempotencyKey !== undefined
  }
}
