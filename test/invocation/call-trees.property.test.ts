import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import fc from 'fast-check'
import type { InvokeResponse } from '../../src/contract/invocation.ts'
import { GatewayError } from '../../src/errors.ts'
import { spanIdOf } from '../../src/ids.ts'
import type { Call } from '../../src/invocation/call.ts'
import { STORE_RETRY_MS } from '../../src/invocation/limits.ts'
import type { Hooks } from '../../src/invocation/hooks.ts'
import type { MemoryStore } from '../../src/store/memory.ts'
import type { Store } from '../../src/store/store.ts'
import type { AnyTool } from '../../src/tools/registry.ts'
import type { ToolContext } from '../../src/tools/tool.ts'
import { FakeClock } from '../conformance/fake-clock.ts'
import { setUp, withMethods } from './harness.ts'

/** What a call does. It is the call's own input. */
interface Plan {
  toolId: string
  /** Child calls: one after the other, all together, or without waiting for their answers. */
  awaits: 'each' | 'all' | 'none'
  calls: Plan[]
  /** Before its child calls, on the clock. */
  pauseMs: number
  /** `hang` goes on until it is told to stop; `linger` and `forever` do not hear that. */
  end: 'return' | 'throw' | 'isError' | 'hang' | 'linger' | 'forever'
  isBad: boolean
  isBlocked: boolean
  /** Whether its beginning cannot be recorded. */
  isRefused: boolean
}

interface Root { plan: Plan, atMs: number, timeoutMs: number, cancelAtMs: number, isAsync: boolean }

interface World {
  roots: Root[]
  store: 'now' | 'answers later' | 'writes later'
  /** The time in which neither marks nor ends can be recorded. */
  fullFromMs: number
  fullUntilMs: number
  hooks: boolean
  maxConcurrentCalls: number
  maxConcurrentAsyncCalls: number
  maxWaitingCalls: number
}

/** In the order of `ordered` worlds, in which a tool calls itself and those after it, so that no wait is circular. */
const tools: Record<string, object> = {
  free: {},
  two: { maxConcurrent: 2 },
  one: { executionMode: 'sequential' },
  secret: { sensitive: true, maxConcurrent: 2 },
  brief: { executionMode: 'sequential', timeoutMs: 60 },
  last: { executionMode: 'sequential' }
}
const toolIds = Object.keys(tools)
const limitOf: Record<string, number> = { free: Infinity, two: 2, one: 1, secret: 2, brief: 1, last: 1 }

const TIMEOUT_MS = 400
/** More than all the pauses of a calm world take together, one after the other. */
const CALM_TIMEOUT_MS = 10_000
const RELEASE_MS = 200
const STEP_MS = 10
/** By then every call has timed out, every slot been given away, and every end been recorded, at the second try at the latest. */
const HORIZON_MS = 100 + TIMEOUT_MS + RELEASE_MS + 100 + 2 * STORE_RETRY_MS
const MAX_DEPTH = 3

interface Kind {
  /** Nothing but the calls' own doing ends them, and all wait for their child calls. */
  calm: boolean
  /** No circles. */
  ordered: boolean
}

function plans ({ calm, ordered }: Kind): fc.Arbitrary<Plan> {
  const often = <T>(usual: T, ...rare: T[]) => fc.oneof({ weight: 3 * rare.length, arbitrary: fc.constant(usual) }, { weight: 1, arbitrary: fc.constantFrom(...rare) })
  const node = (calls: fc.Arbitrary<Plan[]>): fc.Arbitrary<Plan> => fc.record<Plan>({
    toolId: calm ? fc.constantFrom(...toolIds.filter((id) => id !== 'brief')) : fc.constantFrom(...toolIds, 'one', 'last', 'unknown'),
    awaits: calm ? fc.constantFrom('each', 'all') : fc.constantFrom('each', 'all', 'all', 'none'),
    calls,
    pauseMs: fc.constantFrom(0, 0, 10, 30),
    end: calm ? often<Plan['end']>('return', 'throw', 'isError') : often<Plan['end']>('return', 'throw', 'isError', 'hang', 'linger', 'forever'),
    isBad: often(false, false, true),
    isBlocked: often(false, false, false, true),
    isRefused: calm ? fc.constant(false) : often(false, false, false, true)
  })
  const tree = fc.letrec<{ plan: Plan }>((tie) => ({
    plan: fc.oneof({ depthSize: 'small', withCrossShrink: true, maxDepth: 5 }, node(fc.constant([])), node(fc.array(tie('plan'), { maxLength: 3, size: 'max' })))
  })).plan
  return tree.map((plan) => ordered ? inOrder(plan, 0) : plan)
}

function inOrder (plan: Plan, from: number): Plan {
  const at = Math.max(from, toolIds.indexOf(plan.toolId))
  return { ...plan, toolId: toolIds[at]!, calls: plan.calls.map((call) => inOrder(call, at)) }
}

function worlds (kind: Kind): fc.Arbitrary<World> {
  return fc.record<World>({
    roots: fc.array(fc.record<Root>({
      plan: plans(kind),
      atMs: fc.constantFrom(0, 0, 10, 50),
      timeoutMs: kind.calm ? fc.constant(Infinity) : fc.constantFrom(Infinity, Infinity, 30, 100),
      cancelAtMs: kind.calm ? fc.constant(Infinity) : fc.constantFrom(Infinity, Infinity, 0, 20, 70),
      isAsync: fc.boolean()
    }), { minLength: 1, maxLength: 6, size: 'max' }),
    store: fc.constantFrom('now', 'answers later', 'writes later'),
    fullFromMs: kind.calm ? fc.constant(Infinity) : fc.constantFrom(Infinity, Infinity, 0, 20, 70),
    fullUntilMs: fc.constantFrom(30, 100, 500),
    hooks: fc.boolean(),
    maxConcurrentCalls: fc.constantFrom(1, 2, 256),
    maxConcurrentAsyncCalls: fc.constantFrom(1, 2, 256),
    maxWaitingCalls: kind.calm ? fc.constant(1000) : fc.constantFrom(2, 1000)
  })
}

/** The store as a world has it: answering in a later step, or even writing in one, in order in either case; and failing at times. */
function storeOf (store: MemoryStore, { store: when, fullFromMs, fullUntilMs }: World, elapsedMs: () => number): Store {
  let last: Promise<unknown> = Promise.resolve()
  const delay = <T>(write: () => T): T | Promise<T> => {
    if (when === 'now') return write()
    const written = when === 'writes later' ? undefined : attempt(write)
    const answer = last.then(async () => {
      await nextTurn()
      return (written ?? attempt(write))()
    })
    last = answer.catch(() => {})
    return answer
  }
  const unless = <T>(isFailing: boolean, write: () => T): T => {
    if (isFailing) throw new GatewayError('store_unavailable', 'The disk is full.')
    return write()
  }
  const isFull = () => elapsedMs() >= fullFromMs && elapsedMs() < fullUntilMs
  return withMethods(store, {
    begin: (start, key) => delay(() => unless((JSON.parse(start.input ?? '{}') as Partial<Plan>).isRefused === true, () => store.begin(start, key))),
    mark: (id) => delay(() => unless(isFull(), () => store.mark(id))),
    settle: (id, end) => delay(() => unless(isFull(), () => store.settle(id, end)))
  })
}

/** What came of it, to be told later. */
function attempt<T> (run: () => T): () => T {
  try {
    const value = run()
    return () => value
  } catch (cause) {
    return () => { throw cause }
  }
}

const later = (clock: FakeClock, ms: number) => new Promise<void>((resolve) => { clock.after(ms, resolve) })
const aborted = (signal: AbortSignal) => new Promise<void>((resolve) => {
  if (signal.aborted) resolve()
  else signal.addEventListener('abort', () => resolve())
})

/** A call, as its tool saw it. */
interface Seen {
  toolId: string
  parent: Seen | undefined
  invocationId: string
  runId: string | undefined
  spanId: string
  signal: AbortSignal
  /** Child calls that it waits for. */
  waitsFor: number
  executing: boolean
  abortedAtMs: number
}

interface Asked { parent: Seen | undefined, plan: Plan, answer: InvokeResponse | GatewayError | undefined }

/** Runs a world to its end, and checks on the way that no limit is passed. */
async function runWorld (world: World, { calm, ordered }: Kind) {
  const seen: Seen[] = []
  const asked: Asked[] = []
  const parentOf = new Map<object, Seen>()
  const bornAtMs = new FakeClock().now()

  /** The nearest call above of the same tool, in whose slot the call runs. */
  const host = ({ toolId, parent }: Seen): Seen | undefined => {
    for (let above = parent; above !== undefined; above = above.parent) if (above.toolId === toolId) return above
    return undefined
  }
  function assertLimits (call: Seen): void {
    if (limitOf[call.toolId] === Infinity) return
    const busy = seen.filter((other) => other.toolId === call.toolId && other.executing && other.waitsFor === 0)
    if (calm) assert.ok(busy.length <= limitOf[call.toolId]!, `${busy.length} calls of ${call.toolId} execute and do not stand still`)
    const limit = host(call) === undefined ? limitOf[call.toolId]! : 1
    const others = seen.filter((other) => other !== call && other.executing && other.toolId === call.toolId && host(other) === host(call) &&
      !(other.abortedAtMs + RELEASE_MS <= setting.clock.monotonic()))
    if (others.length < limit) return
    assert.ok(!ordered, `${others.length + 1} calls of ${call.toolId} execute, and none waits in a circle`)
    assert.ok(call.parent !== undefined, 'a root call never passes a limit')
    if (calm) assert.ok(others.every(({ waitsFor }) => waitsFor > 0), 'all others stand still where a call passes a limit')
  }

  async function execute (plan: Plan, signal: AbortSignal, { invocationId, runId, spanId, invoke }: ToolContext) {
    const self: Seen = { toolId: plan.toolId, parent: parentOf.get(plan), invocationId, runId, spanId, signal, waitsFor: 0, executing: true, abortedAtMs: Infinity }
    signal.addEventListener('abort', () => { self.abortedAtMs = setting.clock.monotonic() })
    seen.push(self)
    assertLimits(self)
    const ask = async (call: Plan) => {
      const entry: Asked = { parent: self, plan: call, answer: undefined }
      asked.push(entry)
      // The child gets a copy of its plan, so it is known by a number that the copy has, too.
      self.waitsFor++
      try {
        entry.answer = await invoke(call.toolId, { ...call, from: asked.length - 1 })
      } catch (cause) {
        entry.answer = cause as GatewayError
      }
      self.waitsFor--
    }
    try {
      if (plan.pauseMs > 0) await (plan.end === 'linger' || plan.end === 'forever' ? later(setting.clock, plan.pauseMs) : Promise.race([later(setting.clock, plan.pauseMs), aborted(signal)]))
      if (plan.awaits === 'each') for (const call of plan.calls) await ask(call)
      const asking = plan.awaits === 'each' ? [] : plan.calls.map(ask)
      if (plan.awaits === 'all') await Promise.all(asking)
      if (plan.end === 'hang') await aborted(signal)
      if (plan.end === 'linger') await later(setting.clock, 150)
      if (plan.end === 'forever') await new Promise(() => {})
      if (plan.end === 'throw') throw new Error('thrown')
      return { structuredContent: invocationId, isError: plan.end === 'isError' }
    } finally {
      self.executing = false
    }
  }

  const hooks: Hooks[] = world.hooks
    ? [{
        async beforeToolCall ({ args }) {
          await nextTurn()
          return (args as Plan).isBlocked ? { block: true } : undefined
        },
        afterToolCall: async () => { await nextTurn() }
      }]
    : []
  const setting = setUp({
    tools: toolIds.map((id) => ({
      id,
      description: id,
      kind: 'test',
      parameters: {},
      timeoutMs: calm ? CALM_TIMEOUT_MS : TIMEOUT_MS,
      ...tools[id],
      prepareArguments (input: any) {
        if (input.isBad === true) throw new Error('bad input')
        if (input.from !== undefined) parentOf.set(input, asked[input.from]!.parent!)
        return input
      },
      execute: (_id: string, plan: Plan, signal: AbortSignal, _onUpdate: unknown, context: ToolContext) => execute(plan, signal, context)
    } as unknown as AnyTool)),
    hooks,
    limits: {
      maxConcurrentCalls: world.maxConcurrentCalls,
      maxConcurrentAsyncCalls: world.maxConcurrentAsyncCalls,
      maxWaitingCalls: world.maxWaitingCalls,
      maxAsyncBacklog: world.maxWaitingCalls,
      slotReleaseMs: RELEASE_MS,
      maxChildDepth: MAX_DEPTH
    },
    wrap: (store) => storeOf(store, world, () => setting.clock.now() - bornAtMs)
  })
  const { invoker, clock } = setting

  const started: (Call | GatewayError)[] = []
  const isOver = () => started.length === world.roots.length && invoker.running === 0 && invoker.slots().taken === 0 && toolIds.every((id) => invoker.slots(id).taken === 0)
  /** Nobody waits while there is room, in the lane and among the slots of the gateway. */
  function assertBusy (): void {
    for (const call of started) {
      if (call instanceof GatewayError || call.standing !== 'waiting') continue
      const limit = call.isAsync ? world.maxConcurrentAsyncCalls : world.maxConcurrentCalls
      assert.ok(!call.lane.hasRoom || invoker.slots().taken >= limit, 'a call waits while there is room')
    }
  }
  const horizonMs = HORIZON_MS + (calm ? CALM_TIMEOUT_MS : 0)
  for (let atMs = 0; atMs < horizonMs; atMs += STEP_MS) {
    for (const [index, { plan, timeoutMs, isAsync }] of world.roots.entries()) {
      if (world.roots[index]!.atMs !== atMs) continue
      try {
        void Promise.resolve(setting.start({ toolId: plan.toolId, input: plan, timeoutMs, isAsync: isAsync && plan.toolId !== 'secret', runId: `run-${index}`, trace: { traceId: String(index).repeat(32), parentSpanId: 'f'.repeat(16) } }))
          .then((call) => started.push(call), (cause) => started.push(cause))
      } catch (cause) {
        started.push(cause as GatewayError)
      }
    }
    for (const call of started) {
      if (!(call instanceof GatewayError) && world.roots[Number(call.start.runId!.slice(4))]!.cancelAtMs <= atMs) invoker.cancel(call)
    }
    // A calm world ends without the clock's help, but for pauses.
    for (let turn = 0; turn < (world.store === 'now' ? 3 : 12); turn++) await nextTurn()
    assertBusy()
    if (isOver() && seen.every(({ executing }) => !executing)) break
    clock.advance(STEP_MS)
  }
  for (let turn = 0; turn < 2000 && invoker.running > 0; turn++) await nextTurn()
  for (let turn = 0; turn < 3; turn++) await nextTurn()
  return { setting, started, seen, asked }
}

type Ran = Awaited<ReturnType<typeof runWorld>>

interface Told { start: any, end: any, startAt: number, endAt: number, children: string[] }

/** The tree of calls, from the events alone. */
function rebuild (events: any[]): Map<string, Told> {
  const calls = new Map<string, Told>()
  events.forEach((event, at) => {
    const { type, invocationId, parentInvocationId } = event
    if (type === 'tool_execution_start') {
      assert.ok(!calls.has(invocationId), 'one start')
      calls.set(invocationId, { start: event, end: undefined, startAt: at, endAt: -1, children: [] })
      if (parentInvocationId !== undefined) calls.get(parentInvocationId)!.children.push(invocationId)
    } else if (type === 'tool_execution_end') {
      const call = calls.get(invocationId)!
      assert.equal(call.end, undefined, 'one end')
      call.end = event
      call.endAt = at
    }
  })
  return calls
}

function assertOver ({ setting: { invoker }, started }: Ran): void {
  assert.equal(invoker.running, 0, 'every call has settled')
  for (const id of [undefined, ...toolIds]) assert.deepEqual(invoker.slots(id), { taken: 0, pending: 0 }, `slots of ${id ?? 'the gateway'}`)
  for (const call of started) if (!(call instanceof GatewayError)) assert.equal(call.children.size, 0)
}

function assertTree (calls: Map<string, Told>): void {
  for (const { start, end, startAt, endAt } of calls.values()) {
    assert.ok(end !== undefined, 'every call has an end')
    assert.equal(start.spanId, spanIdOf(start.invocationId))
    const { parentInvocationId } = start
    if (parentInvocationId === undefined) {
      assert.equal(start.parentSpanId, 'f'.repeat(16))
      continue
    }
    const parent = calls.get(parentInvocationId)!
    assert.ok(startAt > parent.startAt, 'a child starts after its parent')
    assert.ok(endAt < parent.endAt, 'and ends before it')
    assert.deepEqual([start.parentSpanId, start.runId, start.traceId], [parent.start.spanId, parent.start.runId, parent.start.traceId])
    let depth = 0
    for (let above = start.parentInvocationId; above !== undefined; above = calls.get(above)!.start.parentInvocationId) depth++
    assert.ok(depth <= MAX_DEPTH)
  }
}

/** The tree of the events is the one that the tools saw. */
function assertSameTree (calls: Map<string, Told>, { seen, asked, started }: Ran): void {
  const roots = [...calls.values()].filter(({ start }) => start.parentInvocationId === undefined).map(({ start }) => start.invocationId)
  assert.deepEqual(roots.sort(), started.flatMap((call) => call instanceof GatewayError ? [] : [call.invocationId]).sort())
  for (const { toolId, invocationId, parent, runId, spanId } of seen) {
    const { start } = calls.get(invocationId)!
    assert.deepEqual([start.toolId, start.parentInvocationId, start.parentSpanId === parent?.spanId, start.runId, start.spanId], [toolId, parent?.invocationId, parent !== undefined, runId, spanId])
  }
  const answered = new Map<string, string[]>()
  for (const { parent, answer, plan } of asked) {
    assert.ok(answer !== undefined, 'every context.invoke is answered')
    if (answer instanceof Error) {
      assert.ok(answer instanceof GatewayError, String(answer))
      assert.ok(['unknown_tool', 'calls_too_deep', 'cancelled', 'overloaded', 'store_unavailable'].includes(answer.code), answer.code)
      assert.equal(answer.code === 'unknown_tool', plan.toolId === 'unknown' && answer.code !== 'calls_too_deep' && answer.code !== 'cancelled')
      if (answer.code === 'store_unavailable') assert.ok(plan.isRefused)
      continue
    }
    answered.set(parent!.invocationId, [...answered.get(parent!.invocationId) ?? [], answer.invocation.invocationId])
  }
  for (const { start, children } of calls.values()) {
    assert.deepEqual(children.sort(), (answered.get(start.invocationId) ?? []).sort(), 'the children are those whose answers the tool got')
  }
}

/** Answer, record and end event say the same. */
async function assertAgreement (calls: Map<string, Told>, { setting: { store }, asked, started, seen }: Ran): Promise<void> {
  const answers = asked.flatMap(({ answer }) => answer instanceof Error ? [] : [answer!])
  for (const call of started) if (!(call instanceof GatewayError)) answers.push(JSON.parse((await call.settled).responseText) as InvokeResponse)
  assert.equal(answers.length, calls.size, 'one answer each')
  for (const { invocation, ...result } of answers) {
    const { start, end } = calls.get(invocation.invocationId)!
    const record = store.get(invocation.invocationId)!
    const { type, toolName, result: told, isError, ...receipt } = end
    assert.deepEqual(receipt, invocation)
    assert.equal(isError, result.isError)
    if (start.toolId === 'secret') assert.deepEqual(told, { content: [], details: null, isError, redacted: true })
    else assert.deepEqual(told, result)
    assert.deepEqual(JSON.parse(record.end!.result), told)
    assert.deepEqual([record.end!.status, record.end!.errorCode, record.end!.durationMs, record.end!.queuedMs], [invocation.status, invocation.errorCode, invocation.durationMs, invocation.queuedMs])
    if (invocation.status === 'succeeded') assert.equal(result.structuredContent, invocation.invocationId)
    assert.equal(record.end!.executed, seen.some(({ invocationId }) => invocationId === invocation.invocationId), 'executed says whether the tool ran')
    if (!record.end!.executed) assert.equal(invocation.durationMs, 0)
  }
}

async function assertWorld (world: World, kind: Kind): Promise<void> {
  const ran = await runWorld(world, kind)
  assertOver(ran)
  const calls = rebuild(ran.setting.events())
  assertTree(calls)
  assertSameTree(calls, ran)
  await assertAgreement(calls, ran)
  assert.deepEqual(ran.setting.logged.filter(({ level }) => level === 'error'), [])
  if (kind.calm) {
    assert.ok(ran.started.every((call) => !(call instanceof GatewayError)))
    const codes = [...calls.values()].map(({ end }) => end.errorCode).filter((code) => !['tool_error', 'invalid_input', 'blocked', undefined].includes(code))
    assert.deepEqual(codes, [], 'nothing ran into its timeout, so nothing stood still for long')
  }
}

/** Fails where a promise of the gateway is rejected with nobody listening. */
async function watchingRejections (run: () => Promise<void>): Promise<void> {
  const rejections: unknown[] = []
  const note = (cause: unknown) => { rejections.push(cause) }
  process.on('unhandledRejection', note)
  try {
    await run()
    await nextTurn()
  } finally {
    process.off('unhandledRejection', note)
  }
  assert.deepEqual(rejections, [])
}

describe('trees of child calls', () => {
  const holds = async (kind: Kind, numRuns: number) => watchingRejections(() =>
    fc.assert(fc.asyncProperty(worlds(kind), async (world) => await assertWorld(world, kind)), { numRuns }))

  it('of tools that call each other in circles, and end by themselves: all end in time, and a limit is passed only while others stand still', async () => {
    await holds({ calm: true, ordered: false }, 150)
  })

  it('with timeouts, cancels, ignored signals and a store that fails at times: each call has one start and one end, and no slot is left taken', async () => {
    await holds({ calm: false, ordered: false }, 200)
  })

  it('without circles: no limit is ever passed, whatever happens', async () => {
    await holds({ calm: false, ordered: true }, 150)
  })
})
