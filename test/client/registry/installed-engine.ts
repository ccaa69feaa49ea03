import { mkdir, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const engine = fileURLToPath(new URL('engine.ts', import.meta.url))

/**
 * Puts the stand-in for the engine where a program in `folder` finds `@jangts/agent-core/engine`. The package has nothing
 * else, so `@jangts/agent-core/tools` is still answered by our resolution. A link, since Node strips no types of what
 * really stands in `node_modules`.
 */
export async function installEngine (folder: string): Promise<void> {
  const place = join(folder, 'node_modules/@jangts/agent-core')
  await mkdir(place, { recursive: true })
  await writeFile(join(place, 'package.json'), JSON.stringify({ type: 'module', exports: { './engine': './engine.ts' } }))
  await symlink(engine, join(place, 'engine.ts'))
}
