import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import fc from 'fast-check'
import type { Call, Settlement } from '../../src/invocation/call.ts'
import { recover } from '../../src/invocation/recovery.ts'
import { Replay } from '../../src/invocation/replay.ts'
import type { MemoryStore } from '../../src/store/memory.ts'
import type { Store } from '../../src/store/store.ts'
import type { AnyTool } from '../../src/tools/registry.ts'
import type { ToolContext } from '../../src/tools/tool.ts'
import type { FakeClock } from '../conformance/fake-clock.ts'
import { turns } from '../conformance/until.ts'
import { setUp, withMethods } from './harness.ts'

/** What a call does. It is the call's own input. */
interface Plan {
  toolId: string
  pauseMs: number
  /** Whether its tool throws. */
  fails: boolean
  /** Whether a hook holds it up first, on the clock. */
  isHeld: boolean
  calls: Plan[]
}

interface Arrival { plan: Plan, atStep: number, isAsync: boolean, key: number | undefined }

interface Life {
  /** Steps until it dies. */
  steps: number
  store: 'now' | 'answers later' | 'writes later'
  isHooked: boolean
}

interface World { arrivals: Arrival[], lives: Life[] }

const tools: Record<string, object> = {
  safe: { replay: 'safe' },
  safeOne: { replay: 'safe', executionMode: 'sequential' },
  never: {},
  neverOne: { executionMode: 'sequential' },
  secret: { replay: 'safe', sensitive: true },
  /** Served by the first gateway only. */
  gone: { replay: 'safe' }
}
const toolIds = Object.keys(tools)
const MAX_ATTEMPTS = 3
const STEP_MS = 10
const LAST_ARRIVAL = 12

const plan: fc.Arbitrary<Plan> = fc.letrec<{ plan: Plan }>((tie) => ({
  plan: fc.record({
    toolId: fc.constantFrom(...toolIds),
    pauseMs: fc.constantFrom(0, 0, 10, 30),
    fails: fc.constantFrom(false, false, true),
    isHeld: fc.boolean(),
    calls: fc.oneof({ depthSize: 'small', maxDepth: 3 }, fc.constant<Plan[]>([]), fc.array(tie('plan'), { maxLength: 2 }))
  }) as fc.Arbitrary<Plan>
})).plan

const worlds = fc.record<World>({
  arrivals: fc.array(fc.record<Arrival>({ plan, atStep: fc.nat({ max: LAST_ARRIVAL }), isAsync: fc.boolean(), key: fc.constantFrom(undefined, undefined, 1, 2) }), { minLength: 1, maxLength: 8, size: 'max' }),
  lives: fc.array(fc.record<Life>({ steps: fc.nat({ max: 20 }), store: fc.constantFrom('now', 'answers later', 'writes later'), isHooked: fc.boolean() }), { minLength: 2, maxLength: 4, size: 'max' })
})

/** The store as a process has it: it may answer or even write later, in order, and nothing that is not written when the process dies. */
function mortal (store: MemoryStore, { store: when }: Life) {
  const process = { isDead: false }
  const silence = new Promise<never>(() => {})
  let last: Promise<unknown> = Promise.resolve()
  const write = <T>(make: () => T): T | Promise<T> => {
    if (process.isDead) return silence
    if (when === 'now') return make()
    const made = when === 'writes later' ? undefined : [make()] as const
    const answer = last.then(async () => {
      await nextTurn()
      if (process.isDead) return await silence
      return made === undefined ? make() : made[0]
    })
    last = answer.catch(() => {})
    return answer
  }
  const wrapped: Store = withMethods(store, {
    begin: (start, key) => write(() => store.begin(start, key)),
    mark: (id) => write(() => store.mark(id)),
    progress: (id, partial) => write(() => store.progress(id, partial)),
    settle: (id, end) => write(() => store.settle(id, end))
  })
  return { wrapped, process }
}

const later = (clock: FakeClock, ms: number) => new Promise<void>((resolve) => { clock.after(ms, resolve) })

interface Run { invocationId: string, toolId: string, attempt: number }

async function live (world: World) {
  const runs: Run[] = []
  const accepted: string[] = []
  const answered = new Map<string, Settlement>()
  const keyed: { key: number, id: string }[] = []
  let memory: MemoryStore | undefined
  let last: ReturnType<typeof setUp> | undefined

  for (const [index, life] of world.lives.entries()) {
    const isLast = index === world.lives.length - 1
    let process = { isDead: false }
    const setting: ReturnType<typeof setUp> = setUp({
      tools: toolIds.filter((id) => index === 0 || id !== 'gone').map((id) => ({
        id,
        description: id,
        kind: 'test',
        parameters: {},
        ...tools[id],
        async execute (_id: string, { pauseMs, fails, calls }: Plan, _signal: AbortSignal, onUpdate: any, { invocationId, attempt, invoke }: ToolContext) {
          assert.ok(!process.isDead)
          runs.push({ invocationId, toolId: id, attempt })
          onUpdate({ details: attempt })
          if (pauseMs > 0) await later(setting.clock, pauseMs)
          for (const call of calls) await invoke(call.toolId, call).catch(() => {})
          if (fails) throw new Error('failed')
          return { structuredContent: invocationId }
        }
      } as unknown as AnyTool)),
      hooks: life.isHooked ? [{ beforeToolCall: async ({ args }) => { if ((args as Plan).isHeld) await later(setting.clock, 20) } }] : [],
      memory,
      wrap: (store) => {
        const { wrapped, process: made } = mortal(store, life)
        process = made
        return wrapped
      }
    } as Parameters<typeof setUp>[0])
    memory = setting.store
    const { invoker, clock } = setting
    const silent = { debug () {}, info () {}, warn () {}, error () {} }
    await recover(invoker, { store: memory, log: silent, maxAttempts: MAX_ATTEMPTS })
    const steps = isLast ? 500 : life.steps
    for (let step = 0; step < steps; step++) {
      if (isLast && step > LAST_ARRIVAL && invoker.running === 0) break
      for (const { plan, atStep, isAsync, key } of index === 0 || isLast ? world.arrivals : []) {
        if (atStep !== step) continue
        const request = { toolId: plan.toolId, input: plan, principal: { id: 'p' }, isAsync: isAsync && plan.toolId !== 'secret', idempotencyKey: key === undefined ? undefined : String(key) }
        try {
          void Promise.resolve(invoker.start(request)).then(async (call: Call | Replay) => {
            accepted.push(call.invocationId)
            if (key !== undefined) keyed.push({ key, id: call.invocationId })
            const settlement = await call.settled
            if (call instanceof Replay) return
            answered.set(call.invocationId, settlement)
          }, () => {})
        } catch {}
      }
      await turns(2)
      clock.advance(STEP_MS)
    }
    if (isLast) await turns(20)
    process.isDead = !isLast
    last = setting
  }
  return { runs, accepted, answered, memory: memory!, last: last! }
}

async function assertWorld (world: World): Promise<void> {
  const { runs, accepted, answered, memory, last: { invoker, events } } = await live(world)
  assert.deepEqual([invoker.running, invoker.slots(), memory.unsettled()], [0, { taken: 0, pending: 0 }, []])

  const ids: string[] = []
  const open = new Map<string, any>()
  for (const event of events()) {
    const { type, invocationId } = event
    if (type === 'tool_execution_start') {
      assert.ok(!ids.includes(invocationId), 'one start')
      ids.push(invocationId)
      open.set(invocationId, event)
      continue
    }
    assert.ok(open.has(invocationId), 'nothing before the start, nothing after the one end')
    if (type === 'tool_execution_update') continue
    open.delete(invocationId)
    assert.ok(![...open.values()].some(({ parentInvocationId }) => parentInvocationId === invocationId), 'a call ends after its child calls')
  }
  assert.equal(open.size, 0, 'every call has an end')
  for (const id of accepted) assert.ok(ids.includes(id), 'what was accepted is on record')

  for (const id of ids) {
    const { start, end, attempts } = memory.get(id)!
    const own = runs.filter(({ invocationId }) => invocationId === id)
    const isSafe = ['safe', 'safeOne', 'gone'].includes(start.toolId)
    assert.ok(own.length <= attempts, 'no run without its mark')
    assert.ok(attempts <= (isSafe && !start.isChild ? MAX_ATTEMPTS : 1))
    assert.equal(end!.executed, attempts > 0)
    assert.ok(own.every(({ attempt }, index) => attempt > (own[index - 1]?.attempt ?? 0) && attempt <= attempts))
    if (end!.errorCode === 'shutdown') assert.ok(own.length === 0 && (start.isChild || ['secret', 'gone'].includes(start.toolId)))
    else if (end!.errorCode === 'outcome_unknown') assert.ok(attempts === MAX_ATTEMPTS || start.isChild || !isSafe || start.toolId === 'gone')
    else assert.ok(own.length > 0 && (end!.errorCode === undefined || end!.errorCode === 'tool_error'), `${end!.errorCode}`)
  }
  for (const [id, { end }] of answered) assert.deepEqual([end.status, end.errorCode], [memory.get(id)!.end!.status, memory.get(id)!.end!.errorCode], 'what was answered is on record')
}

describe('recovery, whenever a gateway dies', () => {
  it('each call has one start and one end, what was accepted is not lost, and nothing runs again that may not', async () => {
    const rejections: unknown[] = []
    const note = (cause: unknown) => { rejections.push(cause) }
    process.on('unhandledRejection', note)
    try {
      await fc.assert(fc.asyncProperty(worlds, assertWorld), { numRuns: 300 })
      await nextTurn()
    } finally {
      process.off('unhandledRejection', note)
    }
    assert.deepEqual(rejections, [])
  })
})
