import { systemClock } from '../../../src/clock.ts'
import { defaultRetention } from '../../../src/store/retention.ts'
import { SqliteStore } from '../../../src/store/sqlite/sqlite-store.ts'

/** Opens and closes the store at its first argument, as nobody in particular, or as it is; says what came of it. */
const [, , path, as] = process.argv
if (process.getuid!() === 0 && as !== 'as-it-is') {
  process.setgid!(65_534)
  process.setuid!(65_534)
}
try {
  const store = SqliteStore.open({ ...defaultRetention.sqlite, path: path!, epoch: '0123456789abcdef', clock: systemClock, synchronous: 'normal' })
  await store.close()
  console.log('opened')
} catch (error) {
  console.log(`${(error as { code: string }).code} ${(error as Error).message}`)
}
