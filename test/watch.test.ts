import assert from 'node:assert/strict'
import { cpSync, renameSync, rmSync, symlinkSync } from 'node:fs'
import { mkdir, rename, rm, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, it, type TestContext } from 'node:test'
import { watchFiles } from '../src/watch.ts'
import { directoryOf } from './e2e/cli.ts'
import { waitFor } from './e2e/harness.ts'

/** Counts what is told. */
async function watch (t: TestContext, directories: string[], file: string) {
  let told = 0
  const watch = await watchFiles({ directories, files: [file], onChange: () => { told++ }, onError: (error) => assert.fail(error as Error) })
  t.after(() => watch.close())
  let seen = 0
  return {
    watch,
    count: () => told,
    /** Waits for one more change to be told. */
    async change (what: string) {
      await waitFor(() => told > seen, what)
      seen = told
    },
    /** Waits until no more is told of what was done. */
    async quiet () {
      do {
        seen = told
        await new Promise((resolve) => setTimeout(resolve, 700))
      } while (told > seen)
    }
  }
}

/** Watches `tools` and `settings.json` of a folder, which need not be there. */
async function watched (t: TestContext, files: Record<string, string> = {}) {
  const folder = await directoryOf(t, { 'tools/a.mjs': '1', 'tools/node_modules/x/index.js': '1', 'tools/.git/HEAD': '1', 'other/b.mjs': '1', ...files })
  const watching = await watch(t, [join(folder, 'tools')], join(folder, 'settings.json'))
  return { ...watching, folder, write: (name: string, text = '2') => writeFile(join(folder, name), text) }
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

describe('what is watched and replaced', { concurrency: true }, () => {
  // At once, so that nothing is seen of it but how it ends.
  const swapLink = (link: string, target: string) => {
    symlinkSync(target, `${link}.new`)
    renameSync(`${link}.new`, link)
  }
  const moveAndCopy = (path: string) => {
    renameSync(path, `${path}.old`)
    cpSync(`${path}.old`, path, { recursive: true })
  }
  const removeAndCopy = (path: string) => {
    cpSync(path, `${path}.copy`, { recursive: true })
    rmSync(path, { recursive: true })
    cpSync(`${path}.copy`, path, { recursive: true })
  }
  const cases: [what: string, replace: (folder: string) => void][] = [
    ['a directory by its copy', (folder) => moveAndCopy(join(folder, 'app/tools'))],
    ['a directory that was removed and made again', (folder) => removeAndCopy(join(folder, 'app/tools'))],
    ['a folder below by its copy', (folder) => moveAndCopy(join(folder, 'app/tools/lib'))],
    ['a folder below that was removed and made again', (folder) => removeAndCopy(join(folder, 'app/tools/lib'))],
    ['what a directory stands in', (folder) => moveAndCopy(join(folder, 'app'))],
    ['the folder of the settings', (folder) => moveAndCopy(join(folder, 'etc'))],
    ['a link to a directory', (folder) => swapLink(join(folder, 'current'), 'two')],
    ['a link below', (folder) => swapLink(join(folder, 'app/tools/link'), '../../two')]
  ]
  for (const [what, replace] of cases) {
    it(`is told, and is watched from then on: ${what}`, async (t) => {
      const folder = await directoryOf(t, { 'app/tools/a.mjs': '1', 'app/tools/lib/b.mjs': '1', 'etc/settings.json': '1', 'one/c.mjs': '1', 'two/c.mjs': '1' })
      await symlink('one', join(folder, 'current'))
      await symlink('../../one', join(folder, 'app/tools/link'))
      const { change, quiet } = await watch(t, ['app/tools', 'current'].map((name) => join(folder, name)), join(folder, 'etc/settings.json'))
      replace(folder)
      await change('the replacement')
      await quiet()
      for (const name of ['app/tools/a.mjs', 'app/tools/lib/b.mjs', 'app/tools/lib/new.mjs', 'app/tools/link/c.mjs', 'current/c.mjs', 'current/new.mjs', 'etc/settings.json']) {
        await writeFile(join(folder, name), `for ${name}`)
        await change(`a change of ${name}`)
      }
    })
  }

  it('its removal is told, and its return', async (t) => {
    const folder = await directoryOf(t, { 'tools/a.mjs': '1' })
    const { change, quiet } = await watch(t, [join(folder, 'tools')], join(folder, 'settings.json'))
    await rm(join(folder, 'tools'), { recursive: true })
    await change('the removal')
    await quiet()
    await mkdir(join(folder, 'tools'))
    await change('the return')
    await quiet()
    await writeFile(join(folder, 'tools/a.mjs'), '2')
    await change('a change after it')
  })

  it('a directory that was not there at first is told', async (t) => {
    const folder = await directoryOf(t, {})
    const { change } = await watch(t, [join(folder, 'later/tools')], join(folder, 'settings.json'))
    await mkdir(join(folder, 'later/tools'), { recursive: true })
    await change('that it is there')
  })
})
