import assert from 'node:assert/strict'
import { spawn, spawnSync } from 'node:child_process'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { pathToFileURL } from 'node:url'
import type { FastifyInstance } from 'fastify'
import { createGateway } from '../../src/gateway.ts'
import type { Hooks } from '../../src/invocation/hooks.ts'
import { emptyFolder, plainEnvironment, resolvingIn, writeExamples } from './examples.ts'
import { blocksOf } from './markdown.ts'
import { pagesWithPrograms } from './programs.ts'
import { installDependencies, typeCheck } from './type-check.ts'

/** A call for each tool that an example defines, and what it comes to. */
const calls: Record<string, Record<string, { input: unknown, text?: string | RegExp, structuredContent?: unknown }>> = {
  'README.md': {
    count_words: { input: { text: ' to be\nor not ' }, text: '4 words', structuredContent: { words: 4 } },
    roll_dice: { input: { sides: 6 }, text: /^Rolled [1-6]$/ },
    reverse_text: { input: { text: 'stressed' }, text: 'desserts', structuredContent: 'desserts' }
  },
  'docs/writing-tools.md': {
    divide: { input: { dividend: 7, divisor: 2 }, text: '3, remainder 1', structuredContent: { quotient: 3, remainder: 1 } },
    greet: { input: { who: 'you' }, text: 'Hello, you!' },
    slugify: { input: { title: 'Hello, world!' }, text: 'hello-world', structuredContent: 'hello-world' },
    repeat_text: { input: { text: 'ab', count: '3' }, text: 'ababab' },
    count_primes: { input: { limit: 100_000 }, text: '9592 primes', structuredContent: { primes: 9592 } },
    deal_cards: { input: { cards: 52, players: 5 }, text: '10 each, 2 left', structuredContent: { each: 10, left: 2 } },
    pay: { input: { cards: [{ number: '4111 1111 1111 1111', holder: 'Ada' }] }, text: 'Paid by Ada.', structuredContent: { token: 'receipt-1' } },
    check_password: { input: { password: 'long enough, is it' }, structuredContent: true },
    constant_pi: { input: {}, text: String(Math.PI), structuredContent: Math.PI },
    constant_e: { input: {}, text: String(Math.E), structuredContent: Math.E }
  },
  'docs/pi.md': {
    measure_text: { input: { text: 'a\nbc' }, text: '2 lines, 4 characters', structuredContent: { lines: 2, characters: 4 } }
  },
  'docs/registry-system.md': {
    get_stock: { input: { item: 'tea' }, text: '{"item":"tea","packets":12}', structuredContent: { item: 'tea', packets: 12 } }
  }
}

/** What breaks the schemas of the example `divide.ts`. */
const mistakes = [
  { what: 'a success without a declared field', file: 'wrong-output.ts', right: 'structuredContent: { quotient, remainder }', wrong: 'structuredContent: { quotient }' },
  { what: 'a failure with another literal', file: 'wrong-failure.ts', right: "'division_by_zero' as const", wrong: "'oops' as const" },
  { what: 'a parameter that is not declared', file: 'wrong-input.ts', right: '{ dividend, divisor })', wrong: '{ dividend, divisor, digits })' }
]

for (const [page, expected] of Object.entries(calls)) {
  describe(`examples of ${page}`, () => {
    let folder: string
    let remove: () => Promise<void>
    let app: FastifyInstance

    before(async () => {
      ({ folder, remove } = await emptyFolder())
      await writeExamples(page, folder)
      const tools = page === 'docs/writing-tools.md' ? folder : join(folder, 'my-tools')
      app = createGateway({ toolDirectories: [tools], strict: true, logger: false })
      await app.ready()
    })
    after(async () => {
      await app.close()
      await remove()
    })

    it('every block of code names its file', async () => {
      const nameless = (await blocksOf(page)).filter(({ language, file }) => ['ts', 'js'].includes(language) && file === undefined)
      assert.deepEqual(nameless.map(({ place }) => place), [])
    })

    it('define the tools that are called here, and no others', async () => {
      const { tools } = (await app.inject('/tools')).json() as { tools: { id: string }[] }
      assert.deepEqual(tools.map(({ id }) => id).sort(), Object.keys(expected).sort())
    })

    for (const [toolId, { input, text, structuredContent }] of Object.entries(expected)) {
      it(`${toolId} runs`, async () => {
        const result = await app.invoke({ toolId, input })
        assert.equal(result.invocation.status, 'succeeded', JSON.stringify(result))
        assert.deepEqual(result.structuredContent, structuredContent)
        const [block] = result.content as { text: string }[]
        if (text instanceof RegExp) assert.match(block!.text, text)
        else assert.equal(block?.text, text)
      })
    }
  })
}

describe('examples of docs/writing-tools.md, more closely', () => {
  it('the test of a tool passes', async (t) => {
    const { folder, remove } = await emptyFolder()
    t.after(remove)
    await writeExamples('docs/writing-tools.md', folder)
    const { status, stdout } = spawnSync(process.execPath, [...resolvingIn(folder), '--test', '--test-reporter=tap', join(folder, 'divide.test.ts')], {
      cwd: folder, env: plainEnvironment(), encoding: 'utf8'
    })
    assert.equal(status, 0, stdout)
    assert.match(stdout, /^# pass 3$/m)
  })
})

describe('examples of README.md, more closely', () => {
  it('the embedded gateway starts and calls its tool', { timeout: 30_000 }, async (t) => {
    const { folder, remove } = await emptyFolder()
    t.after(remove)
    await writeExamples('README.md', folder)
    const file = join(folder, 'my-server.ts')
    await writeFile(file, (await readFile(file, 'utf8')).replace('port: 8080', 'port: 0'))
    const child = spawn(process.execPath, [...resolvingIn(folder), file], { cwd: folder, env: plainEnvironment(), stdio: ['ignore', 'pipe', 'inherit'] })
    t.after(() => child.kill())
    let printed = ''
    for await (const chunk of child.stdout.setEncoding('utf8')) {
      printed += chunk
      if (printed.includes('Server listening')) break
    }
    assert.match(printed, /^calling count_words$/m)
    assert.match(printed, /^\{ words: 3 \}$/m)
  })
})

describe('examples of docs/pi.md, more closely', () => {
  it('the hooks block and add as they say', async (t) => {
    const { folder, remove } = await emptyFolder()
    t.after(remove)
    await writeExamples('docs/pi.md', folder)
    const { default: hooks } = await import(pathToFileURL(join(folder, 'my-hooks.ts')).href) as { default: Hooks }
    const app = createGateway({ toolDirectories: [join(folder, 'my-tools')], strict: true, hooks, logger: false })
    t.after(() => app.close())
    await app.ready()
    const [short, long] = await Promise.all(['x', 'x'.repeat(10_001)].map((text) => app.invoke({ toolId: 'measure_text', input: { text } })))
    assert.deepEqual([short!.isError, short!.details], [false, { checked: true }])
    assert.deepEqual([long!.invocation.errorCode, long!.content], ['blocked', [{ type: 'text', text: 'The text is too long. Send it in parts.' }]])
  })
})

describe('types of the examples', () => {
  let folder: string
  let remove: () => Promise<void>
  let faults: Map<string, string[]>
  const files: string[] = []
  const placeOf = (page: string, file: string) => `${page.replaceAll('/', '-')}/${file}`

  before(async () => {
    ({ folder, remove } = await emptyFolder())
    await installDependencies(folder)
    for (const page of new Set([...Object.keys(calls), ...pagesWithPrograms])) {
      const written = await writeExamples(page, join(folder, placeOf(page, '')))
      files.push(...written.filter((file) => file.endsWith('.ts')).map((file) => placeOf(page, file)))
    }
    const divide = await readFile(join(folder, placeOf('docs/writing-tools.md', 'divide.ts')), 'utf8')
    for (const { file, right, wrong } of mistakes) {
      assert.ok(divide.includes(right), right)
      await writeFile(join(folder, file), divide.replace(right, wrong))
    }
    faults = typeCheck(folder, [...files, ...mistakes.map(({ file }) => file)])
  })
  after(() => remove())

  it('every TypeScript example type-checks', () => {
    for (const file of files) assert.deepEqual(faults.get(file), [], file)
  })

  for (const { file, what } of mistakes) {
    it(`${what} does not`, () => assert.notDeepEqual(faults.get(file), []))
  }
})
