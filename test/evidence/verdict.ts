import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { describe, it } from 'node:test'
import { folder, places, secrets, type Place, type Report, type Secret } from './witness.ts'

/** Runs after the suite (`npm test`), on the reports of all its processes: see gather.ts. */
const reports = readdirSync(folder).map((name) => JSON.parse(readFileSync(`${folder}/${name}`, 'utf8')) as Report)
  .filter(({ file }) => !file.startsWith(import.meta.dirname)) // the tests of the witness try out secrets that nobody uses

/** What the suite brings at least. Where it does not, something was not looked at, and finding nothing would mean nothing. */
const expected: { looked: Record<Place, number>, inUse: Record<Secret, number> } = {
  looked: { 'log line': 5000, 'error output': 100, event: 10_000, record: 5000, 'audit entry': 3000, problem: 500 },
  inUse: { 'static key': 3, key: 1, ticket: 1, token: 1, 'masked field': 1 }
}

describe('what the gateways of all tests wrote', () => {
  it('holds no key, ticket, token or masked field', () => {
    const findings = reports.flatMap(({ file, findings }) => findings.map(({ secret, place, text }) => `${file}: a ${secret} in ${place}: ${text}`))
    assert.equal(findings.length, 0, findings.join('\n'))
  })

  for (const place of places) {
    it(`is there to look at: ${place}`, () => {
      const looked = reports.reduce((sum, report) => sum + (report.looked[place] ?? 0), 0)
      assert.ok(looked >= expected.looked[place], `${looked}, of at least ${expected.looked[place]}`)
    })
  }

  for (const secret of secrets) {
    it(`could have held a ${secret}`, () => {
      const inUse = reports.reduce((sum, report) => sum + (report.inUse[secret] ?? 0), 0)
      assert.ok(inUse >= expected.inUse[secret], `${inUse}, of at least ${expected.inUse[secret]}`)
    })
  }
})
