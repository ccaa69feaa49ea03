import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { createParser, type EventSourceMessage } from 'eventsource-parser'
import { Burst } from '../../src/events/burst.ts'
import * as sse from '../../src/events/sse.ts'

/** What a standard parser makes of a stream. */
function parse (text: string) {
  const messages: EventSourceMessage[] = []
  const other: unknown[] = []
  const parser = createParser({ onEvent: (message) => messages.push(message), onRetry: (ms) => other.push(ms), onComment: (comment) => other.push(comment), onError: (error) => { throw error } })
  parser.feed(text)
  return { messages, other }
}

describe('server-sent events', () => {
  it('open with a comment and the time to come back in, and no message', () => {
    const { messages, other } = parse(sse.opening)
    assert.deepEqual([messages, other], [[], ['connected', 2000]])
  })

  it('a message has id, event and data', () => {
    assert.equal(sse.message('e-1', 'tool_execution_end', '{"a":1}'), 'id: e-1\nevent: tool_execution_end\ndata: {"a":1}\n\n')
    assert.deepEqual(parse(sse.message('e-1', 'x', '{"a":1}')).messages, [{ id: 'e-1', event: 'x', data: '{"a":1}' }])
  })

  it('a notice is no place to resume from', () => {
    assert.deepEqual(parse(sse.notice('events_lost', '{}')).messages.map(({ id, event }) => [id, event]), [[undefined, 'events_lost']])
  })

  it('a place has an id and fires nothing', () => {
    assert.equal(sse.place('e-5'), 'id: e-5\n\n')
    assert.deepEqual(parse(sse.place('e-5')).messages, [])
  })

  it('data that tries to break out stays one message, JSON-equal', () => {
    for (const text of ['\r\ndata: forged\r\n\r\n', '\u2028\u2029', '\u0000', '\ud800', '\n\nevent: forged\n\n', ': comment\n', '😀']) {
      const { messages } = parse(sse.message('e-1', 'x', JSON.stringify({ text })))
      assert.equal(messages.length, 1)
      assert.deepEqual(JSON.parse(messages[0]!.data), { text })
    }
  })

  it('never let a proxy hold them back or change them', () => {
    assert.deepEqual({ ...sse.headers }, { 'content-type': 'text/event-stream', 'cache-control': 'no-store, no-transform', 'x-accel-buffering': 'no' })
  })

  describe('a burst', () => {
    it('is its text, and its text as an HTTP chunk, measured in bytes', () => {
      for (const text of ['data: x\n\n', 'data: é😀\n\n', 'x'.repeat(5000)]) {
        const burst = new Burst(text)
        assert.equal(burst.plain.toString(), text)
        assert.equal(burst.chunked.toString(), `${Buffer.byteLength(text).toString(16)}\r\n${text}\r\n`)
      }
    })

    it('is encoded once, however many take it', () => {
      const burst = new Burst('x')
      assert.equal(burst.plain, burst.plain)
      assert.equal(burst.chunked, burst.chunked)
    })
  })
})
