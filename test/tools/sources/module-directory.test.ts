import assert from 'node:assert/strict'
import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join, relative } from 'node:path'
import { describe, it, type TestContext } from 'node:test'
import { loadTools } from '../../../src/tools/load.ts'
import { ModuleDirectory } from '../../../src/tools/sources/module-directory.ts'

/** A directory outside the package, with nothing installed near it. */
async function directory (t: TestContext, files: Record<string, string>): Promise<string> {
  const path = await mkdtemp(join(tmpdir(), 'toolgate-tools-'))
  t.after(() => rm(path, { recursive: true, force: true }))
  for (const [name, text] of Object.entries(files)) {
    await mkdir(dirname(join(path, name)), { recursive: true })
    await writeFile(join(path, name), text)
  }
  return path
}

async function load (t: TestContext, files: Record<string, string>) {
  const found = await new ModuleDirectory(await directory(t, files)).load()
  return { ...found, ids: found.tools.map(({ tool }) => idOf(tool)) }
}

/** The id of a tool as its author wrote it, or as a registry has it. */
function idOf (tool: object): string {
  const { id, name, descriptor } = tool as { id?: string, name?: string, descriptor?: { id: string } }
  return (descriptor?.id ?? id ?? name)!
}

/** The text of a module that exports a registry tool as `how` says. */
const tool = (id: string) => `{ id: '${id}', kind: 'read', parseInput: (v) => v, execute: () => '${id}', parseOutput: (v) => v }`

describe('a directory of tool modules', () => {
  describe('an export may be', () => {
    const exports: [what: string, text: string, ids: string[]][] = [
      ['a tool, by default', `export default ${tool('a')}`, ['a']],
      ['a tool, by name', `export const a = ${tool('a')}`, ['a']],
      ['several tools, by name', `export const a = ${tool('a')}\nexport const b = ${tool('b')}`, ['a', 'b']],
      ['a list of tools, by default', `export default [${tool('a')}, ${tool('b')}]`, ['a', 'b']],
      ['a list of tools, by name', `export const all = [${tool('a')}, ${tool('b')}]`, ['a', 'b']],
      ['a function that gives a tool', `export default () => (${tool('a')})`, ['a']],
      ['a function that gives a list', `export default function () { return [${tool('a')}, ${tool('b')}] }`, ['a', 'b']],
      ['an async function', `export default async () => { await null; return [${tool('a')}] }`, ['a']],
      ['a named function, where there is no tool', `export function createTools () { return [${tool('a')}] }`, ['a']],
      ['a ToolRegistry', `import { ToolRegistry } from 'toolgate'\nexport default new ToolRegistry().register(${tool('a')}).register(${tool('b')})`, ['a', 'b']],
      ['a sealed ToolRegistry, by name', `import { ToolRegistry } from 'toolgate'\nexport const registry = new ToolRegistry().register(${tool('a')}).seal()`, ['a']],
      ['a function that gives a ToolRegistry', `import { ToolRegistry } from 'toolgate'\nexport default async () => new ToolRegistry().register(${tool('a')})`, ['a']],
      ['the same tool under two names, which is one tool', `const a = ${tool('a')}\nexport default a\nexport { a, a as b }`, ['a']],
      ['a tool beside what is none', `export const version = '1'\nexport const options = { execute: 'no' }\nexport class Helper {}\nexport const a = ${tool('a')}`, ['a']]
    ]
    for (const [what, text, ids] of exports) {
      for (const extension of ['js', 'mjs', 'ts']) {
        it(`${what} (.${extension})`, async (t) => {
          const found = await load(t, { [`tool.${extension}`]: text })
          assert.deepEqual([found.failures, found.ids], [[], ids])
          assert.deepEqual(found.tools.map(({ origin }) => origin), ids.map(() => `tool.${extension}`))
        })
      }
    }
  })

  it('a tool that is exported beside a registry that holds it is one tool', async (t) => {
    const found = await load(t, { 'r.js': `import { ToolRegistry } from 'toolgate'\nexport const a = ${tool('a')}\nexport const r = new ToolRegistry().register(a)` })
    assert.deepEqual(found.ids, ['a'])
  })

  it('modules are found in the order of their names', async (t) => {
    const found = await load(t, { 'c.js': `export default ${tool('first')}`, 'a.ts': `export default ${tool('second')}`, 'b.mjs': `export default ${tool('third')}` })
    assert.deepEqual(found.ids, ['second', 'third', 'first'])
  })

  it('what is no module of its own is left alone', async (t) => {
    const bomb = "throw new Error('it was run')"
    const found = await load(t, {
      'a.js': `export default ${tool('a')}`,
      'types.d.ts': bomb,
      'a.test.ts': bomb,
      '.hidden.js': bomb,
      'README.md': '# no',
      'data.json': '{}',
      'lib/deep.js': bomb,
      'node_modules/x/index.js': bomb
    })
    assert.deepEqual([found.ids, found.failures], [['a'], []])
  })

  it('tests of tools are left alone, whatever they are written in', async (t) => {
    const bomb = "throw new Error('it was run')"
    const found = await load(t, { 'a.js': `export default ${tool('a')}`, 'a.test.js': bomb, 'a.test.mjs': bomb })
    assert.deepEqual([found.ids, found.failures], [['a'], []])
  })

  it('a helper of other modules is no failure', async (t) => {
    const found = await load(t, {
      'helper.js': "export const greeting = 'hello'\nexport function shout (text) { return text.toUpperCase() }\nexport class Greeter {}",
      'tool.js': `import { greeting, shout } from './helper.js'\nexport default { ...${tool('a')}, execute: () => shout(greeting) }`
    })
    assert.deepEqual([found.ids, found.failures], [['a'], []])
  })

  it('a named function that takes nothing is asked for tools where its module exports none, and its failure is told', async (t) => {
    const found = await load(t, {
      'made.js': `export function tools () { return [${tool('a')}] }`,
      'failing.js': "export function connect () { throw new Error('no database here') }"
    })
    assert.deepEqual([found.ids, found.failures], [['a'], [{ file: 'failing.js', reason: 'no database here', at: 'failing.js:1:36' }]])
  })

  describe('what fails is told by its file, and stops no other', () => {
    const failures: [what: string, text: string, reason: RegExp][] = [
      ['a syntax error', 'export default {', /./],
      ['a module that throws', "throw new Error('broken at the top')", /broken at the top/],
      ['a module that throws nothing', 'throw undefined', /without a message/],
      ['an import that is not there', "import 'not-installed-anywhere'", /not-installed-anywhere/],
      ['a file that is not there', "import './gone.js'", /gone/],
      ['a function that throws', "export default () => { throw new Error('no key') }", /no key/],
      ['an async function that rejects', "export default async () => { throw new Error('no key') }", /no key/],
      ['a default export that is no tool', 'export default 42', /default export is not a tool/],
      ['a default export of a list with something else in it', `export default [${tool('x')}, 5]`, /default export is not a tool/],
      ['a function that gives no tool', 'export default () => ({})', /default export is not a tool/],
      ['a tool whose execute is misspelt', "export const a = { id: 'a', kind: 'read', description: 'd', parameters: {}, exeucte: () => ({}) }", /"a" looks like a tool/],
      ['a registry of another package', 'export const tools = { register () {}, seal () {}, invoke () {} }', /"tools" is a registry of another package/],
      ['a class as default export', 'export default class Tool {}', /./]
    ]
    for (const [what, text, reason] of failures) {
      it(what, async (t) => {
        const found = await load(t, { 'bad.mjs': text, 'good.mjs': `export default ${tool('good')}` })
        assert.deepEqual(found.ids, ['good'])
        assert.equal(found.failures.length, 1)
        assert.equal(found.failures[0]!.file, 'bad.mjs')
        assert.match(found.failures[0]!.reason, reason)
      })
    }

    it('TypeScript that cannot be stripped', async (t) => {
      const found = await load(t, { 'bad.ts': 'export enum Colour { Red }', 'good.ts': `export default ${tool('good')}` })
      assert.deepEqual([found.ids, found.failures.map(({ file }) => file)], [['good'], ['bad.ts']])
    })
  })

  it('a directory that is not there is the failure of the source', async () => {
    await assert.rejects(new ModuleDirectory('/nowhere/at/all').load(), { name: 'GatewayError', code: 'source_failed', message: /ENOENT/ })
  })

  it('a file is no directory', async (t) => {
    const path = await directory(t, { 'a.js': '' })
    await assert.rejects(new ModuleDirectory(join(path, 'a.js')).load(), { code: 'source_failed', message: /ENOTDIR/ })
  })

  it('an empty directory holds no tools', async (t) => {
    const { tools, failures } = await new ModuleDirectory(await directory(t, {})).load()
    assert.deepEqual([tools, failures], [[], []])
  })

  it('a directory behind a link, with links to each file, is read like any (as Kubernetes mounts them)', async (t) => {
    const path = await directory(t, { '..2024/a.ts': `import { ToolRegistry } from 'toolgate'\nexport default new ToolRegistry().register(${tool('a')})` })
    await symlink('..2024', join(path, '..data'))
    await symlink('..data/a.ts', join(path, 'a.ts'))
    const link = `${path}-link`
    await symlink(path, link)
    t.after(() => rm(link, { force: true }))
    const { tools, failures } = await new ModuleDirectory(link).load()
    assert.deepEqual([tools.map(({ tool }) => idOf(tool)), failures], [['a'], []])
  })
})

describe('loading tools', () => {
  const code = { id: 'from_code', kind: 'read', parseInput: (v: unknown) => v, execute: () => 1, parseOutput: (v: unknown) => v }

  it('gathers code and sources in one sealed registry, each with its origin', async (t) => {
    const first = new ModuleDirectory(await directory(t, { 'a.js': `export default ${tool('a')}` }))
    const second = new ModuleDirectory(await directory(t, { 'b.js': `export default ${tool('b')}` }))
    const { registry, failures } = await loadTools([code], [first, second], {})
    assert.equal(registry.sealed, true)
    assert.deepEqual(failures, [])
    assert.deepEqual([...registry].map(({ descriptor }) => [descriptor.id, descriptor.source]), [['from_code', 'code'], ['a', 'a.js'], ['b', 'b.js']])
  })

  it('refuses one tool with file, id and reason, and serves the rest', async (t) => {
    const source = new ModuleDirectory(await directory(t, {
      'a.js': `export default ${tool('a')}`,
      'again.js': `export default ${tool('a')}`,
      'bad-id.js': `export default ${tool('no spaces please')}`,
      'bad-schema.js': "export default { id: 'remote', description: 'd', kind: 'read', parameters: { $ref: 'https://example.com/x.json' }, execute: () => ({}) }",
      'z.js': `export default ${tool('z')}`
    }))
    const { registry, failures } = await loadTools([], [source], {})
    assert.deepEqual([...registry].map(({ descriptor }) => descriptor.id), ['a', 'z'])
    assert.deepEqual(failures.map(({ file, tool }) => [relative(source.name, file), tool]), [['again.js', 'a'], ['bad-id.js', 'no spaces please'], ['bad-schema.js', 'remote']])
    assert.match(failures[0]!.reason, /registered already, from a\.js\.$/)
    assert.match(failures[2]!.reason, /Tool "remote": parameters: Unresolved \$ref/)
  })

  it('a tool in code that is refused stops it', async () => {
    await assert.rejects(loadTools([code, code], [], {}), { code: 'duplicate_tool' })
  })

  it('a source that cannot be read stops it', async () => {
    await assert.rejects(loadTools([code], [new ModuleDirectory('/nowhere/at/all')], {}), { code: 'source_failed' })
  })
})
