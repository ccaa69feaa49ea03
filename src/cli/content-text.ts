import type { ContentBlock, JsonValue, ToolResult } from '../client.ts'
import { isWithheld } from '../contract/result.ts'
import { jsonForTerminals } from './output.ts'

/** What a result says to a person: its texts, what else there is named, and its data where it has no content at all. */
export function contentText ({ content, structuredContent }: Pick<ToolResult, 'content' | 'structuredContent'>): string {
  if (content.length > 0) return content.map(blockText).join('\n')
  return structuredContent === undefined ? '' : dataText(structuredContent)
}

/** What an update says to a person, whoever it was made for. */
export function progressText (partialResult: ToolResult): string {
  const { content, structuredContent, details } = partialResult
  if (isWithheld(partialResult)) return '(withheld)'
  return content.length === 0 && structuredContent === undefined && details !== null ? dataText(details) : contentText(partialResult)
}

function dataText (value: JsonValue): string {
  return typeof value === 'string' ? value : jsonForTerminals(value)
}

function blockText (block: ContentBlock): string {
  switch (block.type) {
    case 'text': return block.text
    case 'image':
    case 'audio': return `[${block.type}, ${block.mimeType}, ${Math.floor(block.data.length * 3 / 4)} bytes]`
    case 'resource': return `[resource ${block.resource.uri}]`
    case 'resource_link': return `[${block.name}: ${block.uri}]`
  }
}
