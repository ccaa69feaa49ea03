import { GatewayError } from '../errors.ts'
import { CallSight, coversAll, coversTool } from '../store/call-sight.ts'
import type { CallIdentity } from '../store/store.ts'
import { grantsOf, scopeNames, type Grant, type ScopeName } from './scopes.ts'

/** Scopes by which one may know of a call. */
const callScopes = ['events:read', 'invocations:read', 'invocations:cancel'] as const

export type CallScope = (typeof callScopes)[number] | 'admin'
export type ToolScope = 'tools:read' | 'tools:invoke'

/** Why a call of a tool is refused; undefined where it is not. The kind is undefined where there is no such tool. */
export type ToolRefusal = (toolId: string, kind: string | undefined) => GatewayError | undefined

/**
 * What a caller may do.
 *
 * Contract:
 * - Who has no scope of a kind is told so, whatever it asks for.
 * - What is there and out of one's sight is not there: it is refused in the words for what is not there at all.
 * - What one may see, and may not do, is `forbidden`.
 */
export class Access {
  readonly #grants: readonly Grant[]
  readonly #byScope: ReadonlyMap<ScopeName, readonly Grant[]>
  readonly #principalId: string
  readonly #sights = new Map<CallScope, CallSight | undefined>()
  /** The same for those who may see the same tools. */
  readonly toolsKey: string
  /** Whether it is told how the gateway as a whole fares. */
  readonly isAdmin: boolean
  /** Why it may not call a tool; undefined where it may call all there are or can be. */
  readonly refusalOfCall: ToolRefusal | undefined

  constructor (grants: readonly Grant[], principalId: string) {
    this.#grants = grants
    this.#byScope = new Map(scopeNames.map((name) => [name, grants.filter(({ scope }) => scope === name || scope === 'admin')]))
    this.#principalId = principalId
    this.isAdmin = grants.some((grant) => grant.scope === 'admin' && coversAll(grant))
    this.refusalOfCall = this.#of('tools:invoke').some(coversAll) ? undefined : (toolId, kind) => this.refusalOfTool('tools:invoke', toolId, kind)
    this.toolsKey = JSON.stringify(this.#of('tools:read').map(({ tools, kinds }) => [tools, kinds ?? 0]))
  }

  /** Whether there is anything of this scope that it may do. */
  has (scope: ScopeName): boolean {
    return this.#of(scope).length > 0
  }

  /** @throws {GatewayError} `forbidden` where there is not */
  assert (scope: ScopeName): void {
    if (!this.has(scope)) throw missing(scope, 'scope', `This needs the scope ${scope}.`)
  }

  mayTool (scope: ToolScope, toolId: string, kind: string | undefined): boolean {
    return this.#of(scope).some((grant) => coversTool(grant, toolId, kind))
  }

  /** Why it may not do this to a tool: `unknown_tool` for one that it may not see, `forbidden` for the others. */
  refusalOfTool (scope: ToolScope, toolId: string, kind: string | undefined): GatewayError | undefined {
    if (this.mayTool(scope, toolId, kind)) return undefined
    // A scope over one's own calls shows no tool of which one has none.
    return kind !== undefined && this.#grants.some((grant) => grant.principalId === undefined && coversTool(grant, toolId, kind))
      ? missing(scope, 'tool', `This needs the scope ${scope} for the tool "${toolId}".`)
      : new GatewayError('unknown_tool', `There is no tool "${toolId}".`, { refusedFor: kind === undefined ? undefined : 'tool' })
  }

  /** The calls that it may see by a scope; undefined for all. */
  sight (scope: CallScope): CallSight | undefined {
    if (!this.#sights.has(scope)) {
      const grants = this.#of(scope)
      this.#sights.set(scope, grants.some(coversAll) ? undefined : new CallSight(grants, this.#principalId))
    }
    return this.#sights.get(scope)
  }

  /** @throws {GatewayError} `unknown_invocation` for a call that it may not know of, `forbidden` for one that it may */
  assertCall (scope: CallScope, call: CallIdentity): void {
    if (this.#sees(scope, call)) return
    throw callScopes.some((other) => this.#sees(other, call))
      ? missing(scope, 'call', `This needs the scope ${scope} for this invocation.`)
      : new GatewayError('unknown_invocation', unknownInvocation, { refusedFor: 'call' })
  }

  #sees (scope: CallScope, call: CallIdentity): boolean {
    return this.sight(scope)?.sees(call) ?? true
  }

  #of (scope: ScopeName): readonly Grant[] {
    return this.#byScope.get(scope)!
  }
}

export const unknownInvocation = 'There is no record of this invocation.'

/** Everything, for who is asked for no credentials or has the one key that there is. */
export function fullAccess (principalId: string): Access {
  return new Access(grantsOf([{ name: 'admin', tools: undefined, kinds: undefined, isOwn: false }], principalId), principalId)
}

function missing (scope: ScopeName, refusedFor: string, message: string): GatewayError {
  return new GatewayError('forbidden', message, {
    headers: { 'www-authenticate': `Bearer realm="toolgate", error="insufficient_scope", scope="${scope}"` },
    refusedFor
  })
}
