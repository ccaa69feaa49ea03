import { DatabaseSync } from 'node:sqlite'
import { parentPort, workerData } from 'node:worker_threads'
import type { Checkpointed, CheckpointMode } from './checkpoints.ts'

/** How long a checkpoint waits for readers, milliseconds. */
const PATIENCE_MS = 200

const connection = new DatabaseSync(workerData as string, { timeout: PATIENCE_MS })
connection.exec('PRAGMA wal_autocheckpoint = 0')

parentPort!.on('message', (request: CheckpointMode | 'close') => {
  if (request !== 'close') return parentPort!.postMessage({ isDone: checkpoint(request) } satisfies Checkpointed)
  connection.close()
  parentPort!.close()
})

/** A passive one is done where it moved what it could; readers that are further back keep some of it. */
function checkpoint (mode: CheckpointMode): boolean {
  try {
    const { busy } = connection.prepare(`PRAGMA wal_checkpoint(${mode})`).get() as { busy: number }
    return busy === 0
  } catch {
    // The disk is full, say: what is in the log stays there.
    return false
  }
}
