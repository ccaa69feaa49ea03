import type { CallEnd, Store, StoredCall } from '../store/store.ts'
import type { RegisteredTool } from '../tools/registered-tool.ts'
import type { Log } from '../tools/tool.ts'
import type { Invoker } from './invoker.ts'
import { failure, redactedResult, type Outcome } from './outcome.ts'

interface RecoveryOptions {
  store: Store
  log: Log
  /** Runs a call gets in all. */
  maxAttempts: number
}

/** Ends that are recorded together: there may be very many of them. */
const AT_ONCE = 500

/**
 * Takes up what is found unsettled at start: each call is run, or settled, so that it has its one end event.
 *
 * - A call never marked as about to execute is run.
 * - A marked one is run again where its tool says `replay: "safe"`; the number of its runs is bounded, since it may be what
 *   the process dies of. Else nobody knows what it did: `outcome_unknown`.
 * - A child call is not run: the call that made it either is run again, and makes another, or has failed.
 * - What cannot be run, as its tool is gone, or its input is masked or withheld, or its result withheld, has been stopped:
 *   `shutdown`, or `outcome_unknown` where it had been marked.
 *
 * @throws {GatewayError} `store_unavailable` where an end cannot be recorded
 */
export async function recover (invoker: Invoker, { store, log, maxAttempts }: RecoveryOptions): Promise<void> {
  const found = await store.unsettled()
  const verdicts = found.map((call) => ({ call, verdict: verdictOn(call, invoker.registry.get(call.start.toolId), maxAttempts) }))
  const settled = verdicts.filter(({ verdict }) => verdict !== 'run')
  // Newest first: a call ends after its child calls.
  settled.reverse()
  for (let at = 0; at < settled.length; at += AT_ONCE) {
    await Promise.all(settled.slice(at, at + AT_ONCE).map(async ({ call, verdict }) => {
      const { toolId, invocationId, principalId } = call.start
      const end = endOf(call, verdict as Outcome)
      await store.settle(invocationId, end)
      log.info({ tool: toolId, invocation: invocationId, principal: principalId, status: end.status, durationMs: end.durationMs, errorCode: end.errorCode }, 'invocation')
    }))
  }
  const run = verdicts.filter(({ verdict }) => verdict === 'run')
  for (const { call } of run) invoker.resume(call)
  if (found.length > 0) log.warn({ run: run.length, settled: settled.length }, 'calls were found unsettled')
}

function verdictOn ({ start, attempts }: StoredCall, tool: RegisteredTool | undefined, maxAttempts: number): 'run' | Outcome {
  const { toolId, isChild, input, isMasked } = start
  const mayRun = attempts === 0 || (tool?.descriptor.replay === 'safe' && attempts < maxAttempts)
  if (mayRun && tool?.sensitive === false && !isChild && input !== undefined && isMasked !== true) return 'run'
  if (attempts === 0) return failure('shutdown', `The gateway stopped before the call of tool "${toolId}" ran.`)
  return failure('outcome_unknown', `The gateway stopped while the call of tool "${toolId}" ran. What it did is not known.`)
}

function endOf ({ start, attempts }: StoredCall, outcome: Outcome): CallEnd {
  const isWithheld = start.input === undefined
  return {
    ...outcome,
    ...(isWithheld ? { result: redactedResult(outcome.isError) } : {}),
    executed: attempts > 0,
    durationMs: 0,
    queuedMs: undefined
  }
}
