import assert from 'node:assert/strict'
import { describe, it, type TestContext } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import { assertProblem, echo, invoke, send, tool, type RunningGateway } from './harness.ts'
import { accepted, cancel, heldTool, list, settledRecord } from './calls.ts'
import { overStores, type Start } from './stores.ts'

const idsOf = ({ invocations }: { invocations: any[] }): string[] => invocations.map(({ invocationId }) => invocationId)

/** Every id that going from page to page gives; `between` runs after each. */
async function walk (gateway: RunningGateway, query: string, between: (page: number) => Promise<unknown> = async () => {}): Promise<string[]> {
  const ids: string[] = []
  let cursor = ''
  for (let page = 0; ; page++) {
    const got = await list(gateway, `?${query}${cursor}`)
    ids.push(...idsOf(got))
    if (got.nextCursor === undefined) return ids
    cursor = `&cursor=${encodeURIComponent(got.nextCursor)}`
    await between(page)
  }
}

overStores('GET /invocations', (start) => {
  it('lists receipts, newest first, and those alone; of none it is empty', async (t) => {
    const gateway = await start(t, { tools: [echo] })
    assert.deepEqual(await list(gateway), { invocations: [] })
    const answers = []
    for (let n = 0; n < 3; n++) answers.push((await invoke(gateway, 'echo', n)).body.invocation)
    assert.deepEqual(await list(gateway), { invocations: answers.toReversed() })
    assert.equal((await send(`${gateway.url}/invocations`)).headers.get('cache-control'), 'no-store')
  })

  it('the order is that of arrival, whatever ends first', async (t) => {
    const { subject, running, release } = heldTool()
    const gateway = await start(t, { tools: [subject, echo] })
    const held = await accepted(gateway, 'held')
    await running(1)
    const quick = (await invoke(gateway, 'echo')).body.invocation.invocationId
    const cancelled = await accepted(gateway, 'held')
    await cancel(gateway, cancelled)
    assert.deepEqual(idsOf(await list(gateway)), [cancelled, quick, held])
    release()
    await settledRecord(gateway, held)
    assert.deepEqual(idsOf(await list(gateway)), [cancelled, quick, held])
  })

  describe('filters', () => {
    /** One call of each kind, in this order, and the times between them. */
    async function filled (t: TestContext, start: Start) {
      const { subject, running } = heldTool('held', { kind: 'write' })
      const gateway = await start(t, { tools: [subject, echo, tool('failing', () => { throw new Error('it broke') }, { kind: 'read' })] })
      const ids: Record<string, string> = {}
      ids['first'] = (await invoke(gateway, 'echo', 1, { runId: 'r1' })).body.invocation.invocationId
      ids['failed'] = (await invoke(gateway, 'failing', 1, { runId: 'r1' })).body.invocation.invocationId
      ids['cancelled'] = await accepted(gateway, 'held', 1, { runId: 'r2' })
      await cancel(gateway, ids['cancelled'])
      await delay(2)
      ids['running'] = await accepted(gateway, 'held')
      await running(2)
      return { gateway, ids }
    }

    it('by tool, kind, status and run: different names narrow, the same name widens', async (t) => {
      const { gateway, ids } = await filled(t, start)
      const expected: Record<string, string[]> = {
        '?toolId=echo': ['first'],
        '?toolId=echo&toolId=failing': ['failed', 'first'],
        '?toolId=nope': [],
        '?kind=write': ['running', 'cancelled'],
        '?kind=write&kind=read': ['running', 'cancelled', 'failed'],
        '?status=running': ['running'],
        '?status=succeeded': ['first'],
        '?status=failed&status=cancelled': ['cancelled', 'failed'],
        '?runId=r1': ['failed', 'first'],
        '?runId=r1&runId=r2&status=failed': ['failed'],
        '?toolId=held&status=failed': [],
        '?toolId=constructor&kind=__proto__': [],
        '?limit=1000': ['running', 'cancelled', 'failed', 'first']
      }
      for (const [query, names] of Object.entries(expected)) assert.deepEqual(idsOf(await list(gateway, query)), names.map((name) => ids[name]), query)
    })

    it('by arrival: from then on, and before then', async (t) => {
      const { gateway, ids } = await filled(t, start)
      const { invocations } = await list(gateway)
      const at = invocations.find(({ invocationId }) => invocationId === ids['running']).startedAtMs
      assert.deepEqual(idsOf(await list(gateway, `?from=${at}`)), [ids['running']])
      assert.deepEqual(idsOf(await list(gateway, `?to=${at}`)), [ids['cancelled'], ids['failed'], ids['first']])
      assert.deepEqual(idsOf(await list(gateway, `?from=${at}&to=${at}`)), [])
      assert.deepEqual(idsOf(await list(gateway, `?from=0&to=${Number.MAX_SAFE_INTEGER}`)).length, 4)
      assert.deepEqual(idsOf(await list(gateway, `?from=${at + 1}&to=${at}`)), [])
    })

    it('what is filtered is what a call is now', async (t) => {
      const { subject, running, release } = heldTool()
      const gateway = await start(t, { tools: [subject] })
      const id = await accepted(gateway, 'held')
      await running(1)
      assert.deepEqual([idsOf(await list(gateway, '?status=running')), idsOf(await list(gateway, '?status=succeeded'))], [[id], []])
      release()
      await settledRecord(gateway, id)
      assert.deepEqual([idsOf(await list(gateway, '?status=running')), idsOf(await list(gateway, '?status=succeeded'))], [[], [id]])
    })
  })

  describe('pages', () => {
    it('hold as many as were asked for, a hundred where nothing is; the last has no cursor', async (t) => {
      const gateway = await start(t, { tools: [echo] })
      for (let n = 0; n < 101; n++) await gateway.app.invoke({ toolId: 'echo' })
      const all = idsOf(await list(gateway, '?limit=1000'))
      const page = await list(gateway)
      assert.deepEqual([all.length, page.invocations.length, typeof page.nextCursor], [101, 100, 'string'])
      for (const limit of [1, 7, 100, 101]) assert.deepEqual(await walk(gateway, `limit=${limit}`), all)
      assert.equal('nextCursor' in await list(gateway, '?limit=101'), false)
      assert.deepEqual(await walk(gateway, 'limit=1&toolId=nope'), [])
    })

    it('while calls arrive and end, each that was there all the while comes once, and none that came later', async (t) => {
      const { subject, running, release } = heldTool()
      const gateway = await start(t, { tools: [subject, echo] })
      const there: string[] = []
      for (let n = 0; n < 30; n++) there.push(n % 3 === 0 ? await accepted(gateway, 'held') : (await invoke(gateway, 'echo')).body.invocation.invocationId)
      await running(10)
      let paged = 0
      const got = await walk(gateway, 'limit=4', async (page) => {
        paged++
        await invoke(gateway, 'echo')
        await accepted(gateway, 'held')
        if (page === 2) release()
        if (page === 3) for (const id of there.filter((_, n) => n % 3 === 0)) await settledRecord(gateway, id)
      })
      assert.deepEqual([got, paged], [there.toReversed(), 7])
    })

    it('by status: one that changes meanwhile is not given twice', async (t) => {
      const { subject, running, release } = heldTool()
      const gateway = await start(t, { tools: [subject] })
      const ids: string[] = []
      for (let n = 0; n < 6; n++) ids.push(await accepted(gateway, 'held'))
      await running(6)
      const got = await walk(gateway, 'limit=2&status=running', async (page) => {
        if (page !== 0) return
        release()
        for (const id of ids) await settledRecord(gateway, id)
      })
      assert.deepEqual(got, ids.toReversed().slice(0, 2), 'the others run no more')
    })
  })

  it('a query that cannot be meant is refused, and says which name', async (t) => {
    const gateway = await start(t, { tools: [echo] })
    await invoke(gateway, 'echo')
    const refused: Record<string, string | undefined> = {
      'limit=0': '/limit', 'limit=1001': '/limit', 'limit=-1': '/limit', 'limit=1.5': '/limit', 'limit=many': '/limit', 'limit=': '/limit', 'limit=1&limit=2': '/limit',
      'from=-1': '/from', 'from=yesterday': '/from', 'to=1e400': '/to', 'to=1&to=2': '/to',
      'status=done': '/status/0', 'status=running&status=': '/status/1',
      'cursor=': '/cursor', 'cursor=nope': '/cursor', 'cursor=0000000000000000-1': '/cursor', 'cursor=a&cursor=b': '/cursor',
      'tool=echo': '/tool', 'toolid=echo': '/toolid', '__proto__=1': undefined, 'toString=1': '/toString'
    }
    for (const [query, path] of Object.entries(refused)) {
      const answer = await send(`${gateway.url}/invocations?${query}`)
      assert.equal(answer.status, 400, query)
      assertProblem(answer, 400, 'invalid_request')
      if (path !== undefined) assert.ok(answer.body.errors.some((fault: any) => fault.path === path && typeof fault.message === 'string'), `${query}: ${answer.text}`)
    }
    const { nextCursor, invocations } = await list(gateway, '?limit=1')
    assert.deepEqual([nextCursor, invocations.length], [undefined, 1])
    const many = Array.from({ length: 101 }, (_, n) => `toolId=t${n}`).join('&')
    assertProblem(await send(`${gateway.url}/invocations?${many}`), 400, 'invalid_request')
  })

  it('a cursor past the end of the log, or of another log, is refused', async (t) => {
    const gateway = await start(t, { tools: [echo] })
    for (let n = 0; n < 3; n++) await invoke(gateway, 'echo')
    const { nextCursor } = await list(gateway, '?limit=1')
    const [epoch] = nextCursor!.split('-')
    assertProblem(await send(`${gateway.url}/invocations?cursor=${epoch}-999999`), 400, 'invalid_request')
    const other = await start(t, { tools: [echo] })
    assertProblem(await send(`${other.url}/invocations?cursor=${nextCursor}`), 400, 'invalid_request')
  })
})
