import { setTimeout as sleep } from 'node:timers/promises'
import { send, type Answer } from '../e2e/harness.ts'
import { Follower, readStream } from './follower.ts'
import type { Ledger, LoadCall } from './ledger.ts'
import type { Target } from './target.ts'

/** Far beyond what anything takes here, on however busy a machine. */
const PATIENCE_MS = 30_000

/** What callers do in single requests. Each goes out while the gateway is there, and may find it gone all the same. */
export class Client {
  readonly #target: Target
  readonly #ledger: Ledger

  constructor (target: Target, ledger: Ledger) {
    this.#target = target
    this.#ledger = ledger
  }

  /** @returns undefined where the connection broke: then nobody knows whether the request was heard */
  async send (call: LoadCall, path: string, init: RequestInit = {}): Promise<Answer | undefined> {
    await this.#target.up
    const what = `${init.method ?? 'GET'} ${path}`
    try {
      const answer = await send(this.#target.url + path, init)
      this.#ledger.note(call, `${what}: ${answer.status} ${answer.text.slice(0, 400)}`)
      return answer
    } catch (error) {
      const { name, cause } = error as Error
      if (init.signal?.aborted === true) this.#ledger.note(call, `${what}: hung up`)
      else if (name === 'TimeoutError') this.#ledger.fault(call, `${what}: no answer in 20 s`)
      else this.#ledger.note(call, `${what}: ${name} ${(cause as NodeJS.ErrnoException | undefined)?.code ?? ''}`)
      this.#ledger.counts.broken++
      return undefined
    }
  }

  /** Asks for a call, once, and notes what it is told. */
  async invoke (call: LoadCall, headers: Record<string, string> = {}, signal?: AbortSignal): Promise<Answer | undefined> {
    const tryId = this.nextTry(call)
    const answer = await this.send(call, `/tools/${call.toolId}/invoke`, { ...this.#post(call, tryId, headers), ...(signal === undefined ? {} : { signal }) })
    if (answer !== undefined) this.#ledger.answered(call, tryId, answer)
    return answer
  }

  /** Asks for several calls at once. */
  async batch (calls: readonly LoadCall[], mode: string, signal?: AbortSignal): Promise<void> {
    const tries = calls.map((call) => ({ call, tryId: this.nextTry(call) }))
    const body = JSON.stringify({ mode, runId: calls[0]!.runId, calls: tries.map(({ call, tryId }) => ({ toolId: call.toolId, input: call.input, toolCallId: tryId })) })
    const answer = await this.send(calls[0]!, '/batch', { method: 'POST', headers: { 'content-type': 'application/json' }, body, ...(signal === undefined ? {} : { signal }) })
    if (answer === undefined) return
    for (const [index, { call, tryId }] of tries.entries()) this.#ledger.batchResult(call, tryId, answer.body.results[index])
  }

  /** Asks for a call that is answered as a stream of its events. */
  async stream (call: LoadCall): Promise<void> {
    await this.#target.up
    const tryId = this.nextTry(call)
    const types: string[] = []
    let id = ''
    const how = await readStream(`${this.#target.url}/tools/${call.toolId}/invoke`, this.#post(call, tryId, { accept: 'text/event-stream' }), {
      onHead: (_status, headers) => {
        if (typeof headers['toolgate-invocation-id'] === 'string') this.#ledger.known.set(id = headers['toolgate-invocation-id'], call)
      },
      onMessage: ({ event, data }) => {
        types.push(event)
        if (event === 'tool_execution_end') this.#ledger.end(call, JSON.parse(data))
      },
      onOther: (text) => this.#ledger.refusedTry(call, tryId, JSON.parse(text)),
      onFault: (what) => this.#ledger.fault(call, what)
    })
    this.#ledger.note(call, `stream of ${id}: ${how}, ${types.join(' ')}`)
    if (how === 'ended' && id !== '' && types.at(-1) !== 'tool_execution_end') this.#ledger.fault(call, 'its stream ended without its end event')
  }

  /** Asks for the record of a call until it has ended. */
  async poll (call: LoadCall, invocationId: string): Promise<void> {
    await this.persist(call, `the end of ${invocationId}`, async () => {
      const answer = await this.send(call, `/invocations/${invocationId}`, { headers: { prefer: 'wait=1' } })
      if (answer === undefined) return false
      if (answer.status !== 200) {
        this.#ledger.fault(call, `it was told of ${invocationId}, and there is no record`)
        return true
      }
      const { invocation, result } = answer.body
      this.#ledger.receipt(call, invocation, result)
      return invocation.status !== 'running'
    })
  }

  /** Follows the events of a call until it has ended. */
  async follow (call: LoadCall, invocationId: string): Promise<void> {
    const follower = new Follower(this.#target, `/invocations/${invocationId}/events`)
    const isOver = await Promise.race([follower.run((last) => last?.event === 'tool_execution_end').then(() => true), sleep(PATIENCE_MS, false, { ref: false })])
    follower.stop()
    this.#ledger.note(call, `followed ${invocationId} over ${follower.connections} connections: ${follower.messages.map(({ event }) => event).join(' ')}`)
    for (const what of follower.faults) this.#ledger.fault(call, what)
    if (!isOver) this.#ledger.fault(call, `in vain: the end event of ${invocationId}`)
    else this.#ledger.followed.set(invocationId, follower.messages)
    const last = follower.messages.at(-1)
    if (last?.event === 'tool_execution_end') this.#ledger.end(call, JSON.parse(last.data))
  }

  async cancel (call: LoadCall, invocationId: string): Promise<void> {
    call.mayBeCancelled = true
    await this.persist(call, `the cancelling of ${invocationId}`, async () => {
      const answer = await this.send(call, `/invocations/${invocationId}/cancel`, { method: 'POST' })
      if (answer === undefined) return false
      if (answer.status === 202) this.#ledger.receipt(call, answer.body.invocation)
      else if (answer.body?.code !== 'already_settled') this.#ledger.fault(call, `cancelling was refused: ${answer.text}`)
      return true
    })
  }

  /** Tries again until it is done, within reason. */
  async persist (call: LoadCall, what: string, attempt: () => Promise<boolean>): Promise<void> {
    const until = performance.now() + PATIENCE_MS
    while (!await attempt()) {
      if (performance.now() > until) return this.#ledger.fault(call, `in vain: ${what}`)
      await sleep(5)
    }
  }

  nextTry (call: LoadCall): string {
    return `${call.name}.${++call.tries}`
  }

  #post (call: LoadCall, toolCallId: string, headers: Record<string, string>) {
    const key: Record<string, string> = call.key === undefined ? {} : { 'idempotency-key': call.key }
    return {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...key, ...headers },
      body: JSON.stringify({ input: call.input, toolCallId, runId: call.runId })
    }
  }
}
