import type { InvocationReceipt, InvocationRecord, InvokeResponse } from '../contract/invocation.ts'
import { responseOfRecord } from './answers.ts'
import { ConnectionError } from './errors.ts'
import { assertSubject, receiptOf, recordOf } from './held-answers.ts'
import { isAbsence } from './losses.ts'
import { elapsed } from './retry.ts'
import { PATIENCE_MS, type Transport } from './transport.ts'
import { pathText } from './url-text.ts'

/** One wait for a record, seconds; asked for again until the call is over. */
const WAIT_SECONDS = 25
/** The status of every record. */
const OK = 200

/** Calls that have an id. */
export class Records {
  readonly #transport: Transport

  constructor (transport: Transport) {
    this.#transport = transport
  }

  /** What is on record of a call. */
  async read (invocationId: string, signal?: AbortSignal): Promise<InvocationRecord> {
    return await this.#read(this.#transport, invocationId, signal)
  }

  /** The record, once the call is over where `waitSeconds` allow for that. */
  async #read (transport: Transport, invocationId: string, signal?: AbortSignal, waitSeconds?: number): Promise<InvocationRecord> {
    return await transport.json({
      method: 'GET',
      path: pathText('invocations', invocationId),
      ...(waitSeconds === undefined ? {} : { headers: { prefer: `wait=${waitSeconds}` } }),
      signal,
      isRepeatable: true,
      patienceMs: PATIENCE_MS + (waitSeconds ?? 0) * 1000
    }, recordOf(invocationId))
  }

  /** How a call ends: waits for it, also while a gateway starts again. */
  async outcome (invocationId: string, signal?: AbortSignal): Promise<InvokeResponse> {
    const transport = this.#transport.persistent
    for (;;) {
      const response = responseOfRecord(await this.#read(transport, invocationId, signal, WAIT_SECONDS))
      if (response !== undefined) return response
      // What is between here and the gateway may keep the wish to wait from it.
      if (!await elapsed(this.#transport.retry.minDelayMs, signal)) throw signal!.reason
    }
  }

  /**
   * How a call ends whose answer was lost.
   * @throws {ConnectionError} `interrupted` with its id, whatever keeps the record from us: the tool may have run
   */
  async ending ({ invocationId, toolId }: { invocationId: string, toolId: string }, signal?: AbortSignal): Promise<InvokeResponse> {
    try {
      const response = await this.outcome(invocationId, signal)
      assertSubject(response.invocation, { toolId }, OK)
      return response
    } catch (error) {
      if (!isAbsence(error) || signal?.aborted === true) throw error
      throw new ConnectionError('interrupted', `The answer was lost, and the record of the call cannot be had: ${error.message}`, { cause: error, invocationId })
    }
  }

  /** Ends a call. */
  async cancel (invocationId: string, signal?: AbortSignal): Promise<InvocationReceipt> {
    return await this.#transport.json({
      method: 'POST',
      path: pathText('invocations', invocationId, '/cancel'),
      signal,
      // A second cancel of a call is refused, and changes nothing.
      isRepeatable: true
    }, receiptOf({ invocationId }))
  }
}
