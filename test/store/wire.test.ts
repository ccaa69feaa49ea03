import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Value } from '@sinclair/typebox/value'
import fc from 'fast-check'
import { ToolExecutionEvent } from '../../src/contract/event.ts'
import { InvocationReceipt, InvokeResponse } from '../../src/contract/invocation.ts'
import type { StoredEvent } from '../../src/store/store.ts'
import { eventText, receiptText, responseText } from '../../src/store/wire.ts'
import { emptyResult, endEvent, endOf, invocationIdOf, startEvent, startOf, updateEvent } from '../conformance/calls.ts'

const MAX = 1000

function parsed (event: StoredEvent, maxPartBytes = MAX, receiptOnly = false): any {
  const value: unknown = JSON.parse(eventText(event, maxPartBytes, receiptOnly))
  assert.deepEqual([...Value.Errors(ToolExecutionEvent, value)].map(({ path, message }) => `${path} ${message}`), [])
  return value
}

const lineage = { runId: 'run-1', traceId: 'a'.repeat(32), parentSpanId: 'b'.repeat(16), parentInvocationId: 'parent-1' }
const ordinary = { toolCallId: 'mine', toolName: 'echo', toolId: 'echo', kind: 'read', startedAtMs: 1_700_000_000_000 }
const nasty = '"\\\n\r\u2028\u2029\u0000\ud800 </script>\r\n\r\ndata: forged\ud83d\ude00'

describe('wire texts', () => {
  describe('an event', () => {
    it('start carries the input as args', () => {
      const event = startEvent({ invocationId: invocationIdOf(255), toolCallId: 'mine', input: '{"a":[1,null]}', ...lineage })
      assert.deepEqual(parsed(event), {
        type: 'tool_execution_start', ...ordinary, invocationId: invocationIdOf(255), ...lineage, spanId: '00000000000000ff', args: { a: [1, null] }
      })
    })

    it('update carries the partial result, and not the input again', () => {
      const event = updateEvent('{"content":[],"details":{"n":1},"isError":false}', { invocationId: invocationIdOf(1), toolCallId: 'mine' })
      assert.deepEqual(parsed(event), {
        type: 'tool_execution_update', ...ordinary, invocationId: invocationIdOf(1), spanId: '0000000000000001', partialResult: { content: [], details: { n: 1 }, isError: false }
      })
    })

    it('end carries result, verdict and durations', () => {
      const event = endEvent(
        { status: 'failed', errorCode: 'tool_error', isError: true, durationMs: 12.345, queuedMs: 0.5, result: '{"content":[],"details":null,"isError":true}' },
        { invocationId: invocationIdOf(1), toolCallId: 'mine' }
      )
      assert.deepEqual(parsed(event), {
        type: 'tool_execution_end',
        ...ordinary,
        invocationId: invocationIdOf(1),
        spanId: '0000000000000001',
        result: { content: [], details: null, isError: true },
        isError: true,
        status: 'failed',
        errorCode: 'tool_error',
        durationMs: 12.345,
        queuedMs: 0.5
      })
    })

    it('leaves absent fields out, rather than null', () => {
      for (const event of [startEvent(), updateEvent(), endEvent()]) {
        const text = eventText(event, MAX, false)
        for (const name of ['runId', 'traceId', 'parentSpanId', 'parentInvocationId', 'errorCode', 'queuedMs', 'omitted', 'redacted']) assert.ok(!text.includes(`"${name}"`), name)
      }
    })

    it('for a caller without an id of its own, the invocation lends one', () => {
      const event = parsed(startEvent())
      assert.equal(event.toolCallId, event.invocationId)
    })
  })

  describe('what a caller chose', () => {
    it('cannot break out of its place', () => {
      const fields = { toolCallId: nasty, runId: nasty, parentInvocationId: nasty, kind: nasty }
      for (const event of [startEvent(fields), updateEvent(emptyResult, fields), endEvent({}, fields)]) {
        const text = eventText(event, MAX, false)
        assert.ok(!/[\r\n]/.test(text), 'a line end would end the message')
        assert.equal(Buffer.from(text).toString(), text, 'valid UTF-8')
        const value = parsed(event)
        for (const name of Object.keys(fields)) assert.equal(value[name], nasty, name)
      }
      const receipt = JSON.parse(receiptText(startOf(fields), undefined))
      for (const name of Object.keys(fields)) assert.equal(receipt[name], nasty, name)
    })

    it('comes back as it was, whatever it was', () => {
      const text = fc.string({ unit: 'binary', minLength: 1, maxLength: 20 })
      fc.assert(fc.property(text, text, text, text, fc.jsonValue(), (toolCallId, runId, parentInvocationId, kind, input) => {
        const start = startOf({ toolCallId, runId, parentInvocationId, kind, input: JSON.stringify(input) })
        const event = parsed({ sequence: 1, type: 'tool_execution_start', start, partialResult: undefined, end: undefined }, 1e6)
        const { args, ...fields } = event
        assert.equal(JSON.stringify(args), JSON.stringify(input))
        assert.deepEqual([fields.toolCallId, fields.runId, fields.parentInvocationId, fields.kind], [toolCallId, runId, parentInvocationId, kind])
      }))
    })
  })

  describe('a part over the limit', () => {
    const at = JSON.stringify('x'.repeat(MAX - 2))
    const over = JSON.stringify('x'.repeat(MAX - 1))

    it('is named in omitted, and the rest of the event is there', () => {
      const start = parsed(startEvent({ input: over }))
      assert.deepEqual([start.omitted, 'args' in start], [['args'], false])
      const update = parsed(updateEvent(over))
      assert.deepEqual([update.omitted, 'partialResult' in update], [['partialResult'], false])
      const end = parsed(endEvent({ result: over }))
      assert.deepEqual([end.omitted, 'result' in end, end.status, end.isError], [['result'], false, 'succeeded', false])
    })

    it('at the limit is not over it', () => {
      assert.equal(parsed(startEvent({ input: at })).args.length, MAX - 2)
    })

    it('is measured in bytes, not in characters', () => {
      const bytes = (count: number) => JSON.stringify('é'.repeat(count)) // two bytes each, and two quotes
      assert.equal('args' in parsed(startEvent({ input: bytes((MAX - 2) / 2) })), true)
      assert.equal('args' in parsed(startEvent({ input: bytes((MAX - 2) / 2 + 1) })), false)
      assert.equal('args' in parsed(startEvent({ input: JSON.stringify('€'.repeat(400)) })), false)
    })
  })

  describe('a sensitive tool', () => {
    const redacted = '{"content":[],"details":null,"isError":false,"redacted":true}'

    it('shows in its start event that the input was withheld', () => {
      const event = parsed(startEvent({ input: undefined }))
      assert.deepEqual([event.redacted, 'args' in event, 'omitted' in event], [true, false, false])
    })

    it('shows in its result that fields were withheld', () => {
      assert.equal(parsed(endEvent({ result: redacted })).result.redacted, true)
      assert.equal(parsed(updateEvent(redacted)).partialResult.redacted, true)
    })
  })

  describe('a masked value', () => {
    it('is told by the start event, beside its args; by other events in what they carry', () => {
      const input = '{"pin":"[masked]"}'
      const event = parsed(startEvent({ input, isMasked: true }))
      assert.deepEqual([event.redacted, event.args], [true, { pin: '[masked]' }])
      assert.deepEqual([parsed(startEvent({ input: JSON.stringify('x'.repeat(MAX)), isMasked: true })).omitted, parsed(startEvent({ input, isMasked: true }), MAX, true).redacted], [['args'], true])
      for (const other of [updateEvent(undefined, { input, isMasked: true }), endEvent({}, { input, isMasked: true })]) assert.equal('redacted' in parsed(other), false)
    })
  })

  describe('the receipt view', () => {
    it('has no part, and says nothing of leaving it out', () => {
      for (const [event, part] of [[startEvent(), 'args'], [updateEvent(), 'partialResult'], [endEvent(), 'result']] as const) {
        const full = parsed(event)
        const receipt = parsed(event, MAX, true)
        assert.ok(part in full)
        assert.ok(!(part in receipt) && !('omitted' in receipt))
        delete full[part]
        assert.deepEqual(receipt, full)
      }
    })

    it('has no part where it would have been over the limit either', () => {
      assert.ok(!('omitted' in parsed(startEvent({ input: JSON.stringify('x'.repeat(5000)) }), MAX, true)))
    })
  })

  describe('a receipt', () => {
    it('of a running call has neither an end nor a duration', () => {
      const receipt = JSON.parse(receiptText(startOf({ invocationId: invocationIdOf(7), ...lineage }), undefined))
      assert.ok(Value.Check(InvocationReceipt, receipt))
      assert.deepEqual(receipt, {
        invocationId: invocationIdOf(7), toolId: 'echo', toolCallId: invocationIdOf(7), kind: 'read', status: 'running', startedAtMs: 1_700_000_000_000, durationMs: 0, spanId: '0000000000000007', ...lineage
      })
    })

    it('of a settled call says how it ended', () => {
      const receipt = JSON.parse(receiptText(startOf(), endOf({ status: 'cancelled', errorCode: 'shutdown', isError: true, durationMs: 3, queuedMs: 4 })))
      assert.ok(Value.Check(InvocationReceipt, receipt))
      assert.deepEqual([receipt.status, receipt.errorCode, receipt.durationMs, receipt.queuedMs], ['cancelled', 'shutdown', 3, 4])
    })
  })

  describe('a response', () => {
    it('is the result and the receipt, flat', () => {
      const end = endOf({ result: '{"content":[{"type":"text","text":"hi"}],"details":{"a":1},"structuredContent":null,"isError":false,"terminate":true}' })
      const start = startOf()
      const response = JSON.parse(responseText(end.result, start, end))
      assert.ok(Value.Check(InvokeResponse, response))
      assert.deepEqual(response, { ...JSON.parse(end.result), invocation: JSON.parse(receiptText(start, end)) })
    })
  })
})
