import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { ToolRegistry } from '../../src/tools/registry.ts'
import { getStatus } from './load.ts'

const registry = new ToolRegistry().register(getStatus).seal()

describe('get_status', () => {
  it('answers synchronously, in words', () => {
    const { value, invocation } = registry.invoke({ toolId: 'get_status', input: {} })
    assert.match(value, /^The service is running, for \d+ s now\.$/)
    assert.equal(invocation.status, 'succeeded')
    assert.equal(invocation.kind, 'read')
  })

  for (const input of [null, [], 'now', 7, true]) {
    it(`refuses ${JSON.stringify(input)} as input`, () => {
      assert.throws(() => registry.invoke({ toolId: 'get_status', input }), { code: 'invalid_input', message: /must be an object/ })
    })
  }

  it('lets no status through that is not a string', () => {
    const broken = new ToolRegistry().register({ ...getStatus, execute: () => ({ up: true }) }).seal()
    assert.throws(() => broken.invoke({ toolId: 'get_status', input: {} }), { code: 'invalid_output', message: /must be a string/ })
  })
})
