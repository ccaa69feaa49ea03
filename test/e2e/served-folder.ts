import assert from 'node:assert/strict'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import type { TestContext } from 'node:test'
import { Value } from '@sinclair/typebox/value'
import { Readiness } from '../../src/contract/health.ts'
import type { GatewayOptions } from '../../src/gateway.ts'
import { invoke, send, startGateway, type RunningGateway } from './harness.ts'

type Lines = [fields: any, message: string][]

/** A gateway that serves a folder. */
export interface Served extends RunningGateway {
  path: string
  log: { error: Lines, info: Lines }
  write: (files: Record<string, string>) => Promise<void>
  remove: (name: string) => Promise<void>
  ids: () => Promise<string[]>
  ready: () => Promise<any>
}

export async function serve (t: TestContext, files: Record<string, string>, options: GatewayOptions = {}): Promise<Served> {
  const path = await mkdtemp(join(tmpdir(), 'toolgate-reload-'))
  t.after(() => rm(path, { recursive: true, force: true }))
  const write = async (more: Record<string, string>) => {
    for (const [name, text] of Object.entries(more)) {
      await mkdir(dirname(join(path, name)), { recursive: true })
      await writeFile(join(path, name), text)
    }
  }
  await write(files)
  const log: Served['log'] = { error: [], info: [] }
  const logger = { debug () {}, warn () {}, error: (...line: any) => log.error.push(line), info: (...line: any) => log.info.push(line) } as GatewayOptions['logger']
  const running = await startGateway(t, { toolDirectories: [path], logger: logger!, ...options })
  return {
    ...running, path, log, write,
    remove: (name) => rm(join(path, name), { recursive: true }),
    ids: async () => (await send(`${running.url}/tools`)).body.tools.map(({ id }: any) => id),
    ready: async () => {
      const { status, body } = await send(`${running.url}/readyz`)
      assert.equal(status, 200)
      assert.ok(Value.Check(Readiness, body))
      return body
    }
  }
}

/** A module that exports a tool. */
export const module = (id: string, value: string, head = '') => `${head}\nexport default { id: '${id}', description: 'd', kind: 'test', parameters: {}, execute: async () => ({ structuredContent: await (${value}) }) }`

export const valueOf = async (gateway: Served, toolId: string) => (await invoke(gateway, toolId)).body.structuredContent
