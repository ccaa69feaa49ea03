import { subscribe } from 'node:diagnostics_channel'
import type { FastifyInstance } from 'fastify'
import { pino } from 'pino'
import type {} from '../../src/gateway.ts'
import type { Store } from '../../src/store/store.ts'
import { auditText, eventText, recordText } from '../../src/store/wire.ts'
import { silentLog, type Log } from '../../src/tools/tool.ts'
import type { Witness } from './witness.ts'

const levels = ['debug', 'info', 'warn', 'error'] as const

/**
 * Gateways in the process of a test. Traces are not exported by any of them: the ids of a trace stand in events and records,
 * which are looked at.
 */
export function watchGateways (witness: Witness): void {
  const lines = pino({ level: 'debug', base: null }, { write: (line) => witness.look('log line', line) })
  const watched = new WeakSet<Log>()
  /** Each line is looked at as it would be written, whether or not this log writes it. */
  const watchLog = (log: Log) => {
    if (watched.has(log)) return
    watched.add(log)
    for (const level of levels) {
      const write = log[level]
      log[level] = (fields, message) => {
        lines[level](fields, message)
        write.call(log, fields, message)
      }
    }
  }
  watchLog(silentLog) // of most tests, from the first line on

  subscribe('fastify.initialization', (created) => {
    const { fastify: app } = created as { fastify: FastifyInstance }
    app.addHook('onReady', async () => {
      if (!app.hasDecorator('toolgate')) return // some other server
      const { config, log, store } = app.toolgate
      if (config.apiKey !== undefined) witness.lookFor(config.apiKey)
      watchLog(log)
      const close = store.close
      store.close = async () => {
        // One that a test has closed or broken before.
        await lookThrough(store, witness).catch(() => {})
        return close.call(store)
      }
    })
    app.addHook('preHandler', (request, _reply, done) => {
      const { ticket } = request.query as { ticket?: string } | undefined ?? {}
      const credentials = ticket ?? request.headers.authorization?.split(' ').at(-1)
      if (credentials !== undefined) witness.accepted(credentials)
      done()
    })
    app.addHook('onSend', (_request, reply, payload, done) => {
      if (typeof payload === 'string' && String(reply.getHeader('content-type')).startsWith('application/problem+json')) witness.look('problem', payload)
      done(null, payload)
    })
  })
}

const page = { events: 1000, bytes: 2 ** 20 }

/** Everything that a store holds, as those who may read all of it get it. */
async function lookThrough (store: Store, witness: Witness): Promise<void> {
  for (let at = 0; at < store.head;) {
    const { events, through } = await store.readEvents(at, page)
    for (const event of events) witness.look('event', eventText(event, Infinity, false))
    at = through
  }
  for (let before: number | undefined; ;) {
    const { calls, next } = await store.list({}, before, page.events)
    for (const { start, end } of calls) {
      witness.look('audit entry', auditText(start, end))
      const call = await store.get(start.invocationId)
      if (call !== undefined) witness.look('record', recordText(call))
    }
    if (next === undefined) break
    before = next
  }
}
