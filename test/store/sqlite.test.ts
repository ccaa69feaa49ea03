import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after } from 'node:test'
import { createIdSource } from '../../src/ids.ts'
import { SqliteStore } from '../../src/store/sqlite/sqlite-store.ts'
import { storeConformance } from '../conformance/store.ts'

const ids = createIdSource()
const folder = mkdtempSync(join(tmpdir(), 'toolgate-store-'))
after(() => rmSync(folder, { recursive: true, force: true }))

storeConformance('sqlite', async ({ clock, limits, place }) =>
  SqliteStore.open({ path: join(folder, `${place}.db`), epoch: ids.epoch(), clock, synchronous: 'normal', ...limits }))
