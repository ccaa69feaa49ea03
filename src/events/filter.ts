import type { EventQuery } from '../contract/event.ts'
import type { CallSight } from '../store/call-sight.ts'
import type { StoredEvent } from '../store/store.ts'

export type EventView = 'full' | 'receipt'

/** Which events a subscriber wants. An absent name lets everything through; a present one, its values. */
export interface EventFilter {
  readonly type?: readonly string[]
  readonly toolId?: readonly string[]
  readonly kind?: readonly string[]
  readonly status?: readonly string[]
  readonly runId?: readonly string[]
  readonly invocationId?: readonly string[]
  readonly toolCallId?: readonly string[]
}

const values: Record<keyof EventFilter, (event: StoredEvent) => string | undefined> = {
  type: (event) => event.type,
  toolId: (event) => event.start.toolId,
  kind: (event) => event.start.kind,
  status: (event) => event.end?.status ?? 'running',
  runId: (event) => event.start.runId,
  invocationId: (event) => event.start.invocationId,
  toolCallId: (event) => event.start.toolCallId
}

export const filterNames = Object.keys(values) as (keyof EventFilter)[]

/** The filter that a query asks for. */
export function filterOf (query: EventQuery): EventFilter {
  return Object.fromEntries(filterNames.filter((name) => query[name] !== undefined).map((name) => [name, query[name]]))
}

/** The same for filters that let the same events through, whatever order they were written in, to those who may see the same. */
export function filterKey (filter: EventFilter, view: EventView, sight?: CallSight): string {
  return JSON.stringify([view, sight?.key ?? 0, ...filterNames.map((name) => filter[name] === undefined ? 0 : [...new Set(filter[name])].sort())])
}

/**
 * A test of events against `filter`: different names narrow, the same name widens.
 * @param sight the calls that there are for who filters; undefined for all
 */
export function compileFilter (filter: EventFilter, sight?: CallSight): (event: StoredEvent) => boolean {
  const tests = filterNames
    .filter((name) => filter[name] !== undefined)
    .map((name) => ({ valueOf: values[name], allowed: new Set<string | undefined>(filter[name]) }))
  return (event) => (sight === undefined || sight.sees(event.start)) && tests.every(({ valueOf, allowed }) => allowed.has(valueOf(event)))
}
