import { Type, type Static } from '@sinclair/typebox'
import { JsonValue } from './json.ts'

const open = { additionalProperties: true } as const

export const TextBlock = Type.Object({ type: Type.Literal('text'), text: Type.String() }, open)
export const ImageBlock = Type.Object({ type: Type.Literal('image'), data: Type.String(), mimeType: Type.String() }, open)
export const AudioBlock = Type.Object({ type: Type.Literal('audio'), data: Type.String(), mimeType: Type.String() }, open)
export const ResourceBlock = Type.Object({
  type: Type.Literal('resource'),
  resource: Type.Object({ uri: Type.String() }, open)
}, open)
export const ResourceLinkBlock = Type.Object({
  type: Type.Literal('resource_link'),
  uri: Type.String(),
  name: Type.String()
}, open)

/** One piece of what the model reads. The blocks are MCP's; keys beyond the named ones are kept. */
export const ContentBlock = Type.Union([TextBlock, ImageBlock, AudioBlock, ResourceBlock, ResourceLinkBlock], {
  $id: 'ContentBlock'
})
export type ContentBlock = Static<typeof ContentBlock>

/** Model usage of the execution itself, in pi's shape (tokens; costs in the catalogue's currency). */
export const Usage = Type.Object({
  input: Type.Number(),
  output: Type.Number(),
  cacheRead: Type.Number(),
  cacheWrite: Type.Number(),
  cacheWrite1h: Type.Optional(Type.Number()),
  reasoning: Type.Optional(Type.Number()),
  totalTokens: Type.Number(),
  cost: Type.Object({
    input: Type.Number(),
    output: Type.Number(),
    cacheRead: Type.Number(),
    cacheWrite: Type.Number(),
    total: Type.Number(),
    totalFromProvider: Type.Optional(Type.Boolean())
  }, open)
}, { $id: 'Usage', ...open })
export type Usage = Static<typeof Usage>

/** The fields of a result, shared by `ToolResult` and the flat `InvokeResponse`. */
export const resultFields = {
  content: Type.Array(ContentBlock, { description: 'For the model: short text, images' }),
  details: Type.Unsafe<JsonValue>(Type.Unknown({ description: 'For people: UI, logs, state. null where the tool gave none' })),
  structuredContent: Type.Optional(Type.Unsafe<JsonValue>(Type.Unknown({
    description: "For programs: matches the tool's outputSchema on success. Absent is not null"
  }))),
  isError: Type.Boolean({ description: 'The final verdict, after every hook' }),
  usage: Type.Optional(Usage),
  terminate: Type.Optional(Type.Boolean({ description: 'Hint: stop after this batch' })),
  redacted: Type.Optional(Type.Literal(true, { description: 'Fields were withheld, or values in them masked' }))
}

/** What a tool call came to, for its three readers. */
export const ToolResult = Type.Object(resultFields, { $id: 'ToolResult' })
export type ToolResult = Static<typeof ToolResult>

/** Whether nothing of a result is told, as its tool is sensitive; where only values in it are masked, the rest is there. */
export function isWithheld ({ redacted, content, details, structuredContent }: ToolResult): boolean {
  return redacted === true && content.length === 0 && details === null && structuredContent === undefined
}
