import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { pino } from 'pino'
import { scrubbed } from '../../src/invocation/scrubbed.ts'
import { Secrets } from '../../src/invocation/secrets.ts'
import { MASKED } from '../../src/json/mask.ts'

const secrets = new Secrets()
for (const value of ['opensesame', 4815]) secrets.add(JSON.stringify(value))
const clean = (value: unknown): any => scrubbed(value, secrets)

class DoorError extends Error {
  readonly door: string
  readonly #inner = 'opensesame'
  constructor (message: string, door: string, options?: ErrorOptions) {
    super(message, options)
    this.door = door
  }

  get inner (): string { return this.#inner }
}

describe('what is logged of a masked call', () => {
  it('is a copy without the values, as deep as it goes; the original stays as it is', () => {
    const fields = Object.freeze({ a: ['opensesame!', 4815, 4815n, 48_150, null, undefined, true], opensesame: { b: { c: 'x opensesame' } }, when: new Date(0) })
    assert.deepEqual(clean(fields), {
      a: [`${MASKED}!`, MASKED, MASKED, 48_150, null, undefined, true], [MASKED]: { b: { c: `x ${MASKED}` } }, when: '1970-01-01T00:00:00.000Z'
    })
    assert.equal(fields.a[0], 'opensesame!')
  })

  it('keeps keys of any name', () => {
    const fields = JSON.parse('{"__proto__":{"a":"opensesame"},"constructor":1}')
    assert.equal(JSON.stringify(clean(fields)), `{"__proto__":{"a":"${MASKED}"},"constructor":1}`)
  })

  it('keeps errors what they are, with their causes, and their messages and stacks without the values', () => {
    const cause = new AggregateError([new Error('of opensesame')], 'all opensesame')
    const error = new DoorError('no opensesame here', 'door 4815', { cause })
    const copy = clean({ err: error }).err
    assert.ok(copy instanceof DoorError && copy !== error)
    assert.deepEqual([copy.name, copy.message, copy.door, (copy.cause as Error).message], ['Error', `no ${MASKED} here`, `door ${MASKED}`, `all ${MASKED}`])
    assert.equal((copy.cause as AggregateError).errors[0].message, `of ${MASKED}`)
    assert.match(copy.stack!, /^Error: no \[masked\] here\n +at /)
    assert.deepEqual([error.message, error.door], ['no opensesame here', 'door 4815'])
  })

  it('reads in a line of pino as it would without a mask', () => {
    let lines = ''
    const log = pino({ base: null }, { write: (line) => { lines += line } })
    const error = new DoorError('no opensesame', 'd')
    log.error(clean({ err: error }), 'x')
    log.error(clean(error), 'x')
    for (const line of lines.trim().split('\n')) {
      const { err } = JSON.parse(line)
      assert.deepEqual([err.type, err.message, err.door, err.stack], ['DoorError', `no ${MASKED}`, 'd', error.stack!.replace('opensesame', MASKED)])
    }
  })

  it('may hold cycles, depths, bytes and what cannot be read', () => {
    const circle: any = { text: 'opensesame' }
    circle.self = circle
    const copy = clean(circle)
    assert.ok(copy.self === copy && copy.text === MASKED)
    let deep: unknown = 'opensesame'
    for (let depth = 0; depth < 10_000; depth++) deep = [deep]
    assert.ok(!JSON.stringify(clean(deep)).includes('opensesame'))
    const { proxy, revoke } = Proxy.revocable({}, {})
    revoke()
    const unreadable = { get a () { throw new Error('opensesame') } }
    assert.deepEqual(clean([new TextEncoder().encode('opensesame'), unreadable, proxy]), [MASKED, MASKED, MASKED])
  })

  it('is asked for its JSON once, as JSON is', () => {
    const self = { a: 'opensesame', toJSON () { return this } }
    assert.equal(clean(self).a, MASKED)
    assert.equal(clean({ toJSON: () => 'opensesame' }), MASKED)
  })
})
