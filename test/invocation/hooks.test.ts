import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { mergeAfterToolCall, type AfterToolCallResult, type MergedResult } from '../../src/invocation/hooks.ts'

const text = (words: string) => [{ type: 'text' as const, text: words }]
const usage = (input: number) => ({ input, output: 0, cacheRead: 0, cacheWrite: 0, totalTokens: input, cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 } })

const before: MergedResult = { content: text('old'), details: { old: 1 }, structuredContent: { old: 2 }, isError: false, usage: usage(1), terminate: false }

const cases: [what: string, after: AfterToolCallResult | null | undefined | void, result: object, isError: boolean][] = [
  ['nothing', undefined, before, false],
  ['null', null, before, false],
  ['an empty object', {}, before, false],
  ['details', { details: { new: 1 } }, { ...before, details: { new: 1 } }, false],
  ['details that are falsy', { details: 0 }, { ...before, details: 0 }, false],
  ['content: the structured result, which may no longer match, goes', { content: text('new') }, { ...before, content: text('new'), structuredContent: undefined }, false],
  ['empty content: it goes, too', { content: [] }, { ...before, content: [], structuredContent: undefined }, false],
  ['content and structured content: both are replaced', { content: text('new'), structuredContent: [1] }, { ...before, content: text('new'), structuredContent: [1] }, false],
  ['content and details: details are replaced, the structured result goes', { content: text('new'), details: 'new' }, { ...before, content: text('new'), details: 'new', structuredContent: undefined }, false],
  ['structured content alone: content stays', { structuredContent: { new: 2 } }, { ...before, structuredContent: { new: 2 } }, false],
  ['structured content that is falsy', { structuredContent: false }, { ...before, structuredContent: false }, false],
  ['isError: true', { isError: true }, before, true],
  ['isError that is loosely true: it must not pass for a success', { isError: 'yes' } as unknown as AfterToolCallResult, before, true],
  ['usage', { usage: usage(5) }, { ...before, usage: usage(5) }, false],
  ['terminate', { terminate: true }, { ...before, terminate: true }, false],
  ['null in every field: nothing is replaced', { content: null, details: null, structuredContent: null, isError: null, usage: null, terminate: null }, before, false],
  ['undefined in every field: nothing is replaced', JSON.parse('{}') as AfterToolCallResult, before, false],
  ['content, and null for the structured result: it goes', { content: text('new'), structuredContent: null }, { ...before, content: text('new'), structuredContent: undefined }, false],
  ['everything', { content: text('new'), details: 1, structuredContent: 2, isError: true, usage: usage(9), terminate: true },
    { content: text('new'), details: 1, structuredContent: 2, usage: usage(9), terminate: true }, true]
]

/** What is absent and what is undefined are the same here, but for the structured result. */
function comparable (result: object) {
  return { hasStructured: 'structuredContent' in result, ...JSON.parse(JSON.stringify(result)) as object }
}

describe('what an after-hook returns', () => {
  for (const [what, after, result, isError] of cases) {
    it(what, () => {
      const input = { result: structuredClone(before), isError: false }
      const merged = mergeAfterToolCall(input, after)
      const expected: Record<string, unknown> = { ...result, isError }
      if (expected.structuredContent === undefined) delete expected.structuredContent
      assert.deepEqual(comparable(merged.result), comparable(expected))
      assert.equal(merged.isError, isError)
      assert.deepEqual(input, { result: before, isError: false }, 'the result before is not changed')
    })
  }

  it('isError: false makes a success of a failure', () => {
    const failed = { result: { ...before, isError: true }, isError: true }
    for (const isError of [false, 0 as unknown as boolean]) {
      const merged = mergeAfterToolCall(failed, { isError })
      assert.deepEqual([merged.isError, merged.result.isError], [false, false])
    }
    const merged = mergeAfterToolCall(failed, { details: 1 })
    assert.deepEqual([merged.isError, merged.result.isError], [true, true])
  })

  it('details are replaced, not merged', () => {
    assert.deepEqual(mergeAfterToolCall({ result: { content: [], details: { a: { b: 1 } }, isError: false }, isError: false }, { details: { a: {} } }).result.details, { a: {} })
  })

  it('of two in a row, the second sees what the first left', () => {
    const first = mergeAfterToolCall({ result: before, isError: false }, { content: text('first') })
    assert.ok(!('structuredContent' in first.result))
    const second = mergeAfterToolCall(first, { details: 'second' })
    assert.deepEqual([second.result.content, second.result.details, 'structuredContent' in second.result], [text('first'), 'second', false])
    const third = mergeAfterToolCall(second, { structuredContent: 3 })
    assert.deepEqual([third.result.content, third.result.structuredContent], [text('first'), 3])
  })

  it('a structured result of null, where nothing replaces it, stays', () => {
    const merged = mergeAfterToolCall({ result: { content: [], details: null, structuredContent: null, isError: false }, isError: false }, { details: 1 })
    assert.equal(merged.result.structuredContent, null)
  })

  it('fields that results do not have are dropped', () => {
    const merged = mergeAfterToolCall({ result: before, isError: false }, { extra: 1 } as AfterToolCallResult)
    assert.ok(!('extra' in merged.result))
  })
})
