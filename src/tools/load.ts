import { join } from 'node:path'
import { ToolRegistry, type AnyTool, type ToolRegistryOptions } from './registry.ts'
import { messageOf } from './error-message.ts'
import type { RegisteredTool } from './registered-tool.ts'
import type { LoadFailure, ToolSource } from './sources/source.ts'

/**
 * Builds and seals a registry from tools given in code and from sources. What a source brings and is refused is
 * reported, never fatal here: the other tools are served.
 *
 * @throws {GatewayError} where a tool given in code is refused, or a source as a whole cannot be read
 */
export async function loadTools (
  given: Iterable<AnyTool | RegisteredTool>,
  sources: readonly ToolSource[],
  options: ToolRegistryOptions
): Promise<{ registry: ToolRegistry<any>, failures: LoadFailure[] }> {
  const registry: ToolRegistry<any> = new ToolRegistry(options)
  const failures: LoadFailure[] = []
  for (const tool of given) add(registry, tool)
  for (const source of sources) {
    const found = await source.load()
    failures.push(...found.failures.map((failure) => ({ ...failure, file: join(source.name, failure.file) })))
    for (const { tool, origin } of found.tools) {
      try {
        add(registry, tool, origin)
      } catch (cause) {
        failures.push({ file: join(source.name, origin), tool: nameOf(tool), reason: messageOf(cause) })
      }
    }
  }
  return { registry: registry.seal(), failures }
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
