import assert from 'node:assert/strict'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { describe, it } from 'node:test'
import { readInput } from '../../src/cli/call-input.ts'
import { UsageError } from '../../src/cli/exit-codes.ts'
import { directoryOf } from '../e2e/cli.ts'

const read = (given: string | undefined, members: string[] = [], piped: Iterable<Uint8Array> = [], signal = new AbortController().signal) =>
  readInput(given, members, { standardInput: Readable.from([...piped]), onTerminal: () => assert.fail('no terminal'), signal })
const bytes = (text: string) => [new TextEncoder().encode(text)]

describe('the input of a call', () => {
  it('is none where none was given, which is not an empty one', async () => {
    assert.equal(await read(undefined), undefined)
    assert.deepEqual(await read('{}'), {})
  })

  it('a member named __proto__ is one like others', async () => {
    assert.equal(JSON.stringify(await read('{"__proto__": 1}', ['constructor=2'])), '{"__proto__":1,"constructor":2}')
    assert.equal(JSON.stringify(await read(undefined, ['__proto__={"a":1}'])), '{"__proto__":{"a":1}}')
  })

  it('the last of several values of a member counts', async () => {
    assert.deepEqual(await read(undefined, ['a=1', 'a=2']), { a: 2 })
  })

  it('a text in several pieces is put together before it is decoded', async () => {
    const [whole] = bytes('"漢字"') as [Uint8Array]
    assert.equal(await read('-', [], Array.from(whole, (byte) => Uint8Array.of(byte))), '漢字')
  })

  for (const [what, given, members, piped, message] of [
    ['no JSON', '{"a": }', [], '', /^--input is not JSON: Unexpected token '}'/],
    ['nothing', '', [], '', /^--input is empty/],
    ['empty standard input', '-', [], '', /^standard input is empty; JSON is needed$/],
    ['standard input of white space', '-', [], ' \n', /^standard input is empty/],
    ['standard input that is no JSON', '-', [], 'a,b', /^standard input is not JSON/],
    ['standard input twice', '-', ['a=@-'], '1', /can be read once/],
    ['standard input twice in members', undefined, ['a=@-', 'b=@-'], '1', /can be read once/],
    ['a file without a name', '@', [], '', /^--input names no file/],
    ['a file that is not there', '@nowhere/in.json', [], '', /^nowhere\/in\.json is not there$/],
    ['a directory', '@.', [], '', /^\. is a directory$/],
    ['a member without a value', undefined, ['a'], '', /^--set takes name=value, and "a" is none$/],
    ['a member without a name', undefined, ['=1'], '', /^--set takes name=value/],
    ['a member of a file that is not there', undefined, ['a=@nowhere'], '', /^nowhere is not there$/],
    ['a member of a list', '[1]', ['a=1'], '', /^--set needs an input that is an object$/],
    ['a member of null', 'null', ['a=1'], '', /^--set needs an input that is an object$/],
    ['an integer past 2^53', '{"id": 9007199254740993}', [], '', /^--input has the number 9007199254740993, which cannot be carried exactly/],
    ['a member past 2^53', undefined, ['id=9007199254740993'], '', /^--set id has the number/],
    ['1e400', '[1e400]', [], '', /1e400/],
    ['what is nested deeper than JSON can be written again', '['.repeat(50_000) + ']'.repeat(50_000), [], '', /nested 50000 levels/]
  ] as const) {
    it(`${what} is refused`, async () => {
      await assert.rejects(read(given, [...members], bytes(piped)), (error: Error) => {
        assert.ok(error instanceof UsageError, error.stack)
        assert.match(error.message, message)
        return true
      })
    })
  }

  it('what is not UTF-8 is refused, from wherever it comes', async (t) => {
    const directory = await directoryOf(t, {})
    const file = join(directory, 'latin1.csv')
    await writeFile(file, Buffer.from('"\xE9"', 'latin1'))
    await assert.rejects(read(`@${file}`), /latin1\.csv is not UTF-8$/)
    await assert.rejects(read(undefined, [`csv=@${file}`]), /latin1\.csv is not UTF-8$/)
    await assert.rejects(read('-', [], [Uint8Array.of(0x22, 0xff, 0x22)]), /standard input is not UTF-8$/)
  })

  it('a file that is no JSON is told how its text can be sent', async (t) => {
    const directory = await directoryOf(t, { 'orders.csv': 'id,city\n' })
    await assert.rejects(read(`@${directory}/orders.csv`), /is not JSON: .*\n--set name=@file sends the text of a file/)
  })

  it('what never ends is given up', async () => {
    await assert.rejects(read('@/dev/zero'), /\/dev\/zero has more than 268435456 bytes/)
  })

  it('reading ends when the command is ended', async () => {
    const stop = new AbortController()
    const waiting = readInput('-', [], { standardInput: new Readable({ read () {} }), onTerminal () {}, signal: stop.signal })
    stop.abort(new Error('ended'))
    await assert.rejects(waiting, /^Error: ended$/)
  })
})
