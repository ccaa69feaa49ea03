import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Socket } from 'node:net'
import { createGateway, defineTool } from '../../src/index.ts'
import { credentialsOf } from './credentials.ts'
import { add, answerMemory, Input, Output, report } from './workload.ts'
import { emitPaced } from './emit.ts'

/**
 * Toolgate with the memory store. `BENCH_STORE=sqlite` takes a file in a temporary folder instead; `BENCH_LOG=info` writes
 * the line an invocation gets, to standard output; `BENCH_AUTH` asks for credentials, of the kind that it names.
 */
const folder = mkdtempSync(join(tmpdir(), 'toolgate-bench-'))
const credentials = await credentialsOf(process.env.BENCH_AUTH, folder)
const app = createGateway({
  ...credentials.options,
  store: process.env.BENCH_STORE === 'sqlite' ? `sqlite:${join(folder, 'store.db')}` : 'memory',
  // As many as a resume reads, where it does.
  ...(process.env.BENCH_EVENTS === undefined ? {} : { storeMaxEvents: Number(process.env.BENCH_EVENTS), storeMaxEventBytes: 2 ** 30 }),
  logLevel: process.env.BENCH_LOG === 'info' ? 'info' : 'silent',
  tools: [defineTool({
    id: 'add',
    description: 'Adds two numbers.',
    kind: 'read',
    parameters: Input,
    outputSchema: Output,
    execute: (_toolCallId, input) => add(input)
  })]
})
process.once('disconnect', () => {
  rmSync(folder, { recursive: true, force: true })
  process.exit()
})
const sockets = new Set<Socket>()
app.server.on('connection', (socket) => sockets.add(socket.once('close', () => sockets.delete(socket))))
await app.listen({ port: 0, host: '127.0.0.1' })
report((app.server.address() as { port: number }).port, credentials.token)
answerMemory()

// Events of about 590 bytes as they go on the wire, by the way that a tool's progress takes.
process.on('message', async (message: { type: string, events: number, burst: number }) => {
  if (message.type !== 'emit') return
  const { store } = app.toolgate
  const invocationId = '0'.repeat(32)
  await store.begin({
    invocationId, toolId: 'add', toolCallId: invocationId, kind: 'read', startedAtMs: Date.now(), runId: undefined, traceId: undefined, parentSpanId: undefined, parentInvocationId: undefined,
    isChild: false, principalId: 'bench', timeoutMs: 60_000, input: '{}'
  })
  const partialResult = JSON.stringify({ content: [{ type: 'text', text: 'x'.repeat(208) }], details: null, isError: false })
  await nextTurn()
  await emitPaced(sockets, message.events, message.burst, () => { void store.progress(invocationId, partialResult) })
  await store.settle(invocationId, {
    status: 'succeeded', errorCode: undefined, isError: false, result: '{"content":[],"details":null,"isError":false}', executed: true, durationMs: 0, queuedMs: undefined
  })
  process.send!({ type: 'emitted' })
})
