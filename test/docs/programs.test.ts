import assert from 'node:assert/strict'
import { access, mkdir, symlink } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { installEngine } from '../client/registry/installed-engine.ts'
import { startCli, type Cli } from '../e2e/cli.ts'
import { emptyFolder, writeExamples } from './examples.ts'
import { blocksOf, root } from './markdown.ts'
import { pagesWithPrograms, printingOf, programsOf, runFile } from './programs.ts'

/** Run by tests of their own. */
const runElsewhere = new Set(['my-server.ts', 'follow-events.js'])

describe('pages with programs', () => {
  it('there are some', () => assert.ok(pagesWithPrograms.length > 0))
})

for (const page of pagesWithPrograms) {
  const programs = await programsOf(page)

  describe(`programs of ${page}`, () => {
    let folder: string
    let gateway: Cli
    const cleanUps: (() => unknown)[] = []

    before(async () => {
      const { folder: empty, remove } = await emptyFolder()
      cleanUps.push(remove)
      folder = empty
      await writeExamples(page, folder)
      const own = join(folder, 'my-tools')
      const hasOwn = await access(own).then(() => true, () => false)
      gateway = await startCli({ after: (run) => { cleanUps.push(run) } }, ['--tools', [...hasOwn ? [own] : [], join(root, 'tools')].join(',')], {}, folder)
      await writeExamples(page, folder, gateway.url)
      await installEngine(folder)
      // As where an agent is at home.
      await mkdir(join(folder, 'node_modules'), { recursive: true })
      await symlink(join(root, 'node_modules/@earendil-works'), join(folder, 'node_modules/@earendil-works'))
    })
    after(async () => {
      for (const cleanUp of cleanUps.reverse()) await cleanUp()
    })

    it('every block of code is a tool, a program, or used by a block', async () => {
      const blocks = await blocksOf(page)
      const code = blocks.filter(({ language }) => ['ts', 'js'].includes(language))
      const isUsed = (file: string) => code.some(({ text }) => text.includes(`/${basename(file)}'`)) || isCommanded(file)
      const isCommanded = (file: string) => blocks.some(({ language, text }) => language === 'sh' && text.includes(` ./${file}`))
      const unused = code.filter(({ file, prints }) => file === undefined || !(file.startsWith('my-tools/') || prints !== undefined || isUsed(file) || runElsewhere.has(file)))
      assert.deepEqual(unused.map(({ place }) => place), [])
    })

    for (const program of programs) {
      const { place, file } = program
      it(`${place} ${file} prints what the page says`, { timeout: 60_000 }, async () => {
        const { status, stdout, stderr } = await runFile(folder, file)
        assert.equal(status, 0, stderr)
        assert.match(stdout, printingOf(program, gateway.url))
      })
    }
  })
}
