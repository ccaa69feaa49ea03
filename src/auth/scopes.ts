import { isToolPattern } from '../contract/tool.ts'
import type { CallGrant } from '../store/call-sight.ts'

/** What one may be allowed to do. `admin` is all of it, and to be told who called. */
export const scopeNames = ['tools:read', 'tools:invoke', 'events:read', 'invocations:read', 'invocations:cancel', 'admin'] as const
export type ScopeName = (typeof scopeNames)[number]

/** Scopes that are about calls, of which one can be given one's own alone. */
const aboutCalls: ReadonlySet<ScopeName> = new Set(['events:read', 'invocations:read', 'invocations:cancel'])

/** A scope as it is written down: `events:read?tool=get_*&kind=read&own`. Different names narrow, the same name widens. */
export interface Scope {
  readonly name: ScopeName
  readonly tools: readonly string[] | undefined
  readonly kinds: readonly string[] | undefined
  /** Calls of one's own alone. */
  readonly isOwn: boolean
}

/** A scope that somebody has. */
export interface Grant extends CallGrant {
  readonly scope: ScopeName
}

const MAX_SCOPE_CHARACTERS = 2048

/**
 * Reads a scope.
 * @throws {SyntaxError} that says what is wrong with it
 */
export function parseScope (text: string): Scope {
  const mark = text.indexOf('?')
  const given = mark === -1 ? text : text.slice(0, mark)
  const name = scopeNames.find((known) => known === given)
  if (name === undefined) throw new SyntaxError(`${JSON.stringify(given.slice(0, 64))} is no scope; there are ${scopeNames.join(', ')}`)
  if (text.length > MAX_SCOPE_CHARACTERS) throw new SyntaxError(`a scope has ${MAX_SCOPE_CHARACTERS} characters at most`)
  const tools: string[] = []
  const kinds: string[] = []
  let isOwn = false
  for (const part of mark === -1 ? [] : text.slice(mark + 1).split('&')) {
    if (part === 'own' && aboutCalls.has(name)) isOwn = true
    else if (part.startsWith('tool=')) tools.push(patternOf(part.slice(5)))
    else if (part.startsWith('kind=') && part.length > 5) kinds.push(decode(part.slice(5)))
    else throw new SyntaxError(`${name} cannot be narrowed by ${JSON.stringify(part.slice(0, 64))}; there are tool=, kind=${aboutCalls.has(name) ? ' and own' : ''}`)
  }
  return { name, tools: tools.length === 0 ? undefined : tools, kinds: kinds.length === 0 ? undefined : kinds, isOwn }
}

function patternOf (text: string): string {
  const pattern = decode(text)
  if (!isToolPattern(pattern)) throw new SyntaxError(`no tool can have an id that fits ${JSON.stringify(pattern.slice(0, 64))}`)
  return pattern
}

function decode (text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    throw new SyntaxError(`${JSON.stringify(text.slice(0, 64))} is not encoded as a part of a query is`)
  }
}

/**
 * What a caller has by its scopes.
 * @param within tool patterns that narrow all of them
 */
export function grantsOf (scopes: readonly Scope[], principalId: string, within?: readonly string[]): Grant[] {
  return scopes.map(({ name, tools, kinds, isOwn }) => ({
    scope: name,
    tools: [within, tools].filter((patterns) => patterns !== undefined),
    kinds,
    principalId: isOwn ? principalId : undefined
  }))
}
