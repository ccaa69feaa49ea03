import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { ConnectionError, toPiEvents, type InvocationRecord, type PiEventsOptions, type PiToolEvent, type SubscriptionItem } from '../../../src/client.ts'
import { text, usage } from './scenes.ts'

const about = (invocationId = 'i1', toolCallId = 'c1') => ({ toolCallId, toolName: 'tool', toolId: 'tool', invocationId, kind: 'test', startedAtMs: 1, spanId: 's', runId: 'r' })
const started = (more: object = {}, id?: string) => ({ type: 'tool_execution_start', ...about(id), args: { n: 1 }, ...more }) as SubscriptionItem
const updated = (more: object = {}, id?: string) => ({ type: 'tool_execution_update', ...about(id), partialResult: { content: text('half'), details: null, isError: false }, ...more }) as SubscriptionItem
const ended = (more: object = {}, id?: string) => ({
  type: 'tool_execution_end', ...about(id), result: { content: text('whole'), details: null, isError: false }, isError: false, status: 'succeeded', durationMs: 1.5, ...more
}) as SubscriptionItem
const call = { toolCallId: 'c1', toolName: 'tool' }
const without = (name: string) => ({ [name]: undefined, omitted: [name] })
const record = (more: object = {}) => async () => ({ invocation: {}, input: { from: 'record' }, result: { content: text('from the record'), details: 1, isError: false }, ...more }) as unknown as InvocationRecord

async function translate (items: SubscriptionItem[], options?: PiEventsOptions): Promise<PiToolEvent[]> {
  const told: PiToolEvent[] = []
  for await (const event of toPiEvents((async function * () { yield * items })(), options)) told.push(event)
  return told
}

describe("a gateway's events as pi's", () => {
  it('have its fields and no others, with the arguments on updates too', async () => {
    assert.deepEqual(await translate([started(), updated(), updated({ partialResult: { content: [], details: { at: 2 }, structuredContent: null, isError: true, usage, terminate: true } }), ended({ queuedMs: 5 })]), [
      { type: 'tool_execution_start', ...call, args: { n: 1 } },
      { type: 'tool_execution_update', ...call, args: { n: 1 }, partialResult: { content: text('half'), details: undefined } },
      { type: 'tool_execution_update', ...call, args: { n: 1 }, partialResult: { content: [], details: { at: 2 }, structuredContent: null, isError: true, usage, terminate: true } },
      { type: 'tool_execution_end', ...call, result: { content: text('whole'), details: undefined }, isError: false, durationMs: 2 }
    ])
  })

  it('tell a duration where the tool ran, in whole milliseconds', async () => {
    const durations = (await translate([0, 0.2, 0.5, 12.499].map((durationMs) => ended({ durationMs })))).map((event) => 'durationMs' in event ? event.durationMs : 'none')
    assert.deepEqual(durations, ['none', 0, 1, 12])
  })

  it('keep the calls apart, whatever their own ids', async () => {
    const told = await translate([started({ args: 1 }, 'i1'), started({ args: 2 }, 'i2'), updated({}, 'i1'), updated({}, 'i2'), ended({}, 'i1'), updated({}, 'i2')])
    assert.deepEqual(told.map((event) => 'args' in event ? event.args : undefined), [1, 2, 1, 2, undefined, 2])
  })

  it('pass on arguments of any kind', async () => {
    for (const args of [null, false, 0, '', [], { redacted: true, omitted: ['args'] }]) {
      const told = await translate([started({ args }), updated()])
      assert.deepEqual(told.map((event) => [(event as any).args, event.omitted]), [[args, undefined], [args, undefined]])
    }
  })

  const failures: Record<string, [end: object, result: object]> = {
    'that was thrown': [{ errorCode: 'tool_error', result: { content: text('broke'), details: null, isError: true } }, { content: text('broke'), details: {} }],
    'of the gateway': [{ errorCode: 'invalid_input', result: { content: text('bad'), details: { errors: [] }, isError: true } }, { content: text('bad'), details: {} }],
    'of the gateway, for good': [{ errorCode: 'blocked', result: { content: text('no'), details: null, isError: true, terminate: true } }, { content: text('no'), details: {}, isError: true, terminate: true }],
    'without words': [{ errorCode: 'tool_error', result: { content: [], details: null, isError: true } }, { content: [], details: undefined, isError: true }],
    'that was returned with data': [
      { errorCode: 'tool_error', result: { content: text('half'), details: null, structuredContent: { rows: 2 }, isError: true } }, { content: text('half'), details: undefined, structuredContent: { rows: 2 }, isError: true }
    ],
    'that was returned with details': [{ errorCode: 'tool_error', result: { content: text('half'), details: { at: 1 }, isError: true } }, { content: text('half'), details: { at: 1 }, isError: true }]
  }
  for (const [what, [end, result]] of Object.entries(failures)) {
    it(`tell a failure ${what} as pi does`, async () => {
      assert.deepEqual(await translate([ended({ isError: true, status: 'failed', ...end })]), [{ type: 'tool_execution_end', ...call, result, isError: true, durationMs: 2 }])
    })
  }

  describe('of which a part is missing', () => {
    const nothing = { content: [], details: undefined }

    it('name it, and stand empty', async () => {
      assert.deepEqual(await translate([started(without('args')), updated(without('partialResult')), ended(without('result'))]), [
        { type: 'tool_execution_start', ...call, args: {}, omitted: ['args'] },
        { type: 'tool_execution_update', ...call, args: {}, partialResult: nothing, omitted: ['args', 'partialResult'] },
        { type: 'tool_execution_end', ...call, result: nothing, isError: false, durationMs: 2, omitted: ['result'] }
      ])
    })

    it('are made whole by the record, which is asked once for the arguments', async () => {
      const asked: string[] = []
      const told = await translate([started(without('args')), updated(), updated(), ended(without('result'))], { record: async (id) => { asked.push(id); return await record()() } })
      assert.deepEqual(told.map((event) => 'args' in event ? event.args : event.result), [
        { from: 'record' }, { from: 'record' }, { from: 'record' }, { content: text('from the record'), details: 1 }
      ])
      assert.deepEqual(told.map(({ omitted }) => omitted), [undefined, undefined, undefined, undefined])
      assert.deepEqual(asked, ['i1', 'i1'])
    })

    it('are made whole where the start was not seen, and after a view of receipts', async () => {
      assert.deepEqual((await translate([updated(), updated(without('partialResult'))], { record: record() })).map((event) => [(event as any).args, event.omitted]), [
        [{ from: 'record' }, undefined], [{ from: 'record' }, ['partialResult']]
      ])
      assert.deepEqual((await translate([ended({ result: undefined })], { record: record() })).map((event) => event.type === 'tool_execution_end' && event.result.details), [1])
    })

    it('are asked for only where something is missing', async () => {
      await translate([started(), updated(), ended()], { record: () => assert.fail('asked') })
    })

    it('of a sensitive tool stay so: there is no record of it', async () => {
      const withheld = { content: [], details: null, isError: false, redacted: true }
      const told = await translate([started({ args: undefined, redacted: true }), updated({ partialResult: withheld }), ended({ result: withheld })], { record: () => assert.fail('asked') })
      assert.deepEqual(told.map(({ omitted }) => omitted), [['args'], ['args', 'partialResult'], ['result']])
    })

    it('of which values are masked are told as they are, and are asked for where they were too large', async () => {
      const masked = { content: text('[masked]'), details: null, isError: false, redacted: true }
      const told = await translate([started({ args: { pin: '[masked]' }, redacted: true }), updated({ partialResult: masked }), ended({ result: masked })], { record: () => assert.fail('asked') })
      assert.deepEqual(told.map(({ omitted }) => omitted), [undefined, undefined, undefined])
      assert.deepEqual(told.map((event) => [(event as any).args, (event as any).result?.content]), [[{ pin: '[masked]' }, undefined], [{ pin: '[masked]' }, undefined], [undefined, text('[masked]')]])
      const [start] = await translate([started({ ...without('args'), redacted: true })], { record: record() })
      assert.deepEqual([(start as any).args !== undefined, start!.omitted], [true, undefined])
    })

    it('stay so where the record cannot be had, and events go on', async () => {
      const asked: string[] = []
      const told = await translate([started(without('args')), updated(), ended(without('result')), started({}, 'i2')], {
        async record (id) { asked.push(id); throw new ConnectionError('unreachable', 'gone') }
      })
      assert.deepEqual(told.map(({ omitted }) => omitted), [['args'], ['args'], ['result'], undefined])
      assert.deepEqual(asked, ['i1', 'i1'])
    })

    it('stay so where the record has neither', async () => {
      const told = await translate([started(without('args')), ended(without('result'))], { record: record({ input: undefined, result: undefined }) })
      assert.deepEqual(told.map(({ omitted }) => omitted), [['args'], ['result']])
    })

    it('leave the loop where `record` is at fault', async () => {
      await assert.rejects(translate([ended(without('result'))], { record: () => { throw new TypeError('a fault') } }), /a fault/)
    })
  })

  it('take the arguments from a start that is told after updates, as a replay does', async () => {
    const told = await translate([updated(), { type: 'events_lost', requestedId: 'a-9', earliestId: 'a-1' }, started(), updated()])
    assert.deepEqual(told.map((event) => [(event as any).args, event.omitted]), [[{}, ['args']], [{ n: 1 }, undefined], [{ n: 1 }, undefined]])
  })

  it('forget the arguments of a call that is over', async () => {
    const [, , late] = await translate([started(), ended(), updated()])
    assert.deepEqual([(late as any).args, late!.omitted], [{}, ['args']])
  })

  it('remember 10,000 calls, and forget the oldest first', async () => {
    const many = Array.from({ length: 10_001 }, (_, n) => started({ args: n }, `i${n}`))
    const told = (await translate([...many, updated({}, 'i1'), updated({}, 'i0')])).slice(-2)
    assert.deepEqual(told.map((event) => [(event as any).args, event.omitted]), [[1, undefined], [{}, ['args']]])
  })

  it('tell of lost ones aside, in their place', async () => {
    const seen: unknown[] = []
    const lost = { type: 'events_lost' as const, requestedId: 'a-1', earliestId: 'a-5' }
    const source = (async function * () { yield started(); yield lost; yield ended() })()
    for await (const { type } of toPiEvents(source, { onEventsLost: (notice) => seen.push(notice) })) seen.push(type)
    assert.deepEqual(seen, ['tool_execution_start', lost, 'tool_execution_end'])
    assert.deepEqual((await translate([lost, ended()])).map(({ type }) => type), ['tool_execution_end'])
  })

  it('pass over what later versions may tell', async () => {
    assert.deepEqual((await translate([{ type: 'tool_execution_paused' } as unknown as SubscriptionItem, ended()])).map(({ type }) => type), ['tool_execution_end'])
  })

  it('leave the loop over their source when their own is left, and read nothing ahead', async () => {
    let given = 0
    let isLeft = false
    const source = (async function * () {
      try {
        for (;;) { given++; yield started() }
      } finally {
        isLeft = true
      }
    })()
    const seen: string[] = []
    for await (const { type } of toPiEvents(source)) {
      seen.push(type)
      if (seen.length === 2) break
    }
    assert.deepEqual([given, isLeft], [2, true])
  })

  it('throw what their source throws', async () => {
    const source = (async function * () { yield started(); throw new ConnectionError('interrupted', 'cut') })()
    const seen: string[] = []
    await assert.rejects(async () => { for await (const { type } of toPiEvents(source)) seen.push(type) }, /cut/)
    assert.deepEqual(seen, ['tool_execution_start'])
  })
})
