import type { CallFilter, CallIdentity, CallVerdict } from './store.ts'

/** A test of records against `filter`: different names narrow, the same name widens. */
export function compileCallFilter ({ toolId, kind, status, runId, from, to, principalId, sight }: CallFilter): (start: CallIdentity, end: CallVerdict | undefined) => boolean {
  return (start, end) =>
    (toolId === undefined || toolId.includes(start.toolId)) &&
    (kind === undefined || kind.includes(start.kind)) &&
    (status === undefined || status.includes(end?.status ?? 'running')) &&
    (runId === undefined || (start.runId !== undefined && runId.includes(start.runId))) &&
    (from === undefined || start.startedAtMs >= from) &&
    (to === undefined || start.startedAtMs < to) &&
    (principalId === undefined || principalId.includes(start.principalId)) &&
    (sight === undefined || sight.sees(start))
}
