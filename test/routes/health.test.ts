import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Value } from '@sinclair/typebox/value'
import { Liveness, Readiness } from '../../src/contract/health.ts'
import { gate, invoke, send, startGateway, tool, waitFor, within } from '../e2e/harness.ts'

describe('GET /livez', () => {
  it('says that the process is up', async (t) => {
    const { url } = await startGateway(t)
    const { status, body } = await send(`${url}/livez`)
    assert.deepEqual([status, body], [200, { status: 'ok' }])
    assert.ok(Value.Check(Liveness, body))
  })
})

describe('GET /readyz', () => {
  it('is 200 without reasons while calls are taken', async (t) => {
    const { url } = await startGateway(t)
    const { status, body } = await send(`${url}/readyz`)
    assert.deepEqual([status, body], [200, { status: 'ready', reasons: [] }])
    assert.ok(Value.Check(Readiness, body))
  })

  it('is 503 with the reason while the gateway drains, and /livez still 200', async (t) => {
    const began = gate()
    const release = gate()
    const { app, url } = await startGateway(t, { tools: [tool('wait', async () => { began.open(); await release.promise; return {} })], shutdownGraceMs: 5000 })
    const answering = invoke({ url }, 'wait')
    await began.reached('the tool to run')
    const closing = app.close()
    const { status, body } = await waitFor(async () => {
      const answer = await send(`${url}/readyz`)
      return answer.status !== 200 && answer
    }, '/readyz to fail')
    assert.equal(status, 503)
    assert.ok(Value.Check(Readiness, body))
    assert.deepEqual([body.status, body.reasons.map(({ code }: any) => code)], ['not_ready', ['shutting_down']])
    assert.equal((await send(`${url}/livez`)).status, 200)
    release.open()
    assert.equal((await answering).status, 200)
    await within(closing, 'the close')
  })
})
