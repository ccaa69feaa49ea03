import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Access } from '../../src/auth/access.ts'
import type { Caller } from '../../src/auth/caller.ts'
import { grantsOf, parseScope } from '../../src/auth/scopes.ts'
import { Tickets } from '../../src/auth/tickets.ts'
import { FakeClock } from '../conformance/fake-clock.ts'

const LIFE_MS = 30_000
const refused = { code: 'unauthorized', refusedFor: 'ticket' }

function callerCalled (id: string, isCurrent = () => true): Caller {
  return { principal: { id }, access: new Access(grantsOf([parseScope('events:read?tool=a_*')], id), id), isCurrent }
}

function begin () {
  const clock = new FakeClock()
  return { clock, tickets: new Tickets(clock, LIFE_MS) }
}

describe('tickets', () => {
  it('one stands for its caller, with the rights of that one, once', () => {
    const { tickets } = begin()
    const ann = callerCalled('ann')
    const bob = callerCalled('bob')
    const [ofAnn, ofBob] = [tickets.issue(ann), tickets.issue(bob)]
    assert.equal(tickets.redeem(ofBob.ticket), bob)
    assert.equal(tickets.redeem(ofAnn.ticket), ann)
    for (const { ticket } of [ofAnn, ofBob]) assert.throws(() => tickets.redeem(ticket), refused)
  })

  it('no two are alike, and none can be guessed', () => {
    const { tickets } = begin()
    const all = Array.from({ length: 100 }, () => tickets.issue(callerCalled('ann')).ticket)
    assert.equal(new Set(all).size, all.length)
    // 256 bits.
    for (const ticket of all) assert.match(ticket, /^tgt_[\w-]{43}$/)
  })

  it('one is good until its time is over, which it is told', () => {
    const { clock, tickets } = begin()
    const [one, other] = [tickets.issue(callerCalled('ann')), tickets.issue(callerCalled('ann'))]
    assert.equal(one.expiresAtMs, clock.now() + LIFE_MS)
    clock.advance(LIFE_MS - 1)
    assert.equal(tickets.redeem(one.ticket).principal.id, 'ann')
    clock.advance(1)
    assert.throws(() => tickets.redeem(other.ticket), refused)
  })

  it('one is good no longer than the credentials that it was given for', () => {
    const { tickets } = begin()
    let stands = true
    const { ticket } = tickets.issue(callerCalled('ann', () => stands))
    stands = false
    assert.throws(() => tickets.redeem(ticket), refused)
    stands = true
    assert.throws(() => tickets.redeem(ticket), refused, 'and is used by then')
  })

  for (const text of ['', 'tgt_', 'constructor', '__proto__', `tgt_${'A'.repeat(43)}`, 'x'.repeat(10_000)]) {
    it(`${JSON.stringify(text.slice(0, 20))} is none`, () => {
      const { tickets } = begin()
      tickets.issue(callerCalled('ann'))
      assert.throws(() => tickets.redeem(text), refused)
    })
  }

  it('a refusal does not say why, nor which', () => {
    const { clock, tickets } = begin()
    const messages = ['used', 'late', 'gone', 'none'].map((what) => {
      const { ticket } = tickets.issue(callerCalled(what, () => what !== 'gone'))
      if (what === 'used') tickets.redeem(ticket)
      if (what === 'late') clock.advance(LIFE_MS)
      try {
        tickets.redeem(what === 'none' ? 'tgt_none' : ticket)
      } catch (error) {
        assert.ok(!String(error).includes(ticket))
        return (error as Error).message
      }
      return assert.fail(`${what} was taken`)
    })
    assert.equal(new Set(messages).size, 1, messages.join())
  })

  it('one caller has so many at a time, and keeps nobody else out', () => {
    const { clock, tickets } = begin()
    const held = Array.from({ length: 100 }, () => tickets.issue(callerCalled('ann')).ticket)
    assert.throws(() => tickets.issue(callerCalled('ann')), { code: 'rate_limited' })
    assert.ok(tickets.issue(callerCalled('bob')))
    // Used ones count no more, and neither do those that are too old.
    tickets.redeem(held[0]!)
    assert.ok(tickets.issue(callerCalled('ann')))
    assert.throws(() => tickets.issue(callerCalled('ann')), { code: 'rate_limited' })
    clock.advance(LIFE_MS)
    for (let n = 0; n < 100; n++) tickets.issue(callerCalled('ann'))
  })

  it('all callers together have so many, for no longer than these live', () => {
    const { clock, tickets } = begin()
    for (let n = 0; n < 10_000; n++) tickets.issue(callerCalled(`caller-${n % 200}`))
    assert.throws(() => tickets.issue(callerCalled('bob')), { code: 'rate_limited' })
    clock.advance(LIFE_MS)
    assert.ok(tickets.issue(callerCalled('bob')))
  })
})
