import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { ProtocolError } from '../../../src/client/errors.ts'
import { itemOf } from '../../../src/client/event-subscription.ts'
import { eventOf, idOf } from './samples.ts'

const read = (event: string, value: unknown, id: string | undefined = idOf(1)) =>
  itemOf({ id, event, data: typeof value === 'string' ? value : JSON.stringify(value) }, 200)
const refusal = (message: string) => (error: unknown) => {
  assert.ok(error instanceof ProtocolError)
  assert.deepEqual({ message: error.message, code: error.code, status: error.status }, { message, code: 'not_the_contract', status: 200 })
  return true
}

const result = { content: [{ type: 'text', text: 'hi', more: 1 }], details: { any: [null] }, structuredContent: null, isError: false }
const start = eventOf(1)
const update = eventOf(1, { type: 'tool_execution_update', args: undefined, partialResult: result })
const end = eventOf(1, { type: 'tool_execution_end', args: undefined, result, isError: false, status: 'succeeded', durationMs: 1.5 })

describe('item of a message', () => {
  for (const event of [start, update, end]) {
    it(`an event is given as it came: ${event.type}`, () => {
      assert.deepEqual(read(event.type, event), JSON.parse(JSON.stringify(event)))
      const later = { ...event, madeUpLater: { x: 1 } }
      assert.deepEqual(read(event.type, later), JSON.parse(JSON.stringify(later)))
    })
  }

  it('a loss says which id was asked for, and what is kept', () => {
    const lost = { requestedId: idOf(1), earliestId: idOf(9) }
    assert.deepEqual(read('events_lost', lost, undefined), { type: 'events_lost', ...lost })
  })

  it('places, and events of other names, are nothing to tell', () => {
    for (const name of ['place', 'message', 'constructor', 'tool_execution_paused']) assert.equal(read(name, ''), undefined)
  })

  it('what is no event of the contract is refused, with where it breaks it', () => {
    assert.throws(() => read('tool_execution_end', '{'), refusal('An event is not JSON.'))
    assert.throws(() => read('tool_execution_end', ''), refusal('An event is not JSON.'))
    assert.throws(() => read('events_lost', '{}'), refusal('An event is not what a gateway sends: /requestedId: missing'))
    assert.throws(() => read('tool_execution_start', { ...start, toolId: 5 }), refusal('An event is not what a gateway sends: /toolId: expected string, got integer'))
    assert.throws(() => read('tool_execution_end', { ...end, status: 'running' }), (error: ProtocolError) => {
      assert.match(error.message, /^An event is not what a gateway sends: \/status: /)
      assert.equal(error.faults[0]!.path, '/status')
      return true
    })
    // Its name and its type say the same.
    assert.throws(() => read('tool_execution_start', end), /An event is not what a gateway sends: \/type: /)
  })

  it('an event without an id is refused: nothing could be resumed after it', () => {
    assert.throws(() => itemOf({ id: undefined, event: start.type, data: JSON.stringify(start) }, 200), refusal('An event has no id.'))
    assert.throws(() => itemOf({ id: '', event: start.type, data: JSON.stringify(start) }, 200), refusal('An event has no id.'))
  })
})
