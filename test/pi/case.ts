import type { AgentEvent, AgentLoopConfig, AgentTool } from '@earendil-works/pi-agent-core'
import type { GatewayOptions } from '../../src/gateway.ts'
import { gate, type Gate } from '../e2e/harness.ts'

/** pi's hooks, as an agent has them. */
export type PiHooks = Pick<AgentLoopConfig, 'beforeToolCall' | 'afterToolCall'>

/** A tool call of an assistant message. */
export interface ToolCall {
  /** The first of the tools where absent. */
  name?: string
  args?: Record<string, any>
  id?: string
}

/** What one run of a case has for itself. Each side gets its own. */
export class Scene {
  /** What tools and hooks wrote down; it is compared as everything else is. */
  readonly seen: unknown[] = []
  /** Opened by a tool or hook that is to be stopped now. */
  readonly begun: Gate = gate()
  /** Opened once the call was stopped: for tools that do not listen. */
  readonly stopped: Gate = gate()
  /** Opened by what was stopped when it is over. */
  readonly left: Gate = gate()

  note (what: string, ...values: unknown[]): void {
    this.seen.push(values.length === 0 ? what : [what, ...values.map(copyOf)])
  }
}

/** What a side gives, field by field; those of a call with its place before them where there are several. */
export type Answers = Record<string, unknown>

interface Named {
  name: string
  /** The rows of the table in docs/pi.md that say why the two answers are not the same. */
  differs?: string | readonly string[]
  /** Where they are not: exactly what each side gives. Fields that are not named here must be the same on both. */
  expect?: { pi: Answers, toolgate: Answers }
}

/** The same tools, calls and hooks on both sides. */
export interface Case extends Named {
  /** A new set of tools for each run. */
  tools: (scene: Scene) => AgentTool<any>[]
  hooks?: (scene: Scene) => PiHooks
  /** The calls of one assistant message; one of the first tool, with no arguments, where absent. */
  calls?: readonly ToolCall[]
  mode?: 'parallel' | 'sequential'
  /** Stops the agent, or the call at the gateway by either way, once `scene.begun` is open. */
  stop?: 'cancel' | 'hang-up'
  /** Further settings of the gateway. */
  gateway?: GatewayOptions
}

/** Where tools, calls and hooks are not enough to tell: each side runs by itself and says what it saw. */
export interface OwnCase extends Named {
  pi: () => Promise<Answers>
  toolgate: (t: { after (run: () => unknown): void }) => Promise<Answers>
}

/** What a call came to, from its end event. */
export interface CallAnswer {
  content: unknown
  details: unknown
  structuredContent: unknown
  usage: unknown
  terminate: unknown
  /** The verdict. */
  isError: unknown
  /** What the result itself says of it. */
  resultIsError: unknown
  /** What it has beyond these. */
  more: object | undefined
  durationMs: 'told' | 'zero' | 'absent'
  /** What a model gets to read. */
  toModel: { content: unknown, isError: unknown }
}

/** A call that got no end: an exception took the run, or the gateway refused it. */
export interface NoAnswer { lost?: string, problem?: string }

/** An event without its result, which is the call's answer. */
export interface Told {
  type: AgentEvent['type']
  toolCallId: string
  toolName: string
  args?: unknown
  partialResult?: unknown
}

export interface Outcome {
  calls: (CallAnswer | NoAnswer)[]
  events: Told[]
  /** What partial results say of their verdict. */
  partialIsError: unknown[]
  /** Whether the agent stops after these calls, rather than to ask its model again. */
  stops: boolean
  seen: unknown[]
}

export function callsOf ({ calls = [{}], tools }: Case): Required<ToolCall>[] {
  const [first] = tools(new Scene())
  return calls.map(({ name = first!.name, args = {}, id }, index) => ({ name, args, id: id ?? `call-${index}` }))
}

/** The fields of a result that the two vocabularies share, and whatever else is in it. */
export function fieldsOf (result: any): Omit<CallAnswer, 'isError' | 'durationMs' | 'toModel'> {
  const { content, details, structuredContent, usage, terminate, isError, ...more } = typeof result === 'object' ? result : {}
  return { content, details, structuredContent, usage, terminate, resultIsError: isError, more: Object.keys(more).length === 0 ? undefined : more }
}

/** A partial result without what it says of a verdict, absent fields left out. */
export function partialOf (partial: any): unknown {
  const { resultIsError, more, ...fields } = fieldsOf(partial)
  return Object.fromEntries(Object.entries({ ...fields, ...more }).filter(([, value]) => value !== undefined))
}

/** As it is now, whatever is done to it later. */
export function copyOf<T> (value: T): T {
  try {
    return structuredClone(value)
  } catch {
    return value // holds a function, or cannot be read
  }
}
