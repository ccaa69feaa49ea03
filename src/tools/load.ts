import { join } from 'node:path'
import { ToolRegistry, type AnyTool, type ToolRegistryOptions } from './registry.ts'
import { messageOf } from './error-message.ts'
import type { RegisteredTool } from './registered-tool.ts'
import type { LoadFailure, ToolSource } from './sources/source.ts'

export interface LoadedTools {
  registry: ToolRegistry<any>
  /** What sources brought and is done without; files are named with their source. */
  failures: readonly LoadFailure[]
  /** Those of which a tool is in the registry, named in the same way. */
  files: ReadonlySet<string>
}

export interface LoadOutcome extends LoadedTools {
  /** To be called where the tools are not put in force after all: the sources are as before the load. */
  revert: () => void
}

/**
 * Builds and seals a registry from tools given in code and from sources. What a source brings and is refused is
 * reported, never fatal here: the other tools are served.
 *
 * @throws {GatewayError} where a tool given in code is refused, or a source as a whole cannot be read; then the sources
 *   are as before
 */
export async function loadTools (
  given: Iterable<AnyTool | RegisteredTool>,
  sources: readonly ToolSource[],
  options: ToolRegistryOptions
): Promise<LoadOutcome> {
  const registry: ToolRegistry<any> = new ToolRegistry(options)
  const failures: LoadFailure[] = []
  const files = new Set<string>()
  const reverts: (() => void)[] = []
  const revert = () => { while (reverts.length > 0) reverts.pop()!() }
  for (const tool of given) add(registry, tool)
  for (const source of sources) {
    const found = await source.load().catch((error) => {
      revert()
      throw error
    })
    if (found.revert !== undefined) reverts.push(found.revert)
    failures.push(...found.failures.map((failure) => ({ ...failure, file: join(source.name, failure.file) })))
    for (const { tool, origin } of found.tools) {
      const file = join(source.name, origin)
      try {
        add(registry, tool, origin)
        files.add(file)
      } catch (cause) {
        failures.push({ file, tool: nameOf(tool), reason: messageOf(cause) })
      }
    }
  }
  return { registry: registry.seal(), failures, files, revert }
}

function add (registry: ToolRegistry<any>, tool: AnyTool | RegisteredTool, origin?: string): void {
  if ('descriptor' in tool) registry.adopt(tool)
  else registry.register(tool, origin)
}

function nameOf (tool: AnyTool | RegisteredTool): string {
  if ('descriptor' in tool) return tool.descriptor.id
  const { id, name } = tool as { id?: unknown, name?: unknown }
  return String(id ?? name)
}
