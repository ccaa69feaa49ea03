import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { ToolExecutionEvent } from '../../src/client.ts'
import { duration } from '../../src/cli/duration.ts'
import { eventLine } from '../../src/cli/event-line.ts'

const at = new Date(2026, 2, 1, 9, 5, 7)
const common = { toolCallId: 'c', toolName: 'profile_csv', toolId: 'profile_csv', invocationId: '01a22bf156aae48a5f2ac95394452a40', kind: 'read', startedAtMs: at.getTime(), spanId: '5f2ac95394452a40' }
const result = { content: [{ type: 'text', text: 'two\nlines' }], details: null, isError: false } as const
const head = '09:05:07  profile_csv           94452a40  '
const line = (event: object, columns = 200, now = at) => eventLine({ ...common, ...event } as ToolExecutionEvent, columns, now)

describe('the line of an event', () => {
  for (const [what, event, shown] of [
    ['start', { type: 'tool_execution_start', args: { csv: 'a\nb' } }, 'start   {"csv":"a\\nb"}'],
    ['start without its input', { type: 'tool_execution_start', omitted: ['args'] }, 'start'],
    ['update', { type: 'tool_execution_update', partialResult: { ...result, content: [{ type: 'text', text: '4,000 rows\nread' }] } }, 'update  4,000 rows read'],
    ['update for people alone', { type: 'tool_execution_update', partialResult: { ...result, content: [], details: { rows: 1 } } }, 'update  { "rows": 1 }'],
    ['update of a sensitive tool', { type: 'tool_execution_update', partialResult: { ...result, content: [], redacted: true } }, 'update  (withheld)'],
    ['success', { type: 'tool_execution_end', status: 'succeeded', durationMs: 12.3, isError: false, result }, 'end     succeeded after 12 ms: two lines'],
    ['success without its result', { type: 'tool_execution_end', status: 'succeeded', durationMs: 0.1, isError: false, omitted: ['result'] }, 'end     succeeded after less than 1 ms'],
    ['failure', { type: 'tool_execution_end', status: 'failed', errorCode: 'timeout', durationMs: 60_000, isError: true, result }, 'end     failed (timeout) after 60.0 s: two lines'],
    ['cancel', { type: 'tool_execution_end', status: 'cancelled', errorCode: 'cancelled', durationMs: 5, isError: true, result: { ...result, content: [], redacted: true } }, 'end     cancelled after 5 ms'],
    ['success with a masked value', { type: 'tool_execution_end', status: 'succeeded', durationMs: 12.3, isError: false, result: { ...result, content: [{ type: 'text', text: 'for [masked]' }], redacted: true } }, 'end     succeeded after 12 ms: for [masked]'],
    ['update with a masked value', { type: 'tool_execution_update', partialResult: { ...result, content: [], details: { card: '[masked]' }, redacted: true } }, 'update  { "card": "[masked]" }']
  ] as const) it(`of ${what}`, () => assert.equal(line(event), head + shown))

  it('has the date where that is not today', () => {
    assert.match(line({ type: 'tool_execution_start' }, 200, new Date(2026, 2, 2, 0, 0, 1)), /^2026-03-01 09:05:07 {2}profile_csv/)
  })

  it('is cut to the width', () => {
    assert.equal(line({ type: 'tool_execution_start', args: '漢字漢字' }, head.length + 14), `${head}start   "漢字…`)
  })

  it('tells of events that are gone', () => {
    assert.equal(eventLine({ type: 'events_lost', requestedId: 'a-1\u0007', earliestId: 'b-2' }, 80, at), '-- events after a-1\uFFFD are gone; those from b-2 on follow')
  })
})

describe('a duration', () => {
  it('is in milliseconds below a second', () => {
    assert.deepEqual([0, 1, 999.4, 1000, 61_250].map(duration), ['less than 1 ms', '1 ms', '999 ms', '1.0 s', '61.3 s'])
  })
})
