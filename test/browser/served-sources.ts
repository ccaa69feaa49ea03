import { readFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import { stripTypeScriptTypes } from 'node:module'
import type { AddressInfo } from 'node:net'
import { relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Scope } from '../e2e/harness.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))
/** What the client needs beside its own files. */
const packages = ['@sinclair/typebox', '@earendil-works/pi-schema', '@earendil-works/pi-schema/formats', 'eventsource-parser']

const imports = Object.fromEntries(packages.map((name) => [name, `/${relative(root, fileURLToPath(import.meta.resolve(name)))}`]))

/** As a site with care for its scripts would have it: nothing of it is made out of text. */
const contentPolicy = "script-src 'self' 'unsafe-inline'"

const page = `<!doctype html>
<link rel="icon" href="data:,">
<script type="importmap">${JSON.stringify({ imports })}</script>
<script type="module">
  import * as toolgate from '/src/client.ts'
  globalThis.toolgate = toolgate
</script>
`

export interface ServedSources {
  /** A page that has the client as \`toolgate\`. */
  url: string
  /** What was asked for. */
  paths: string[]
}

/** The client's sources as they are, types apart, for a page: no bundler, nothing in the place of what Node has. */
export async function serveSources (t: Scope): Promise<ServedSources> {
  const paths: string[] = []
  const server = createServer(async (request, response) => {
    const path = request.url!
    if (path === '/') return response.writeHead(200, { 'content-type': 'text/html', 'content-security-policy': contentPolicy }).end(page)
    paths.push(path)
    try {
      if (!/^\/(src|node_modules)\/[\w@./-]+\.m?[jt]s$/.test(path) || path.includes('..')) throw new Error('not of the client')
      const text = await readFile(root + path.slice(1), 'utf8')
      response.writeHead(200, { 'content-type': 'text/javascript' }).end(path.endsWith('.ts') ? stripTypeScriptTypes(text) : text)
    } catch {
      response.writeHead(404).end()
    }
  })
  t.after(() => {
    server.closeAllConnections()
    server.close()
  })
  await new Promise<void>((resolve) => { server.listen(0, '127.0.0.1', resolve) })
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, paths }
}
