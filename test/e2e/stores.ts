import { join } from 'node:path'
import { describe, type TestContext } from 'node:test'
import type { GatewayOptions } from '../../src/gateway.ts'
import { directoryOf } from './cli.ts'
import { startGateway, type RunningGateway, type Scope } from './harness.ts'

/** A kind of store that whole suites run over. */
export interface StoreCase {
  name: string
  /** Whether a gateway finds what one before it recorded, where both are given the same options. */
  isDurable: boolean
  /** The options of one place to record in, new each time. */
  options: (t: Scope) => Promise<GatewayOptions>
}

export const stores: readonly StoreCase[] = [
  { name: 'memory', isDurable: false, options: async () => ({ store: 'memory' }) },
  { name: 'sqlite', isDurable: true, options: async (t) => ({ store: `sqlite:${join(await directoryOf(t, {}), 'toolgate.db')}` }) }
]

export type Start = (t: TestContext, options: GatewayOptions) => Promise<RunningGateway>

/** The same facts over each store, side by side, since much of it is waiting. */
export function overStores (about: string, suite: (start: Start) => void): void {
  describe(about, { concurrency: stores.length }, () => {
    for (const { name, options } of stores) {
      describe(`store: ${name}`, () => suite(async (t, given) => await startGateway(t, { ...await options(t), ...given })))
    }
  })
}
