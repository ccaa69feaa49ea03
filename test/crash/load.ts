import { setTimeout as sleep } from 'node:timers/promises'
import { seeded } from '../conformance/seeded.ts'
import { Client } from './client.ts'
import type { Ledger, LoadCall } from './ledger.ts'
import type { Target } from './target.ts'
import { SECRET } from './toolbox.ts'

const CALLERS = 16

/** How often each way of calling is chosen. */
const ways = {
  plain: 5, keyed: 5, keyedAsync: 2, async: 4, waiting: 2, streamed: 3, followed: 2, burst: 1, batch: 2, cancelled: 3, hungUp: 3, paging: 1
} as const
type Way = keyof typeof ways

const lottery = Object.entries(ways).flatMap(([way, tickets]) => Array<Way>(tickets).fill(way as Way))
const tools = ['quick', 'steps', 'steps', 'once', 'once', 'line', 'pair', 'failing', 'family']

/**
 * Callers that each make one call after the other, in every way there is, whether the gateway is there or not. What they
 * were promised they come back for, however often it goes away meanwhile.
 */
export class Load {
  readonly #ledger: Ledger
  readonly #target: Target
  readonly #client: Client
  readonly #seed: number
  readonly #callers: Promise<void>[] = []
  #isStopped = false
  #made = 0

  constructor (target: Target, ledger: Ledger, seed: number) {
    this.#target = target
    this.#ledger = ledger
    this.#client = new Client(target, ledger)
    this.#seed = seed
  }

  start (): void {
    for (let caller = 0; caller < CALLERS; caller++) this.#callers.push(this.#callOnAndOn(seeded(this.#seed + caller)))
  }

  /** Makes no further calls. Resolves once those that were made have come to what their callers wait for. */
  async stop (): Promise<void> {
    this.#isStopped = true
    await Promise.all(this.#callers)
  }

  async #callOnAndOn (random: () => number): Promise<void> {
    while (!this.#isStopped) {
      const way = lottery[Math.floor(random() * lottery.length)]!
      await this[way](random)
      await sleep(random() * 20)
    }
  }

  async plain (random: () => number): Promise<void> {
    await this.#client.invoke(random() < 0.15 ? this.#secret('plain', random) : this.#call('plain', random))
  }

  /** With a key, until there is an answer: several times at once where it likes, and once more when it knows. */
  async keyed (random: () => number): Promise<void> {
    const call = random() < 0.1 ? this.#secret('keyed', random, this.#key()) : this.#call('keyed', random, this.#key())
    await this.#untilAnswered(call, {}, random() < 0.3 ? 2 : 1)
    if (random() < 0.4) await this.#untilAnswered(call, {}, 1)
  }

  async keyedAsync (random: () => number): Promise<void> {
    const call = this.#call('keyedAsync', random, this.#key())
    const answer = await this.#untilAnswered(call, { prefer: 'respond-async' }, random() < 0.3 ? 2 : 1)
    if (answer === undefined) return
    await this.#client.poll(call, answer)
    if (random() < 0.4) await this.#untilAnswered(call, {}, 1)
  }

  async async (random: () => number): Promise<void> {
    await this.#inBackground(this.#call('async', random))
  }

  async waiting (random: () => number): Promise<void> {
    await this.#inBackground(this.#call('waiting', random), random() < 0.5 ? 'wait=1' : 'wait=0')
  }

  async streamed (random: () => number): Promise<void> {
    await this.#client.stream(random() < 0.1 ? this.#secret('streamed', random) : this.#call('streamed', random))
  }

  async followed (random: () => number): Promise<void> {
    const call = this.#call('followed', random)
    const invocationId = await this.#accepted(call)
    if (invocationId !== undefined) await this.#client.follow(call, invocationId)
  }

  /** More at once than the tool's line lets through. */
  async burst (random: () => number): Promise<void> {
    const toolId = random() < 0.5 ? 'line' : 'pair'
    await Promise.all(Array.from({ length: 8 }, () => this.#inBackground(this.#call('burst', random, undefined, toolId))))
  }

  async batch (random: () => number): Promise<void> {
    const calls = Array.from({ length: 2 + Math.floor(random() * 4) }, () => this.#call('batch', random))
    await this.#target.up
    await this.#client.batch(calls, random() < 0.5 ? 'parallel' : 'sequential', random() < 0.2 ? this.#hangUp(calls, random) : undefined)
  }

  async cancelled (random: () => number): Promise<void> {
    const call = this.#call('cancelled', random)
    const invocationId = await this.#accepted(call)
    if (invocationId === undefined) return
    await sleep(random() * 60)
    await this.#client.cancel(call, invocationId)
    await this.#client.poll(call, invocationId)
  }

  /** Without a key this cancels. */
  async hungUp (random: () => number): Promise<void> {
    const call = this.#call('hungUp', random)
    await this.#target.up
    await this.#client.invoke(call, {}, this.#hangUp([call], random))
  }

  /** Lists the calls of some life, page by page: each once, and all that it knew of before. */
  async paging (random: () => number): Promise<void> {
    const call = this.#ledger.open('paging', '', {})
    const runId = `life-${1 + Math.floor(random() * this.#target.life)}`
    const expected = [...this.#ledger.known].filter(([, known]) => known.runId === runId).map(([invocationId]) => invocationId)
    const listed: string[] = []
    let cursor: string | undefined = ''
    while (cursor !== undefined) {
      const next: string = cursor === '' ? '' : `&cursor=${cursor}`
      await this.#client.persist(call, `a page of ${runId}`, async () => {
        const answer = await this.#client.send(call, `/invocations?runId=${runId}&limit=${5 + Math.floor(random() * 60)}${next}`)
        if (answer === undefined) return false
        if (answer.status !== 200) this.#ledger.fault(call, `a page was refused: ${answer.text}`)
        listed.push(...(answer.body.invocations ?? []).map(({ invocationId }: { invocationId: string }) => invocationId))
        cursor = answer.body.nextCursor
        return true
      })
    }
    const once = new Set(listed)
    if (once.size < listed.length) this.#ledger.fault(call, `listed twice: ${listed.filter((id, index) => listed.indexOf(id) < index).join(' ')}`)
    const missing = expected.filter((id) => !once.has(id))
    if (missing.length > 0) this.#ledger.fault(call, `known before, and not listed: ${missing.join(' ')}`)
  }

  async #inBackground (call: LoadCall, prefer?: string): Promise<void> {
    const invocationId = await this.#accepted(call, prefer)
    if (invocationId !== undefined) await this.#client.poll(call, invocationId)
  }

  /** The id of a call that was taken and runs on. */
  async #accepted (call: LoadCall, prefer = 'respond-async'): Promise<string | undefined> {
    const answer = await this.#client.invoke(call, { prefer })
    return answer?.status === 202 ? answer.body.invocation.invocationId : undefined
  }

  async #untilAnswered (call: LoadCall, headers: Record<string, string>, atOnce: number): Promise<string | undefined> {
    let invocationId: string | undefined
    await this.#client.persist(call, 'an answer', async () => {
      const answers = await Promise.all(Array.from({ length: atOnce }, () => this.#client.invoke(call, headers)))
      // One that is refused, or ended before it could run, is as if it had never been.
      const [answer] = answers.filter((answer) => answer !== undefined && answer.status < 400)
      invocationId = answer?.body.invocation.invocationId
      return invocationId !== undefined
    })
    return invocationId
  }

  #hangUp (calls: readonly LoadCall[], random: () => number): AbortSignal {
    for (const call of calls) call.mayBeCancelled = true
    return AbortSignal.timeout(Math.floor(random() * 60))
  }

  #call (way: string, random: () => number, key?: string, toolId = tools[Math.floor(random() * tools.length)]!): LoadCall {
    const steps = Math.floor(random() * 6)
    // A few take long; lines move on.
    const ms = toolId === 'line' ? Math.floor(random() * 8) : 5 + Math.floor(random() ** 3 * 40)
    const text = random() < 0.1 ? { text: 'ä'.repeat(Math.floor(random() * 3000)) } : {}
    return this.#ledger.open(way, toolId, { n: this.#made++, steps, ms, ...text }, key)
  }

  #secret (way: string, random: () => number, key?: string): LoadCall {
    const n = this.#made++
    return this.#ledger.open(way, 'secret', { n, word: `${SECRET} ${n}`, ms: Math.floor(random() * 60) }, key)
  }

  #key (): string {
    return `key-${this.#seed}-${this.#made}`
  }
}
