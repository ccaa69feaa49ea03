import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { parsePrefer, waitSeconds } from '../../src/http/prefer.ts'

describe('Prefer', () => {
  const headers: [header: string | string[] | undefined, stated: Record<string, string>][] = [
    [undefined, {}],
    ['', {}],
    ['respond-async', { 'respond-async': '' }],
    ['wait=10', { wait: '10' }],
    ['respond-async, wait=10', { 'respond-async': '', wait: '10' }],
    ['respond-async,wait=10,', { 'respond-async': '', wait: '10' }],
    [['handling=lenient', 'wait=10'], { handling: 'lenient', wait: '10' }],
    ['Wait = "10"', { wait: '10' }],
    ['\twait\t=\t10\t;\tx', { wait: '10' }],
    ['wait=10; a; b="1,2;3"; c=d, other', { wait: '10', other: '' }],
    ['note="wait=5, \\"wait=6\\"; \\\\", wait=7', { note: 'wait=5, "wait=6"; \\', wait: '7' }],
    ['wait=1, WAIT=2', { wait: '1' }],
    ['wait, wait=2', { wait: '' }],
    ['wait=""', { wait: '' }],
    ['wait=', { wait: '' }],
    ['= 5, ;, wait 5, "wait"=5, wait=5', { wait: '5' }],
    ['wait="5, other=1', {}],
    ['constructor=1, __proto__=2', { constructor: '1', ['__proto__']: '2' }]
  ]
  for (const [header, stated] of headers) {
    it(`${JSON.stringify(header)} states ${JSON.stringify(Object.keys(stated))}`, () => {
      assert.deepEqual([...parsePrefer(header)], Object.entries(stated))
    })
  }

  it('takes any text, and finds a wait that follows it', () => {
    fc.assert(fc.property(fc.string({ unit: 'binary' }), (text) => {
      assert.ok(parsePrefer(text) instanceof Map)
      const before = text.replaceAll('"', '')
      assert.equal(parsePrefer(`wait=3,${before}`).get('wait'), '3')
    }))
  })

  it('takes no longer for a text that was made to be slow', () => {
    for (const text of ['"\\'.repeat(8000), '"'.repeat(16_001), 'a '.repeat(8000), `wait${' '.repeat(16_000)}x`, ';,'.repeat(8000)]) {
      const began = performance.now()
      parsePrefer(text)
      assert.ok(performance.now() - began < 200, text.slice(0, 10))
    }
  })
})

describe('Prefer: wait', () => {
  const waits: [header: string, maxWaitMs: number, seconds: number | undefined][] = [
    ['wait=5', 60_000, 5],
    ['wait=0', 60_000, 0],
    ['wait=007', 60_000, 7],
    ['wait=90', 60_000, 60],
    ['wait=90', 1999, 1],
    ['wait=90', 0, 0],
    [`wait=${'9'.repeat(400)}`, 60_000, 60],
    ['wait', 60_000, undefined],
    ['wait=-1', 60_000, undefined],
    ['wait=1.5', 60_000, undefined],
    ['wait=1e3', 60_000, undefined],
    ['wait=0x10', 60_000, undefined],
    ['wait=" 5"', 60_000, undefined],
    ['wait=soon', 60_000, undefined],
    ['respond-async', 60_000, undefined]
  ]
  for (const [header, maxWaitMs, seconds] of waits) {
    it(`${header.slice(0, 20)}, of ${maxWaitMs} ms at most: ${seconds}`, () => assert.equal(waitSeconds(parsePrefer(header), maxWaitMs), seconds))
  }
})
