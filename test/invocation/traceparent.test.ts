import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { parseTraceparent } from '../../src/invocation/traceparent.ts'

const trace = '4bf92f3577b34da6a3ce929d0e0e4736'
const span = '00f067aa0ba902b7'
const ids = { traceId: trace, parentSpanId: span }

const cases: [what: string, header: string | undefined, expected: object | undefined][] = [
  ['no header', undefined, undefined],
  ['an empty header', '', undefined],
  ['version 00', `00-${trace}-${span}-01`, ids],
  ['version 00, not sampled', `00-${trace}-${span}-00`, ids],
  ['spaces around it', `  00-${trace}-${span}-01\t`, ids],
  ['a later version', `01-${trace}-${span}-01`, ids],
  ['a later version with more fields', `cc-${trace}-${span}-01-what-comes-later`, ids],
  ['a later version with more text and no dash', `cc-${trace}-${span}-01.later`, undefined],
  ['version 00 with more fields', `00-${trace}-${span}-01-more`, undefined],
  ['version 00 with a dash at its end', `00-${trace}-${span}-01-`, undefined],
  ['version ff', `ff-${trace}-${span}-01`, undefined],
  ['an upper-case trace id', `00-${trace.toUpperCase()}-${span}-01`, undefined],
  ['an all-zero trace id', `00-${'0'.repeat(32)}-${span}-01`, undefined],
  ['an all-zero span id', `00-${trace}-${'0'.repeat(16)}-01`, undefined],
  ['a trace id too short', `00-${trace.slice(1)}-${span}-01`, undefined],
  ['a trace id too long', `00-${trace}0-${span}-01`, undefined],
  ['a span id too short', `00-${trace}-${span.slice(1)}-01`, undefined],
  ['no flags', `00-${trace}-${span}`, undefined],
  ['flags too long', `00-${trace}-${span}-011`, undefined],
  ['flags that are no hex', `00-${trace}-${span}-0g`, undefined],
  ['a letter that is no hex', `00-${trace.replace('4', 'g')}-${span}-01`, undefined],
  ['two headers in one', `00-${trace}-${span}-01, 00-${trace}-${span}-01`, undefined],
  ['a line end in it', `00-${trace}-${span}-01\n00`, undefined],
  ['a quote in it', `00-${trace}-${span}-01"`, undefined]
]

describe('traceparent', () => {
  for (const [what, header, expected] of cases) {
    it(`${what}: ${expected === undefined ? 'as good as none' : 'read'}`, () => assert.deepEqual(parseTraceparent(header), expected))
  }
})
