import { ToolRegistry, type AnyTool, type ToolRegistryOptions } from './registry.ts'
import { messageOf } from './error-message.ts'
import type { LoadFailure, ToolSource } from './sources/source.ts'

/**
 * Builds and seals a registry from tools given in code and from sources. What is refused is reported, never fatal here:
 * the other tools are served.
 *
 * @throws {GatewayError} where a tool given in code is refused, or a source as a whole cannot be read
 */
export async function loadTools (
  tools: readonly AnyTool[],
  sources: readonly ToolSource[],
  options: ToolRegistryOptions
): Promise<{ registry: ToolRegistry<any>, failures: LoadFailure[] }> {
  const registry: ToolRegistry<any> = new ToolRegistry(options)
  const failures: LoadFailure[] = []
  for (const tool of tools) registry.register(tool)
  for (const source of sources) {
    const found = await source.load()
    failures.push(...found.failures)
    for (const { tool, origin } of found.tools) {
      try {
        registry.register(tool, origin)
      } catch (cause) {
        failures.push({ file: origin, tool: nameOf(tool), reason: messageOf(cause) })
      }
    }
  }
  return { registry: registry.seal(), failures }
}

function nameOf (tool: AnyTool): string {
  const { id, name } = tool as { id?: unknown, name?: unknown }
  return String(id ?? name)
}
