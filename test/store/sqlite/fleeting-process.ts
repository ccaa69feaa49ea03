import { systemClock } from '../../../src/clock.ts'
import { defaultRetention } from '../../../src/store/retention.ts'
import { SqliteStore } from '../../../src/store/sqlite/sqlite-store.ts'
import { wholeCall } from './harness.ts'

/** Writes so much to the store at its first argument that its log is moved, and does not close it. */
const store = SqliteStore.open({ ...defaultRetention.sqlite, path: process.argv[2]!, epoch: '0123456789abcdef', clock: systemClock, synchronous: 'normal' })
for (let call = 0; call < 120; call++) await wholeCall(store, { input: JSON.stringify('x'.repeat(100_000)) })
