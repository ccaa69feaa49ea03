import assert from 'node:assert/strict'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, it, type TestContext } from 'node:test'
import { createGateway } from '../../../src/gateway.ts'
import { findChanges, knownFiles } from '../../../src/tools/sources/module-versions.ts'
import { modules, tool, type Modules } from './modules.ts'

/** A tool that imports and requires when it is called. */
const late = tool("Promise.all([import('./lib/m.mjs').then(({ m }) => m), require('./lib/c.cjs')])", "import { createRequire } from 'node:module'\nconst require = createRequire(import.meta.url)")

/** What the tools of a directory give that was loaded, without loading it again. */
async function loaded (dir: Modules): Promise<{ call: () => Promise<any[]>, revert: () => void }> {
  const { tools, revert } = await dir.source.load()
  return { call: () => Promise.all(tools.map(({ tool }) => (tool as any).execute())), revert: revert! }
}

/** A gateway that serves them. */
async function serve (t: TestContext, directories: Modules[]) {
  const app = createGateway({ logger: false, toolDirectories: directories.map(({ path }) => path) })
  t.after(() => app.close())
  await app.ready()
  return { app, call: async (toolId = 'x') => (await app.invoke({ toolId })).structuredContent as any }
}

describe('a load that is taken back', () => {
  it('late imports get what they got before, and the next load finds the changes again', async (t) => {
    const dir = await modules(t, { 'a.mjs': late, 'lib/m.mjs': "export const m = 'm1'", 'lib/c.cjs': "module.exports = 'c1'" })
    const first = await loaded(dir)
    assert.deepEqual(await first.call(), [['m1', 'c1']])
    for (const n of [2, 3]) {
      await dir.write({ 'lib/m.mjs': `export const m = 'm${n}'`, 'lib/c.cjs': `module.exports = 'c${n}'` })
      const next = await loaded(dir)
      assert.deepEqual(await next.call(), [[`m${n}`, `c${n}`]])
      next.revert()
      assert.deepEqual(await first.call(), [['m1', 'c1']])
    }
    assert.deepEqual(await dir.load(), { 'a.mjs': ['m3', 'c3'] })
  })

  it('modules that did not change keep their state, and so does what is put back', async (t) => {
    const dir = await modules(t, { 'a.mjs': tool("import('./lib/m.mjs').then(({ next }) => next())"), 'b.mjs': tool('++count', 'let count = 0'), 'lib/m.mjs': 'let n = 0\nexport const next = () => ++n' })
    const first = await loaded(dir)
    assert.deepEqual(await first.call(), [1, 1])
    await dir.write({ 'lib/m.mjs': 'export const next = () => 100' })
    const next = await loaded(dir)
    assert.deepEqual(await next.call(), [100, 2])
    next.revert()
    assert.deepEqual(await first.call(), [2, 3])
  })

  it('no file gets the URL of a version that was taken back', async (t) => {
    const dir = await modules(t, { 'a.mjs': tool('1') })
    await dir.load()
    await dir.write({ 'a.mjs': tool('n', "import { n } from './lib/new.mjs'"), 'lib/new.mjs': 'export const n = 2' })
    const next = await loaded(dir)
    assert.deepEqual(await next.call(), [2])
    next.revert()
    await dir.write({ 'lib/new.mjs': 'export const n = 3' })
    assert.deepEqual(await dir.load(), { 'a.mjs': 3 })
  })

  it('what is asked for only after it gets none of what was taken back', async (t) => {
    const dir = await modules(t, { 'a.mjs': tool("import('./lib/later.mjs').then(({ n }) => n)"), 'b.mjs': tool("import('./lib/n.mjs').then(({ n }) => n)"), 'lib/later.mjs': "export { n } from './n.mjs'", 'lib/n.mjs': 'export const n = 1' })
    const [, b] = (await dir.source.load()).tools
    assert.equal(await (b!.tool as any).execute(), 1)
    await dir.write({ 'lib/n.mjs': 'export const n = 2' })
    const next = await loaded(dir)
    assert.deepEqual(await next.call(), [2, 2])
    next.revert()
    assert.deepEqual(await next.call(), [1, 1])
  })

  it('a helper that is gone is still what CommonJS has, and is missed again', async (t) => {
    const dir = await modules(t, { 'a.js': "const n = require('./lib/n')\nmodule.exports = { id: 'x', kind: 'read', parseInput: (v) => v, parseOutput: (v) => v, execute: () => [n, require('./lib/m')] }", 'lib/n.js': 'module.exports = 1', 'lib/m.js': 'module.exports = 1' })
    findChanges()
    const before = knownFiles()
    const first = await loaded(dir)
    assert.deepEqual(await first.call(), [[1, 1]])
    await rm(join(dir.path, 'lib/n.js'))
    await dir.write({ 'lib/m.js': 'module.exports = 2' })
    const next = await loaded(dir)
    assert.deepEqual(await next.call(), [])
    next.revert()
    assert.deepEqual(await first.call(), [[1, 1]])
    assert.equal(knownFiles() - before, 3)
    assert.match((await dir.load())['a.js'], /lib\/n/)
    await dir.write({ 'lib/n.js': 'module.exports = 3' })
    assert.deepEqual(await dir.load(), { 'a.js': [3, 2] })
  })
})

describe('a reload that is refused', () => {
  const versions = (n: number) => ({ 'lib/m.mjs': `export const m = 'm${n}'`, 'lib/c.cjs': `module.exports = 'c${n}'` })

  it('for a module changes nothing for the late imports of those that are served', async (t) => {
    const dir = await modules(t, { 'a.mjs': late, 'b.mjs': '', ...versions(1) })
    const { app, call } = await serve(t, [dir])
    assert.deepEqual(await call(), ['m1', 'c1'])
    for (const n of [2, 3]) {
      await dir.write({ 'b.mjs': 'export default {', ...versions(n) })
      await assert.rejects(app.reloadTools(), { code: 'source_failed' })
      assert.deepEqual(await call(), ['m1', 'c1'])
    }
    await dir.write({ 'b.mjs': '' })
    await app.reloadTools()
    assert.deepEqual(await call(), ['m3', 'c3'])
  })

  it('for a directory that comes later, neither', async (t) => {
    const [dir, other] = [await modules(t, { 'a.mjs': late, ...versions(1) }), await modules(t, {})]
    const { app, call } = await serve(t, [dir, other])
    assert.deepEqual(await call(), ['m1', 'c1'])
    await dir.write(versions(2))
    await rm(other.path, { recursive: true })
    await assert.rejects(app.reloadTools(), { code: 'source_failed', message: /ENOENT/ })
    assert.deepEqual(await call(), ['m1', 'c1'])
  })

  it('as the gateway shuts down meanwhile, neither', async (t) => {
    const dir = await modules(t, { 'a.mjs': late, ...versions(1) })
    const { app } = await serve(t, [dir])
    const { tools } = app.toolgate
    const call = async () => (await tools.registry.invoke({ toolId: 'x' })).value
    assert.deepEqual(await call(), ['m1', 'c1'])
    await dir.write(versions(2))
    let admitted = 0
    const host = { admit () { if (++admitted === 2) throw new Error('no more') }, use () { assert.fail() } }
    await assert.rejects(tools.reload(undefined, host), { message: 'no more' })
    assert.deepEqual(await call(), ['m1', 'c1'])
  })
})
