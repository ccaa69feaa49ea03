import type { Answer } from '../e2e/harness.ts'
import type { Message } from './follower.ts'
import type { Target } from './target.ts'

/** One thing that a caller wanted done, however often it had to ask for it. */
export interface LoadCall {
  /** Each try's `toolCallId` is this name, a dot, and its number. */
  readonly name: string
  /** How it is asked for. */
  readonly way: string
  readonly toolId: string
  readonly input: Record<string, unknown>
  readonly key: string | undefined
  readonly runId: string
  /** Whether its caller hung up, or asked for its cancelling. */
  mayBeCancelled: boolean
  tries: number
  /** What happened, in the caller's eyes. */
  readonly story: string[]
}

/** How a call ended, by what a caller was told. */
export interface Told {
  readonly call: LoadCall
  readonly invocationId: string
  readonly status: string
  readonly errorCode: string | undefined
  /** Undefined where the receipt alone was told. */
  readonly result: unknown
  /** Of the answers of a call itself. */
  readonly httpStatus: number | undefined
  readonly isReplay: boolean
}

/** All that callers know. It outlives every gateway. */
export class Ledger {
  readonly calls = new Map<string, LoadCall>()
  readonly told: Told[] = []
  /** Whatever id a caller was ever given, and whose it is. */
  readonly known = new Map<string, LoadCall>()
  /** The tries of which it was said that nothing was recorded. */
  readonly refused = new Set<string>()
  /** What was seen of single calls by who followed them to their ends. */
  readonly followed = new Map<string, Message[]>()
  /** What should not have happened to a caller. */
  readonly faults: { call: LoadCall, what: string }[] = []
  readonly counts = { answered: 0, accepted: 0, broken: 0, refused: 0, replayed: 0 }
  readonly #target: Target
  readonly #beganAt = performance.now()

  constructor (target: Target) {
    this.#target = target
  }

  open (way: string, toolId: string, input: Record<string, unknown>, key?: string): LoadCall {
    const call: LoadCall = {
      name: `c${this.calls.size + 1}`, way, toolId, input, key, runId: `life-${this.#target.life}`, mayBeCancelled: false, tries: 0, story: []
    }
    this.calls.set(call.name, call)
    return call
  }

  note (call: LoadCall, what: string): void {
    call.story.push(`${((performance.now() - this.#beganAt) / 1000).toFixed(3)} s, life ${this.#target.life}: ${what}`)
  }

  fault (call: LoadCall, what: string): void {
    this.note(call, `FAULT: ${what}`)
    this.faults.push({ call, what })
  }

  /** Notes what answers a try: how the call ended, that it was taken, or that it was refused. */
  answered (call: LoadCall, tryId: string, { status, headers, body }: Answer): void {
    if (body?.invocation === undefined) return this.refusedTry(call, tryId, body)
    const isReplay = headers.get('idempotency-replayed') === 'true'
    if (isReplay) this.counts.replayed++
    if (status === 202) this.accepted(call, body.invocation)
    else this.#settled(call, body, status, isReplay)
  }

  refusedTry (call: LoadCall, tryId: string, problem: any): void {
    this.counts.refused++
    this.refused.add(tryId)
    if (problem?.code !== 'overloaded') this.fault(call, `refused: ${JSON.stringify(problem)}`)
  }

  accepted (call: LoadCall, receipt: any): void {
    this.counts.accepted++
    this.known.set(receipt.invocationId, call)
    if (receipt.status !== 'running') this.fault(call, `taken, and then ${receipt.status}`)
  }

  /** Notes one of a batch's results. */
  batchResult (call: LoadCall, tryId: string, result: any): void {
    if ('problem' in result) this.refusedTry(call, tryId, result.problem)
    else this.#settled(call, result, undefined, false)
  }

  /** Notes a receipt, with the result where that was told too. */
  receipt (call: LoadCall, { invocationId, status, errorCode }: any, result?: unknown, httpStatus?: number, isReplay = false): void {
    this.known.set(invocationId, call)
    if (status !== 'running') this.told.push({ call, invocationId, status, errorCode, result, httpStatus, isReplay })
  }

  /** Notes an end event. */
  end (call: LoadCall, { result, ...receipt }: any): void {
    this.counts.answered++
    this.receipt(call, receipt, result)
  }

  #settled (call: LoadCall, { invocation, ...result }: any, httpStatus: number | undefined, isReplay: boolean): void {
    this.counts.answered++
    this.receipt(call, invocation, result, httpStatus, isReplay)
  }
}
