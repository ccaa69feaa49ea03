import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { plainJson, plainLine, plainText } from '../../src/cli/plain-text.ts'

/** Texts in which controls are as frequent as letters. */
const hostile = fc.string({ unit: fc.oneof(fc.constantFrom('\u001B', '[', ']', '\u009B', '\u009D', '\u0007', '\u001B\\', '31m', '2J', '0;', 'P', '\r', '\n', '\t', '\u202E', '\u2028', '\u007F', '\uD800', 'a', '漢'), fc.string({ unit: 'binary' })) })

describe('plain text', () => {
  for (const [what, given, shown] of [
    ['colours', '\u001B[1;31mred\u001B[0m', 'red'],
    ['colours in one byte', '\u009B31mred', 'red'],
    ['the cursor', 'a\u001B[2J\u001B[H\u001B[?25lb', 'ab'],
    ['titles and links', '\u001B]0;title\u0007a\u001B]8;;https://b.example\u001B\\b\u001B]8;;\u001B\\', 'ab'],
    ['device strings', '\u001BPq#0\u001B\\a\u001B_x\u009Cb', 'ab'],
    ['a string that never ends', 'a\u001B]0;title', 'a\uFFFD]0;title'],
    ['sequences made of what is left of others', '\u001B\u001B[31m[2Ja', '\uFFFD[2Ja'],
    ['a bell, a backspace, a form feed, a NUL', 'a\u0007\u0008\u000C\u0000b', 'a\uFFFD\uFFFD\uFFFD\uFFFDb'],
    ['carriage returns', 'a\rb\r\nc\r\r\n', 'a\nb\nc\n\n'],
    ['line separators', 'a\u2028b\u2029c', 'a\nb\nc'],
    ['what turns the order', 'a\u202Eb\u2066c\u2069\u200Fd', 'abcd'],
    ['half characters', 'a\uD83Db', 'a\uFFFDb'],
    ['tabs, lines, joiners and wide characters, which stay', 'a\tb\n👩‍👩‍👧 می‌خواهم 漢é\u0301', 'a\tb\n👩‍👩‍👧 می‌خواهم 漢é\u0301']
  ] as const) it(`of ${what}`, () => assert.equal(plainText(given), shown))

  it('holds no control but tabs and line breaks, whatever it is made of', () => {
    fc.assert(fc.property(hostile, (text) => {
      assert.doesNotMatch(plainText(text), /[^\P{C}\n\t\u200C\u200D\p{Co}\p{Cn}]/u)
      assert.doesNotMatch(plainLine(text), /[^\P{C}\u200C\u200D\p{Co}\p{Cn}]|\s{2}|^\s|\s$/u)
    }))
  })

  it('a line is as short as a line can be', () => {
    assert.equal(plainLine('a\u0301'.repeat(1e6)).length, 2000)
    assert.equal(plainLine('  a \n\n b\t'), 'a b')
  })
})

describe('plain JSON', () => {
  it('is the same value, and holds no control but line breaks', () => {
    fc.assert(fc.property(fc.dictionary(hostile, hostile), (value) => {
      const text = plainJson(JSON.stringify(value, undefined, 2))
      assert.deepEqual(JSON.parse(text), JSON.parse(JSON.stringify(value)))
      assert.doesNotMatch(text, /[^\P{C}\n\p{Co}\p{Cn}]|[\u2028\u2029]/u)
    }))
  })
})
