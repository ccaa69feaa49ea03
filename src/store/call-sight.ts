import { fitsToolPattern } from '../contract/tool.ts'
import type { CallIdentity } from './store.ts'

/** Some calls: those of certain tools, and perhaps of one caller. */
export interface CallGrant {
  /** Lists of tool patterns; of each one, some pattern has to fit the tool's id. */
  readonly tools: readonly (readonly string[])[]
  /** Any where absent. */
  readonly kinds?: readonly string[] | undefined
  /** Whose calls; anybody's where absent. */
  readonly principalId?: string | undefined
}

/** Whether a grant is about a tool. Where its kind is not known, its id decides. */
export function coversTool ({ tools, kinds }: CallGrant, toolId: string, kind: string | undefined): boolean {
  return tools.every((patterns) => patterns.some((pattern) => fitsToolPattern(pattern, toolId))) &&
    (kinds === undefined || kind === undefined || kinds.includes(kind))
}

/** Whether a grant is about everything. */
export function coversAll ({ tools, kinds, principalId }: CallGrant): boolean {
  return tools.every((patterns) => patterns.includes('*')) && kinds === undefined && principalId === undefined
}

/** Tools whose answer is remembered. Far more than a gateway has; those that come with reloads must not add up for ever. */
const MAX_KNOWN = 10_000

/** The calls that somebody may see: those that one grant at least is about. */
export class CallSight {
  readonly grants: readonly CallGrant[]
  /** The same for those who may see the same calls. */
  readonly key: string
  readonly #viewerId: string
  /** The grants that are about a tool, by its id and kind. */
  readonly #ofTools = new Map<string, readonly CallGrant[]>()

  /** @param viewerId the caller who sees */
  constructor (grants: readonly CallGrant[], viewerId: string) {
    this.grants = grants
    this.#viewerId = viewerId
    this.key = JSON.stringify([viewerId, grants.map(({ tools, kinds, principalId }) => [tools, kinds ?? 0, principalId ?? 0])])
  }

  sees ({ toolId, kind, principalId }: Pick<CallIdentity, 'toolId' | 'kind' | 'principalId'>): boolean {
    return this.#grantsOf(toolId, kind).some((grant) => grant.principalId === undefined || grant.principalId === principalId)
  }

  /**
   * Whether who sees a call may be told which one made it. A child call has its caller in common with the one that made it;
   * what other callers say that theirs were made by is known to be theirs to say by themselves alone.
   */
  seesParent ({ isChild, parentTool, principalId }: CallIdentity): boolean {
    if (!isChild) return principalId === this.#viewerId
    return parentTool !== undefined && this.sees({ ...parentTool, principalId })
  }

  #grantsOf (toolId: string, kind: string): readonly CallGrant[] {
    const key = `${toolId} ${kind}`
    let grants = this.#ofTools.get(key)
    if (grants === undefined) {
      if (this.#ofTools.size >= MAX_KNOWN) this.#ofTools.clear()
      this.#ofTools.set(key, grants = this.grants.filter((grant) => coversTool(grant, toolId, kind)))
    }
    return grants
  }
}
