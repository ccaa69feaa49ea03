import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { describe, it } from 'node:test'
import { Value } from '@sinclair/typebox/value'
import { FinalStatus, OutcomeCode } from '../src/contract/invocation.ts'
import { Problem } from '../src/contract/problem.ts'
import { GatewayError, outcomeHttpStatus, outcomes, problems, toProblem, usageErrors, type ProblemCode } from '../src/errors.ts'
import { rowsOf } from './conformance/markdown-table.ts'

interface OutcomeRow { status: string, title: string, executed?: number, notExecuted?: number, retryable: boolean }

const outcomeRows = Object.entries(outcomes) as [OutcomeCode, OutcomeRow][]
const problemRows = Object.entries(problems) as [ProblemCode, { status: number, title: string, retryable: boolean, retryAfter?: number }][]

describe('outcomes', () => {
  it('are those of the contract, in both directions', () => {
    const inContract = OutcomeCode.anyOf.map((literal) => literal.const)
    assert.deepEqual(Object.keys(outcomes).sort(), [...inContract].sort())
  })

  for (const [code, row] of outcomeRows) {
    it(`${code}: 200 where the tool ran, 400 or above where it did not`, () => {
      assert.ok(row.executed !== undefined || row.notExecuted !== undefined, 'it can arise')
      if (row.executed !== undefined) assert.equal(row.executed, 200)
      if (row.notExecuted !== undefined) assert.ok(row.notExecuted >= 400 && row.notExecuted < 600)
      assert.ok(Value.Check(FinalStatus, row.status) && row.status !== ('succeeded' as string))
    })

    it(`${code}: the status on the wire is the table's`, () => {
      if (row.executed !== undefined) assert.equal(outcomeHttpStatus(code, true), 200)
      if (row.notExecuted !== undefined) assert.equal(outcomeHttpStatus(code, false), row.notExecuted)
    })
  }

  it('what the contract says of each', () => {
    const status = (code: OutcomeCode) => [outcomes[code].status, (outcomes[code] as OutcomeRow).executed, (outcomes[code] as OutcomeRow).notExecuted]
    assert.deepEqual(Object.fromEntries(outcomeRows.map(([code]) => [code, status(code)])), {
      tool_error: ['failed', 200, undefined],
      invalid_output: ['failed', 200, undefined],
      result_too_large: ['failed', 200, undefined],
      hook_error: ['failed', 200, 500],
      timeout: ['failed', 200, 504],
      cancelled: ['cancelled', 200, 409],
      shutdown: ['cancelled', 200, 503],
      tool_crashed: ['failed', 200, undefined],
      outcome_unknown: ['failed', 200, undefined],
      invalid_input: ['failed', undefined, 422],
      blocked: ['failed', undefined, 403]
    })
  })
})

describe('problems', () => {
  it('no code stands for two things', () => {
    const codes = [...Object.keys(problems), ...Object.keys(outcomes), ...Object.keys(usageErrors)]
    assert.equal(new Set(codes).size, codes.length)
  })

  for (const [code, row] of problemRows) {
    it(`${code}: a problem of the contract's shape`, () => {
      const { problem, headers } = toProblem(new GatewayError(code, 'what happened'))
      assert.ok(Value.Check(Problem, problem))
      assert.deepEqual(problem, { type: `urn:toolgate:problem:${code}`, title: row.title, status: row.status, detail: 'what happened', code })
      assert.deepEqual(headers, row.retryAfter === undefined ? {} : { 'retry-after': String(row.retryAfter) })
    })

    it(`${code}: 400 or above, and Retry-After only where trying again helps`, () => {
      assert.ok(row.status >= 400 && row.status < 600)
      if (row.retryAfter !== undefined) assert.ok(row.retryable && Number.isInteger(row.retryAfter) && row.retryAfter > 0)
    })
  }

  it('429 and 503 always say when to come back', () => {
    for (const [code, row] of problemRows) if (row.status === 429 || row.status === 503) assert.ok(row.retryAfter !== undefined, code)
  })

  it('what the contract says of each', () => {
    for (const [code, status] of Object.entries({
      malformed_json: 400, number_not_exact: 400, forbidden_key: 400, unauthorized: 401, forbidden: 403, not_found: 404, unknown_tool: 404, method_not_allowed: 405, not_acceptable: 406, body_too_large: 413, url_too_long: 414, unsupported_media_type: 415, rate_limited: 429, overloaded: 503, shutting_down: 503, store_unavailable: 503
    })) assert.equal(problems[code as ProblemCode].status, status, code)
  })

  it('carry every fault of a value', () => {
    const errors = [{ path: '/a', keyword: 'type', message: 'm' }]
    assert.deepEqual(toProblem(new GatewayError('invalid_request', 'x', { errors })).problem.errors, errors)
  })

  it('carry the headers of their error, which win', () => {
    const { headers } = toProblem(new GatewayError('overloaded', 'x', { headers: { 'retry-after': '9', allow: 'GET' } }))
    assert.deepEqual(headers, { 'retry-after': '9', allow: 'GET' })
    const given = Object.freeze({ allow: 'GET' })
    toProblem(new GatewayError('overloaded', 'x', { headers: given }))
    assert.deepEqual(given, { allow: 'GET' })
  })

  it('of what callers never see are internal errors that say nothing', () => {
    for (const code of [...Object.keys(usageErrors), ...Object.keys(outcomes), 'constructor', '__proto__'] as never[]) {
      const { problem } = toProblem(new GatewayError(code, 'at /home/me/secret'))
      assert.deepEqual([problem.status, problem.code, problem.detail], [500, 'internal_error', 'The gateway failed to handle the request.'])
    }
  })
})

describe('a gateway error', () => {
  it('keeps code, message and cause', () => {
    const cause = new Error('below')
    const error = new GatewayError('unknown_tool', 'no such', { cause })
    assert.ok(error instanceof Error)
    assert.deepEqual([error.name, error.code, error.message, error.cause], ['GatewayError', 'unknown_tool', 'no such', cause])
    assert.ok(!('cause' in new GatewayError('unknown_tool', 'no such')))
  })
})

describe('docs/errors.md', () => {
  const page = readFileSync(new URL('../docs/errors.md', import.meta.url), 'utf8')
  const documented = rowsOf(page)
    .flatMap((cells) => {
      const code = /^`([a-z_]+)`$/.exec(cells[0] ?? '')?.[1]
      const statuses = [...(cells[1] ?? '').matchAll(/\b\d{3}\b/g)].map(([status]) => Number(status))
      return code === undefined || statuses.length === 0 ? [] : [{ code, statuses, row: cells.join(' | ') }]
    })
  const known = new Map<string, { statuses: (number | undefined)[], title: string }>()
  for (const [code, { status, title }] of problemRows) known.set(code, { statuses: [status], title })
  for (const [code, { executed, notExecuted, title }] of outcomeRows) known.set(code, { statuses: [executed, notExecuted], title })

  it('has every code, once', () => {
    assert.deepEqual(documented.map(({ code }) => code).sort(), [...known.keys()].sort())
  })

  it('has every code that only a program is told, once', () => {
    const listed = [...page.matchAll(/^- `([a-z_]+)`: /gm)].map(([, code]) => code!)
    assert.deepEqual(listed.sort(), Object.keys(usageErrors).sort())
  })

  for (const { code, statuses, row } of documented) {
    it(`says of ${code} what the code does`, () => {
      const { statuses: expected, title } = known.get(code) ?? { statuses: [], title: '' }
      assert.deepEqual([...statuses].sort(), expected.filter((status) => status !== undefined).sort())
      assert.ok(row.includes(title), `the row has the title "${title}"`)
    })
  }
})
