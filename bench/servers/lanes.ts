import { createGateway, defineTool } from '../../src/index.ts'
import { add, answerMemory, Input, Output, report } from './workload.ts'

/**
 * Toolgate with the same tool without a limit (`add`) and with one that is never reached (`add_in_lane`), and a tool that
 * holds its only slot, so that calls of it wait. Answers `fill` with what a thousand arrivals took at the line's beginning
 * and at its end, `empty` once all of them are over.
 */
const addTool = {
  description: 'Adds two numbers.',
  kind: 'read',
  parameters: Input,
  outputSchema: Output,
  execute: (_toolCallId: string, input: { a: number, b: number }) => add(input)
}
let open = Promise.withResolvers<void>()
const app = createGateway({
  logLevel: 'silent',
  maxWaitingCalls: 20_000,
  storeMaxRecords: 1000,
  storeMaxEvents: 1000,
  tools: [
    defineTool({ ...addTool, id: 'add' }),
    defineTool({ ...addTool, id: 'add_in_lane', maxConcurrent: 1000 }),
    defineTool({ id: 'hold', description: 'Waits.', kind: 'read', parameters: Input, executionMode: 'sequential', execute: async () => { await open.promise; return {} } })
  ]
})
await app.listen({ port: 0, host: '127.0.0.1' })
report((app.server.address() as { port: number }).port)
answerMemory()

const BLOCK = 1000
let ends: Promise<unknown>[] = []

async function arrivals (count: number): Promise<number> {
  const { invoker } = app.toolgate
  const began = performance.now()
  for (let call = 0; call < count; call++) {
    const { settled } = await invoker.start({ toolId: 'hold', input: { a: call, b: 1 }, principal: { id: 'bench' } })
    ends.push(Promise.resolve(settled).then(() => {}))
  }
  return performance.now() - began
}

process.on('message', async ({ type, count }: { type: string, count: number }) => {
  if (type === 'fill') {
    const first = await arrivals(BLOCK)
    await arrivals(count - 2 * BLOCK)
    process.send!({ type: 'filled', first, last: await arrivals(BLOCK) })
  }
  if (type === 'empty') {
    open.resolve()
    await Promise.all(ends)
    ends = []
    open = Promise.withResolvers()
    const { taken, pending } = app.toolgate.invoker.slots()
    process.send!({ type: 'emptied', left: taken + pending })
  }
})
