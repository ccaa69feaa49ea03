import type { BatchCall, BatchResponse } from '../contract/batch.ts'
import type { EventQuery } from '../contract/event.ts'
import { InvocationList, type InvocationQuery, type InvocationReceipt, type InvocationRecord } from '../contract/invocation.ts'
import { ToolDescriptor, ToolList } from '../contract/tool.ts'
import { conclude, type Answer, type AnswerOptions } from './answers.ts'
import { Calls, type BatchOptions, type CallOptions, type RunOptions } from './calls.ts'
import { EventSubscription, type FollowOptions } from './event-subscription.ts'
import { assertSubject } from './held-answers.ts'
import { Records } from './records.ts'
import { retryPolicy, type RetryOptions } from './retry.ts'
import { assertSchema, assertShape } from './shapes.ts'
import { Transport, type Auth } from './transport.ts'
import { pathText, queryText, type OneOrMany } from './url-text.ts'

export interface ClientOptions {
  /** Where the gateway is, with a path where it stands below one: `http://127.0.0.1:8080`. */
  url: string
  /** The key that the gateway asks for, or what gives it; asked before each request. */
  auth?: Auth | undefined
  /** In the place of the runtime's own, for a proxy or a certificate of one's own. */
  fetch?: typeof fetch | undefined
  /** How often and how soon to try again, where trying again is safe. */
  retry?: RetryOptions | undefined
}

export interface InvokeOptions<Schema = undefined, Throws = true> extends RunOptions, AnswerOptions<Schema, Throws> {}

export interface WaitOptions<Schema = undefined, Throws = true> extends AnswerOptions<Schema, Throws> {
  /** Aborting it ends the waiting, not the call. */
  signal?: AbortSignal | undefined
}

/** Which events: different names narrow, several values of one widen. */
export type EventsFilter = OneOrMany<Omit<EventQuery, 'view' | 'lastEventId'>>

export interface EventsOptions extends FollowOptions {
  filter?: EventsFilter | undefined
  /** `receipt` leaves out `args`, `partialResult` and `result`. Default: `full`. */
  view?: 'full' | 'receipt' | undefined
}

interface Abortable { signal?: AbortSignal | undefined }

/**
 * A gateway, seen from a consumer.
 *
 * Contract, for every method:
 * - What it gives has been held to the wire's schemas. {@link ProtocolError} where something else came.
 * - {@link ProblemError} where the gateway refused; then nothing was run.
 * - {@link ConnectionError} where there was no answer. It is tried again where that is safe: a request that was never sent,
 *   one that the gateway refused for the moment, one that changes nothing, and a call with an `idempotencyKey`.
 * - An aborted signal rejects with its reason, but for a loop over events, which it ends.
 */
export interface Client {
  readonly url: string
  /** Every tool. Descriptions that have not changed are not sent again. */
  tools (options?: Abortable): Promise<ToolDescriptor[]>
  /** One tool. */
  tool (toolId: string, options?: Abortable): Promise<ToolDescriptor>
  /**
   * Runs a tool.
   *
   * @throws {ToolError} where the call failed, unless `throwOnError` is false; it has the whole answer
   * @throws {OutputError} where a success breaks the schema given as `output`
   * @throws {TypeError} for input that JSON cannot carry, and a schema that cannot be used; then nothing was sent
   */
  invoke<const Schema extends object | undefined = undefined, const Throws extends boolean = true> (
    toolId: string, input?: unknown, options?: InvokeOptions<Schema, Throws>
  ): Promise<Answer<Schema, Throws>>
  /**
   * Has a tool run, and gives its receipt at once; `wait` gives the answer. Once the receipt is there, `signal` has no effect:
   * `cancel` ends the call.
   */
  invokeAsync (toolId: string, input?: unknown, options?: CallOptions): Promise<InvocationReceipt>
  /** What is on record of a call. */
  invocation (invocationId: string, options?: Abortable): Promise<InvocationRecord>
  /** Receipts, newest first; `nextCursor` is the `cursor` of the next page. */
  invocations (query?: OneOrMany<InvocationQuery>, options?: Abortable): Promise<InvocationList>
  /** Waits until a call is over, and gives its answer, as `invoke` does. */
  wait<const Schema extends object | undefined = undefined, const Throws extends boolean = true> (
    invocationId: string, options?: WaitOptions<Schema, Throws>
  ): Promise<Answer<Schema, Throws>>
  /** Ends a call. {@link ProblemError} `already_settled` where it had ended. */
  cancel (invocationId: string, options?: Abortable): Promise<InvocationReceipt>
  /** Runs several calls; what each came to, in their order. A failed call is not thrown. */
  batch (calls: readonly BatchCall[], options?: BatchOptions): Promise<BatchResponse>
  /** Events of every call, as they happen: for `for await`. */
  events (options?: EventsOptions): EventSubscription
}

/** @throws {TypeError} for a URL that is none */
export function createClient ({ url, auth, fetch: given, retry }: ClientOptions): Client {
  const transport = new Transport({
    url,
    auth,
    // A browser's must be called as a function of the window.
    fetch: given ?? ((input, init) => globalThis.fetch(input, init)),
    retry: retryPolicy(retry)
  })
  const records = new Records(transport)
  const calls = new Calls(transport, records)
  let listed: { etag: string | null, tools: ToolDescriptor[] } | undefined

  return {
    url,

    async tools ({ signal } = {}) {
      const known = listed
      const conditional = known === undefined || known.etag === null ? {} : { headers: { 'if-none-match': known.etag } }
      const { tools } = listed = await transport.json({ ...read('tools', signal), ...conditional }, (body, { status, headers }) => {
        if (status === 304 && known !== undefined) return known
        return { tools: assertShape(ToolList, body, 'The list of tools', status).tools, etag: headers.get('etag') }
      })
      // The caller's own, to do with as it likes.
      return structuredClone(tools)
    },

    async tool (toolId, { signal } = {}) {
      return await transport.json(read(pathText('tools', toolId), signal), (body, { status }) => {
        const descriptor = assertShape(ToolDescriptor, body, 'The description', status)
        assertSubject({ toolId: descriptor.id }, { toolId }, status)
        return descriptor
      })
    },

    async invoke (toolId, input, options = {}) {
      if (options.output !== undefined) assertSchema(options.output)
      return conclude(await calls.run(toolId, input, options), options)
    },

    async invokeAsync (toolId, input, options = {}) {
      return await calls.accept(toolId, input, options)
    },

    async invocation (invocationId, { signal } = {}) {
      return await records.read(invocationId, signal)
    },

    async invocations (query = {}, { signal } = {}) {
      return await transport.json(read(`invocations${queryText(query)}`, signal), (body, { status }) => assertShape(InvocationList, body, 'The list', status))
    },

    async wait (invocationId, options = {}) {
      if (options.output !== undefined) assertSchema(options.output)
      return conclude(await records.outcome(invocationId, options.signal), options)
    },

    async cancel (invocationId, { signal } = {}) {
      return await records.cancel(invocationId, signal)
    },

    async batch (several, options = {}) {
      return await calls.batch(several, options)
    },

    events ({ filter = {}, view, ...options } = {}) {
      return new EventSubscription(transport, 'events', queryText({ ...filter, view }), options)
    }
  }
}

function read (path: string, signal: AbortSignal | undefined) {
  return { method: 'GET', path, signal, isRepeatable: true } as const
}
