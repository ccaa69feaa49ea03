// Nothing here runs: `tsc` is the test. A line that must not compile is marked, and the mark fails where it would.
import { Type } from '@sinclair/typebox'
import type { ToolExecutionEndEvent, ToolExecutionEvent } from '../../src/index.ts'
import {
  createToolRuntime, type Client, type InvocationReceipt, type JsonValue, type RemoteToolRuntime, type ToolExecutionEndEvent as EndEventOfClient,
  type Invoked as InvokedOfClient, type ToolExecutionEvent as EventOfClient, type ToolRuntime
} from '../../src/client.ts'
import { ToolRegistry, type Invoked } from '../../src/tools/registry.ts'

type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends (<T>() => T extends B ? 1 : 2) ? true : false
function holds<T extends true> (): T | undefined { return undefined }

// — The registry system's own types, as its documentation has them —

type InvocationStatus = 'running' | 'succeeded' | 'failed' | 'cancelled'

/** What its event inherits: all that is documented as read-only, and the identity that results and records share. */
interface InvocationMetadata {
  invocationId: string
  readonly runId?: string | undefined
  readonly spanId?: string | undefined
  readonly parentSpanId?: string | undefined
  readonly parentInvocationId?: string | undefined
  readonly startedAtMs: number
}

interface RegistrySystemEvent<Kind extends string = string> extends InvocationMetadata {
  toolId: string
  kind: Kind
  durationMs: number
  status: InvocationStatus
  errorCode?: string | undefined
}

type Documented = 'toolId' | 'invocationId' | 'kind' | 'durationMs' | 'status' | 'errorCode' | 'runId' | 'spanId' | 'parentSpanId' | 'parentInvocationId' | 'startedAtMs'
type Required = 'toolId' | 'invocationId' | 'kind' | 'durationMs' | 'status' | 'startedAtMs'

/** Whether `T` declares each documented field: without this, one that may be left out could be missing altogether. */
type Declares<T> = [Exclude<Documented, keyof T>] extends [never] ? true : false
/** Those of the fields that are there in each case. */
type Always<T> = { [Key in keyof T & Documented]-?: undefined extends T[Key] ? never : Key }[keyof T & Documented]
/** Whether each field that has to be there is. */
type Keeps<T> = [Exclude<Required, Always<T>>] extends [never] ? true : false

// The table is as it is documented, and the checks can fail.
holds<Same<keyof RegistrySystemEvent, Documented>>()
holds<Same<Always<RegistrySystemEvent>, Required>>()
holds<Same<Declares<Omit<RegistrySystemEvent, 'errorCode'>>, false>>()
holds<Same<Keeps<Omit<RegistrySystemEvent, 'kind'>>, false>>()
holds<Same<Keeps<Partial<RegistrySystemEvent>>, false>>()

// — The end event is its ToolExecutionEvent, on the gateway's side and on the client's —

declare const end: ToolExecutionEndEvent
declare const endOfClient: EndEventOfClient
export const asEvent: RegistrySystemEvent = end
export const asEventOfClient: RegistrySystemEvent = endOfClient
export const asMetadata: InvocationMetadata = end
holds<Same<ToolExecutionEndEvent, EndEventOfClient>>()
holds<Declares<ToolExecutionEndEvent>>()
holds<Keeps<ToolExecutionEndEvent>>()
/** Settled, so never running; every other documented status is there. */
holds<Same<ToolExecutionEndEvent['status'], Exclude<InvocationStatus, 'running'>>>()
/** A kind of one's own narrows it. */
export const asKind = (event: ToolExecutionEndEvent & { kind: 'read' }): RegistrySystemEvent<'read'> => event
// @ts-expect-error any kind is not the one
export const anyKind: RegistrySystemEvent<'read'> = end

declare const some: ToolExecutionEvent
declare const someOfClient: EventOfClient
// @ts-expect-error a start has neither a duration nor a final status
export const startIsNot: RegistrySystemEvent = some
// @ts-expect-error the same on the client's side
export const startIsNotOfClient: RegistrySystemEvent = someOfClient
export const narrowed: RegistrySystemEvent | undefined = someOfClient.type === 'tool_execution_end' ? someOfClient : undefined
/** What a start and an update have of it: all but how the call ended. */
type OfLiveEvent = Exclude<Documented, 'durationMs' | 'status' | 'errorCode'>
export const live: Pick<RegistrySystemEvent, OfLiveEvent> = some
holds<Same<Extract<keyof Exclude<ToolExecutionEvent, { type: 'tool_execution_end' }>, Documented>, OfLiveEvent>>()

// — A receipt has the same fields, and may be of a call that runs —

declare const receipt: InvocationReceipt
export const receiptAsEvent: RegistrySystemEvent = receipt
holds<Declares<InvocationReceipt>>()
holds<Keeps<InvocationReceipt>>()
holds<Same<InvocationReceipt['status'], InvocationStatus>>()
holds<Same<Invoked<unknown>['invocation'], InvocationReceipt>>()
holds<Same<InvokedOfClient['invocation'], InvocationReceipt>>()
declare const running: InvocationReceipt & { status: 'running' }
export const runningAsEvent: RegistrySystemEvent = running
// @ts-expect-error what has settled is not what runs
export const notSettled: Pick<ToolExecutionEndEvent, 'status'> = running

// — ToolRegistry in process: as in its documentation's examples, without a cast —

const status = new ToolRegistry().register({
  id: 'get_status',
  kind: 'read',
  description: 'd',
  parseInput (value: unknown) { if (!value || typeof value !== 'object' || Array.isArray(value)) throw new TypeError('an object is needed'); return {} },
  execute: () => 'running',
  parseOutput (value: unknown) { if (typeof value !== 'string') throw new TypeError('text is needed'); return value }
}).seal()
const result = status.invoke({ toolId: 'get_status', input: {} })
holds<Same<typeof result, Invoked<string>>>()
export const words: string = result.value
export const invocationOfResult: InvocationMetadata = result.invocation
export const id: string = result.invocation.invocationId
// @ts-expect-error it is text
export const number: number = result.value
// @ts-expect-error it is no promise
result.then()

const later = new ToolRegistry().register({
  id: 'get_status', kind: 'read', parseInput: () => ({}), execute: async () => 'running', parseOutput: (value) => value
}).seal()
const promised = later.invoke({ toolId: 'get_status', input: {} })
export const awaited = async () => { const { value } = await promised; return { answer: value } }
// @ts-expect-error it is a promise
export const now = promised.value

const both = new ToolRegistry()
  .register({ id: 'now', kind: 'read', parseInput: () => 1, execute: () => 1, parseOutput: (value: unknown) => Number(value) })
  .register({ id: 'later', kind: 'read', parseInput: () => 1, execute: async () => 1, parseOutput: (value: unknown) => String(value) })
  .seal()
holds<Same<ReturnType<typeof both.invoke<'now'>>, Invoked<number>>>()
holds<Same<ReturnType<typeof both.invoke<'later'>>, Promise<Invoked<string>>>>()
declare const anyId: string
export const whichever = async () => (await both.invoke({ toolId: anyId })).value

// — A runtime: a registry of any tools, or a gateway's —

declare const client: Client
const remote = createToolRuntime(client)
declare const ofAny: ToolRegistry<any>
export const runtimes: ToolRuntime[] = [status, later, both, ofAny, new ToolRegistry().seal(), remote]
export const invokesAlone: ToolRuntime = { invoke: remote.invoke }
declare const given: Awaited<ReturnType<ToolRuntime['invoke']>>
holds<Same<typeof given, InvokedOfClient<unknown>>>()
export const ofRuntime = (runtime: ToolRuntime) => runtime.invoke({ toolId: 'get_status', input: {}, toolCallId: 'mine' })
// @ts-expect-error whatever its tool gives, until it is looked at
export const unseen: string = given.value
// @ts-expect-error a value alone is no runtime
export const noInvocation: ToolRuntime = { invoke: async () => ({ value: 1 }) }
// @ts-expect-error nor is what wants more than the call
export const wantsMore: ToolRuntime = { invoke: async (call: { toolId: string, because: string }) => await remote.invoke(call) }
// @ts-expect-error a registry may answer at once, and holds no value to a schema
export const notRemote: RemoteToolRuntime = status
// @ts-expect-error a key would be the same for every call
createToolRuntime(client, { idempotencyKey: 'k' })
export const bound = createToolRuntime(client, { runId: 'r', timeoutMs: 1, traceparent: 't', parentInvocationId: 'p', signal: undefined })

export const plainCall = () => remote.invoke({ toolId: 'get_status', toolCallId: undefined })
holds<Same<ReturnType<typeof plainCall>, Promise<InvokedOfClient<JsonValue | undefined>>>>()
export const textCall = () => remote.invoke({ toolId: 'get_status', input: {}, output: Type.String() })
holds<Same<ReturnType<typeof textCall>, Promise<InvokedOfClient<string>>>>()
export const openCall = () => remote.invoke({ toolId: 'get_status', output: { type: 'string' } })
holds<Same<ReturnType<typeof openCall>, Promise<InvokedOfClient<unknown>>>>()
// @ts-expect-error a call names its tool
export const nameless = () => remote.invoke({ input: {} })
