import type { Server } from 'node:http'
import type { Socket } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'

const LOOK_EVERY_MS = 5

/**
 * Keeps track of a server's connections, so that closing it need not cut an answer that is still on its way: for Node a
 * connection is idle once its response has ended, whether or not the bytes have left.
 *
 * @returns what waits until every connection has sent what it was given, for so long at most
 */
export function trackConnections (server: Server): (forMs: number) => Promise<void> {
  const sockets = new Set<Socket>()
  server.on('connection', (socket) => {
    sockets.add(socket)
    socket.once('close', () => sockets.delete(socket))
  })
  return async (forMs) => {
    const until = performance.now() + forMs
    // Once at least: who was just answered has yet to write.
    do await delay(LOOK_EVERY_MS)
    while ([...sockets].some((socket) => socket.writableLength > 0) && performance.now() < until)
  }
}
