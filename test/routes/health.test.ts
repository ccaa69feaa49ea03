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
    assert.ok(Value.Check(Readiness, body))
    assert.deepEqual([status, body.status, body.reasons], [200, 'ready', []])
  })

  it('tells how many tools are served, since when, and the ETag of their list', async (t) => {
    const before = Date.now()
    const { url } = await startGateway(t, { tools: [tool('a', () => ({})), tool('b', () => ({}))] })
    const { tools: { count, etag, loadedAtMs } } = (await send(`${url}/readyz`)).body
    assert.deepEqual([count, etag], [2, (await send(`${url}/tools`)).headers.get('etag')])
    assert.ok(before <= loadedAtMs && loadedAtMs <= Date.now())
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
