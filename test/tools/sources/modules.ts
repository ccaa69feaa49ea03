import { mkdir, mkdtemp, realpath, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import type { TestContext } from 'node:test'
import { ModuleDirectory } from '../../../src/tools/sources/module-directory.ts'

/** A directory of modules that is loaded again and again. */
export class Modules {
  readonly path: string
  readonly source: ModuleDirectory

  constructor (path: string, patienceMs?: number) {
    this.path = path
    this.source = new ModuleDirectory(path, patienceMs)
  }

  async write (files: Record<string, string>): Promise<void> {
    for (const [name, text] of Object.entries(files)) {
      await mkdir(dirname(join(this.path, name)), { recursive: true })
      await writeFile(join(this.path, name), text)
    }
  }

  /** What each tool gives, by its file; the reason for a file that failed. */
  async load (): Promise<Record<string, any>> {
    const { tools, failures } = await this.source.load()
    const given = await Promise.all(tools.map(async ({ tool, origin }) => [origin, await (tool as any).execute()]))
    return Object.fromEntries([...given, ...failures.map(({ file, reason }) => [file, reason])])
  }
}

export async function modules (t: TestContext, files: Record<string, string>, patienceMs?: number): Promise<Modules> {
  const path = await realpath(await mkdtemp(join(tmpdir(), 'toolgate-versions-')))
  t.after(() => rm(path, { recursive: true, force: true }))
  const made = new Modules(path, patienceMs)
  await made.write(files)
  return made
}

/** An ES module whose tool gives `value`; `head` comes first. */
export const tool = (value: string, head = '') => `${head}\nexport default { id: 'x', kind: 'read', parseInput: (v) => v, parseOutput: (v) => v, execute: () => ${value} }`
/** Gives a number that counts how often the module was evaluated in this process. */
export const counted = (key: string) => tool(`globalThis.${key}`, `globalThis.${key} = (globalThis.${key} ?? 0) + 1`)
