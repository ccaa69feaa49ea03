// Nothing here runs: `tsc` is the test. A line that must not compile is marked, and the mark fails where it would.
import { Type, type Static } from '@sinclair/typebox'
import { arr, bool, lit, num, obj, opt, str, union } from '@earendil-works/pi-schema'
import {
  createClient, type BatchResponse, type Client, type ClientOptions, type EventsOptions, type Failure, type InvocationReceipt, type InvokeOptions, type InvokeResponse, type JsonValue,
  type Success, type ToolError, type ToolExecutionUpdateEvent, type ToolResult
} from '../../src/client.ts'

type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends (<T>() => T extends B ? 1 : 2) ? true : false
function holds<T extends true> (): T | undefined { return undefined }

declare const client: Client
declare const anything: unknown

// — How it is made —

export const made: Client[] = [
  createClient({ url: 'http://a.b' }),
  createClient({ url: 'http://a.b', auth: 'key', fetch, retry: { retries: 0 } }),
  createClient({ url: 'http://a.b', auth: () => 'key' }),
  createClient({ url: 'http://a.b', auth: async () => 'key', retry: undefined, fetch: undefined })
]
// @ts-expect-error a client needs to know where its gateway is
export const nowhere: ClientOptions = {}
// @ts-expect-error a key is a text
export const wrongKey: ClientOptions = { url: '', auth: 5 }

// — Without a schema, a success has any JSON or nothing —

const plain = await client.invoke('tool', { a: 1 })
export const isPlain = [holds<Same<typeof plain, Success>>(), holds<Same<typeof plain.structuredContent, JsonValue | undefined>>(), holds<Same<typeof plain.isError, false>>()]
export const asResponse: InvokeResponse = plain
export const receipt: InvocationReceipt = plain.invocation
// @ts-expect-error nobody knows that it is a number
export const notKnown: number = plain.structuredContent

// — A schema says what it has —

const WithTypeBox = Type.Object({ city: Type.String(), degrees: Type.Optional(Type.Number()), tags: Type.Array(Type.Union([Type.Literal('a'), Type.Literal('b')])) })
const typeBox = await client.invoke('tool', {}, { output: WithTypeBox })
export const isTypeBox = holds<Same<typeof typeBox.structuredContent, Static<typeof WithTypeBox>>>()
export const city: string = typeBox.structuredContent.city
// @ts-expect-error it may be absent
export const degrees: number = typeBox.structuredContent.degrees
// @ts-expect-error it has no such member
export const country = typeBox.structuredContent.country

const built = await client.invoke('tool', {}, { output: obj({ city: str(), degrees: opt(num()), list: arr(union([lit('a'), bool()])) }) })
export const isBuilt = [
  holds<Same<typeof built.structuredContent.city, string>>(), holds<Same<typeof built.structuredContent.degrees, number | undefined>>(), holds<Same<typeof built.structuredContent.list, ('a' | boolean)[]>>()
]
// @ts-expect-error it has no such member
export const builtCountry = built.structuredContent.country

export const jsonSchema = await client.invoke('tool', {}, { output: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] } })
export const isUnknown = holds<Same<typeof jsonSchema.structuredContent, unknown>>()
declare const described: Record<string, unknown>
const byDescription = await client.invoke('tool', {}, { output: described })
export const isUnknownToo = holds<Same<typeof byDescription.structuredContent, unknown>>()
// @ts-expect-error a schema is an object
export const wrongSchema = client.invoke('tool', {}, { output: 'string' })
// @ts-expect-error nobody has looked at it
export const unlooked: string = byDescription.structuredContent

declare const maybe: typeof WithTypeBox | undefined
const perhaps = await client.invoke('tool', {}, { output: maybe })
// @ts-expect-error where no schema was given, there may be nothing
export const perhapsCity: string = perhaps.structuredContent.city

// — A failure is thrown, unless it is to be given back; then it has to be told apart —

const either = await client.invoke('tool', {}, { output: WithTypeBox, throwOnError: false })
export const isEither = holds<Same<typeof either, Success<typeof WithTypeBox> | Failure>>()
// @ts-expect-error a failure may hold anything
export const unsure: string = either.structuredContent.city
if (either.isError) {
  const data: JsonValue | undefined = either.structuredContent
  // @ts-expect-error a failure keeps no schema
  const wrong: string = either.structuredContent.city
  void [data, wrong]
} else {
  const right: string = either.structuredContent.city
  void right
}
export const thrown = await client.invoke('tool', {}, { output: WithTypeBox, throwOnError: true })
export const isThrown = holds<Same<typeof thrown, Success<typeof WithTypeBox>>>()
declare const throwOnError: boolean
export const atRunTime = await client.invoke('tool', {}, { throwOnError })
export const isAtRunTime = holds<Same<typeof atRunTime, Success | Failure>>()
declare const failure: ToolError
export const envelope: InvokeResponse = failure.response

// — wait is as invoke is —

export const waited = await client.wait('id', { output: WithTypeBox })
export const waitedEither = await client.wait('id', { throwOnError: false })
export const isWaited = [holds<Same<typeof waited, Success<typeof WithTypeBox>>>(), holds<Same<typeof waitedEither, Success | Failure>>()]
// @ts-expect-error waiting takes no key
export const waitedKey = client.wait('id', { idempotencyKey: 'k' })

// — What a call may say —

const { signal } = new AbortController()
export const all: InvokeOptions = {
  idempotencyKey: 'k', toolCallId: 'c', runId: 'r', parentInvocationId: 'p', timeoutMs: 1, traceparent: 't', signal, onUpdate: () => {}
}
export const none: InvokeOptions = { idempotencyKey: undefined, runId: undefined, signal: undefined, onUpdate: undefined, timeoutMs: undefined }
export const passedOn = client.invoke('tool', anything, all)
export const typedOptions: InvokeOptions<typeof WithTypeBox> = { output: WithTypeBox }
export const updates = [
  client.invoke('tool', {}, {
    onUpdate: (partialResult, event) => {
      void [holds<Same<typeof partialResult, ToolResult>>(), holds<Same<typeof event, ToolExecutionUpdateEvent>>()]
    }
  }),
  client.invoke('tool', {}, { onUpdate: async ({ structuredContent }) => { void structuredContent } }),
  // An expression's value is nobody's business.
  client.invoke('tool', {}, { onUpdate: ({ content }) => [].push(...content as []) })
]
// @ts-expect-error a time is a number
export const wrongTime = client.invoke('tool', {}, { timeoutMs: '1s' })
// @ts-expect-error there is no such option
export const wrongName = client.invoke('tool', {}, { timeout: 1 })
// @ts-expect-error nobody is told of the progress of an async call
export const wrongAsync = client.invokeAsync('tool', {}, { onUpdate: () => {} })
// @ts-expect-error a batch has no key
export const wrongBatch = client.batch([], { idempotencyKey: 'k' })
// @ts-expect-error a call of a batch has a tool
export const wrongCall = client.batch([{ input: 1 }])

// — A batch: each result is one, or a problem —

declare const batch: BatchResponse
for (const result of batch.results) {
  if ('problem' in result) void (result.problem.code satisfies string)
  else void (result.invocation.status satisfies string)
}

// — Filters —

export const filters: EventsOptions[] = [
  {},
  { filter: { toolId: 'a', type: ['tool_execution_end', 'tool_execution_start'], status: 'failed', runId: undefined }, view: 'receipt', lastEventId: 'earliest' },
  { filter: { kind: ['read'] as const, invocationId: ['a', 'b'], toolCallId: 'c' } }
]
// @ts-expect-error there is no such type
export const wrongType: EventsOptions = { filter: { type: 'end' } }
// @ts-expect-error there is no such status
export const wrongStatus: EventsOptions = { filter: { status: ['done'] } }
// @ts-expect-error where to begin is no filter
export const wrongFilter: EventsOptions = { filter: { lastEventId: 'x' } }
export const lists = [client.invocations(), client.invocations({ status: ['failed', 'cancelled'], toolId: 'a', from: 1, limit: 10, cursor: undefined })]
// @ts-expect-error a time is a number
export const wrongFrom = client.invocations({ from: '2026' })
// @ts-expect-error there is one limit
export const wrongLimit = client.invocations({ limit: [1, 2] })
