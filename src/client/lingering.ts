import { elapsed } from './retry.ts'

/** Time for the id of a call that was aborted and goes on, milliseconds: it comes as soon as the call has begun. */
export const LINGER_MS = 5000

export interface Lingering<T> {
  /** The caller's. Once it aborts, this rejects with its reason. */
  signal: AbortSignal | undefined
  /** Ends the asking; aborted once nothing of it is of use any more. */
  hangUp: AbortController
  /** How long an answer under way is waited for after the abort. */
  lingerMs: number
  /** Told of an answer that came after the abort. */
  onLate: (answer: T) => unknown
}

/**
 * An answer to what goes on when its caller hangs up. Only the answer has the id by which it can be cancelled, so one that
 * is under way at an abort is waited for a while longer, behind the caller's back.
 */
export async function unlessAborted<T> (asking: Promise<T>, { signal, hangUp, lingerMs, onLate }: Lingering<T>): Promise<T> {
  try {
    return await orAborted(asking, signal)
  } catch (error) {
    if (signal?.aborted === true) {
      void elapsed(lingerMs, hangUp.signal).then(() => hangUp.abort())
      asking.then(onLate).catch(() => {}).finally(() => hangUp.abort())
    }
    throw error
  }
}

/** What is waited for, or the reason of the signal once that aborts: whoever was asked may not heed it, or never answer. */
export async function orAborted<T> (waited: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) return await waited
  const aborted = Promise.withResolvers<never>()
  const onAbort = () => aborted.reject(signal.reason)
  signal.addEventListener('abort', onAbort)
  if (signal.aborted) onAbort()
  try {
    return await Promise.race([waited, aborted.promise])
  } finally {
    signal.removeEventListener('abort', onAbort)
  }
}
