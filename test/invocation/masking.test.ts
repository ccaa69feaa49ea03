import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Value } from '@sinclair/typebox/value'
import fc from 'fast-check'
import { ToolResult } from '../../src/contract/result.ts'
import { maskingOf, type Masking } from '../../src/invocation/masking.ts'
import { Mask, MASKED } from '../../src/json/mask.ts'
import type { AnyTool } from '../../src/tools/registry.ts'
import { until } from '../conformance/until.ts'
import { setUp, withWrites } from './harness.ts'

interface Result extends Record<string, unknown> { content?: object[], details?: unknown, isError?: boolean }

const text = (words: string) => ({ type: 'text', text: words }) as const
const masking = (input: unknown, ...pointers: string[]) => maskingOf(Mask.of(pointers), JSON.stringify(input), undefined)

/** A result as it goes on record, which is held to the contract. */
function recorded (given: Masking | undefined, { content = [], details = null, isError = false, ...result }: Result): any {
  const { structuredContent, ...more } = result
  const value = JSON.parse(given!.result(JSON.stringify({ content, details, ...('structuredContent' in result ? { structuredContent } : {}), isError, ...more })))
  assert.deepEqual([...Value.Errors(ToolResult, value)].map(({ path, message }) => `${path} ${message}`), [])
  return value
}

describe('what is masked of a call', () => {
  it('is nothing where nothing of it is named, so that others pay nothing', () => {
    assert.deepEqual([masking({ a: 1 }), masking({ a: 1 }, '/input/b')], [undefined, undefined])
    assert.equal(masking({ a: 1 }, '/result/details')!.input, '{"a":1}')
  })

  it('is also what comes up again in the input, and in each part of the result', () => {
    const given = masking({ pin: 4815, word: 'opensesame', again: ['opensesame!', 4815, '4815', 48_151] }, '/input/pin', '/input/word')
    assert.equal(given!.input, '{"pin":"[masked]","word":"[masked]","again":["[masked]!","[masked]","[masked]",48151]}')
    const result = recorded(given, {
      content: [text('the word is "opensesame"'), { type: 'resource', resource: { uri: 'x:opensesame', n: 4815 } }],
      details: { opensesame: 'pin 4815', n: 4815 },
      structuredContent: ['opensesame', 'other'],
      usage: { input: 4815, output: 1, cacheRead: 0, cacheWrite: 0, totalTokens: 4815, cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 } }
    })
    assert.deepEqual(result.content, [text(`the word is "${MASKED}"`), { type: 'resource', resource: { uri: `x:${MASKED}`, n: MASKED } }])
    assert.deepEqual([result.details, result.structuredContent], [{ [MASKED]: `pin ${MASKED}`, n: MASKED }, [MASKED, 'other']])
    assert.deepEqual([result.redacted, result.usage.input], [true, 4815], 'what the tool used is no value of the call')
  })

  it('is found in JSON that a text repeats, and in JSON within that', () => {
    const word = 'a "word"\n\\ of\u0001 ours'
    const given = masking({ word }, '/input/word')
    const once = JSON.stringify({ word })
    const { content } = recorded(given, { content: [text(once), text(JSON.stringify(once)), text(`${word.slice(0, 12)}…`)] })
    assert.deepEqual(content.map((block: any) => block.text), [`{"word":"${MASKED}"}`, `"{\\"word\\":\\"${MASKED}\\"}"`, `${MASKED}…`])
  })

  it('short values, and those of literals, only where they are named', () => {
    const given = masking({ a: 'abc', b: 123, c: true, d: null }, '/input/*')
    assert.equal(given!.input, '{"a":"[masked]","b":"[masked]","c":"[masked]","d":"[masked]"}')
    assert.equal('redacted' in recorded(given, { content: [text('abc 123 true null')], details: [123, true, null] }), false)
  })

  it('each value in what is named, but no keys', () => {
    const given = masking({ address: { street: 'Elm Street', lines: ['first line', 12_345] } }, '/input/address')
    assert.deepEqual(recorded(given, { details: 'street, lines: Elm Street, first line, 12345' }).details, `street, lines: ${MASKED}, ${MASKED}, ${MASKED}`)
  })

  it('values of the result where they are named, and elsewhere in it', () => {
    const given = masking({}, '/result/structuredContent/token', '/result/details/*')
    const result = recorded(given, { content: [text('{"token":"abc-def"}')], details: ['x', { y: 'wxyz' }], structuredContent: { token: 'abc-def', of: 'wxyz' }, terminate: true })
    assert.deepEqual(result, { content: [text(`{"token":"${MASKED}"}`)], details: [MASKED, MASKED], structuredContent: { token: MASKED, of: MASKED }, redacted: true, isError: false, terminate: true })
    assert.equal(recorded(given, { content: [text('abc-def')] }).content[0].text, MASKED, 'and in later ones')
  })

  it('a result of which nothing is masked is the same text', () => {
    const result = '{"content":[{"type":"text","text":"\\u2028"}],"details":{"1":1,"0":-0.5},"isError":true,"terminate":false}'
    assert.equal(masking({ a: 'secret' }, '/input/a', '/result/structuredContent')!.result(result), result)
  })

  it('content stays a list of blocks, whatever of it is masked', () => {
    const content = [text('one'), { type: 'image', data: 'AAAA', mimeType: 'image/png' }] as const
    const ask = (pointer: string) => recorded(masking({}, pointer), { content: [...content] }).content
    const hidden = text(MASKED)
    assert.deepEqual(ask('/result/content'), [hidden])
    assert.deepEqual(ask('/result/content/0'), [hidden, content[1]])
    assert.deepEqual(ask('/result/content/*'), [hidden, hidden])
    assert.deepEqual(ask('/result/content/*/type'), [hidden, hidden])
    assert.deepEqual(ask('/result/content/*/data'), [content[0], { ...content[1], data: MASKED }])
  })

  it('what was masked in a call is masked in those that it makes', () => {
    const parent = masking({ word: 'opensesame' }, '/input/word')
    const child = maskingOf(undefined, '{"say":"opensesame"}', parent)!
    assert.equal(child.input, '{"say":"[masked]"}')
    assert.equal(recorded(child, { details: 'opensesame' }).details, MASKED)
  })

  it('more than can be looked for is withheld with all that is around it', () => {
    const cards = Array.from({ length: 5000 }, (_, n) => ({ card: `4111 1111 1111 ${n}` }))
    const given = masking({ cards }, '/input/cards/*/card')!
    assert.equal(given.input, undefined)
    for (const isError of [false, true]) assert.deepEqual(recorded(given, { details: 'x', isError }), { content: [], details: null, isError, redacted: true })
  })

  it('however long: one long value is looked for by its beginning', () => {
    const page = 'All happy families are alike. '.repeat(20_000)
    const given = masking({ page }, '/input/page')
    assert.deepEqual(recorded(given, { details: ['more', `: ${page} and more`] }).details, ['more', `: ${MASKED}`])
  })

  it("is in no line of the gateway's own about the call, either", async () => {
    let isFull = true
    const full = async (method: string, id: string) => { if (isFull && method === 'settle') throw new Error(`no room for hunter2 of ${id}`) }
    const tool = { id: 't', description: 'd', kind: 'k', parameters: {}, mask: ['/input/pin'], execute: () => ({}) } as AnyTool
    const { start, logged, clock } = setUp({ tools: [tool], wrap: (memory) => withWrites(memory, full) })
    const call = await start({ toolId: 't', input: { pin: 'hunter2' } })
    await until(() => logged.length > 0, 'the line')
    isFull = false
    clock.advance(1000)
    await call.settled
    assert.deepEqual(logged.map(({ fields, message }) => [fields.err?.message, message]), [
      [`no room for ${MASKED} of ${call.invocationId}`, 'the end of a call cannot be recorded yet'], [undefined, 'invocation']
    ])
  })

  it('stands nowhere any more, and leaves all else as it was', () => {
    // Of letters that no other text here has.
    const secret = fc.string({ unit: fc.constantFrom('X', 'Y', '"', '\\', '\n', '\ud800', 'é', '/'), minLength: 4, maxLength: 20 })
    fc.assert(fc.property(secret, fc.json({ maxDepth: 4, stringUnit: fc.constantFrom('a', 'b', '1', ' ', '[') }), fc.boolean(), (word, json, isRepeated) => {
      const value: unknown = JSON.parse(json)
      const given = masking({ word, value }, '/input/word')!
      assert.equal(given.input, JSON.stringify({ word: MASKED, value }))
      const said = isRepeated ? `I was told ${JSON.stringify({ word })}: ${word}` : 'nothing'
      const result = recorded(given, { content: [text(said)], details: { value, word }, structuredContent: { [word]: value } })
      assert.equal(JSON.stringify(result), JSON.stringify({
        content: [text(isRepeated ? `I was told {"word":"${MASKED}"}: ${MASKED}` : 'nothing')],
        details: { value, word: MASKED },
        structuredContent: { [MASKED]: value },
        redacted: true,
        isError: false
      }))
    }), { numRuns: 500 })
  })
})
