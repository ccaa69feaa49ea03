import assert from 'node:assert/strict'
import { Agent, runToolCall, type AgentEvent, type AgentTool } from '@earendil-works/pi-agent-core'
import type { ToolResultMessage } from '@earendil-works/pi-ai'
import { createFauxCore, fauxAssistantMessage, fauxToolCall } from '@earendil-works/pi-ai/providers/faux'
import { within } from '../e2e/harness.ts'
import { callsOf, copyOf, fieldsOf, partialOf, Scene, type CallAnswer, type Case, type NoAnswer, type Outcome, type Told, type ToolCall } from './case.ts'

/** What pi's own agent makes of a case; where it is about one call, `runToolCall` has to make the same of it. */
export async function runWithPi (given: Case): Promise<Outcome> {
  const outcome = await runWithAgent(given)
  const calls = callsOf(given)
  if (calls.length === 1) assert.deepEqual(await runWithRunToolCall(given, calls[0]!), comparable(outcome), 'pi itself, by its two ways')
  return outcome
}

/** An agent whose model makes these calls, and then has no more to say. */
export function scriptedAgent (tools: AgentTool<any>[], calls: readonly Required<ToolCall>[], options: object = {}) {
  const faux = createFauxCore({})
  faux.setResponses([
    fauxAssistantMessage(calls.map(({ name, args, id }) => fauxToolCall(name, args, { id })), { stopReason: 'toolUse' }),
    fauxAssistantMessage('done')
  ])
  const agent = new Agent({ initialState: { systemPrompt: 's', model: faux.getModel(), tools }, streamFn: faux.streamSimple, ...options })
  return { agent, faux }
}

async function runWithAgent (given: Case): Promise<Outcome> {
  const scene = new Scene()
  const calls = callsOf(given)
  const { agent, faux } = scriptedAgent(given.tools(scene), calls, { ...given.hooks?.(scene), toolExecution: given.mode ?? 'parallel' })
  const events: Told[] = []
  const partialIsError: unknown[] = []
  const ends = new Map<string, CallAnswer>()
  agent.subscribe((event) => {
    const told = toldOf(event)
    if (told !== undefined) events.push(told)
    if (event.type === 'tool_execution_update') partialIsError.push(fieldsOf(event.partialResult).resultIsError)
    if (event.type === 'tool_execution_end') ends.set(event.toolCallId, answerOf(event))
  })
  await stopping(given, scene, () => agent.abort(), agent.prompt('go'))

  const messages = agent.state.messages.filter((message): message is ToolResultMessage => message.role === 'toolResult')
  const answers = calls.map(({ id }): CallAnswer | NoAnswer => {
    const answer = ends.get(id)
    const message = messages.find(({ toolCallId }) => toolCallId === id)
    if (answer === undefined || message === undefined) return { lost: agent.state.errorMessage ?? 'without a word' }
    // The transcript has these of the result, and never what is for programs.
    assert.deepEqual([message.details, message.usage], [answer.details, answer.usage])
    assert.ok(!('structuredContent' in message))
    return { ...answer, toModel: { content: copyOf(message.content), isError: message.isError } }
  })
  return { calls: answers, events, partialIsError, stops: faux.state.callCount === 1, seen: scene.seen }
}

/** The run, stopped where the case says so and once it has come so far. */
async function stopping<T> ({ stop }: Case, scene: Scene, abort: () => void, run: Promise<T>): Promise<T> {
  if (stop !== undefined) {
    await scene.begun.reached('the place to stop at, in pi')
    abort()
    scene.stopped.open()
    await scene.left.reached('the end of what was stopped, in pi')
  }
  return await within(run, "the end of pi's run")
}

function toldOf (event: AgentEvent): Told | undefined {
  switch (event.type) {
    case 'tool_execution_start': {
      const { type, toolCallId, toolName, args } = event
      return { type, toolCallId, toolName, args: copyOf(args) }
    }
    case 'tool_execution_update': {
      const { type, toolCallId, toolName, args, partialResult } = event
      return { type, toolCallId, toolName, args: copyOf(args), partialResult: copyOf(partialOf(partialResult)) }
    }
    case 'tool_execution_end': {
      const { type, toolCallId, toolName } = event
      return { type, toolCallId, toolName }
    }
  }
}

function answerOf ({ result, isError, durationMs }: { result: any, isError: boolean, durationMs?: number }): CallAnswer {
  const fields = copyOf(fieldsOf(result))
  return {
    ...fields,
    isError,
    durationMs: durationMs === undefined ? 'absent' : 'told',
    toModel: { content: fields.content ?? [], isError }
  }
}

interface Single { answer: CallAnswer | NoAnswer, partials: unknown[], seen: unknown[] }

async function runWithRunToolCall (given: Case, { name, args, id }: Required<ToolCall>): Promise<Single> {
  const scene = new Scene()
  const controller = new AbortController()
  const partials: unknown[] = []
  const toolCall = fauxToolCall(name, copyOf(args), { id })
  const run = runToolCall(toolCall, {
    tools: given.tools(scene),
    ...given.hooks?.(scene),
    assistantMessage: fauxAssistantMessage([toolCall], { stopReason: 'toolUse' }),
    context: { messages: [] },
    signal: controller.signal,
    onUpdate: (partial) => { partials.push(copyOf(partialOf(partial))) }
  }).then(answerOf, (error: Error): NoAnswer => ({ lost: error.message }))
  const answer = await stopping(given, scene, () => controller.abort(), run)
  return { answer, partials, seen: scene.seen }
}

function comparable ({ calls, events, seen }: Outcome): Single {
  return { answer: calls[0]!, partials: events.flatMap(({ type, partialResult }) => type === 'tool_execution_update' ? [partialResult] : []), seen }
}
