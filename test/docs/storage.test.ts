import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { describe, it } from 'node:test'
import { versions } from '../../src/store/sqlite/schema.ts'
import { rowsOf } from '../conformance/markdown-table.ts'
import { openStore, placeOf, wholeCall } from '../store/sqlite/harness.ts'
import { blocksOf, textOf } from './markdown.ts'

describe('docs/storage.md', () => {
  it('has every table with its columns in order, and the version', async (t) => {
    const connection = new DatabaseSync(':memory:')
    t.after(() => connection.close())
    for (const sql of versions) connection.exec(sql)
    const tables = connection.prepare("SELECT name FROM sqlite_schema WHERE type = 'table'").all().map(({ name }) => name as string)
    const page = await textOf('docs/storage.md')
    const documented = page.split(/^## /m).slice(1).map((section) => [
      /^`(\w+)`/.exec(section)![1]!,
      rowsOf(section).flatMap(([column]) => /^`(\w+)`$/.exec(column!)?.[1] ?? [])
    ])
    assert.deepEqual(documented, tables.map((table) => [table, connection.prepare(`PRAGMA table_info(${table})`).all().map(({ name }) => name)]))
    assert.ok(page.includes(`version ${versions.length}.`))
  })
})

// The program is a convenience of whoever runs a gateway, and none of ours.
if (spawnSync('sqlite3', ['--version']).status === 0) {
  describe('docs/operations.md', () => {
    it('has commands of sqlite3 that work while the gateway runs', async (t) => {
      const { folder } = placeOf(t)
      const path = join(folder, 'data/toolgate.db')
      const { store } = openStore(t, path)
      await wholeCall(store)
      const commands = (await blocksOf('docs/operations.md')).filter(({ text }) => text.startsWith('sqlite3'))
      assert.ok(commands.length >= 4)
      const printed = commands.map(({ text }) => execFileSync('sh', ['-c', text], { cwd: folder, encoding: 'utf8' }))
      assert.deepEqual(printed, ['', '', 'echo|succeeded|1|1.5\n', '2023-11-14 22:13:20|echo|succeeded|{}\n'])
      await store.close()
      for (const copy of ['toolgate-backup.db', 'toolgate-compact.db']) {
        const { store: restored } = openStore(t, join(folder, copy))
        assert.equal(restored.head, 2)
        await restored.close()
      }
    })
  })
}
