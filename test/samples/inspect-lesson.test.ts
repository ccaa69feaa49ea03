import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { ToolRegistry } from '../../src/tools/registry.ts'
import { inspectLesson } from './load.ts'

const registry = new ToolRegistry().register(inspectLesson).seal()

describe('inspect_lesson', () => {
  it('gives the five fields of a lesson, and the same ones every time', async () => {
    const first = await registry.invoke({ toolId: 'inspect_lesson', input: {} })
    const second = await registry.invoke({ toolId: 'inspect_lesson' })
    assert.deepEqual(Object.keys(first.value), ['name', 'parameters', 'summary', 'emptyInputBehavior', 'evidence'])
    assert.deepEqual(second.value, first.value)
  })

  it('tells the model one line, which does not hold the data', async () => {
    const { content, details, structuredContent } = await inspectLesson.execute()
    assert.equal(content.length, 1)
    const { text } = content[0]!
    assert.equal(text.includes('\n'), false)
    assert.ok(text.includes(structuredContent.name))
    for (const field of ['summary', 'emptyInputBehavior', 'evidence'] as const) assert.equal(text.includes(structuredContent[field]), false, field)
    assert.deepEqual(details, { origin: 'lesson-fixture' })
  })

  it('refuses any input field', () => {
    assert.throws(() => registry.invoke({ toolId: 'inspect_lesson', input: { name: 'other' } }), { code: 'invalid_input' })
  })

  it('a caller that changes its lesson changes no other', async () => {
    const { value } = await registry.invoke({ toolId: 'inspect_lesson' })
    value.parameters.push('changed')
    assert.deepEqual((await registry.invoke({ toolId: 'inspect_lesson' })).value.parameters, ['numbers'])
  })
})
