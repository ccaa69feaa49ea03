import assert from 'node:assert/strict'
import { chmod, mkdir, readdir, readFile, readlink, stat, symlink, utimes } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { rewriteFile } from '../../../src/auth/keys/file-rewrite.ts'
import { directoryOf } from '../../e2e/cli.ts'

const append = (text: string) => (content?: Uint8Array) => `${content === undefined ? '' : Buffer.from(content).toString()}${text}`
const modeOf = async (path: string) => (await stat(path)).mode & 0o777

describe('a file that is rewritten', { concurrency: true }, () => {
  it('is made with its folder where it is not there, for its owner alone', async (t) => {
    const path = join(await directoryOf(t, {}), 'a/b/keys.json')
    await rewriteFile(path, (content) => {
      assert.equal(content, undefined)
      return 'new'
    })
    assert.deepEqual([await readFile(path, 'utf8'), await modeOf(path), await modeOf(dirname(path))], ['new', 0o600, 0o700])
    assert.deepEqual(await readdir(dirname(path)), ['keys.json'])
  })

  it('keeps its mode, and is another file, so that who reads the old one reads it whole', async (t) => {
    const path = join(await directoryOf(t, { 'keys.json': 'a' }), 'keys.json')
    await chmod(path, 0o640)
    const { ino } = await stat(path)
    await rewriteFile(path, append('b'))
    assert.deepEqual([await readFile(path, 'utf8'), await modeOf(path), (await stat(path)).ino === ino], ['ab', 0o640, false])
  })

  for (const [what, target] of [['a file', 'real/keys.json'], ['a link', 'middle.json'], ['nothing yet', 'real/later.json']] as const) {
    it(`stays a link where it is one to ${what}`, async (t) => {
      const folder = await directoryOf(t, { 'real/keys.json': '' })
      await symlink('real/keys.json', join(folder, 'middle.json'))
      const path = join(folder, 'keys.json')
      await symlink(target, path)
      await rewriteFile(path, append('b'))
      assert.deepEqual([await readlink(path), await readFile(path, 'utf8')], [target, 'b'])
      assert.deepEqual((await readdir(folder)).sort(), ['keys.json', 'middle.json', 'real'])
    })
  }

  it('is left as it is where the change throws, or is none', async (t) => {
    const folder = await directoryOf(t, { 'keys.json': 'a' })
    const path = join(folder, 'keys.json')
    const { ino } = await stat(path)
    await assert.rejects(rewriteFile(path, () => { throw new Error('no') }), { message: 'no' })
    await rewriteFile(path, () => undefined)
    assert.deepEqual([await readFile(path, 'utf8'), (await stat(path)).ino, await readdir(folder)], ['a', ino, ['keys.json']])
  })

  it('loses no change of those that come at once', async (t) => {
    const path = join(await directoryOf(t, {}), 'keys.json')
    await Promise.all(Array.from({ length: 20 }, (_, i) => rewriteFile(path, append(`${i} `))))
    assert.deepEqual((await readFile(path, 'utf8')).trim().split(' ').map(Number).sort((a, b) => a - b), Array.from({ length: 20 }, (_, i) => i))
  })

  it('does not wait for a lock of the future, as of a clock that was set back', async (t) => {
    const path = join(await directoryOf(t, { 'keys.json': 'a', 'keys.json.lock': 'of somebody' }), 'keys.json')
    const far = new Date(Date.now() + 3_600_000)
    await utimes(`${path}.lock`, far, far)
    await rewriteFile(path, append('b'))
    assert.equal(await readFile(path, 'utf8'), 'ab')
  })

  it('waits for who changes it, and not for who died over it', async (t) => {
    const path = join(await directoryOf(t, { 'keys.json': 'a', 'keys.json.lock': 'of somebody' }), 'keys.json')
    let isDone = false
    const done = Promise.all([append('b'), append('c')].map((change) => rewriteFile(path, change))).then(() => { isDone = true })
    await new Promise((resolve) => setTimeout(resolve, 200))
    assert.equal(isDone, false)
    const long = new Date(Date.now() - 60_000)
    await utimes(`${path}.lock`, long, long)
    await done
    assert.match(await readFile(path, 'utf8'), /^a(bc|cb)$/)
    assert.deepEqual(await readdir(dirname(path)), ['keys.json'])
  })

  it('whose place is a folder tells so', async (t) => {
    const path = join(await directoryOf(t, {}), 'keys.json')
    await mkdir(path)
    await assert.rejects(rewriteFile(path, append('b')), { code: 'EISDIR' })
    assert.deepEqual(await readdir(dirname(path)), ['keys.json'])
  })
})
