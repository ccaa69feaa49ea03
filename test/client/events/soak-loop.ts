/** A client that does nothing but loop over events, counts them, and tells of its memory; run with --expose-gc and a channel. */
import { createClient } from '../../../src/client.ts'

export interface Sample {
  events: number
  /** Bytes in use after a collection, buffers outside of the heap included. */
  usedBytes: number
}

const [url, count] = process.argv.slice(2)
const last = Number(count)
let expected = 1

for await (const item of createClient({ url: url!, retry: { minDelayMs: 5, maxDelayMs: 20 } }).events({ lastEventId: 'earliest' })) {
  const n = item.type === 'events_lost' ? item.type : Number(item.invocationId)
  if (n !== expected) throw new Error(`${n} came in the place of ${expected}`)
  if (n % 500 === 0) {
    globalThis.gc!()
    const { heapUsed, external, arrayBuffers } = process.memoryUsage()
    process.send!({ events: n, usedBytes: heapUsed + external + arrayBuffers } satisfies Sample)
  }
  if (expected++ === last) break
}
process.disconnect()
