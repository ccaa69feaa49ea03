/**
 * A stand-in for `@jangts/agent-core/engine`, which is not to be had here: as much of a workflow engine as the registry
 * system's example and our page use. It walks the nodes in order until a route delivers a field of the state.
 */

/** What a node calls tools with, as the engine sees it. */
export interface BoundTools {
  invoke: (call: { toolId: string, input?: unknown }) => Invoked | PromiseLike<Invoked>
}

interface Invoked { value: unknown, invocation: { invocationId: string, status: string, startedAtMs: number, durationMs: number } }

export interface NodeContext { readonly tools: BoundTools }

interface Route<State> { deliver: keyof State & string }

interface WorkflowNode<State> {
  id: string
  description?: string
  startsRound?: boolean
  /** Gives what is new in the state. */
  run: (state: State, context: NodeContext) => Partial<State> | Promise<Partial<State>>
  routes: readonly Route<State>[]
}

export interface Workflow<State, Output> {
  id: string
  nodes: readonly WorkflowNode<State>[]
  /** Only a type. */
  readonly output?: Output
}

export function defineWorkflow<State extends object = any, Output = unknown> (workflow: Workflow<State, Output>): Workflow<State, Output> {
  return workflow
}

export const route = {
  deliver: <const Field extends string>(field: Field): { deliver: Field } => ({ deliver: field })
}

export class AgentCoreEngine<State extends object, Output> {
  readonly #workflow: Workflow<State, Output>
  #tools: BoundTools | undefined

  constructor ({ workflow }: { workflow: Workflow<State, Output> }) {
    this.#workflow = workflow
  }

  /** Once, for every node of every run. */
  bindToolRuntime (tools: BoundTools): this {
    this.#tools = tools
    return this
  }

  /** Gives the field that the first route to be reached delivers. A node that throws ends the run. */
  async run (initial: State): Promise<Output> {
    const { nodes, id } = this.#workflow
    if (this.#tools === undefined) throw new Error(`Workflow "${id}": bindToolRuntime comes first.`)
    const context: NodeContext = Object.freeze({ tools: this.#tools })
    let state = { ...initial }
    for (const node of nodes) {
      state = { ...state, ...await node.run(state, context) }
      const [reached] = node.routes
      if (reached !== undefined) return state[reached.deliver] as Output
    }
    throw new Error(`Workflow "${id}" delivers nothing.`)
  }
}
