import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { defaultConfig } from '../src/config/settings.ts'
import type { Configuration } from '../src/config/configuration.ts'
import { GatewayError } from '../src/errors.ts'
import { Reloads, reloadTools, type Reloadable } from '../src/reload.ts'
import type { Log } from '../src/tools/tool.ts'

const turn = () => new Promise((resolve) => setImmediate(resolve))

/** A reload that ends when it is told to. */
class Slow {
  begun = 0
  running = 0
  most = 0
  #end = () => {}

  readonly run = async (): Promise<void> => {
    this.begun++
    this.most = Math.max(this.most, ++this.running)
    await new Promise<void>((resolve) => { this.#end = resolve })
    this.running--
  }

  async end (): Promise<void> {
    this.#end()
    await turn()
  }
}

describe('reloads', () => {
  it('one that is asked for before the gateway is ready is carried out once it is', async () => {
    const reloads = new Reloads()
    const slow = new Slow()
    reloads.ask()
    reloads.ask()
    await turn()
    reloads.start(slow.run)
    assert.equal(slow.begun, 1)
    await slow.end()
    assert.equal(slow.begun, 1, 'both are one')
  })

  it('nothing happens unasked', async () => {
    const slow = new Slow()
    new Reloads().start(slow.run)
    await turn()
    assert.equal(slow.begun, 0)
  })

  it('several that are asked for while one runs are one more, after it', async () => {
    const reloads = new Reloads()
    const slow = new Slow()
    reloads.start(slow.run)
    for (let i = 0; i < 4; i++) reloads.ask()
    assert.equal(slow.begun, 1)
    await slow.end()
    assert.equal(slow.begun, 2)
    await slow.end()
    assert.deepEqual([slow.begun, slow.most, slow.running], [2, 1, 0])
    reloads.ask()
    assert.equal(slow.begun, 3)
    await slow.end()
  })

  it('none begins once they are closed', async () => {
    const reloads = new Reloads()
    const slow = new Slow()
    reloads.start(slow.run)
    reloads.ask()
    reloads.ask()
    reloads.close()
    await slow.end()
    reloads.ask()
    await turn()
    assert.equal(slow.begun, 1)
  })
})

type Line = [level: string, fields: object, message: string]

async function reload (read: () => Partial<Configuration>, fails?: Error): Promise<{ lines: Line[], given: unknown[], failuresNoted: number }> {
  const lines: Line[] = []
  let failuresNoted = 0
  const given: unknown[] = []
  const line = (level: string) => (fields: object, message: string) => { lines.push([level, fields, message]) }
  const log: Log = { debug: line('debug'), info: line('info'), warn: line('warn'), error: line('error') }
  const tools = ['pi_read', 'pi_write'].map((id) => ({ descriptor: { id } }))
  const app: Reloadable = {
    toolgate: { invoker: { registry: Object.assign(tools, { size: tools.length }) }, tools: { noteFailedReload () { failuresNoted++ } } },
    async reloadTools (changes) {
      if (fails !== undefined) throw fails
      given.push(changes)
    }
  }
  const started = { config: defaultConfig(), toolSettings: {}, file: '' }
  await reloadTools(app, started, () => ({ ...started, ...read() }), log)
  return { lines, given, failuresNoted }
}

const kept = 'the tools were not reloaded; those from before are served'

describe('a reload', () => {
  it('loads the tools with the settings of now, and says how many there are', async () => {
    const toolSettings = { 'pi_*': { timeoutMs: 5 } }
    const { lines, given } = await reload(() => ({ toolSettings }))
    assert.deepEqual(given, [{ toolSettings }])
    assert.deepEqual(lines, [['info', { tools: 2 }, 'the tools were reloaded']])
  })

  it('warns of settings that no tool fits', async () => {
    const { lines } = await reload(() => ({ toolSettings: { pi: {}, 'pi*': {}, pi_read: {}, 'xi_*': {} } }))
    assert.deepEqual(lines.slice(1), [['warn', { pattern: 'pi' }, 'no tool fits these settings'], ['warn', { pattern: 'xi_*' }, 'no tool fits these settings']])
  })

  it('names other settings that changed in one line, without their values', async () => {
    const { lines } = await reload(() => ({ config: { ...defaultConfig(), port: 1, apiKey: 's3cr3t', toolDirectories: ['./tools'], corsOrigins: ['*'] } }))
    assert.deepEqual(lines.map(([level, fields]) => [level, fields]), [['warn', { settings: ['port', 'apiKey', 'corsOrigins'] }], ['info', { tools: 2 }]])
    assert.doesNotMatch(JSON.stringify(lines), /s3cr3t/)
  })

  it('keeps everything where the configuration is at fault, and says why', async () => {
    const { lines, given, failuresNoted } = await reload(() => { throw new GatewayError('invalid_config', 'port: is wrong') })
    assert.deepEqual([lines, given, failuresNoted], [[['error', { reason: 'port: is wrong' }, kept]], [], 1])
  })

  it('that comes too late, while the gateway stops, is no fault to tell of', async () => {
    assert.deepEqual((await reload(() => ({}), new GatewayError('shutting_down', 'stopping'))).lines, [])
  })

  it('says why where the tools cannot be loaded; what nobody expected keeps its stack', async () => {
    const expected = await reload(() => ({}), new GatewayError('source_failed', 'x.ts: no database'))
    assert.deepEqual(expected.lines, [['error', { reason: 'x.ts: no database' }, kept]])
    const err = new TypeError('oops')
    assert.deepEqual((await reload(() => ({}), err)).lines, [['error', { reason: 'oops', err }, kept]])
  })
})
