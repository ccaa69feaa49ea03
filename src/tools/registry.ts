import { createHash } from 'node:crypto'
import type { InvocationReceipt } from '../contract/invocation.ts'
import { toolIdPattern, type ToolDescriptor, type ToolSettings } from '../contract/tool.ts'
import { GatewayError } from '../errors.ts'
import { Mask } from '../json/mask.ts'
import { messageOf } from './error-message.ts'
import { PlainCalls } from './plain-calls.ts'
import type { RegisteredTool } from './registered-tool.ts'
import { adapt, type AnyTool } from './shapes/adapt.ts'

export type { AnyTool }

export interface ToolRegistryOptions {
  /** Time that a call gets where its tool says nothing, milliseconds. Default 60,000. */
  defaultTimeoutMs?: number
  /** Settings from outside for a tool; they win over its own. */
  settingsFor?: (toolId: string) => ToolSettings
  /** JSON Pointers to what is masked of all tools, beside what each of them says. */
  mask?: readonly string[]
}

/** What `ToolRegistry.invoke` gives. */
export interface Invoked<Value> { value: Value, invocation: InvocationReceipt }

type IdOf<T> = T extends { id: infer Id extends string } ? Id : T extends { name: infer Name extends string } ? Name : never
type ById<Tools, Id> = Tools extends unknown ? (Id extends IdOf<Tools> ? Tools : never) : never
type Settled<Returned, Value> = Returned extends PromiseLike<unknown> ? Promise<Invoked<Value>> : Invoked<Value>
type IsAny<T> = 0 extends 1 & T ? true : false
type InvokeReturn<T> = true extends IsAny<T> | ([T] extends [never] ? true : false)
  ? Invoked<any> | Promise<Invoked<any>>
  : T extends { parseOutput: (value: any) => infer Value, execute: (...args: any[]) => infer Returned }
    ? Settled<Returned, Value>
    : T extends { execute: (...args: any[]) => infer Returned } ? Settled<Returned, any> : never

/** Lists for readers of different rights that are kept. */
const MAX_LISTS = 1000

const idRule = new RegExp(toolIdPattern)

/**
 * The tools there are. `register` until `seal`; a sealed registry never changes, and only one is served.
 *
 * Contract:
 * - `register` takes all three shapes, unmodified, and throws {@link GatewayError} `invalid_tool` (with the tool's id and
 *   the reason), `duplicate_tool`, or `registry_sealed`.
 * - Lookups are by exact id; `constructor` and the like are ordinary strings.
 */
export class ToolRegistry<Tools = never> {
  readonly #tools = new Map<string, RegisteredTool>()
  readonly #defaultTimeoutMs: number
  readonly #settingsFor: (toolId: string) => ToolSettings
  readonly #mask: Mask | undefined
  readonly #calls = new PlainCalls(this.#tools)
  #sealed: { pages: Map<string, Page>, lists: Map<string, Page> } | undefined

  /** @throws {GatewayError} `invalid_config` for a pointer that is none */
  constructor (options: ToolRegistryOptions = {}) {
    this.#defaultTimeoutMs = options.defaultTimeoutMs ?? 60_000
    this.#settingsFor = options.settingsFor ?? (() => ({}))
    this.#mask = Mask.of(options.mask ?? [])
  }

  /** @param source where the tool comes from, told in its descriptor */
  register<const T extends AnyTool> (tool: T, source = 'code'): ToolRegistry<Tools | T> {
    const id = idOf(tool)
    if (typeof id !== 'string' || !idRule.test(id)) {
      throw new GatewayError('invalid_tool', `Tool ${JSON.stringify(id) ?? 'without an id'}: the id must match ${toolIdPattern}`)
    }
    this.#assertFree(id)
    try {
      this.#add(adapt(tool, { settings: this.#settingsFor(id), defaultTimeoutMs: this.#defaultTimeoutMs, source }))
    } catch (cause) {
      throw new GatewayError('invalid_tool', `Tool "${id}": ${messageOf(cause)}`, { cause })
    }
    return this as unknown as ToolRegistry<Tools | T>
  }

  /** Takes over a tool that another registry has registered, with the settings that it has there. */
  adopt (tool: RegisteredTool): this {
    this.#assertFree(tool.descriptor.id)
    this.#add(tool)
    return this
  }

  #add (tool: RegisteredTool): void {
    this.#tools.set(tool.descriptor.id, this.#mask === undefined ? tool : { ...tool, mask: this.#mask.and(tool.mask) })
  }

  #assertFree (id: string): void {
    if (this.#sealed !== undefined) throw new GatewayError('registry_sealed', 'The registry is sealed; build another one to change the tools.')
    const other = this.#tools.get(id)
    if (other !== undefined) throw new GatewayError('duplicate_tool', `Tool "${id}" is registered already, from ${other.descriptor.source}.`)
  }

  /** Closes the registry to changes. Sealing twice is the same as once. */
  seal (): this {
    if (this.#sealed === undefined) {
      const descriptors = [...this.#tools.values()].map((tool) => freeze(tool.descriptor))
      const pages = new Map(descriptors.map((descriptor) => [descriptor.id, pageOf(JSON.stringify(descriptor))]))
      this.#sealed = { pages, lists: new Map() }
    }
    return this
  }

  get sealed (): boolean {
    return this.#sealed !== undefined
  }

  get size (): number {
    return this.#tools.size
  }

  get (toolId: string): RegisteredTool | undefined {
    return this.#tools.get(toolId)
  }

  [Symbol.iterator] (): IterableIterator<RegisteredTool> {
    return this.#tools.values()
  }

  /** What callers are told: one tool, or all of them, as JSON text with its ETag. Seals the registry: it is told once. */
  describe (toolId?: string): Page | undefined {
    return toolId === undefined ? this.describeSome('', () => true) : this.seal().#sealed!.pages.get(toolId)
  }

  /**
   * The list for who may read some of the tools alone. It depends on nothing of the others.
   * @param key the same for those who may read the same tools; empty for all
   */
  describeSome (key: string, mayRead: (tool: ToolDescriptor) => boolean): Page {
    const { pages, lists } = this.seal().#sealed!
    let list = lists.get(key)
    if (list === undefined) {
      const texts = [...this.#tools.values()].filter(({ descriptor }) => mayRead(descriptor)).map(({ descriptor }) => pages.get(descriptor.id)!.text)
      if (lists.size >= MAX_LISTS) lists.clear()
      lists.set(key, list = pageOf(`{"tools":[${texts.join(',')}]}`))
    }
    return list
  }

  /**
   * The plain in-process way: parse, execute, parse. Synchronous where `execute` is; no hooks, no events, no record.
   * `value` is what `parseOutput` gives, or the `structuredContent`.
   *
   * @throws {GatewayError} `unknown_tool`, `invalid_input`, `invalid_output`; `tool_error` where a result says `isError`.
   *   What `execute` itself throws comes through as it is.
   */
  invoke<const Id extends IdOf<Tools> | (string & {})> (call: { toolId: Id, input?: unknown, toolCallId?: string }): InvokeReturn<ById<Tools, Id>> {
    return this.#calls.run(call) as InvokeReturn<ById<Tools, Id>>
  }
}

function idOf (tool: unknown): unknown {
  if (typeof tool !== 'object' || tool === null) return undefined
  const { id, name } = tool as { id?: unknown, name?: unknown }
  return id ?? name
}

/** Hooks are handed descriptors; none may change what the others and every caller are told. */
function freeze<T> (value: T): T {
  if (typeof value === 'object' && value !== null && !Object.isFrozen(value)) {
    Object.freeze(value)
    for (const member of Object.values(value)) freeze(member)
  }
  return value
}

/** What is told of the tools, as it is sent. */
interface Page { text: string, etag: string }

function pageOf (text: string): Page {
  return { text, etag: `"${createHash('sha256').update(text).digest('base64url').slice(0, 22)}"` }
}
