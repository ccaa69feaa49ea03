import { DatabaseSync } from 'node:sqlite'
import { parentPort, workerData } from 'node:worker_threads'
import type { Checkpointed, CheckpointMode } from './checkpoints.ts'
import { TOUCH } from './schema.ts'

/** How long a checkpoint waits for readers, milliseconds. */
const PATIENCE_MS = 200

const connection = new DatabaseSync(workerData as string, { timeout: PATIENCE_MS })
connection.exec('PRAGMA wal_autocheckpoint = 0; PRAGMA synchronous = NORMAL')

parentPort!.on('message', (request: CheckpointMode | 'close') => {
  if (request !== 'close') return parentPort!.postMessage({ isDone: checkpoint(request) } satisfies Checkpointed)
  connection.close()
  parentPort!.close()
})

/** A passive one is done where it moved what it could; readers that are further back keep some of it. */
function checkpoint (mode: CheckpointMode): boolean {
  try {
    const { busy } = connection.prepare(`PRAGMA wal_checkpoint(${mode})`).get() as { busy: number }
    // The first write to a log that begins anew waits for the disk, and who makes it with it.
    if (busy === 0 && mode === 'TRUNCATE') connection.exec(TOUCH)
    return busy === 0
  } catch {
    // The disk is full, say: what is in the log stays there.
    return false
  }
}
