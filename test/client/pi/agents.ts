import { Agent, type AgentEvent, type AgentMessage, type AgentOptions, type AgentTool } from '@earendil-works/pi-agent-core'
import type { AssistantMessage } from '@earendil-works/pi-ai'
import { createFauxCore, fauxAssistantMessage, fauxToolCall } from '@earendil-works/pi-ai/providers/faux'
import { gate, within, type Gate } from '../../e2e/harness.ts'

/** Moments of a run, as its subscriber is told of them: `start a`, `update a 1`, `end a`. Tools and tests wait for them. */
export class Stage {
  #moments = new Map<string, Gate>()
  /** What tools note beside their results. */
  notes: string[] = []

  clear (): void {
    this.#moments = new Map()
    this.notes = []
  }

  reach (moment: string): void {
    this.#gate(moment).open()
  }

  reached (moment: string): Promise<void> {
    return this.#gate(moment).reached(moment)
  }

  #gate (moment: string): Gate {
    const known = this.#moments.get(moment) ?? gate()
    this.#moments.set(moment, known)
    return known
  }
}

/** What an agent is given to do. The same tools, hooks and answers of its model, wherever the tools run. */
export interface Scene {
  tools: AgentTool<any>[]
  /** The model's answers to each prompt. */
  prompts: AssistantMessage[][]
  options?: Partial<AgentOptions>
  onMoment?: (moment: string, agent: Agent) => void
}

export interface Run {
  events: AgentEvent[]
  /** The transcript. */
  messages: AgentMessage[]
  /** What the model was sent, each time. */
  sent: unknown[]
}

type Call = [id: string, name: string, args?: Record<string, any> | undefined]

/** An answer of the model that calls tools. */
export function calling (...calls: Call[]): AssistantMessage {
  return fauxAssistantMessage(calls.map(([id, name, args = {}]) => fauxToolCall(name, args, { id })), { stopReason: 'toolUse' })
}

export const saying = (text: string) => fauxAssistantMessage(text)

/** Has an agent do it, and writes everything down. */
export async function perform ({ tools, prompts, options = {}, onMoment }: Scene, stage: Stage): Promise<Run> {
  stage.clear()
  const faux = createFauxCore({ api: 'faux', tokenSize: { min: 50, max: 50 } })
  const sent: unknown[] = []
  const events: AgentEvent[] = []
  const agent = new Agent({
    streamFn: faux.streamSimple,
    initialState: { systemPrompt: 'You use tools.', model: faux.getModel(), tools },
    ...options
  })
  const updates = new Map<string, number>()
  agent.subscribe((event) => {
    events.push(structuredClone(event))
    if (!('toolCallId' in event)) return
    const word = event.type.replace('tool_execution_', '')
    const count = (updates.get(event.toolCallId) ?? 0) + 1
    if (word === 'update') updates.set(event.toolCallId, count)
    const moment = word === 'update' ? `update ${event.toolCallId} ${count}` : `${word} ${event.toolCallId}`
    onMoment?.(moment, agent)
    stage.reach(moment)
  })
  for (const answers of prompts) {
    faux.setResponses(answers.map((answer) => (context) => {
      sent.push(structuredClone(context))
      // An old one, which pi does not time.
      return { ...answer, timestamp: 0 }
    }))
    await within(agent.prompt('Go on.'), 'the agent', 20_000)
  }
  return { events, messages: structuredClone(agent.state.messages), sent }
}

/** A copy in which times are the same everywhere. That they are there, and whole, stays. */
export function timeless<T> (value: T): T {
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) return value.map(timeless) as T
  return Object.fromEntries(Object.entries(value).map(([key, member]) => [
    key, (key === 'timestamp' || key === 'durationMs') && Number.isInteger(member) ? 0 : timeless(member)
  ])) as T
}

/** The events of tools among all. */
export function toolEvents ({ events }: Run): AgentEvent[] {
  return events.filter(({ type }) => type.startsWith('tool_execution_'))
}
