import type { SubscriptionItem } from '../../../src/client.ts'
import type { EventList } from '../../../src/contract/event.ts'
import { send } from '../../e2e/harness.ts'

/** Everything that a gateway has kept, with the ids. */
export async function logOf ({ url }: { url: string }): Promise<EventList['events']> {
  const all: EventList['events'] = []
  for (let after = 'earliest'; ;) {
    const { body } = await send(`${url}/events?lastEventId=${encodeURIComponent(after)}`, { headers: { accept: 'application/json' } })
    const { events, next } = body as EventList
    all.push(...events)
    if (events.length === 0) return all
    after = next
  }
}

/** What a loop was given, as it stands in a log: each item with the place that the subscription was at. */
export class Taken {
  readonly all: { id: string | undefined, event: SubscriptionItem }[] = []

  add (event: SubscriptionItem, id: string | undefined): void {
    this.all.push({ id, event })
  }

  /** Ends of calls. */
  get ends (): number {
    return this.all.filter(({ event }) => event.type === 'tool_execution_end').length
  }
}
