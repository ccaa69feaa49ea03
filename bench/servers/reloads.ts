import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { pathToFileURL } from 'node:url'
import { createGateway } from '../../src/index.ts'

/**
 * Loads tool modules again and again, tells what one time takes and leaves behind, and ends.
 *
 *   node --expose-gc reloads.ts edited|unchanged|import <times>
 *
 * `edited` reloads a gateway after an edit of one module among twenty, `unchanged` after none. `import` is what Node itself
 * does with that module, by a new URL each time.
 */
const [what, times] = [process.argv[2], Number(process.argv[3])]
const folder = mkdtempSync(join(tmpdir(), 'toolgate-bench-'))
const file = (number: number) => join(folder, `tool-${number}.mjs`)
const text = (number: number, version: number) => `
export default {
  id: 'tool_${number}', description: 'Version ${version}.', kind: 'read',
  parameters: { type: 'object', properties: { a: { type: 'number' }, b: { type: 'number' } }, required: ['a', 'b'], additionalProperties: false },
  outputSchema: { type: 'object', properties: { sum: { type: 'number' } }, required: ['sum'] },
  execute (toolCallId, { a, b }) {
    const sum = a + b
    return { content: [{ type: 'text', text: String(sum) }], structuredContent: { sum } }
  }
}
`
for (let number = 0; number < 20; number++) writeFileSync(file(number), text(number, 0))

let version = 0
const edit = () => writeFileSync(file(0), text(0, ++version))
const app = createGateway({ logger: false, toolDirectories: [folder] })
await app.ready()
const steps: Record<string, () => Promise<unknown>> = {
  edited: async () => {
    edit()
    await app.reloadTools()
  },
  unchanged: () => app.reloadTools(),
  import: async () => {
    edit()
    await import(`${pathToFileURL(file(0)).href}?again=${version}`)
  }
}
const step = steps[what!]!

// Until the engine has compiled what it will: that is kept, too, and is none of what a reload leaves behind.
for (let count = 0; count < 400; count++) await step()
const before = await bytes()
const began = performance.now()
for (let count = 0; count < times; count++) await step()
const ms = (performance.now() - began) / times
const after = await bytes()
process.send!({ type: 'measured', bytes: (after - before) / times, ms }, () => process.exit())
rmSync(folder, { recursive: true })

async function bytes (): Promise<number> {
  for (let round = 0; round < 5; round++) {
    await nextTurn()
    globalThis.gc!()
  }
  const { heapUsed, external } = process.memoryUsage()
  return heapUsed + external
}
