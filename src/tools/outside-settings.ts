import { Value } from '@sinclair/typebox/value'
import { fitsToolPattern, isToolPattern, ToolSettings } from '../contract/tool.ts'
import { GatewayError } from '../errors.ts'

/**
 * Settings from outside, by tool id or by a pattern in which `*` stands for any characters. Of several that fit a tool
 * the later wins, field by field, and its own id wins over every pattern.
 *
 * @returns what applies to a tool
 * @throws {GatewayError} `invalid_config` with every fault; paths begin with the pattern
 */
export function outsideSettings (byPattern: Readonly<Record<string, ToolSettings>>): (toolId: string) => ToolSettings {
  const errors = Object.entries(byPattern).flatMap(([pattern, settings]) =>
    [
      ...(isToolPattern(pattern) ? [] : [{ path: '', message: 'no tool can have an id that fits this' }]),
      ...[...Value.Errors(ToolSettings, settings)].map(({ path, message, schema }) => ({ path, message: schema.expected as string | undefined ?? message }))
    ].map(({ path, message }) => ({ path: `${pattern}${path}`, keyword: 'config', message })))
  if (errors.length > 0) {
    const lines = errors.map(({ path, message }) => `  ${path}: ${message}`)
    throw new GatewayError('invalid_config', `The settings of tools cannot be used:\n${lines.join('\n')}`, { errors })
  }
  const patterns = Object.entries(byPattern).filter(([pattern]) => pattern.includes('*'))
  return (toolId) => Object.assign(
    {},
    ...patterns.filter(([pattern]) => fitsToolPattern(pattern, toolId)).map(([, settings]) => settings),
    Object.hasOwn(byPattern, toolId) ? byPattern[toolId] : {}
  ) as ToolSettings
}

/** Ids and patterns of which none of these tools is one. */
export function unusedPatterns (patterns: Iterable<string>, toolIds: Iterable<string>): string[] {
  const ids = [...toolIds]
  return [...patterns].filter((pattern) => !ids.some((id) => fitsToolPattern(pattern, id)))
}
