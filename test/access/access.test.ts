import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import type { FastifyInstance } from 'fastify'
import { fullAccess } from '../../src/auth/access.ts'
import { gate, send, startGateway, tool, waitFor, within, type Answer, type RunningGateway, type Scope } from '../e2e/harness.ts'
import { jwtHolders, keyHolders, type Holders } from './holders.ts'
import { columns, rows, type Column, type Row } from './table.ts'

const kinds: Record<string, (t: Scope) => Promise<Holders>> = { 'API keys': keyHolders, JWTs: jwtHolders }
const owner = { id: 'key:owner' }

for (const [kind, makeHolders] of Object.entries(kinds)) {
  describe(`who is answered what: ${kind}`, () => {
    let gateway: RunningGateway
    let holders: Holders
    let call: string
    let runs = 0
    const over = gate()
    const closers: (() => unknown)[] = []
    const scope = { after: (close: () => unknown) => { closers.push(close) } }

    before(async () => {
      holders = await makeHolders(scope)
      const tools = [
        tool('a_subject', () => ({ structuredContent: ++runs })), tool('b_other', () => ({})),
        tool('a_wait', async () => { await over.promise; return {} })
      ]
      gateway = await startGateway(scope, { tools, ticketLifeMs: 1000, ...holders.options })
      call = (await gateway.app.invoke({ toolId: 'a_subject', principal: owner })).invocation.invocationId
    })
    after(async () => {
      over.open()
      for (const close of closers.reverse()) await close()
    })

    for (const row of rows) {
      describe(row.route, () => {
        for (const column of columns) {
          const cell = row.cells[column]
          if (cell === '—') continue
          it(`${column}: ${cell}`, async (t) => {
            const running = await gateway.app.toolgate.invoker.start({ toolId: 'a_wait', principal: owner })
            t.after(() => gateway.app.toolgate.invoker.cancel(running))
            const about = { tool: 'a_subject', call, running: running.invocationId }
            const runsBefore = runs
            const answer = await ask(row, column, about)
            assert.equal(answer.status, Number(cell.slice(0, 3)), answer.text)
            const hasRun = column === 'right' && row.scope === 'tools:invoke'
            if (!hasRun || cell === '200') assert.equal(runs - runsBefore, hasRun ? 1 : 0, 'how often the tool ran')
            if (column === 'right' && row.method === 'GET' && row.scope !== undefined) assert.match(answer.text, /a_subject/)
            if (cell === '200, without it') assertWithout(answer.text, about)
            if (cell === '200, 404 inside') assert.deepEqual(answer.body.results.map(({ problem }: any) => [problem.status, problem.code]), [[404, 'unknown_tool']])
            if (answer.status === 401) assertRefused(answer, 'unauthorized', /^Bearer realm="toolgate"/)
            if (answer.status === 403) assertRefused(answer, 'forbidden', new RegExp(`insufficient_scope", scope="${row.scope}"`))
            if (answer.status === 404 && row.scope !== undefined) await assertAbsent(row, column, about, answer)
          })
        }
      })
    }

    /** Sends what a row says. Of a stream without an end it reads as far as a call that its reader may see, made after it began. */
    async function ask (row: Row, column: Column, about: Record<string, string>): Promise<Answer> {
      const token = holders.token(row, column)
      const path = await fill(row.path, column, about, token)
      const init: RequestInit = {
        method: row.method,
        headers: { ...row.headers, ...row.path.includes('{ticket}') || token === undefined ? {} : { authorization: `Bearer ${token}` }, ...row.body === undefined ? {} : { 'content-type': 'application/json' } },
        ...row.body === undefined ? {} : { body: JSON.stringify(row.body).replace('{tool}', about.tool!) }
      }
      if (row.isEndless !== true || !row.cells[column].startsWith('200')) return await send(gateway.url + path, init)
      const stop = new AbortController()
      const response = await fetch(gateway.url + path, { ...init, signal: stop.signal })
      await gateway.app.invoke({ toolId: 'b_other', runId: 'the-last-one', principal: { id: holders.principalId(row, column) } })
      let text = ''
      await within((async () => {
        for await (const piece of response.body!.pipeThrough(new TextDecoderStream())) {
          text += piece
          if (/tool_execution_end.*the-last-one/.test(text)) break
        }
      })(), 'the last call on the stream')
      stop.abort()
      return { status: response.status, headers: response.headers, body: undefined, text }
    }

    async function fill (path: string, column: Column, about: Record<string, string>, token: string | undefined): Promise<string> {
      if (!path.includes('{ticket}')) return path.replace(/\{(\w+)\}/g, (_, name) => about[name]!)
      return path.replace('{ticket}', await ticketOf(column, token))
    }

    async function ticketOf (column: Column, token: string | undefined): Promise<string> {
      const { tickets } = gateway.app.toolgate
      const caller = { principal: owner, access: fullAccess(owner.id), isCurrent: () => column !== 'revoked' }
      switch (column) {
        case 'none': return ''
        case 'unknown': return `tgt_${'x'.repeat(43)}`
        case 'revoked': return tickets.issue(caller).ticket
        case 'expired': {
          const { ticket, expiresAtMs } = tickets.issue(caller)
          await waitFor(() => Date.now() > expiresAtMs + 20, 'the end of a ticket')
          return ticket
        }
        default: return (await send(`${gateway.url}/events/tickets`, { method: 'POST', headers: { authorization: `Bearer ${token}` } })).body.ticket
      }
    }

    function assertWithout (text: string, about: Record<string, string>): void {
      for (const [name, value] of Object.entries(about)) assert.equal(text.includes(value), false, name)
      assert.doesNotMatch(text, /a_wait|key:owner/)
    }

    function assertRefused ({ body, headers, text }: Answer, code: string, challenge: RegExp): void {
      assert.match(headers.get('www-authenticate') ?? 'none', challenge)
      if (text !== '') assert.equal(body.code, code)
    }

    /** What one may not see is refused as what is not there: word for word, header for header. */
    async function assertAbsent (row: Row, column: Column, about: Record<string, string>, answer: Answer): Promise<void> {
      const absent = await ask(row, column, { tool: 'a_subjecu', call: call.replace(/^./, 'f'), running: about.running!.replace(/^./, 'f') })
      const comparable = ({ status, headers, text }: Answer) => [status, text.replace('a_subjecu', 'a_subject'), [...headers].filter(([name]) => name !== 'date')]
      assert.deepEqual(comparable(answer), comparable(absent))
    }
  })
}

describe('the table', () => {
  it('has every route that there is', async (t) => {
    const routes = new Set<string>()
    const { app } = await startGateway(t, {})
    for (const route of routesOf(app)) routes.add(route)
    const listed = new Set(rows.map(({ route }) => route.split(/[,?]/)[0]!))
    assert.deepEqual([...routes].filter((route) => !listed.has(route)), [])
    assert.deepEqual([...listed].filter((route) => !routes.has(route) && route !== 'any other path' && route !== 'HEAD /events'), [])
  })
})

/** `GET /tools/:id` and so on, as the router has them. */
function routesOf (app: FastifyInstance): string[] {
  const lines = app.printRoutes({ commonPrefix: false, includeHooks: false }).split('\n')
  const path: string[] = []
  return lines.flatMap((line) => {
    const [, indent, segment, methods] = /^([│ ├└─]*)(\S.*?) \(([A-Z, ]+)\)$/.exec(line) ?? []
    if (indent === undefined) return []
    const depth = indent.length / 4 - 1
    path.length = depth
    path[depth] = segment!
    return methods!.split(', ').filter((method) => method === 'GET' || method === 'POST').map((method) => `${method} ${path.join('').replace(/\/$/, '')}`)
  })
}
