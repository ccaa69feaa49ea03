import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { PlaceMarker } from '../../../src/client/place-marker.ts'
import { readMessages, type StreamMessage } from '../../../src/client/stream-messages.ts'
import { frames, idOf, opening, place } from './samples.ts'

const mark = (...pieces: string[]) => {
  const marker = new PlaceMarker()
  return pieces.map((piece) => marker.mark(piece))
}

/** All messages of a body that comes in these pieces. */
async function messagesOf (pieces: readonly Uint8Array[]): Promise<StreamMessage[]> {
  const body = new ReadableStream({
    start (controller) {
      for (const piece of pieces) controller.enqueue(piece)
      controller.close()
    }
  })
  const messages: StreamMessage[] = []
  for await (const message of readMessages(new Response(body), { silenceMs: 10_000 })) messages.push(message)
  return messages
}

/** What a stream says, read whole and plainly: the rules of server-sent events, and places. */
function plainly (text: string): StreamMessage[] {
  const messages: StreamMessage[] = []
  const lines = text.replace(/^\uFEFF/, '').replace(/\r\n?/g, '\n').split('\n')
  lines.pop() // without an end, it says nothing
  let id: string | undefined
  let event: string | undefined
  let data: string[] = []
  for (const line of lines) {
    if (line === '') {
      if (data.length > 0) messages.push({ id, event: event ?? 'message', data: data.join('\n') })
      else if (id !== undefined) messages.push({ id, event: 'place', data: '' })
      id = event = undefined
      data = []
      continue
    }
    const [, field, value = ''] = /^([^:]*)(?:: ?(.*))?$/s.exec(line)!
    if (field === 'id' && line.startsWith('id:')) id = value
    else if (field === 'event') event = value || undefined
    else if (field === 'data') data.push(value)
  }
  return messages
}

function cutAt (bytes: Uint8Array, places: readonly number[]): Uint8Array[] {
  const edges = [0, ...[...new Set(places.map((at) => at % (bytes.length + 1)))].sort((a, b) => a - b), bytes.length]
  return edges.slice(1).map((edge, index) => bytes.slice(edges[index], edge))
}

describe('place marker', () => {
  it('names messages that hold an id alone', () => {
    assert.deepEqual(mark('id: a-1\n\n'), ['id: a-1\nevent: place\ndata:\n\n'])
    assert.deepEqual(mark(': connected\nretry: 2000\n\nid:a-1\n\n'), [': connected\nretry: 2000\n\nid:a-1\nevent: place\ndata:\n\n'])
  })

  it('leaves every other message as it is', () => {
    for (const text of ['\n\n', ': hello\n\n', 'retry: 5\n\n', 'event: x\n\n', 'data: x\n\n', 'id: a-1\ndata: x\n\n', 'data\nid: a-1\n\n', 'data:\nid: a-1\n\n', 'idle: x\n\n', 'id: a-1\n', 'id\n\n']) {
      assert.deepEqual(mark(text), [text])
    }
  })

  it('takes a field whose name only begins like data for another', () => {
    assert.deepEqual(mark('id: a-1\ndatabase: x\n\n'), ['id: a-1\ndatabase: x\nevent: place\ndata:\n\n'])
  })

  it('knows each message by itself', () => {
    assert.deepEqual(mark('id: a-1\ndata: x\n\nid: a-2\n\ndata: y\n\n'), ['id: a-1\ndata: x\n\nid: a-2\nevent: place\ndata:\n\ndata: y\n\n'])
  })

  it('knows a message in any pieces', () => {
    assert.deepEqual(mark('i', 'd', ': a-', '1\n', '', '\n'), ['i', 'd', ': a-', '1\n', '', 'event: place\ndata:\n\n'])
    assert.deepEqual(mark('id: a-1\nda', 'ta: x\n\n'), ['id: a-1\nda', 'ta: x\n\n'])
    assert.deepEqual(mark('id: a-1\ndat', 'abase: x\n\n'), ['id: a-1\ndat', 'abase: x\nevent: place\ndata:\n\n'])
  })

  it('takes lines that end in \\r\\n or \\r', () => {
    assert.deepEqual(mark('id: a-1\r\n\r\n'), ['id: a-1\nevent: place\ndata:\n\n'])
    assert.deepEqual(mark('id: a-1\r\r'), ['id: a-1\nevent: place\ndata:\n\n'])
    assert.deepEqual(mark('id: a-1\r', '\n\r', '\n', '\n'), ['id: a-1\n', 'event: place\ndata:\n\n', '', '\n'])
    assert.deepEqual(mark('id: a-1\r\ndata: x\r\n\r\n'), ['id: a-1\ndata: x\n\n'])
  })

  it('with the parser, reads what there is to read, in whatever pieces it comes', async () => {
    const line = fc.oneof(
      fc.constantFrom('', '', '', 'id: a-1', 'id:b', 'data: {"x":"é😀"}', 'data', 'data:', 'event: tool_execution_end', 'event: tool_execution_end', ': note', 'retry: 5', 'retry: soon'),
      fc.string({ unit: 'grapheme', maxLength: 20 }).filter((text) => !/[\r\n\0\uFEFF]/.test(text)).map((text) => `data: ${text}`)
    )
    const stream = fc.array(fc.tuple(line, fc.constantFrom('\n', '\n', '\r\n', '\r')), { maxLength: 40 })
      .map((lines) => lines.map(([text, end]) => text + end).join(''))
    await fc.assert(fc.asyncProperty(stream, fc.array(fc.nat(), { maxLength: 30 }), async (text, places) => {
      const messages = await messagesOf(cutAt(new TextEncoder().encode(text), places))
      assert.deepEqual(messages, plainly(text))
    }), { numRuns: 500 })
  })

  it('reads a gateway\'s stream a byte at a time', async () => {
    const text = opening + place(0) + frames(1, 5) + place(5)
    const messages = await messagesOf([...new TextEncoder().encode(text)].map((byte) => Uint8Array.of(byte)))
    assert.deepEqual(messages, plainly(text))
    assert.deepEqual(messages.map(({ id }) => id), [0, 1, 2, 3, 4, 5, 5].map(idOf))
  })
})
