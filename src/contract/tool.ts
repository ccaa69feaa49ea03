import { Type, type Static } from '@sinclair/typebox'
import { DurationMs } from './json.ts'

/** Ids that a tool may have. They stand in URLs, event filters and file names as they are. */
export const toolIdPattern = '^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$'

/** Whether some id is this, or fits it as a pattern, in which `*` stands for any characters or none. */
export function isToolPattern (text: string): boolean {
  const isId = new RegExp(toolIdPattern)
  const least = text.replaceAll('*', '')
  return isId.test(least) || (text.startsWith('*') && isId.test(`_${least}`))
}

/** Whether a tool's id fits a pattern. No regular expression, as one with many stars takes for ever to find that it does not fit. */
export function fitsToolPattern (pattern: string, id: string): boolean {
  const [first = '', ...parts] = pattern.split('*')
  const last = parts.pop()
  if (last === undefined) return id === pattern
  if (!id.startsWith(first)) return false
  let end = first.length
  for (const part of parts) {
    const start = id.indexOf(part, end)
    if (start === -1) return false
    end = start + part.length
  }
  return id.endsWith(last) && id.length - last.length >= end
}

export const ExecutionMode = Type.Union([Type.Literal('parallel'), Type.Literal('sequential')])
export type ExecutionMode = Static<typeof ExecutionMode>

export const ReplayPolicy = Type.Union([Type.Literal('safe'), Type.Literal('never')])
export type ReplayPolicy = Static<typeof ReplayPolicy>

export const InputMode = Type.Union([Type.Literal('strict'), Type.Literal('coerce')])
export type InputMode = Static<typeof InputMode>

export const OutputValidation = Type.Union([Type.Literal('enforce'), Type.Literal('warn')])
export type OutputValidation = Static<typeof OutputValidation>

const pointsAt = 'that begins with /input, /result/content, /result/details or /result/structuredContent'

/** A JSON Pointer (RFC 6901) to what is masked of a call. `*` stands for every index and every key. */
export const MaskPointer = Type.String({
  maxLength: 1000,
  pattern: '^/(input|result/(content|details|structuredContent))(/([^/~]|~[01])*)*$',
  expected: `must be a JSON Pointer ${pointsAt}`
})
export const MaskPointers = Type.Array(MaskPointer, { expected: `must be a list of JSON Pointers, each one ${pointsAt}` })

/** Settings of a tool that can be set from outside, for tools of any shape; they win over its own. */
export const ToolSettings = Type.Object({
  kind: Type.Optional(Type.String({ minLength: 1 })),
  executionMode: Type.Optional(ExecutionMode),
  replay: Type.Optional(ReplayPolicy),
  timeoutMs: Type.Optional(Type.Integer({ minimum: 1, maximum: 86_400_000 })),
  maxConcurrent: Type.Optional(Type.Integer({ minimum: 1 })),
  sensitive: Type.Optional(Type.Boolean()),
  mask: Type.Optional(MaskPointers),
  inputMode: Type.Optional(InputMode),
  outputValidation: Type.Optional(OutputValidation)
}, { $id: 'ToolSettings', additionalProperties: false })
export type ToolSettings = Static<typeof ToolSettings>

const JsonSchema = Type.Record(Type.String(), Type.Unknown(), {
  description: 'JSON Schema, draft 2020-12 unless $schema says draft-07'
})

/** What callers are told about one tool. */
export const ToolDescriptor = Type.Object({
  id: Type.String({ pattern: toolIdPattern }),
  label: Type.String(),
  description: Type.String(),
  kind: Type.String(),
  parameters: JsonSchema,
  outputSchema: Type.Optional(JsonSchema),
  errorSchema: Type.Optional(JsonSchema),
  executionMode: ExecutionMode,
  replay: ReplayPolicy,
  inputMode: InputMode,
  timeoutMs: DurationMs,
  source: Type.String({ description: 'Where the tool was registered from' })
}, { $id: 'ToolDescriptor' })
export type ToolDescriptor = Static<typeof ToolDescriptor>

/** The answer of `GET /tools`. */
export const ToolList = Type.Object({ tools: Type.Array(ToolDescriptor) }, { $id: 'ToolList' })
export type ToolList = Static<typeof ToolList>
