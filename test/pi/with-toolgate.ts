import assert from 'node:assert/strict'
import { request } from 'node:http'
import { Value } from '@sinclair/typebox/value'
import { ToolExecutionEvent } from '../../src/contract/event.ts'
import type { Hooks } from '../../src/invocation/hooks.ts'
import { send, startGateway, waitFor, type Answer, type RunningGateway, type Scope } from '../e2e/harness.ts'
import { openStream, type EventClient } from '../e2e/sse-client.ts'
import { callsOf, fieldsOf, partialOf, Scene, type CallAnswer, type Case, type NoAnswer, type Outcome, type Told, type ToolCall } from './case.ts'

/** What a gateway makes of a case: called over HTTP, its events read from the stream. */
export async function runWithToolgate (t: Scope, given: Case): Promise<Outcome> {
  const scene = new Scene()
  const calls = callsOf(given)
  const gateway = await startGateway(t, {
    ...given.gateway,
    tools: given.tools(scene),
    // pi's hooks as they are; that they are told less of the conversation is a difference with a row of its own.
    hooks: (given.hooks?.(scene) ?? {}) as unknown as Hooks
  })
  const stream = await openStream(t, gateway.url)
  const { answers, stops } = given.stop === 'hang-up'
    ? await callAndHangUp(gateway, stream, given, calls, scene)
    : await callAndWait(gateway, stream, given, calls, scene)
  if (given.stop !== undefined) await scene.left.reached('the end of what was stopped')
  const events = await allOf(stream, gateway)
  for (const event of events) assert.ok(Value.Check(ToolExecutionEvent, event))
  return {
    calls: calls.map(({ id }, index) => callAnswer(answers[index], events.find(({ type, toolCallId }) => type === 'tool_execution_end' && toolCallId === id))),
    events: events.map((event) => toldOf(event, events)),
    partialIsError: events.filter(({ type }) => type === 'tool_execution_update').map(({ partialResult }) => partialResult.isError),
    stops,
    seen: scene.seen
  }
}

/** What the stream told, once that is all there is. */
async function allOf (stream: EventClient, { url }: RunningGateway): Promise<any[]> {
  const { body } = await send(`${url}/events?lastEventId=earliest`, { headers: { accept: 'application/json' } })
  await waitFor(() => stream.events.length >= body.events.length, 'the last event')
  assert.deepEqual(stream.events.map(({ id, data }) => ({ id, event: data })), body.events)
  return body.events.map(({ event }: any) => event)
}

interface Answered { answers: any[], stops: boolean }

async function callAndWait (gateway: RunningGateway, stream: EventClient, given: Case, calls: Required<ToolCall>[], scene: Scene): Promise<Answered> {
  const answering = calls.length === 1 ? invokeOne(gateway, calls[0]!) : invokeAll(gateway, calls, given.mode)
  if (given.stop === 'cancel') {
    await scene.begun.reached('the place to stop at, in the gateway')
    const { invocationId } = await startOf(stream)
    const cancelled = await send(`${gateway.url}/invocations/${invocationId}/cancel`, { method: 'POST' })
    assert.equal(cancelled.status, 202)
    scene.stopped.open()
  }
  return await answering
}

/** With nobody to be answered, the end events alone tell. */
async function callAndHangUp (gateway: RunningGateway, stream: EventClient, given: Case, calls: Required<ToolCall>[], scene: Scene): Promise<Answered> {
  const { path, body } = calls.length === 1 ? requestOf(calls[0]!) : batchOf(calls, given.mode)
  const call = request({ port: gateway.port, host: '127.0.0.1', path, method: 'POST', agent: false, headers: { 'content-type': 'application/json' } })
  call.on('error', () => {}) // ended on purpose
  call.end(body)
  await scene.begun.reached('the place to hang up at')
  call.destroy()
  const { invocationId } = await startOf(stream)
  const end = await stream.endOf(invocationId)
  scene.stopped.open()
  return { answers: [], stops: end.result.terminate === true }
}

const startOf = (stream: EventClient): Promise<any> => waitFor(() => stream.of('tool_execution_start')[0]?.data, 'the start event')

function requestOf ({ name, args, id }: Required<ToolCall>) {
  return { path: `/tools/${name}/invoke`, body: JSON.stringify({ input: args, toolCallId: id }) }
}

function batchOf (calls: Required<ToolCall>[], mode: Case['mode']) {
  return { path: '/batch', body: JSON.stringify({ calls: calls.map(({ name, args, id }) => ({ toolId: name, input: args, toolCallId: id })), mode }) }
}

function post (gateway: RunningGateway, { path, body }: { path: string, body: string }): Promise<Answer> {
  return send(gateway.url + path, { method: 'POST', headers: { 'content-type': 'application/json' }, body })
}

async function invokeOne (gateway: RunningGateway, call: Required<ToolCall>): Promise<Answered> {
  const { body, status } = await post(gateway, requestOf(call))
  if (body.invocation === undefined) return { answers: [{ problem: body }], stops: false }
  // One rule: 400 and above means that the tool did not run.
  if (status >= 400) assert.equal(body.invocation.durationMs, 0)
  return { answers: [body], stops: body.terminate === true }
}

async function invokeAll (gateway: RunningGateway, calls: Required<ToolCall>[], mode: Case['mode']): Promise<Answered> {
  const { body, status, text } = await post(gateway, batchOf(calls, mode))
  assert.equal(status, 200, text)
  return { answers: body.results, stops: body.terminate }
}

/** From the end event; what was answered over HTTP has to be the same. */
function callAnswer (answer: any, end: any): CallAnswer | NoAnswer {
  if (end === undefined) return { problem: answer === undefined ? 'never begun' : answer.problem.code }
  const { result, isError, durationMs, status } = end
  const { invocation, ...told } = answer ?? { ...result, invocation: { durationMs, status } }
  assert.deepEqual([told, told.isError, invocation.durationMs, invocation.status], [result, isError, durationMs, status])
  return {
    ...fieldsOf(result),
    isError,
    durationMs: durationMs === 0 ? 'zero' : 'told',
    toModel: { content: told.content, isError: told.isError }
  }
}

function toldOf ({ type, invocationId, toolCallId, toolName, args, partialResult }: any, events: any[]): Told {
  switch (type) {
    case 'tool_execution_start': return { type, toolCallId, toolName, args }
    case 'tool_execution_update': {
      // The start has them, once for all.
      const start = events.find((event) => event.type === 'tool_execution_start' && event.invocationId === invocationId)
      return { type, toolCallId, toolName, args: start.args, partialResult: partialOf(partialResult) }
    }
    default: return { type, toolCallId, toolName }
  }
}
