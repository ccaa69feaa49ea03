import { createServer, type ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { answerMemory, report } from './workload.ts'
import { emitPaced } from './emit.ts'

/** The reference of the fan-out rows: `response.write` of one prepared buffer, per subscriber and event. */
const sockets = new Set<Socket>()
const responses = new Set<ServerResponse>()
const server = createServer((request, response) => {
  response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-store' })
  response.write(': connected\n\n')
  const replayed = /^\/replay\?(\d+)$/.exec(request.url!)
  if (replayed !== null) return replay(response, Number(replayed[1]))
  responses.add(response)
  response.once('close', () => responses.delete(response))
})
server.on('connection', (socket) => sockets.add(socket.once('close', () => sockets.delete(socket))))
server.listen(0, '127.0.0.1', () => report((server.address() as { port: number }).port))
answerMemory()

const head = 'id: 0123456789abcdef-1000\nevent: tool_execution_update\ndata: '
const event = Buffer.from(`${head}"${'x'.repeat(590 - head.length - 4)}"\n\n`)

process.on('message', async (message: { type: string, events: number, burst: number }) => {
  if (message.type !== 'emit') return
  await emitPaced(sockets, message.events, message.burst, () => {
    for (const response of responses) response.write(event)
  })
})

/** As many events as that, as fast as the receiver takes them. */
function replay (response: ServerResponse, events: number): void {
  for (; events > 0; events--) {
    if (response.write(event)) continue
    response.once('drain', () => replay(response, events - 1))
    return
  }
}
