import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { createGateway } from '../../src/gateway.ts'

/**
 * Run by `reload-memory.test.ts` as `node --expose-gc`: reloads a gateway many times, with calls that are running
 * meanwhile, and prints what is left of the registries before.
 */
const RELOADS = 30
const folder = mkdtempSync(join(tmpdir(), 'toolgate-row-'))
const write = (version: number) => {
  for (const [name, exported] of [['edited.mjs', 'export default'], ['required.js', 'module.exports =']]) {
    writeFileSync(join(folder, name!), `${exported} { id: '${name}', description: '${version}', kind: 'k', parameters: { type: 'object' }, execute: () => ({ content: [] }) }`)
  }
}
write(0)
writeFileSync(join(folder, 'same.mjs'), "export default () => ({ id: 'same', description: 'd', kind: 'k', parameters: { type: 'object' }, execute: () => ({ content: [] }) })")
let release = () => {}
const inCode = {
  id: 'wait', description: 'd', kind: 'k', parameters: {}, execute: () => new Promise<object>((resolve) => { release = () => resolve({}) })
}
const app = createGateway({ logger: false, toolDirectories: [folder], tools: [inCode] })
await app.listen({ port: 0, host: '127.0.0.1' })
await fetch(`${app.listeningOrigin}/readyz`)

const listeners = () => [process, app.server].map((emitter) => emitter.eventNames().reduce((sum, name) => sum + emitter.listenerCount(name), 0))
const before = listeners()
const registries: WeakRef<object>[] = []
const tools: WeakRef<object>[] = []

/** In a function of its own, so that no variable of this file holds what it looked at. */
function takeDown (): void {
  const { registry } = app.toolgate.invoker
  registries.push(new WeakRef(registry))
  for (const registered of registry) tools.push(new WeakRef(registered), new WeakRef(registered.descriptor))
}

let ended: Promise<unknown> = Promise.resolve()
for (let version = 1; version <= RELOADS; version++) {
  takeDown()
  if (version === 10) ended = app.invoke({ toolId: 'wait' })
  for (const toolId of ['edited.mjs', 'required.js', 'same']) await app.invoke({ toolId })
  // Some with an edit, some with none, and some that break.
  if (version % 3 !== 0) write(version)
  if (version % 5 === 0) writeFileSync(join(folder, 'same-id.mjs'), "export { default } from './same.mjs'")
  await app.reloadTools().catch(() => {})
  rmSync(join(folder, 'same-id.mjs'), { force: true })
  await app.reloadTools()
}
const waiting = await alive(tools)
release()
await ended
const report = {
  registries: await alive(registries), tools: await alive(tools), waiting, listeners: [before, listeners()], there: [registries.length, tools.length]
}
process.stdout.write(JSON.stringify(report))
await app.close()
rmSync(folder, { recursive: true })

async function alive (refs: WeakRef<object>[]): Promise<number> {
  for (let round = 0; round < 10; round++) {
    await nextTurn()
    globalThis.gc!()
  }
  return refs.filter((ref) => ref.deref() !== undefined).length
}
