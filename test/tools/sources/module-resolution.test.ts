import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { cp, mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, dirname, join } from 'node:path'
import { describe, it, type TestContext } from 'node:test'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import { GatewayError } from '../../../src/errors.ts'
import { ToolRegistry } from '../../../src/tools/registry.ts'
import { loadTools } from '../../../src/tools/load.ts'
import { ModuleDirectory } from '../../../src/tools/sources/module-directory.ts'

async function directory (t: TestContext, files: Record<string, string>): Promise<string> {
  const path = await mkdtemp(join(tmpdir(), 'toolgate-modules-'))
  t.after(() => rm(path, { recursive: true, force: true }))
  for (const [name, text] of Object.entries(files)) {
    await mkdir(dirname(join(path, name)), { recursive: true })
    await writeFile(join(path, name), text)
  }
  return path
}

/** The registry of a directory outside the package; every module in it must load. */
async function registryOf (t: TestContext, files: Record<string, string>): Promise<ToolRegistry<any>> {
  const { registry, failures } = await loadTools([], [new ModuleDirectory(await directory(t, files))], {})
  assert.deepEqual(failures, [])
  return registry
}

const registryTool = (id: string, value: string) => `{ id: '${id}', kind: 'read', parseInput: (v) => v, execute: () => (${value}), parseOutput: (v) => v }`

describe('modules outside the package', () => {
  it('import toolgate: the very one that runs', async (t) => {
    const registry = await registryOf(t, {
      'a.ts': `
        import { defineTool, ToolRegistry, GatewayError } from 'toolgate'
        import { Type } from '@sinclair/typebox'
        export const a = defineTool({
          id: 'a', description: 'd', kind: 'read', parameters: Type.Object({ n: Type.Number() }),
          execute: () => ({ structuredContent: [ToolRegistry, GatewayError] })
        })`
    })
    const [Registry, Failure] = (await registry.invoke({ toolId: 'a', input: { n: 1 } })).value
    assert.equal(Registry, ToolRegistry)
    assert.equal(Failure, GatewayError)
    assert.throws(() => registry.invoke({ toolId: 'a', input: { n: 'x' } }), { code: 'invalid_input' })
  })

  it("import the gateway's TypeBox and pi-schema, and what lies below them", async (t) => {
    const registry = await registryOf(t, {
      'a.mjs': `
        import { Type } from '@sinclair/typebox'
        import { Value } from '@sinclair/typebox/value'
        import { compile, obj, str } from '@earendil-works/pi-schema'
        import { formats } from '@earendil-works/pi-schema/formats'
        export default ${registryTool('a', "[Value.Check(Type.String(), 'x'), compile(obj({ a: str() })).check({ a: 'x' }), typeof formats.email]")}`
    })
    assert.deepEqual((await registry.invoke({ toolId: 'a' })).value, [true, true, 'function'])
  })

  it("import nothing else of the gateway's: a tool brings its own dependencies", async (t) => {
    const { failures } = await loadTools([], [new ModuleDirectory(await directory(t, { 'a.js': "import 'fastify'", 'b.js': "import 'pino'", 'c.js': "import '@sinclair/typebox-none'" }))], {})
    assert.deepEqual(failures.map(({ file }) => basename(file)), ['a.js', 'b.js', 'c.js'])
    for (const { reason } of failures) assert.match(reason, /Cannot find package/)
  })

  it('written for a bundler, import ./x.js where x.ts is meant', async (t) => {
    const registry = await registryOf(t, {
      'tool.ts': `import { word } from './lib/word.js'\nexport default ${registryTool('a', 'word')}`,
      'lib/word.ts': "import { letter } from './deeper/letter.js'\nexport const word: string = letter + 'ord'",
      'lib/deeper/letter.ts': "import { sound } from '../sound.js'\nexport const letter = sound",
      'lib/sound.js': "export const sound = 'w'"
    })
    assert.equal((await registry.invoke({ toolId: 'a' })).value, 'word')
  })

  it('import ./x.js where both are there: it is x.js', async (t) => {
    const registry = await registryOf(t, {
      'tool.ts': `import { which } from './lib/x.js'\nexport default ${registryTool('a', 'which')}`, 'lib/x.js': "export const which = 'js'", 'lib/x.ts': "export const which = 'ts'"
    })
    assert.equal((await registry.invoke({ toolId: 'a' })).value, 'js')
  })

  it('with a package of their own nearer, get that one', async (t) => {
    const own = (name: string, text: string) => ({
      [`node_modules/${name}/package.json`]: JSON.stringify({ name, version: '0.0.1', type: 'module', exports: './index.js' }), [`node_modules/${name}/index.js`]: text
    })
    const registry = await registryOf(t, {
      ...own('toolgate', "export const mine = 'their toolgate'"),
      ...own('@sinclair/typebox', "export const mine = 'their typebox'"),
      ...own('left-pad', "export const mine = 'their dependency'"),
      'a.js': `import * as t from 'toolgate'\nimport * as b from '@sinclair/typebox'\nimport * as l from 'left-pad'\nexport default ${registryTool('a', '[t.mine, b.mine, l.mine, "ToolRegistry" in t]')}`
    })
    assert.deepEqual((await registry.invoke({ toolId: 'a' })).value, ['their toolgate', 'their typebox', 'their dependency', false])
  })

  it('import them late, too', async (t) => {
    const registry = await registryOf(t, { 'a.js': `export default ${registryTool('a', "import('toolgate').then((m) => m.ToolRegistry)")}` })
    assert.equal((await registry.invoke({ toolId: 'a' })).value, ToolRegistry)
  })

  it('of no tools directory are none of our business', async (t) => {
    const path = await directory(t, { 'a.js': "import 'toolgate'" })
    await assert.rejects(import(pathToFileURL(join(path, 'a.js')).href), { code: 'ERR_MODULE_NOT_FOUND' })
  })

  it('in a directory whose name begins like that of a tools directory are none of our business', async (t) => {
    const path = await directory(t, { 'tools/a.js': `export default ${registryTool('a', '1')}`, 'tools-old/a.js': "import 'toolgate'" })
    await new ModuleDirectory(join(path, 'tools')).load()
    await assert.rejects(import(pathToFileURL(join(path, 'tools-old/a.js')).href), { code: 'ERR_MODULE_NOT_FOUND' })
  })

  it('in a directory with odd characters in its path', async (t) => {
    const path = await directory(t, { 'tööls #1 %20?/a.ts': `import { Type } from '@sinclair/typebox'\nexport default ${registryTool('a', 'Type.String().type')}` })
    const { registry, failures } = await loadTools([], [new ModuleDirectory(join(path, 'tööls #1 %20?'))], {})
    assert.deepEqual(failures, [])
    assert.equal((await registry.invoke({ toolId: 'a' })).value, 'string')
  })
})

describe("modules in the package's own tools directory", () => {
  /** A package of its own: our sources, with a build beside them or none. */
  async function packageWith (t: TestContext, files: Record<string, string>): Promise<string> {
    const path = await directory(t, files)
    const root = new URL('../../../', import.meta.url)
    await cp(new URL('src', root), join(path, 'src'), { recursive: true })
    await cp(new URL('package.json', root), join(path, 'package.json'))
    await symlink(fileURLToPath(new URL('node_modules', root)), join(path, 'node_modules'))
    return path
  }

  const tool = `
    import { defineTool } from 'toolgate'
    import { Type } from '@sinclair/typebox'
    export default defineTool({ id: 'a', description: 'd', kind: 'read', parameters: Type.Object({}), execute: () => ({}) })`
  const script = `
    import { ModuleDirectory } from './src/tools/sources/module-directory.ts'
    const { tools, failures } = await new ModuleDirectory('./tools').load()
    console.log(JSON.stringify({ tools: tools.map(({ tool }) => tool.id), failures }))`

  for (const [what, build] of [
    ['with no build', {}],
    ['with a build beside the running sources', { 'dist/src/index.js': "throw new Error('a second copy of the package was loaded')" }]
  ] as const) {
    it(`${what}, import toolgate: the very one that runs`, async (t) => {
      const path = await packageWith(t, { 'tools/a.ts': tool, 'load.ts': script, ...build })
      const { stdout } = await promisify(execFile)(process.execPath, ['load.ts'], { cwd: path })
      assert.deepEqual(JSON.parse(stdout), { tools: ['a'], failures: [] })
    })
  }
})

describe('tools written elsewhere', () => {
  it('an agent tool in three files, with .js imports and a schema of pi, is served unmodified', async (t) => {
    const registry = await registryOf(t, {
      'sort-report.ts': `
        import type { AgentTool } from "@earendil-works/pi-agent-core"
        import { obj } from "@earendil-works/pi-schema"
        import { reportSchema, checkReport } from "./lib/report.js"

        const noParameters = obj({})

        export const sortReport: AgentTool<typeof noParameters> = {
          name: "sort_report",
          label: "Sort report",
          description: "Gives a fixed report on a sorting function.",
          parameters: noParameters,
          outputSchema: reportSchema,
          async execute() {
            const value: unknown = { subject: "sort", steps: ["split", "merge"], stable: true }
            const report = checkReport(value)
            return {
              content: [{ type: "text", text: \`\${report.subject}: \${report.steps.length} steps\` }],
              details: { origin: "fixture" },
              structuredContent: report,
            }
          },
        }`,
      'lib/report.ts': `
        import { arr, bool, compile, obj, str, type Static } from "@earendil-works/pi-schema"
        export const reportSchema = obj({ subject: str(), steps: arr(str()), stable: bool() })
        const validator = compile(reportSchema)
        export function checkReport(value: unknown): Static<typeof reportSchema> {
          if (!validator.check(value)) throw new Error("not a report")
          return value
        }`
    })
    const { descriptor } = registry.get('sort_report')!
    assert.deepEqual([descriptor.kind, descriptor.label, descriptor.inputMode, descriptor.source], ['tool', 'Sort report', 'coerce', 'sort-report.ts'])
    const running = registry.invoke({ toolId: 'sort_report', input: {} })
    assert.ok(running instanceof Promise)
    assert.deepEqual((await running).value, { subject: 'sort', steps: ['split', 'merge'], stable: true })
    assert.throws(() => registry.invoke({ toolId: 'sort_report', input: { extra: 1 } }), { code: 'invalid_input' })
  })

  it("a registry tool that imports the registry system's own package is served unmodified, and stays synchronous", async (t) => {
    const registry = await registryOf(t, {
      'mood.ts': `
        import { ToolRegistry } from '@jangts/agent-core/tools';
        export const tools = new ToolRegistry().register({
          id: 'get_mood', kind: 'read', description: 'Tells how the service feels',
          parseInput(value: unknown) { if (!value || typeof value !== 'object' || Array.isArray(value)) throw new TypeError('an object is needed'); return {}; },
          execute: () => 'in good spirits',
          parseOutput(value: unknown) { if (typeof value !== 'string') throw new TypeError('text is needed'); return value; },
        }).seal();
        const result = tools.invoke({ toolId: 'get_mood', input: {} });
        if (result.value !== 'in good spirits' || typeof result.invocation.invocationId !== 'string') throw new Error('it does not work in its own module');`,
      'mood2.mjs': `
        import { ToolRegistry } from '@jangts/agent-core';
        const tools = new ToolRegistry().register({ id: 'get_mood_later', kind: 'read',
          parseInput: () => ({}), execute: async () => 'still in good spirits', parseOutput: value => value,
        }).seal();
        export default tools;`
    })
    const result = registry.invoke({ toolId: 'get_mood', input: {} }) as { value: string, invocation: { invocationId: string } }
    assert.equal(result.value, 'in good spirits')
    assert.match(result.invocation.invocationId, /^[0-9a-f]{32}$/)
    for (const input of [null, [], 'x']) assert.throws(() => registry.invoke({ toolId: 'get_mood', input }), { code: 'invalid_input', message: /an object is needed/ })
    assert.equal((await registry.invoke({ toolId: 'get_mood_later', input: {} })).value, 'still in good spirits')
  })
})
