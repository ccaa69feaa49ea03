import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { dirname, relative, resolve } from 'node:path'
import { describe, it } from 'node:test'
import { fileURLToPath } from 'node:url'
// @ts-expect-error a configuration file, which has no types
import * as lint from '../eslint.config.js'

const { rooms, fastifyRooms, clientPackages } = lint as { rooms: Record<string, string[]>, fastifyRooms: string[], clientPackages: string[] }
const root = fileURLToPath(new URL('..', import.meta.url))
const MOST_LINES = 300

const files = ['src', 'routes'].flatMap((folder) => readdirSync(resolve(root, folder), { recursive: true, encoding: 'utf8' })
  .filter((name) => name.endsWith('.ts')).map((name) => `${folder}/${name}`)).sort()
const textOf = (file: string) => readFileSync(resolve(root, file), 'utf8')

/** What a file imports, types included: `from '…'`, bare `import '…'`, and `import('…')`. */
function importsOf (file: string): string[] {
  const code = textOf(file).replace(/\/\*[\s\S]*?\*\//g, '').replace(/^\s*\/\/.*$/gm, '')
  return [...code.matchAll(/\bfrom\s+'([^']+)'|\bimport\s+'([^']+)'|\bimport\(\s*'([^']+)'/g)].map((match) => (match[1] ?? match[2] ?? match[3])!)
}

const isOwn = (specifier: string) => specifier.startsWith('.')
const target = (file: string, specifier: string) => relative(root, resolve(root, dirname(file), specifier))

/** The room of a file of ours: `store` for src/store/memory.ts, `errors.ts` for src/errors.ts, `routes` for the URL tree. */
function roomOf (file: string): string {
  const [top, name] = file.split('/')
  return top === 'src' ? name! : top!
}

const edges = files.flatMap((file) => importsOf(file).filter(isOwn).map((specifier) => ({ file, to: target(file, specifier) })))

describe('architecture', () => {
  it('there is something to look at', () => {
    assert.ok(files.length > 30, `${files.length} files`)
    assert.ok(edges.length > 100, `${edges.length} imports`)
  })

  it('every import of ours is of a file that is there', () => {
    assert.deepEqual(edges.filter(({ to }) => !files.includes(to)).map(({ file, to }) => `${file} → ${to}`), [])
  })

  it('every room but the top ones stands in the table, and every room of the table is there', () => {
    const there = new Set(files.filter((file) => file.startsWith('src/')).map(roomOf))
    const top = ['cli.ts', 'client.ts', 'gateway.ts', 'index.ts']
    assert.deepEqual([...there].filter((room) => !(room in rooms) && !top.includes(room)), [])
    assert.deepEqual(Object.keys(rooms).filter((room) => !there.has(room)), [])
  })

  for (const [room, allowed] of Object.entries(rooms)) {
    it(`${room} imports from: ${allowed.join(', ') || 'nothing of ours'}`, () => {
      const strays = edges
        .filter(({ file, to }) => file.startsWith('src/') && roomOf(file) === room && roomOf(to) !== room && !allowed.includes(roomOf(to).replace(/\.ts$/, '')))
        .map(({ file, to }) => `${file} → ${to}`)
      assert.deepEqual(strays, [])
    })
  }

  it('rooms do not import one another in circles', () => {
    const graph = new Map<string, Set<string>>()
    for (const { file, to } of edges) if (roomOf(file) !== roomOf(to)) graph.set(roomOf(file), (graph.get(roomOf(file)) ?? new Set()).add(roomOf(to)))
    const done = new Set<string>()
    const visit = (room: string, path: string[]): void => {
      assert.ok(!path.includes(room), [...path, room].join(' → '))
      if (done.has(room)) return
      for (const next of graph.get(room) ?? []) visit(next, [...path, room])
      done.add(room)
    }
    for (const room of graph.keys()) visit(room, [])
  })

  it('routes are imported by nobody, and the gateway and the command line by the entries alone', () => {
    assert.deepEqual(edges.filter(({ to }) => to.startsWith('routes/')).map(({ file }) => file), [])
    assert.deepEqual(edges.filter(({ to }) => to === 'src/cli.ts').map(({ file }) => file), [])
    assert.deepEqual(edges.filter(({ to }) => to === 'src/gateway.ts').map(({ file }) => file).sort(), ['src/cli/serve.ts', 'src/index.ts'])
  })

  it('only those named know Fastify', () => {
    const knowing = files.filter((file) => importsOf(file).some((specifier) => /^(@fastify\/|fastify)/.test(specifier)))
    assert.deepEqual(knowing.filter((file) => !fastifyRooms.some((room) => file === room || file.startsWith(`${room}/`))), [])
    assert.ok(knowing.length > 0)
  })

  it('the client needs no more than a consumer has: a browser, too', () => {
    const client = files.filter((file) => file.startsWith('src/client/') || file.startsWith('src/contract/') || file === 'src/client.ts')
    assert.ok(client.length > 10, `${client.length} files`)
    const foreign = client.flatMap((file) => importsOf(file).filter((specifier) => !isOwn(specifier) && !clientPackages.includes(specifier)))
    assert.deepEqual(foreign, [])
    assert.deepEqual(client.filter((file) => /\b(process|Buffer|require|__dirname)\b[.([]/.test(textOf(file))), [])
  })

  it('only the gateway names a driver or a source', () => {
    const concrete = /^src\/(store\/(memory|sqlite\/sqlite-store|redis)|tools\/sources\/(module-directory|mcp-upstream))\.ts$/
    assert.deepEqual([...new Set(edges.filter(({ to }) => concrete.test(to)).map(({ file }) => file))], ['src/gateway.ts'])
  })

  it('only the configuration reads the environment', () => {
    const reading = files.filter((file) => /\bprocess\s*(\.\s*env\b|\[\s*['"]env)|from 'node:process'/.test(textOf(file)))
    assert.deepEqual(reading, ['src/config/configuration.ts'])
  })

  it(`no file is longer than ${MOST_LINES} lines`, () => {
    assert.deepEqual(files.map((file) => [file, textOf(file).split('\n').length - 1] as const).filter(([, lines]) => lines > MOST_LINES), [])
  })

  it('there is no file of leftovers', () => {
    assert.deepEqual(files.filter((file) => /(^|\/)(utils?|helpers?|common|misc)\.ts$/.test(file)), [])
    assert.deepEqual(files.filter((file) => /^src\/.+\/index\.ts$/.test(file)), [])
  })
})
