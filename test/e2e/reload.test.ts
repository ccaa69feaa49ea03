import assert from 'node:assert/strict'
import { rename, symlink } from 'node:fs/promises'
import { describe, it } from 'node:test'
import { assertProblem, gate, invoke, send, startGateway, tool, waitFor, within } from './harness.ts'
import { module, serve, valueOf } from './served-folder.ts'

describe('calls while the tools are reloaded', () => {
  it('1,000 calls through 50 reloads: each is answered by the version that it began on, and none fails by a reload', { timeout: 60_000 }, async (t) => {
    const CALLS = 1000
    const RELOADS = 50
    const tells = (version: number) => `export const version = ${version}`
    const gateway = await serve(t, {
      'counter.mjs': `
        import { version } from './lib/version.mjs'
        export default {
          id: 'counter', description: String(version), kind: 'test', parameters: {},
          async execute (toolCallId, { call }) {
            const began = version
            await globalThis.reloadTest.began(call, began)
            return { structuredContent: { call, began, ended: version } }
          }
        }`,
      'lib/version.mjs': tells(0)
    })
    let reloads = 0
    let open = 0
    /** Versions by call, as the tool said when it began. */
    const begun = new Map<number, number>()
    const perVersion = new Map<number, number>()
    t.after(() => { delete (globalThis as any).reloadTest })
    ;(globalThis as any).reloadTest = {
      async began (call: number, version: number) {
        assert.equal(String(version), gateway.app.toolgate.invoker.registry.get('counter')!.descriptor.description, 'the version in force')
        begun.set(call, version)
        perVersion.set(version, (perVersion.get(version) ?? 0) + 1)
        // Every seventh outlasts several reloads.
        if (call % 7 === 0) await waitFor(() => reloads >= Math.min(version + 3, RELOADS), 'the reloads that a slow call outlasts', 30_000)
      }
    }

    let nextCall = 0
    let acrossReloads = 0
    const answers: any[] = []
    const caller = async () => {
      for (let call = nextCall++; call < CALLS; call = nextCall++) {
        // Each version gets its share, so that none goes by unused.
        await waitFor(() => reloads >= Math.floor(call * (RELOADS + 1) / CALLS), 'the turn of a call', 30_000)
        const servedBefore = reloads
        open++
        const { status, body } = await invoke(gateway, 'counter', { call })
        open--
        assert.deepEqual([status, body.isError, body.invocation.status], [200, false, 'succeeded'])
        const { began, ended } = body.structuredContent
        assert.deepEqual(body.structuredContent, { call, began: begun.get(call), ended: began })
        assert.ok(began >= servedBefore, `sent when ${servedBefore} was served, run by ${began}`)
        if (reloads > ended) acrossReloads++
        answers.push(began)
      }
    }
    const reloader = async () => {
      for (let version = 1; version <= RELOADS; version++) {
        await waitFor(() => perVersion.get(version - 1)! >= 5 && open > 0, `calls of version ${version - 1}`, 30_000)
        await gateway.write({ 'lib/version.mjs': tells(version) })
        await gateway.app.reloadTools()
        reloads = version
      }
    }
    await Promise.all([reloader(), ...Array.from({ length: 40 }, caller)])
    assert.equal(answers.length, CALLS)
    assert.equal(new Set(answers).size, RELOADS + 1, 'every version answered')
    assert.ok(acrossReloads >= CALLS / 10, `${acrossReloads} calls ended after their version was replaced`)
    assert.equal(gateway.app.toolgate.invoker.running, 0)
  })

  it('a tool that was removed is unknown, and its running calls finish', async (t) => {
    const began = gate()
    const release = gate()
    t.after(() => { delete (globalThis as any).removedTool })
    ;(globalThis as any).removedTool = async () => { began.open(); await release.promise; return 'finished' }
    const gateway = await serve(t, { 'a.mjs': module('a', '1'), 'gone.mjs': module('gone', 'globalThis.removedTool()') })
    const answering = invoke(gateway, 'gone')
    await began.reached('the call to run')
    await gateway.remove('gone.mjs')
    await gateway.app.reloadTools()
    assert.deepEqual(await gateway.ids(), ['a'])
    assertProblem(await invoke(gateway, 'gone'), 404, 'unknown_tool')
    assertProblem(await send(`${gateway.url}/tools/gone`), 404, 'unknown_tool')
    release.open()
    const { status, body } = await answering
    assert.deepEqual([status, body.structuredContent], [200, 'finished'])
  })
})

describe('a reload', () => {
  it('serves what was added, edited and removed; ETag and /readyz follow', async (t) => {
    const gateway = await serve(t, { 'a.mjs': module('a', '1'), 'b.mjs': module('b', '1') })
    const before = await send(`${gateway.url}/tools`)
    const { tools } = await gateway.ready()
    assert.deepEqual([tools.count, tools.etag], [2, before.headers.get('etag')])

    await gateway.write({ 'a.mjs': module('a', '2'), 'c.mjs': module('c', '3') })
    await gateway.remove('b.mjs')
    await gateway.app.reloadTools()
    assert.deepEqual(await gateway.ids(), ['a', 'c'])
    assert.deepEqual([await valueOf(gateway, 'a'), await valueOf(gateway, 'c')], [2, 3])
    const after = await send(`${gateway.url}/tools`, { headers: { 'if-none-match': tools.etag } })
    assert.equal(after.status, 200)
    const { status, reasons, tools: now } = await gateway.ready()
    assert.deepEqual([status, reasons, now.count, now.etag], ['ready', [], 2, after.headers.get('etag')])
    assert.notEqual(now.etag, tools.etag)
    assert.ok(now.loadedAtMs >= tools.loadedAtMs)
  })

  it('keeps the state of modules that did not change, and the tools in code, of an iterable that can be read once', async (t) => {
    let times = 0
    const inCode = [tool('in_code', () => ({ structuredContent: ++times }))]
    const gateway = await serve(t, { 'a.mjs': module('a', '++count', 'let count = 0'), 'b.mjs': module('b', '1') }, { tools: inCode.values() })
    for (const n of [1, 2, 3]) {
      assert.deepEqual([await valueOf(gateway, 'in_code'), await valueOf(gateway, 'a')], [n, n])
      await gateway.write({ 'b.mjs': module('b', `${n}`) })
      await gateway.app.reloadTools()
      assert.equal(await valueOf(gateway, 'b'), n)
    }
  })

  it('may change the settings from outside, which stay in force until others come', async (t) => {
    const gateway = await serve(t, { 'a.mjs': module('a', '1') }, { tools: [tool('in_code', () => ({}))], toolSettings: { '*': { timeoutMs: 1000 } } })
    const timeouts = async () => (await send(`${gateway.url}/tools`)).body.tools.map(({ timeoutMs }: any) => timeoutMs)
    assert.deepEqual(await timeouts(), [1000, 1000])
    await gateway.app.reloadTools({ toolSettings: { a: { timeoutMs: 2000 } } })
    assert.deepEqual(await timeouts(), [60_000, 2000])
    await gateway.app.reloadTools()
    assert.deepEqual(await timeouts(), [60_000, 2000])
    await assert.rejects(gateway.app.reloadTools({ toolSettings: { a: { timeoutMs: 0 } } }), { code: 'invalid_config' })
    await gateway.app.reloadTools()
    assert.deepEqual(await timeouts(), [60_000, 2000])
  })

  it('follows a directory that leads elsewhere by now', async (t) => {
    const gateway = await serve(t, {})
    const link = `${gateway.path}/current`
    await gateway.write({ 'one/a.mjs': module('a', '1'), 'two/a.mjs': module('a', '2') })
    await symlink('one', link)
    const { app, url } = await startGateway(t, { toolDirectories: [link] })
    assert.equal((await invoke({ url }, 'a')).body.structuredContent, 1)
    await symlink('two', `${link}.new`)
    await rename(`${link}.new`, link)
    await app.reloadTools()
    assert.equal((await invoke({ url }, 'a')).body.structuredContent, 2)
  })

  it('comes after the one before', async (t) => {
    const seen: string[] = []
    t.after(() => { delete (globalThis as any).loads })
    ;(globalThis as any).loads = seen
    const slow = "export default async () => { loads.push('begin'); await new Promise(setImmediate); loads.push('end'); return { id: 'a', description: '', kind: 'k', parameters: {}, execute: () => ({}) } }"
    const gateway = await serve(t, { 'a.mjs': slow })
    await Promise.all([gateway.app.reloadTools(), gateway.app.reloadTools(), gateway.app.reloadTools()])
    assert.deepEqual(seen, Array(4).fill(['begin', 'end']).flat())
  })

  it('is refused while the gateway shuts down, and after', async (t) => {
    const began = gate()
    const release = gate()
    const gateway = await serve(t, { 'a.mjs': module('a', '1') }, { tools: [tool('wait', async () => { began.open(); await release.promise; return {} })], shutdownGraceMs: 5000 })
    const answering = invoke(gateway, 'wait')
    await began.reached('the call to run')
    const closing = gateway.app.close()
    await waitFor(() => !gateway.app.toolgate.invoker.accepting, 'the drain to begin')
    await assert.rejects(gateway.app.reloadTools(), { code: 'shutting_down' })
    assert.deepEqual((await send(`${gateway.url}/readyz`)).body.reasons.map(({ code }: any) => code), ['shutting_down'])
    release.open()
    assert.equal((await answering).status, 200)
    await within(closing, 'the close')
    await assert.rejects(gateway.app.reloadTools(), { code: 'shutting_down' })
  })

  it('that a shutdown overtakes is not swapped in', async (t) => {
    const loading = gate()
    const release = gate()
    t.after(() => { delete (globalThis as any).overtaken })
    ;(globalThis as any).overtaken = async () => { loading.open(); await release.promise }
    const gateway = await serve(t, { 'a.mjs': module('a', '1') })
    const { registry } = gateway.app.toolgate.invoker
    await gateway.write({ 'a.mjs': module('a', '2', 'await globalThis.overtaken()') })
    const reloading = gateway.app.reloadTools()
    await loading.reached('the load')
    const closing = gateway.app.close()
    await waitFor(() => !gateway.app.toolgate.invoker.accepting, 'the drain to begin')
    release.open()
    await assert.rejects(reloading, { code: 'shutting_down' })
    assert.equal(gateway.app.toolgate.invoker.registry, registry)
    await within(closing, 'the close')
  })
})
