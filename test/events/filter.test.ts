import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { compileFilter, filterKey, filterNames, filterOf, type EventFilter } from '../../src/events/filter.ts'
import type { StoredEvent } from '../../src/store/store.ts'
import { endEvent, startEvent, updateEvent } from '../conformance/calls.ts'

const fields = { toolId: 'echo', kind: 'read', runId: 'run-1', invocationId: 'inv-1', toolCallId: 'call-1' }
const start = startEvent(fields)
const update = updateEvent('{}', fields)
const end = endEvent({ status: 'failed' }, fields)
const bare = startEvent({ toolId: 'other' })

describe('event filter', () => {
  const cases: [filter: EventFilter, passes: StoredEvent[]][] = [
    [{}, [start, update, end, bare]],
    [{ type: ['tool_execution_end'] }, [end]],
    [{ type: ['tool_execution_start', 'tool_execution_end'] }, [start, end, bare]],
    [{ toolId: ['echo'] }, [start, update, end]],
    [{ toolId: ['echo', 'other'] }, [start, update, end, bare]],
    [{ toolId: ['ECHO'] }, []],
    [{ kind: ['read'] }, [start, update, end, bare]],
    [{ kind: ['write'] }, []],
    [{ status: ['failed'] }, [end]],
    [{ status: ['running'] }, [start, update, bare]],
    [{ status: ['succeeded'] }, []],
    [{ status: ['succeeded', 'failed', 'cancelled'] }, [end]],
    [{ runId: ['run-1'] }, [start, update, end]],
    [{ runId: [''] }, []],
    [{ runId: ['undefined'] }, []],
    [{ invocationId: ['inv-1'] }, [start, update, end]],
    [{ toolCallId: ['call-1'] }, [start, update, end]],
    [{ toolId: ['echo'], type: ['tool_execution_start'] }, [start]],
    [{ toolId: ['other'], runId: ['run-1'] }, []],
    [{ toolId: [] }, []],
    [{ toolId: ['constructor', '__proto__'] }, []]
  ]
  for (const [filter, passes] of cases) {
    it(`${JSON.stringify(filter)} lets ${passes.length} of 4 through`, () => {
      assert.deepEqual([start, update, end, bare].filter(compileFilter(filter)), passes)
    })
  }

  it('has one name for each field of the query but view and place', () => {
    assert.deepEqual([...filterNames].sort(), ['invocationId', 'kind', 'runId', 'status', 'toolCallId', 'toolId', 'type'])
  })

  it('is what the query names, and nothing else of it', () => {
    assert.deepEqual(filterOf({}), {})
    assert.deepEqual(filterOf({ view: 'receipt', lastEventId: 'x', toolId: ['a'], status: ['failed'] }), { toolId: ['a'], status: ['failed'] })
    assert.deepEqual(filterOf({ kind: [] }), { kind: [] })
  })

  describe('key', () => {
    const same: [EventFilter, EventFilter][] = [
      [{ toolId: ['a', 'b'] }, { toolId: ['b', 'a'] }],
      [{ toolId: ['a', 'b'] }, { toolId: ['b', 'a', 'b'] }],
      [{ toolId: ['a'], kind: ['k'] }, { kind: ['k'], toolId: ['a'] }]
    ]
    for (const [one, other] of same) it(`is the same for ${JSON.stringify(one)} and ${JSON.stringify(other)}`, () => assert.equal(filterKey(one, 'full'), filterKey(other, 'full')))

    const different: [EventFilter, EventFilter][] = [
      [{}, { toolId: [] }],
      [{ toolId: ['a'] }, { kind: ['a'] }],
      [{ toolId: ['a,b'] }, { toolId: ['a', 'b'] }],
      [{ toolId: ['a","b'] }, { toolId: ['a', 'b'] }],
      [{ runId: ['a'] }, { toolCallId: ['a'] }],
      [{ toolId: ['a'] }, { toolId: ['A'] }]
    ]
    for (const [one, other] of different) it(`tells ${JSON.stringify(one)} from ${JSON.stringify(other)}`, () => assert.notEqual(filterKey(one, 'full'), filterKey(other, 'full')))

    it('tells views apart', () => assert.notEqual(filterKey({}, 'full'), filterKey({}, 'receipt')))

    it('does not change what it is given', () => {
      const filter = Object.freeze({ toolId: Object.freeze(['b', 'a']) })
      filterKey(filter, 'full')
      assert.deepEqual(filter.toolId, ['b', 'a'])
    })
  })
})
