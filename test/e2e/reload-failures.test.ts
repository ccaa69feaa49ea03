import assert from 'node:assert/strict'
import { rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { module, serve, valueOf } from './served-folder.ts'

describe('a reload that breaks', () => {
  const breaking: [what: string, files: Record<string, string>, why: RegExp][] = [
    ['a syntax error', { 'a.mjs': 'export default {' }, /\n {2}\S+\/a\.mjs: /],
    ['a module that throws', { 'a.mjs': "throw new Error('no connection')" }, /\n {2}\S+\/a\.mjs: no connection \(a\.mjs:1:7\)$/],
    ['an import that is not there', { 'a.mjs': "import './none.mjs'" }, /\n {2}\S+\/a\.mjs: Cannot find module/],
    ['an id that is taken', { 'c.mjs': module('b', '3') }, /\n {2}\S+\/c\.mjs \(b\): Tool "b" is registered already, from b\.mjs\./],
    ['a schema that is refused', { 'a.mjs': module('a', '1').replace('parameters: {}', "parameters: { $ref: '#/none' }") }, /\n {2}\S+\/a\.mjs \(a\): Tool "a": parameters: /],
    ['several at once, all of which are told', { 'a.mjs': 'export default {', 'c.mjs': "throw new Error('c is broken')" }, /\n {2}\S+\/a\.mjs: .*\n {2}\S+\/c\.mjs: c is broken \(c\.mjs:1:7\)$/]
  ]
  for (const [what, files, why] of breaking) {
    it(`keeps the tools from before and says why: ${what}`, async (t) => {
      const gateway = await serve(t, { 'a.mjs': module('a', '1'), 'b.mjs': module('b', '++count', 'let count = 0') })
      const before = await gateway.ready()
      assert.equal(await valueOf(gateway, 'b'), 1)
      await gateway.write(files)
      await assert.rejects(gateway.app.reloadTools(), (error: any) => {
        assert.deepEqual([error.name, error.code], ['GatewayError', 'source_failed'])
        assert.match(error.message, why)
        return true
      })
      assert.deepEqual(await gateway.ids(), ['a', 'b'])
      assert.deepEqual([await valueOf(gateway, 'a'), await valueOf(gateway, 'b')], [1, 2])
      const failed = await gateway.ready()
      assert.deepEqual(failed.tools, before.tools)
      assert.deepEqual([failed.status, failed.reasons], ['ready', [{ code: 'reload_failed', message: 'The last reload failed; the tools from before are served. The log says why.' }]])
      assert.deepEqual(gateway.log.error, [], 'whoever reloads decides what is logged of it')

      await gateway.write({ 'a.mjs': module('a', '2') })
      await rm(join(gateway.path, 'c.mjs'), { force: true })
      await gateway.app.reloadTools()
      assert.deepEqual([await valueOf(gateway, 'a'), await valueOf(gateway, 'b')], [2, 3])
      assert.deepEqual((await gateway.ready()).reasons, [])
    })
  }

  it('keeps the tools from before where the directory is gone', async (t) => {
    const gateway = await serve(t, { 'a.mjs': module('a', '1') })
    await rename(gateway.path, `${gateway.path}.away`)
    t.after(() => rm(`${gateway.path}.away`, { recursive: true, force: true }))
    await assert.rejects(gateway.app.reloadTools(), { code: 'source_failed', message: /cannot be read: ENOENT/ })
    assert.equal(await valueOf(gateway, 'a'), 1)
    assert.equal((await gateway.ready()).reasons[0].code, 'reload_failed')
    await rename(`${gateway.path}.away`, gateway.path)
    await gateway.app.reloadTools()
    assert.deepEqual((await gateway.ready()).reasons, [])
  })

  it('is not what was broken from the start, which is logged again', async (t) => {
    const gateway = await serve(t, { 'a.mjs': module('a', '1'), 'bad.mjs': "throw new Error('broken')", 'twice.mjs': module('a', '2') })
    const logged = () => gateway.log.error.splice(0).map(([{ file, tool, reason }, message]) => [file, tool, reason, message])
    const known = [[join(gateway.path, 'bad.mjs'), undefined, 'broken', 'a tool was not loaded'], [join(gateway.path, 'twice.mjs'), 'a', 'Tool "a" is registered already, from a.mjs.', 'a tool was not loaded']]
    assert.deepEqual(logged(), known)
    await gateway.write({ 'a.mjs': module('a', '3') })
    await gateway.app.reloadTools()
    assert.equal(await valueOf(gateway, 'a'), 3)
    assert.deepEqual(logged(), known)
  })

  it('is not what was refused before and is refused for another reason now; it is what was served', async (t) => {
    const two = (first: string) => `const tool = (id) => ({ id, description: 'd', kind: 'test', parameters: {}, execute: async () => ({}) })\nexport default [tool('${first}'), tool('two')]`
    const gateway = await serve(t, { 'a.mjs': module('a', '1'), 'bad.mjs': "throw new Error('at ' + process.hrtime.bigint())", 'some.mjs': two('a') })
    const reasons = () => gateway.log.error.splice(0).map(([{ reason }]) => reason)
    const [first] = reasons()
    await gateway.app.reloadTools()
    const [second] = reasons()
    assert.match(second, /^at \d+$/)
    assert.notEqual(second, first)

    // Of this file nothing was served, so a tool of it may be refused as well; of the other one a tool was.
    await gateway.write({ 'bad.mjs': module('a', '2'), 'some.mjs': two('no id') })
    await assert.rejects(gateway.app.reloadTools(), (error: any) => {
      assert.match(error.message, /^The tools cannot be used:\n {2}\S+\/some\.mjs \(no id\): .*$/)
      return true
    })
    await gateway.write({ 'some.mjs': 'export default [' })
    await assert.rejects(gateway.app.reloadTools(), { code: 'source_failed', message: /^[^\n]+\n {2}\S+\/some\.mjs: [^\n]+$/ })
    await gateway.write({ 'some.mjs': two('a') })
    await gateway.app.reloadTools()
    assert.deepEqual(reasons(), ['Tool "a" is registered already, from a.mjs.', 'Tool "a" is registered already, from a.mjs.'])

    await gateway.write({ 'bad.mjs': module('bad', '1') })
    await gateway.app.reloadTools()
    assert.deepEqual(await gateway.ids(), ['a', 'bad', 'two'])
    // Now that it was loaded, it may not break again.
    await gateway.write({ 'bad.mjs': "throw new Error('broken')" })
    await assert.rejects(gateway.app.reloadTools(), { code: 'source_failed' })
  })

  it('tells of schema keywords without effect as the start does', async (t) => {
    const gateway = await serve(t, { 'a.mjs': module('a', '1').replace('parameters: {}', "parameters: { 'x-hint': 1 }") })
    const told = () => gateway.log.info.splice(0).filter(([, message]) => message === 'schema keywords without effect').map(([fields]) => fields)
    const [once] = told()
    assert.equal(once.tool, 'a')
    await gateway.app.reloadTools()
    assert.deepEqual(told(), [once])
  })
})
