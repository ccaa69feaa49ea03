import assert from 'node:assert/strict'
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, afterEach, before, beforeEach, describe, it, type TestContext } from 'node:test'
import { createGateway, type GatewayOptions } from '../../src/gateway.ts'
import { ToolRegistry } from '../../src/tools/registry.ts'
import { context, readNotes, takeNote } from './load.ts'

const principal = { id: 'test' }
const notebook = (count: number, text = 'old') => JSON.stringify({ notes: Array(count).fill({ takenAtMs: 1, text, tags: [] }) })
const oneTo = (last: number) => Array.from({ length: last }, (_, index) => index + 1)

describe('take_note and read_notes', () => {
  const variable = process.env.NOTES_FILE
  let folder: string
  let file: string

  before(() => { delete process.env.NOTES_FILE })
  after(() => { if (variable !== undefined) process.env.NOTES_FILE = variable })
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'toolgate-notes-'))
    file = process.env.NOTES_FILE = join(folder, 'deep', 'notes.json')
  })
  afterEach(async () => {
    delete process.env.NOTES_FILE
    await rm(folder, { recursive: true, force: true })
  })

  const taken = async () => JSON.parse(await readFile(file, 'utf8')).notes as { takenAtMs: number, text: string, tags: string[] }[]

  async function given (text: string) {
    await mkdir(join(folder, 'deep'))
    await writeFile(file, text)
  }

  async function open (t: TestContext, options: GatewayOptions = {}) {
    const app = createGateway({ tools: [takeNote, readNotes], logger: false, ...options })
    t.after(() => app.close())
    await app.ready()
    const { invoker } = app.toolgate
    return {
      invoker,
      take: (input: object) => app.invoke({ toolId: 'take_note', input }),
      read: (input: object = {}) => app.invoke({ toolId: 'read_notes', input }),
      /** All of them in one step, and so on their way before any has read the file. */
      takeAtOnce: (count: number) => Promise.all(oneTo(count).map((index) =>
        invoker.invoke({ toolId: 'take_note', input: { text: `note ${index}` }, principal })))
    }
  }

  it('the first note makes folder and file', async (t) => {
    const { take } = await open(t)
    const before = Date.now()
    const { isError, content, structuredContent } = await take({ text: 'buy milk', tags: ['home'] })
    assert.equal(isError, false)
    const { number, takenAtMs, remaining } = structuredContent as { number: number, takenAtMs: number, remaining: number }
    assert.deepEqual([number, remaining], [1, 999])
    assert.ok(takenAtMs >= before && takenAtMs <= Date.now())
    assert.deepEqual(content, [{ type: 'text', text: 'Taken as note 1.' }])
    assert.deepEqual(await taken(), [{ takenAtMs, text: 'buy milk', tags: ['home'] }])
    assert.deepEqual(await readdir(join(folder, 'deep')), ['notes.json'], 'and leaves nothing beside it')
  })

  it('50 calls at once are numbered 1 to 50, and every note is kept', async (t) => {
    const { takeAtOnce } = await open(t)
    const answers = await takeAtOnce(50)
    assert.deepEqual(answers.map(({ structuredContent }) => (structuredContent as any).number), oneTo(50))
    assert.deepEqual((await taken()).map(({ text }) => text), oneTo(50).map((index) => `note ${index}`))
    assert.ok(answers.slice(1).every(({ invocation }) => invocation.queuedMs! > 0), 'they waited for each other')
  })

  it('without their turns, most of them would be lost', async (t) => {
    const { takeAtOnce } = await open(t, { toolSettings: { take_note: { executionMode: 'parallel' } } })
    const answers = await takeAtOnce(50)
    assert.ok(answers.every(({ isError }) => !isError))
    assert.ok(new Set(answers.map(({ structuredContent }) => (structuredContent as any).number)).size < 25)
    assert.ok((await taken()).length < 25)
  })

  it('a registry alone runs both', async () => {
    const registry = new ToolRegistry().register(takeNote).register(readNotes).seal()
    assert.equal((await registry.invoke({ toolId: 'take_note', input: { text: 'a' } })).value.number, 1)
    assert.equal((await registry.invoke({ toolId: 'take_note', input: { text: 'b' } })).value.number, 2)
    const { value } = await registry.invoke({ toolId: 'read_notes' })
    assert.deepEqual(value.notes.map(({ text }: { text: string }) => text), ['b', 'a'])
  })

  describe('reading', () => {
    it('an absent notebook has no notes, and is not made', async (t) => {
      const { read } = await open(t)
      const { content, structuredContent } = await read()
      assert.deepEqual(structuredContent, { notes: [], matching: 0 })
      assert.deepEqual(content, [{ type: 'text', text: '0 of 0 notes' }])
      assert.deepEqual(await readdir(folder), [])
    })

    it('gives the newest first, up to the limit and by tag', async (t) => {
      const { take, read } = await open(t)
      for (const index of oneTo(5)) await take({ text: `note ${index}`, tags: index % 2 === 0 ? ['even'] : [] })
      const numbers = async (input: object) => {
        const { notes, matching } = (await read(input)).structuredContent as any
        return [notes.map(({ number }: { number: number }) => number), matching]
      }
      assert.deepEqual(await numbers({}), [[5, 4, 3, 2, 1], 5])
      assert.deepEqual(await numbers({ limit: 2 }), [[5, 4], 5])
      assert.deepEqual(await numbers({ tag: 'even' }), [[4, 2], 2])
      assert.deepEqual(await numbers({ tag: 'even', limit: 1 }), [[4], 2])
      assert.deepEqual(await numbers({ tag: 'odd' }), [[], 0])
    })

    it('tells the model number, time, tags and text', async (t) => {
      await given(JSON.stringify({ notes: [{ takenAtMs: 0, text: 'buy milk', tags: ['home', 'soon'] }] }))
      const { content } = await (await open(t)).read()
      assert.deepEqual(content, [{ type: 'text', text: '1 of 1 notes\n1. 1970-01-01T00:00:00.000Z [home] [soon] buy milk' }])
    })

    it('gives at most 20 where no limit is set', async (t) => {
      await given(notebook(30))
      const { notes, matching } = (await (await open(t)).read()).structuredContent as any
      assert.deepEqual([notes.length, notes[0].number, matching], [20, 30, 30])
    })
  })

  describe('failures', () => {
    it('a full notebook takes no more, and stays as it is', async (t) => {
      await given(notebook(999))
      const { take } = await open(t)
      assert.deepEqual((await take({ text: 'the last' })).structuredContent, { number: 1000, takenAtMs: (await taken()).at(-1)!.takenAtMs, remaining: 0 })
      const before = await readFile(file, 'utf8')
      const { isError, structuredContent, invocation } = await take({ text: 'one too many' })
      assert.deepEqual([isError, structuredContent, invocation.errorCode], [true, { code: 'notebook_full' }, 'tool_error'])
      assert.equal(await readFile(file, 'utf8'), before)
    })

    for (const [what, text] of [
      ['no JSON', 'dear diary'],
      ['nothing', ''],
      ['other JSON', '{"name":"some-package","version":"1.0.0"}'],
      ['a note that lacks a field', '{"notes":[{"text":"a","tags":[]}]}'],
      ['notes and more', '{"notes":[],"owner":"somebody"}'],
      ['a time that no clock shows', '{"notes":[{"takenAtMs":1e300,"text":"a","tags":[]}]}']
    ] as const) {
      it(`a file with ${what} is not a notebook, and is left untouched`, async (t) => {
        await given(text)
        const { take, read } = await open(t)
        for (const answer of [await take({ text: 'x' }), await read()]) {
          assert.equal(answer.isError, true)
          assert.deepEqual(answer.structuredContent, { code: 'not_a_notebook' })
          assert.doesNotMatch(JSON.stringify(answer), /notes\.json|toolgate-notes/)
        }
        assert.equal(await readFile(file, 'utf8'), text)
        assert.deepEqual(await readdir(join(folder, 'deep')), ['notes.json'])
      })
    }

    it('what the file system refuses is for the log; the caller learns no path', async (t) => {
      await writeFile(join(folder, 'deep'), 'a file where the folder should be')
      const errors: any[] = []
      const logger = { debug () {}, info () {}, warn () {}, error: (fields: object) => { errors.push(fields) } }
      const { take, read } = await open(t, { logger })
      for (const answer of [await take({ text: 'x' }), await read()]) {
        assert.deepEqual([answer.isError, answer.structuredContent], [true, { code: 'notebook_unavailable' }])
        assert.doesNotMatch(JSON.stringify(answer), /notes\.json|toolgate-notes|ENOTDIR/)
      }
      assert.deepEqual(errors.map(({ err }) => err.code), ['ENOTDIR', 'ENOTDIR'])
    })
  })

  describe('input', () => {
    for (const [what, input] of [
      ['no text', {}],
      ['an empty text', { text: '' }],
      ['a blank text', { text: ' \n' }],
      ['a text too long', { text: 'x'.repeat(2_001) }],
      ['too many tags', { text: 'x', tags: oneTo(11).map(String) }],
      ['a tag twice', { text: 'x', tags: ['a', 'a'] }],
      ['an empty tag', { text: 'x', tags: [''] }],
      ['another field', { text: 'x', file: 'elsewhere.json' }]
    ] as const) {
      it(`${what} is refused, and nothing is written`, async (t) => {
        const { invocation } = await (await open(t)).take(input)
        assert.equal(invocation.errorCode, 'invalid_input')
        assert.deepEqual(await readdir(folder), [])
      })
    }
  })

  describe('a call that is stopped', () => {
    it('before it begins writes nothing', async () => {
      const signal = AbortSignal.abort(new Error('too late'))
      await assert.rejects(async () => takeNote.execute('call-1', { text: 'x' }, signal, () => {}, context), { message: 'too late' })
      assert.deepEqual(await readdir(folder), [])
    })

    it('while it reads writes nothing', async () => {
      await given(notebook(1))
      const abort = new AbortController()
      const running = takeNote.execute('call-1', { text: 'x' }, abort.signal, () => {}, context)
      abort.abort(new Error('the caller hung up'))
      await assert.rejects(async () => running, { message: 'the caller hung up' })
      assert.equal(await readFile(file, 'utf8'), notebook(1))
      assert.deepEqual(await readdir(join(folder, 'deep')), ['notes.json'])
    })

    it('leaves the next one its turn, and its number', async (t) => {
      const { invoker } = await open(t)
      const [first, second] = await Promise.all(['first', 'second'].map((text) => invoker.start({ toolId: 'take_note', input: { text }, principal })))
      invoker.cancel(first!)
      assert.equal((await first!.settled).end.errorCode, 'cancelled')
      const { structuredContent } = JSON.parse((await second!.settled).responseText)
      assert.equal(structuredContent.number, 1)
      assert.deepEqual((await taken()).map(({ text }) => text), ['second'])
    })
  })
})
