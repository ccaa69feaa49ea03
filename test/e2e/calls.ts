import assert from 'node:assert/strict'
import { Value } from '@sinclair/typebox/value'
import type { TSchema } from '@sinclair/typebox'
import { InvocationAnswer, InvocationList, InvocationRecord } from '../../src/contract/invocation.ts'
import { eventText } from '../../src/store/wire.ts'
import { gate, invoke, send, tool, waitFor, type Answer, type RunningGateway } from './harness.ts'

/** What the tests of calls that outlive their request have in common. */

type At = { url: string }
type More = { headers?: Record<string, string> } & Record<string, unknown>

/** Runs a tool with `Prefer`. */
export function prefer (gateway: At, preference: string, toolId: string, input?: unknown, { headers, ...more }: More = {}): Promise<Answer> {
  return invoke(gateway, toolId, input, { ...more, headers: { prefer: preference, ...headers } })
}

/** Runs a tool with an `Idempotency-Key`. */
export function keyed (gateway: At, key: string, toolId: string, input?: unknown, { headers, ...more }: More = {}): Promise<Answer> {
  return invoke(gateway, toolId, input, { ...more, headers: { 'idempotency-key': key, ...headers } })
}

/** A 202: held to its shape. Gives the id. */
export function assertAccepted (answer: Answer): string {
  assert.equal(answer.status, 202, answer.text)
  assertShape(InvocationAnswer, answer.body)
  const { invocationId, status, durationMs } = answer.body.invocation
  assert.deepEqual([status, durationMs], ['running', 0])
  assert.equal(answer.headers.get('location'), `/invocations/${invocationId}`)
  assert.equal(answer.headers.get('toolgate-invocation-id'), invocationId)
  assert.equal(answer.headers.get('toolgate-status'), 'running')
  assert.equal(answer.headers.get('toolgate-error-code'), null)
  assert.match(answer.headers.get('content-type')!, /^application\/json/)
  return invocationId
}

/** Starts a call that its caller does not wait for; gives its id. */
export async function accepted (gateway: At, toolId: string, input?: unknown, more: More = {}): Promise<string> {
  return assertAccepted(await prefer(gateway, 'respond-async', toolId, input, more))
}

/** `GET /invocations/:id`, held to its shape where it is there. */
export async function record ({ url }: At, invocationId: string, headers: Record<string, string> = {}): Promise<Answer> {
  const answer = await send(`${url}/invocations/${invocationId}`, { headers })
  if (answer.status === 200) assertShape(InvocationRecord, answer.body)
  return answer
}

/** The record of a call once it has settled. */
export async function settledRecord (gateway: At, invocationId: string): Promise<any> {
  const { body } = await record(gateway, invocationId, { prefer: 'wait=15' })
  assert.notEqual(body.invocation.status, 'running')
  return body
}

/** `GET /invocations`, held to its shape. */
export async function list ({ url }: At, query = ''): Promise<{ invocations: any[], nextCursor?: string }> {
  const { status, body, text } = await send(`${url}/invocations${query}`)
  assert.equal(status, 200, text)
  assertShape(InvocationList, body)
  return body
}

export function cancel ({ url }: At, invocationId: string, init: RequestInit = {}): Promise<Answer> {
  return send(`${url}/invocations/${invocationId}/cancel`, { method: 'POST', ...init })
}

export function assertShape (schema: TSchema, value: unknown): void {
  assert.deepEqual([...Value.Errors(schema, value)].map(({ path, message }) => `${path} ${message}`), [])
}

/** Every event of the log, with its id and its parts whole. */
export async function logged ({ app }: RunningGateway): Promise<{ id: string, event: any }[]> {
  const { store } = app.toolgate
  const { events } = await store.readEvents(0, { events: 100_000, bytes: Infinity })
  return events.map((event) => ({ id: store.eventId(event.sequence), event: JSON.parse(eventText(event, Infinity, false)) }))
}

/** A tool that waits until the test lets it go, or until it is stopped, and writes down what it was called with. */
export function heldTool (id = 'held', more: object = {}) {
  const inputs: any[] = []
  const attempts: number[] = []
  const aborted: unknown[] = []
  const released = gate()
  const subject = tool(id, async (_id: string, input: unknown, signal: AbortSignal, _onUpdate: unknown, { attempt }: { attempt: number }) => {
    attempts.push(attempt)
    const run = inputs.push(input)
    const stopped = Promise.withResolvers<never>()
    signal.addEventListener('abort', () => {
      aborted.push(input)
      stopped.reject(signal.reason)
    })
    await Promise.race([released.promise, stopped.promise])
    return { content: [{ type: 'text', text: `run ${run}` }], details: { run }, structuredContent: input }
  }, more)
  return {
    subject, inputs, attempts, aborted,
    release: () => released.open(),
    running: (count: number) => waitFor(() => inputs.length >= count, `${count} runs of ${id}`)
  }
}

/** Counts the calls that were taken, or joined to one that is there, so that a test knows when a request has arrived. */
export function watchArrivals ({ app }: RunningGateway): { reached: (count: number) => Promise<unknown> } {
  const { invoker } = app.toolgate
  const start = invoker.start.bind(invoker)
  let count = 0
  invoker.start = ((request: Parameters<typeof start>[0]) => {
    const started = start(request)
    if (started instanceof Promise) started.finally(() => { count++ }).catch(() => {})
    else count++
    return started
  }) as typeof start
  return { reached: (wanted) => waitFor(() => count >= wanted, `${wanted} calls to arrive`) }
}
