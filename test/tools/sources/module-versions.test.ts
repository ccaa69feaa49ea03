import assert from 'node:assert/strict'
import { rename, rm, stat, symlink, utimes } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { findChanges, knownFiles } from '../../../src/tools/sources/module-versions.ts'
import { counted, modules, Modules, tool } from './modules.ts'

describe('loading a directory again', () => {
  // The first of these tests: once a file is gone, no file has its plain URL any more.
  it('a module loaded for the first time has its plain URL, and its own path in any version', async (t) => {
    const text = (n: number) => tool(`[${n}, import.meta.url, import.meta.filename, new Error('here').stack]`)
    const dir = await modules(t, { 'a.ts': text(1) })
    const first = (await dir.load())['a.ts']
    assert.match(first[1], /^file:.*\/a\.ts$/)
    await dir.write({ 'a.ts': text(2) })
    const second = (await dir.load())['a.ts']
    assert.match(second[1], /\/a\.ts\?v=\d+$/)
    assert.equal(second[2], join(dir.path, 'a.ts'))
    assert.match(second[3], /a\.ts\?v=\d+:2:\d+/, 'the place in a stack')
  })

  it('an edited module is loaded anew, and the others keep their state', async (t) => {
    const dir = await modules(t, { 'a.mjs': tool('1'), 'b.mjs': tool('++count', 'let count = 0') })
    assert.deepEqual(await dir.load(), { 'a.mjs': 1, 'b.mjs': 1 })
    await dir.write({ 'a.mjs': tool('2') })
    assert.deepEqual(await dir.load(), { 'a.mjs': 2, 'b.mjs': 2 })
    assert.deepEqual(await dir.load(), { 'a.mjs': 2, 'b.mjs': 3 })
  })

  it('so is everything that imports an edited helper, through helpers in folders, and nothing else', async (t) => {
    const dir = await modules(t, {
      'a.ts': tool('[word, seen]', "import { word } from './lib/word.js'\nimport { seen } from './state.mjs'"),
      'b.mjs': tool('++count', "import './lib/other.mjs'\nlet count = 0"),
      'state.mjs': 'export const seen = { times: 0 }',
      'lib/word.ts': "import { letter } from './deep/letter.ts'\nexport const word: string = letter + 'ord'",
      'lib/deep/letter.ts': "export const letter = 'w'",
      'lib/other.mjs': ''
    })
    const before = await dir.load()
    assert.deepEqual([before['a.ts'][0], before['b.mjs']], ['word', 1])
    await dir.write({ 'lib/deep/letter.ts': "export const letter = 'l'" })
    const after = await dir.load()
    assert.deepEqual([after['a.ts'][0], after['b.mjs']], ['lord', 2])
    assert.equal(after['a.ts'][1], before['a.ts'][1], 'the very object of a helper that stayed')
  })

  it('follows the imports that there are now', async (t) => {
    const dir = await modules(t, {
      'a.mjs': tool('[n, ++count]', "import { n } from './lib/old.mjs'\nlet count = 0"), 'lib/old.mjs': 'export const n = 1', 'lib/new.mjs': 'export const n = 2'
    })
    await dir.load()
    await dir.write({ 'a.mjs': tool('[n, ++count]', "import { n } from './lib/new.mjs'\nlet count = 0") })
    assert.deepEqual((await dir.load())['a.mjs'], [2, 1])
    await dir.write({ 'lib/old.mjs': 'export const n = 3' })
    assert.deepEqual((await dir.load())['a.mjs'], [2, 2])
    await dir.write({ 'lib/new.mjs': 'export const n = 4' })
    assert.deepEqual((await dir.load())['a.mjs'], [4, 1])
  })

  it('modules that import one another are loaded anew together', async (t) => {
    const dir = await modules(t, {
      'a.mjs': tool('[a, b()]', "import { b } from './lib/b.mjs'\nexport const a = 1"), 'lib/b.mjs': "import { a } from '../a.mjs'\nexport const b = () => a"
    })
    assert.deepEqual(await dir.load(), { 'a.mjs': [1, 1] })
    await dir.write({ 'a.mjs': tool('[a, b()]', "import { b } from './lib/b.mjs'\nexport const a = 2") })
    assert.deepEqual(await dir.load(), { 'a.mjs': [2, 2] })
  })

  it('takes JSON anew', async (t) => {
    const dir = await modules(t, { 'a.mjs': tool('data.n', "import data from './data.json' with { type: 'json' }"), 'data.json': '{"n": 1}' })
    assert.deepEqual(await dir.load(), { 'a.mjs': 1 })
    await dir.write({ 'data.json': '{"n": 2}' })
    assert.deepEqual(await dir.load(), { 'a.mjs': 2 })
  })

  it('takes a late import in its present version', async (t) => {
    const dir = await modules(t, { 'a.mjs': tool("import('./lib/late.mjs').then(({ n }) => n)"), 'lib/late.mjs': 'export const n = 1' })
    assert.deepEqual(await dir.load(), { 'a.mjs': 1 })
    await dir.write({ 'lib/late.mjs': 'export const n = 2' })
    assert.deepEqual(await dir.load(), { 'a.mjs': 2 })
  })

  it('takes an edit that keeps the time of change', async (t) => {
    const dir = await modules(t, { 'a.mjs': tool('1') })
    const path = join(dir.path, 'a.mjs')
    const { atime, mtime } = await stat(path)
    await utimes(path, atime, mtime)
    await dir.load()
    await dir.write({ 'a.mjs': tool('2') })
    await utimes(path, atime, mtime)
    assert.deepEqual(await dir.load(), { 'a.mjs': 2 })
  })

  it('takes a touched module anew', async (t) => {
    const dir = await modules(t, { 'a.mjs': counted('touched') })
    assert.deepEqual([await dir.load(), await dir.load()], [{ 'a.mjs': 1 }, { 'a.mjs': 1 }])
    await utimes(join(dir.path, 'a.mjs'), 1, 1)
    assert.deepEqual([await dir.load(), await dir.load()], [{ 'a.mjs': 2 }, { 'a.mjs': 2 }])
  })

  it('finds modules that were added, and misses those that were removed', async (t) => {
    const dir = await modules(t, { 'a.mjs': tool('1') })
    await dir.load()
    await dir.write({ 'b.mjs': tool('2') })
    assert.deepEqual(await dir.load(), { 'a.mjs': 1, 'b.mjs': 2 })
    await rm(join(dir.path, 'a.mjs'))
    assert.deepEqual(await dir.load(), { 'b.mjs': 2 })
    await dir.write({ 'a.mjs': tool('3') })
    assert.deepEqual(await dir.load(), { 'a.mjs': 3, 'b.mjs': 2 }, 'a file that comes back is not the one that Node remembers')
  })

  it('a module whose helper was removed fails, and comes back with it', async (t) => {
    const dir = await modules(t, { 'a.mjs': tool('n', "import { n } from './lib/n.mjs'"), 'lib/n.mjs': 'export const n = 1' })
    await dir.load()
    await rm(join(dir.path, 'lib/n.mjs'))
    assert.match((await dir.load())['a.mjs'], /^Cannot find module 'lib\/n\.mjs' imported from a\.mjs$/)
    await dir.write({ 'lib/n.mjs': 'export const n = 2' })
    assert.deepEqual(await dir.load(), { 'a.mjs': 2 })
  })

  it('a nearer file that was added takes the place of what was found instead', async (t) => {
    const dir = await modules(t, { 'a.mjs': tool('n', "import { n } from './lib/n.js'"), 'lib/n.ts': "export const n = 'ts'" })
    assert.deepEqual(await dir.load(), { 'a.mjs': 'ts' })
    await dir.write({ 'lib/n.js': "export const n = 'js'" })
    assert.deepEqual(await dir.load(), { 'a.mjs': 'js' })
  })

  it('packages that are installed in it stay as they are', async (t) => {
    const dir = await modules(t, {
      'a.mjs': tool('[n, 1]', "import { n } from 'dep'"),
      'node_modules/dep/package.json': '{"name": "dep", "type": "module", "exports": "./index.js"}',
      'node_modules/dep/index.js': 'export const n = 1'
    })
    await dir.load()
    await dir.write({ 'a.mjs': tool('[n, 2]', "import { n } from 'dep'"), 'node_modules/dep/index.js': 'export const n = 2' })
    assert.deepEqual(await dir.load(), { 'a.mjs': [1, 2] })
  })

  describe('CommonJS', () => {
    const cjs = (value: string, head = '') => `${head}\nmodule.exports = { id: 'x', kind: 'read', parseInput: (v) => v, parseOutput: (v) => v, execute: () => ${value} }`

    it('is loaded anew, with what it requires, and the rest keeps its state', async (t) => {
      const dir = await modules(t, {
        'a.js': cjs('[1, word, data.n, ++state.times]', "const { word } = require('./lib/word')\nconst data = require('./data.json')\nconst state = require('./lib/state')"),
        'b.js': cjs('++count', 'let count = 0'),
        'lib/word.js': "module.exports = { word: require('./letter') + 'ord' }",
        'lib/letter.js': "module.exports = 'w'",
        'lib/state.js': 'module.exports = { times: 0 }',
        'data.json': '{"n": 1}'
      })
      assert.deepEqual(await dir.load(), { 'a.js': [1, 'word', 1, 1], 'b.js': 1 })
      await dir.write({ 'lib/letter.js': "module.exports = 'l'" })
      assert.deepEqual(await dir.load(), { 'a.js': [1, 'lord', 1, 2], 'b.js': 2 })
      await dir.write({ 'data.json': '{"n": 2}' })
      assert.deepEqual(await dir.load(), { 'a.js': [1, 'lord', 2, 3], 'b.js': 3 })
      await dir.write({ 'b.js': cjs("'other'") })
      assert.deepEqual(await dir.load(), { 'a.js': [1, 'lord', 2, 4], 'b.js': 'other' })
    })

    it('required and imported by ES modules is loaded anew as well', async (t) => {
      const dir = await modules(t, {
        'a.mjs': tool('[n, m]', "import n from './lib/n.cjs'\nimport { createRequire } from 'node:module'\nconst m = createRequire(import.meta.url)('./lib/m.cjs')"),
        'lib/n.cjs': 'module.exports = 1',
        'lib/m.cjs': 'module.exports = 1'
      })
      assert.deepEqual(await dir.load(), { 'a.mjs': [1, 1] })
      await dir.write({ 'lib/n.cjs': 'module.exports = 2' })
      assert.deepEqual(await dir.load(), { 'a.mjs': [2, 1] })
      await dir.write({ 'lib/m.cjs': 'module.exports = 3' })
      assert.deepEqual(await dir.load(), { 'a.mjs': [2, 3] })
    })

    it('that threw is tried anew', async (t) => {
      const dir = await modules(t, { 'a.js': cjs('globalThis.cjsTries', "require('./lib/try')"), 'lib/try.js': "globalThis.cjsTries = (globalThis.cjsTries ?? 0) + 1\nif (globalThis.cjsTries < 2) throw new Error('not yet')" })
      assert.deepEqual([await dir.load(), await dir.load(), await dir.load()], [{ 'a.js': 'not yet' }, { 'a.js': 2 }, { 'a.js': 2 }])
    })
  })

  describe('a module that failed', () => {
    it('is tried anew though it is unchanged, and what it imports as well', async (t) => {
      const dir = await modules(t, {
        'a.mjs': tool('tries', "import { tries } from './lib/deep.mjs'"), 'lib/deep.mjs': "import './try.mjs'\nexport const tries = globalThis.esmTries",
        'lib/try.mjs': "globalThis.esmTries = (globalThis.esmTries ?? 0) + 1\nif (globalThis.esmTries < 3) throw new Error('not yet')"
      })
      assert.deepEqual([await dir.load(), await dir.load(), await dir.load(), await dir.load()], [{ 'a.mjs': 'not yet' }, { 'a.mjs': 'not yet' }, { 'a.mjs': 3 }, { 'a.mjs': 3 }])
    })

    it('leaves alone what others import, too', async (t) => {
      const dir = await modules(t, {
        'bad.mjs': "import './lib/shared.mjs'\nthrow new Error('broken')", 'good.mjs': tool('++state.n', "import { state } from './lib/shared.mjs'"), 'lib/shared.mjs': 'export const state = { n: 0 }'
      })
      for (const n of [1, 2, 3]) assert.deepEqual(await dir.load(), { 'bad.mjs': 'broken', 'good.mjs': n })
      await dir.write({ 'bad.mjs': tool('state.n', "import { state } from './lib/shared.mjs'") })
      assert.deepEqual(await dir.load(), { 'bad.mjs': 3, 'good.mjs': 4 })
    })

    it('is tried anew with what others import late, and failed for them as well', async (t) => {
      const dir = await modules(t, {
        'a.mjs': tool("import('./lib/try.mjs').then(({ n }) => n, ({ message }) => message)"), 'b.mjs': tool('n', "import { n } from './lib/try.mjs'"),
        'lib/try.mjs': "globalThis.lateTries = (globalThis.lateTries ?? 0) + 1\nif (globalThis.lateTries < 3) throw new Error('not yet')\nexport const n = globalThis.lateTries"
      })
      assert.deepEqual([await dir.load(), await dir.load(), await dir.load(), await dir.load()], [{ 'a.mjs': 'not yet', 'b.mjs': 'not yet' }, { 'a.mjs': 'not yet', 'b.mjs': 'not yet' }, { 'a.mjs': 3, 'b.mjs': 3 }, { 'a.mjs': 3, 'b.mjs': 3 }])
    })

    it('fails in the same words in every version', async (t) => {
      const dir = await modules(t, { 'a.mjs': "import { none } from './lib/n.mjs'", 'b.mjs': "import 'no-such-package'", 'c.mjs': 'const = 1', 'd.mjs': "throw new Error('at ' + import.meta.url)", 'lib/n.mjs': '' })
      const first = await dir.load()
      assert.match(first['b.mjs'], /imported from b\.mjs$/)
      assert.equal(first['d.mjs'], 'at d.mjs')
      assert.deepEqual(await dir.load(), first)
    })

    it('as it never ended is given up, and does not hold up the others', async (t) => {
      const dir = await modules(t, { 'a.mjs': 'await new Promise(() => {})', 'b.mjs': 'export default () => new Promise(() => {})', 'c.mjs': tool('1') }, 50)
      assert.deepEqual(await dir.load(), { 'a.mjs': 'loading it took longer than 50 ms', 'b.mjs': 'loading it took longer than 50 ms', 'c.mjs': 1 })
      await dir.write({ 'a.mjs': tool('2'), 'b.mjs': tool('3') })
      assert.deepEqual(await dir.load(), { 'a.mjs': 2, 'b.mjs': 3, 'c.mjs': 1 })
    })
  })

  describe('links', () => {
    it('a directory that leads elsewhere by now', async (t) => {
      const root = await modules(t, { 'one/a.mjs': tool('1'), 'two/a.mjs': tool('2') })
      const link = join(root.path, 'current')
      await symlink('one', link)
      const dir = new Modules(link)
      assert.deepEqual(await dir.load(), { 'a.mjs': 1 })
      await symlink('two', `${link}.new`)
      await rename(`${link}.new`, link)
      assert.deepEqual(await dir.load(), { 'a.mjs': 2 })
    })

    it('files that lead into a folder that is swapped, as a mounted ConfigMap has them', async (t) => {
      const text = (n: number) => ({ 'a.mjs': tool('[n, m]', `import { n } from './n.mjs'\nimport { m } from './lib/m.mjs'\nif (${n} === 2) throw new Error('broken ' + import.meta.url)`), 'n.mjs': `export const n = ${n}` })
      const dir = await modules(t, Object.fromEntries([1, 2, 3].flatMap((n) => Object.entries({ ...text(n), 'lib/m.mjs': `export const m = ${n * 10}` }).map(([name, body]) => [`..v${n}/${name}`, body]))))
      await symlink('..v1', join(dir.path, '..data'))
      for (const name of ['a.mjs', 'n.mjs', 'lib']) await symlink(`..data/${name}`, join(dir.path, name))
      const swap = async (n: number) => {
        await symlink(`..v${n}`, join(dir.path, '..new'))
        await rename(join(dir.path, '..new'), join(dir.path, '..data'))
        await rm(join(dir.path, `..v${n - 1}`), { recursive: true })
      }
      assert.deepEqual(await dir.load(), { 'a.mjs': [1, 10] })
      await swap(2)
      assert.deepEqual(await dir.load(), { 'a.mjs': 'broken a.mjs' })
      await swap(3)
      assert.deepEqual(await dir.load(), { 'a.mjs': [3, 30] })
    })

    it('a helper that leads elsewhere by now, under a module that did not change', async (t) => {
      const dir = await modules(t, { 'a.mjs': tool('n', "import { n } from './lib/n.mjs'"), 'lib/n1.mjs': 'export const n = 1', 'lib/n2.mjs': 'export const n = 2' })
      await symlink('n1.mjs', join(dir.path, 'lib/n.mjs'))
      assert.deepEqual(await dir.load(), { 'a.mjs': 1 })
      await symlink('n2.mjs', join(dir.path, 'lib/new'))
      await rename(join(dir.path, 'lib/new'), join(dir.path, 'lib/n.mjs'))
      assert.deepEqual(await dir.load(), { 'a.mjs': 2 })
    })

    it('one that leads nowhere is a failure', async (t) => {
      const dir = await modules(t, { 'b.mjs': tool('1') })
      await symlink('nowhere', join(dir.path, 'a.mjs'))
      const { 'a.mjs': reason, ...rest } = await dir.load()
      assert.match(reason, /ENOENT/)
      assert.deepEqual(rest, { 'b.mjs': 1 })
    })
  })

  it('keeps one entry for each module file, however often one is edited, and none for those that are gone', async (t) => {
    findChanges()
    const before = knownFiles()
    const dir = await modules(t, { 'a.mjs': tool('0', "import './lib/n.mjs'"), 'lib/n.mjs': '' })
    for (let n = 1; n <= 20; n++) {
      await dir.write({ 'a.mjs': tool(`${n}`, "import './lib/n.mjs'"), [`b${n}.mjs`]: tool('1') })
      await rm(join(dir.path, `b${n - 1}.mjs`), { force: true })
      assert.equal((await dir.load())['a.mjs'], n)
      assert.equal(knownFiles() - before, 3)
    }
    await rm(dir.path, { recursive: true })
    findChanges()
    assert.equal(knownFiles(), before)
  })
})
