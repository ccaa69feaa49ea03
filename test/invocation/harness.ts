import assert from 'node:assert/strict'
import { Value } from '@sinclair/typebox/value'
import { ToolExecutionEvent } from '../../src/contract/event.ts'
import { InvokeResponse } from '../../src/contract/invocation.ts'
import { createIdSource } from '../../src/ids.ts'
import type { Settlement } from '../../src/invocation/call.ts'
import type { Hooks } from '../../src/invocation/hooks.ts'
import type { CallRequest, KeyedRequest } from '../../src/invocation/arrival.ts'
import { Invoker } from '../../src/invocation/invoker.ts'
import type { InvokerLimits } from '../../src/invocation/limits.ts'
import { MemoryStore } from '../../src/store/memory.ts'
import { defaultRetention } from '../../src/store/retention.ts'
import type { Store } from '../../src/store/store.ts'
import { eventText } from '../../src/store/wire.ts'
import { ToolRegistry, type AnyTool, type ToolRegistryOptions } from '../../src/tools/registry.ts'
import { FakeClock } from '../conformance/fake-clock.ts'

export interface Setting {
  tools: readonly AnyTool[]
  hooks?: readonly Hooks[]
  limits?: Partial<InvokerLimits>
  registry?: ToolRegistryOptions
  /** Stands between the invoker and the store. */
  wrap?: (store: MemoryStore) => Store
  /** What an invoker before this one left behind; a new one where absent. */
  memory?: MemoryStore
}

const bounds = { maxConcurrentCalls: 256, maxConcurrentAsyncCalls: 64, maxWaitingCalls: 100, maxAsyncBacklog: 1000, maxChildCalls: 1000, slotReleaseMs: 60_000, maxChildDepth: 8 }

const principal = { id: 'test' }

/** An invoker with everything real but the time. */
export function setUp ({ tools, hooks = [], limits = {}, registry: registryOptions = {}, wrap = (store) => store, memory: left }: Setting) {
  const clock = new FakeClock()
  const ids = createIdSource()
  const memory = left ?? new MemoryStore({ epoch: ids.epoch(), now: () => clock.now(), ...defaultRetention.memory, maxRecords: 1000, maxEvents: 50_000 })
  const registry: ToolRegistry<any> = new ToolRegistry<any>(registryOptions)
  for (const tool of tools) registry.register(tool)
  const logged: { level: string, fields: any, message: string }[] = []
  const logAt = (level: string) => (fields: object, message: string) => { logged.push({ level, fields, message }) }
  const invoker = new Invoker(registry, {
    store: wrap(memory),
    clock,
    ids,
    log: { debug: logAt('debug'), info: logAt('info'), warn: logAt('warn'), error: logAt('error') },
    hooks,
    limits: { maxResultBytes: 1e6, maxJsonDepth: 100, maxUpdates: 10_000, maxTimeoutMs: 86_400_000, ...bounds, ...limits }
  })

  /** Every event of the log, as a subscriber gets it, held against the contract. */
  function events (): any[] {
    return memory.readEvents(0, { events: 100_000, bytes: Infinity }).events.map((event) => {
      const value: unknown = JSON.parse(eventText(event, 1e6, false))
      assert.deepEqual([...Value.Errors(ToolExecutionEvent, value)].map(({ path, message }) => `${path} ${message}`), [])
      return value
    })
  }

  /** Calls, and checks what must hold of every call: one start, one end, and answer, record and event that agree. */
  async function call (request: Partial<CallRequest> & { toolId: string }) {
    const started = await invoker.start({ principal, ...request })
    return await outcome(started, await started.settled)
  }

  async function outcome<Started extends { invocationId: string }> (started: Started, settlement: Settlement) {
    const response: any = JSON.parse(settlement.responseText)
    assert.deepEqual([...Value.Errors(InvokeResponse, response)].map(({ path, message }) => `${path} ${message}`), [])
    const own = events().filter((event) => event.invocationId === started.invocationId)
    assert.equal(own[0].type, 'tool_execution_start')
    assert.equal(own.filter((event) => event.type === 'tool_execution_start').length, 1)
    assert.equal(own.filter((event) => event.type === 'tool_execution_end').length, 1, 'exactly one end event')
    const end = own.at(-1)
    assert.equal(end.type, 'tool_execution_end', 'and it is the last')
    const record = memory.get(started.invocationId)!
    const { status, errorCode, durationMs } = response.invocation
    assert.deepEqual([end.status, end.errorCode, end.durationMs, end.isError], [status, errorCode, durationMs, response.isError])
    assert.equal(end.result.isError, response.isError)
    assert.deepEqual([record.end!.status, record.end!.errorCode], [status, errorCode])
    assert.equal(settlement.httpStatus >= 400, !settlement.end.executed, '400 and above exactly where the tool did not run')
    return { started, settlement, response, events: own, end, record, status, errorCode, httpStatus: settlement.httpStatus }
  }

  /** Starts a call that its caller may send again. */
  async function send (request: Partial<KeyedRequest> & { toolId: string, idempotencyKey: string }) {
    return await invoker.start({ principal, ...request } as KeyedRequest)
  }

  return { invoker, clock, store: memory, logged, events, call, outcome, start: async (request: Partial<CallRequest> & { toolId: string }) => invoker.start({ principal, ...request }), send }
}

/** `store` with some of its methods replaced. */
export function withMethods (store: MemoryStore, methods: Partial<Store>): Store {
  return new Proxy(store, {
    get (target, name) {
      if (Object.hasOwn(methods, name)) return methods[name as keyof Store]
      const member: unknown = Reflect.get(target, name, target)
      return typeof member === 'function' ? member.bind(target) : member
    }
  })
}

/** `store`, each write of which does what `before` does first, and is not made where that rejects. */
export function withWrites (store: MemoryStore, before: (method: 'begin' | 'mark' | 'settle', id: string) => Promise<unknown>): Store {
  return withMethods(store, {
    begin: async (start, key) => { await before('begin', start.invocationId); return store.begin(start, key) },
    mark: async (id) => { await before('mark', id); store.mark(id) },
    settle: async (id, end) => { await before('settle', id); return store.settle(id, end) }
  })
}

/** A promise with its handles, for a tool that a test lets go on. */
export function gate<T = void> () {
  return Promise.withResolvers<T>()
}
