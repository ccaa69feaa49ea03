import type { Socket } from 'node:net'
import { setImmediate as nextTurn } from 'node:timers/promises'

/** Bytes waiting on one socket at which the sender lets receivers catch up. */
const HIGH_WATER_BYTES = 128 * 1024

/** Emits `events`, `burst` in each turn of the event loop, never faster than the slowest receiver takes them. */
export async function emitPaced (sockets: ReadonlySet<Socket>, events: number, burst: number, emit: () => void): Promise<void> {
  for (let sent = 0; sent < events; sent += burst) {
    for (let number = 0; number < burst; number++) emit()
    await nextTurn()
    while (isFull(sockets)) await nextTurn()
  }
}

function isFull (sockets: ReadonlySet<Socket>): boolean {
  for (const socket of sockets) if (socket.writableLength > HIGH_WATER_BYTES) return true
  return false
}
