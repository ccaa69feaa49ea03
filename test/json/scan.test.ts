import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { scan } from '../../src/json/scan.ts'

function depthOf (value: unknown): number {
  if (typeof value !== 'object' || value === null) return 0
  return 1 + Math.max(0, ...Object.values(value).map(depthOf))
}

describe('scan', () => {
  it('finds the depth of any JSON value', () => {
    fc.assert(fc.property(fc.jsonValue({ maxDepth: 8, stringUnit: 'binary' }), fc.constantFrom(undefined, 2, '\t'), (value, space) => {
      assert.equal(scan(JSON.stringify(value, null, space)).depth, depthOf(value))
    }), { numRuns: 500 })
  })

  it('finds the first inexact number only', () => {
    assert.equal(scan('[1, 1e400, 9007199254740993]').inexactNumber, '1e400')
    assert.equal(scan('[1, 2.5, "1e400"]').inexactNumber, undefined)
  })

  it('takes any double that JSON.stringify writes, but integers past 2^53', () => {
    fc.assert(fc.property(fc.double({ noNaN: true, noDefaultInfinity: true }), (number) => {
      const inexact = Number.isInteger(number) && Math.abs(number) > 2 ** 53 && !String(number).includes('e')
      assert.equal(scan(JSON.stringify(number)).inexactNumber !== undefined, inexact)
    }), { numRuns: 1000 })
  })

  it('takes time in proportion to a text of quotes and backslashes', () => {
    const text = `"${'\\'.repeat(200_000)}${'\\"'.repeat(200_000)}"`
    const began = performance.now()
    scan(text)
    assert.ok(performance.now() - began < 2000)
  })
})
