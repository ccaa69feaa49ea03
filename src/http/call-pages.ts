import type { InvocationQuery } from '../contract/invocation.ts'
import { GatewayError } from '../errors.ts'
import { placeId, placeOf } from '../events/event-ids.ts'
import type { CallSight } from '../store/call-sight.ts'
import type { CallFilter, ListedCall, Store } from '../store/store.ts'

/** Records of a page where nothing is said. */
const PAGE = 100

/**
 * A page of a list of records.
 *
 * @param sight the calls that its reader may see; undefined for all
 * @returns what makes it up, as JSON text: its entries and, where there is more, the member that leads on
 * @throws {GatewayError} `invalid_request` for a cursor that is none
 */
export async function pageOfCalls (
  store: Store, { limit = PAGE, cursor, ...filter }: InvocationQuery & CallFilter, sight: CallSight | undefined, textOf: (call: ListedCall) => string
): Promise<{ entries: string, nextCursor: string }> {
  const before = cursor === undefined ? undefined : placeOf(store, cursor, sight !== undefined)
  if (cursor !== undefined && before === undefined) {
    const message = 'is no place in this log; take the nextCursor of a page'
    throw new GatewayError('invalid_request', `The query is not valid. /cursor: ${message}`, { errors: [{ path: '/cursor', keyword: 'cursor', message }] })
  }
  const { calls, next } = await store.list({ ...filter, sight }, before, limit)
  return {
    entries: `[${calls.map(textOf).join(',')}]`,
    nextCursor: next === undefined ? '' : `,"nextCursor":"${placeId(store, next, sight !== undefined)}"`
  }
}
