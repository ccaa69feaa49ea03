import { resolve } from 'node:path'
import { GatewayError } from '../errors.ts'
import type { Hooks } from '../invocation/hooks.ts'
import { importUrl, resolveForToolsIn } from '../tools/sources/module-resolution.ts'

/** @throws {GatewayError} `invalid_config` where the module cannot be loaded, or exports something else */
export async function loadHooks (path: string): Promise<Hooks[]> {
  const file = resolve(path)
  resolveForToolsIn(resolve(file, '..'))
  let exports: { default?: Hooks | Hooks[] } & Hooks
  try {
    exports = await import(importUrl(file))
  } catch (cause) {
    throw new GatewayError('invalid_config', `The hooks module ${path} cannot be loaded: ${(cause as Error).message}`, { cause })
  }
  const hooks = [exports.default ?? exports].flat()
  if (!hooks.every(isHooks)) {
    throw new GatewayError('invalid_config', `The hooks module ${path} must export beforeToolCall or afterToolCall, or a list of such hooks as its default.`)
  }
  return hooks
}

function isHooks (hooks: Hooks | null | undefined): boolean {
  const given = [hooks?.beforeToolCall, hooks?.afterToolCall].filter((hook) => hook !== undefined)
  return given.length > 0 && given.every((hook) => typeof hook === 'function')
}
