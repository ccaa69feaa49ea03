import assert from 'node:assert/strict'
import { mkdir, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, it, type TestContext } from 'node:test'
import { watchFiles } from '../src/watch.ts'
import { directoryOf } from './e2e/cli.ts'
import { waitFor } from './e2e/harness.ts'

/** Watches `tools` and `settings.json` of a folder, which need not be there, and counts what is told. */
async function watched (t: TestContext, files: Record<string, string> = {}) {
  const folder = await directoryOf(t, { 'tools/a.mjs': '1', 'tools/node_modules/x/index.js': '1', 'tools/.git/HEAD': '1', 'other/b.mjs': '1', ...files })
  let told = 0
  const watch = await watchFiles({
    directories: [join(folder, 'tools')],
    files: [join(folder, 'settings.json')],
    onChange: () => { told++ },
    onError: (error) => assert.fail(error as Error)
  })
  t.after(() => watch.close())
  let seen = 0
  return {
    folder,
    watch,
    count: () => told,
    write: (name: string, text = '2') => writeFile(join(folder, name), text),
    /** Waits for one more change to be told. */
    async change (what: string) {
      await waitFor(() => told > seen, what)
      seen = told
    }
  }
}

describe('watching', { concurrency: true }, () => {
  it('tells of a module that is edited, added, moved or removed, in folders below too', async (t) => {
    const { folder, write, change } = await watched(t, { 'tools/lib/deep/c.js': '1' })
    await write('tools/a.mjs')
    await change('the edit')
    await write('tools/new.mjs')
    await change('the new module')
    await write('tools/lib/deep/c.js')
    await change('the edit below')
    await rename(join(folder, 'tools/new.mjs'), join(folder, 'tools/newer.mjs'))
    await change('the move')
    await rm(join(folder, 'tools/a.mjs'))
    await change('the removal')
    await mkdir(join(folder, 'tools/later'))
    await change('the new folder')
    await write('tools/later/d.mjs')
    await change('the module in the new folder')
  })

  it('tells of the file of settings when it comes, changes, is replaced and goes', async (t) => {
    const { folder, write, change } = await watched(t)
    await write('settings.json')
    await change('that it came')
    await write('settings.json', '33')
    await change('that it changed')
    await write('settings.json.new', '4')
    await rename(join(folder, 'settings.json.new'), join(folder, 'settings.json'))
    await change('that it was replaced')
    await rm(join(folder, 'settings.json'))
    await change('that it went')
  })

  it('tells nothing of packages, of hidden files, or of what is beside', async (t) => {
    const { write, change, count } = await watched(t)
    await write('tools/node_modules/x/index.js')
    await write('tools/.git/HEAD')
    await write('tools/.hidden.mjs')
    await write('other/b.mjs')
    await write('beside.json')
    await new Promise((resolve) => setTimeout(resolve, 300))
    assert.equal(count(), 0)
    await write('tools/a.mjs')
    await change('what is watched')
  })

  it('a directory inside of a hidden one is watched all the same', async (t) => {
    const folder = await directoryOf(t, { '.hidden/node_modules/tools/a.mjs': '1' })
    let told = 0
    const watch = await watchFiles({ directories: [join(folder, '.hidden/node_modules/tools')], files: [], onChange: () => { told++ }, onError: (error) => assert.fail(error as Error) })
    t.after(() => watch.close())
    await writeFile(join(folder, '.hidden/node_modules/tools/a.mjs'), '2')
    await waitFor(() => told > 0, 'the change')
  })

  it('changes that come together are told once', async (t) => {
    const { write, change, count } = await watched(t)
    await Promise.all(Array.from({ length: 20 }, (_, i) => write(`tools/m${i}.mjs`)))
    await change('the changes')
    assert.equal(count(), 1)
  })

  it('nothing is told after the close', async (t) => {
    const { write, watch, count } = await watched(t)
    await write('tools/a.mjs')
    await watch.close()
    await write('tools/b.mjs')
    await new Promise((resolve) => setTimeout(resolve, 300))
    assert.equal(count(), 0)
  })
})
