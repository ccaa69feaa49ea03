import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import { readdirSync, renameSync, statSync } from 'node:fs'
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

describe('docs/operations.md', () => {
  it('has a way to back up a store without sqlite3', async (t) => {
    const { folder } = placeOf(t)
    const { store } = openStore(t, join(folder, 'toolgate.db'))
    await wholeCall(store)
    const script = /^docker exec <container> (node -e "[^"]+")/.exec(await blockWith('docker exec'))![1]!
    run(script.replace('node', process.execPath).replaceAll('/data/', `${folder}/`), folder)
    assert.equal(statSync(join(folder, 'backup.db')).mode & 0o777, 0o600)
    assert.equal(openStore(t, join(folder, 'backup.db')).store.head, 2)
  })
})

// The program is a convenience of whoever runs a gateway, and none of ours.
if (spawnSync('sqlite3', ['--version']).status === 0) {
  describe('docs/operations.md', () => {
    it('has commands of sqlite3 that work while the gateway runs, and a way back', async (t) => {
      const { folder } = placeOf(t)
      const path = join(folder, 'data/toolgate.db')
      const { store } = openStore(t, path)
      await wholeCall(store)
      const commands = (await blocksOf('docs/operations.md')).filter(({ text }) => /^sqlite3 /m.test(text))
      assert.deepEqual(commands.map(({ text }) => run(text, folder)), ['', 'echo|succeeded|1|1.5\n', '2023-11-14 22:13:20|echo|succeeded|{}\n'])
      const [backup] = readdirSync(join(folder, 'data')).filter((name) => name.startsWith('backup-'))
      assert.equal(statSync(join(folder, 'data', backup!)).mode & 0o777, 0o600)
      await wholeCall(store)
      await store.close()

      renameSync(join(folder, 'data', backup!), join(folder, 'toolgate-backup.db'))
      run(await blockWith('cp toolgate-backup.db'), folder)
      assert.equal(openStore(t, path).store.head, 2)
    })
  })
}

function run (command: string, cwd: string): string {
  return execFileSync('sh', ['-ec', command], { cwd, encoding: 'utf8' })
}

async function blockWith (text: string): Promise<string> {
  return (await blocksOf('docs/operations.md')).find((block) => block.text.includes(text))!.text
}
