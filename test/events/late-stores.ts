import { setImmediate as nextTurn } from 'node:timers/promises'
import type { EventPage } from '../../src/store/store.ts'

/** Answers a page late: what the store is read through. */
export type Late = (read: () => EventPage) => Promise<EventPage>

async function someTurns (): Promise<void> {
  for (let wait = Math.floor(Math.random() * 4); wait > 0; wait--) await nextTurn()
}

/** How stores answer: what holds of a seam has to hold with each of them. */
export const behaviours: readonly [name: string, late?: Late][] = [
  ['of a store that answers now'],
  ['of a store that answers in later turns', async (read) => {
    const page = read()
    await someTurns()
    return page
  }],
  ['of a store that looks late', async (read) => {
    await someTurns()
    return read()
  }]
]
