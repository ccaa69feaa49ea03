import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { reportOf } from './report.ts'
import { runRounds } from './rounds.ts'

const rounds = Number(process.env.CRASH_ROUNDS ?? 5)
const seed = Number(process.env.CRASH_SEED ?? Math.floor(Math.random() * 2 ** 31))

describe('crash', () => {
  it(`killed ${rounds} times under load, it loses nothing, doubles nothing and tells of everything once`, async (t) => {
    t.diagnostic(`CRASH_SEED=${seed}`)
    const outcome = await runRounds(t, { rounds, seed })
    t.diagnostic(JSON.stringify(outcome.summary, undefined, 1))
    assert.ok(outcome.faults.length === 0, reportOf(outcome))
    const { answered, recovered } = outcome.summary
    assert.ok(answered >= 20 * rounds && recovered.run + recovered.settled > 0, `there was next to nothing to lose: ${answered} answers`)
  })
})
