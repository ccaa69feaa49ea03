import type { InvokeResponse } from '../contract/invocation.ts'
import type { ContentBlock } from '../contract/result.ts'

/** What a model's message can hold. */
export type ModelContent = Extract<ContentBlock, { type: 'text' | 'image' }>

/** The message that tells a model of a call. pi's `ToolResultMessage`, but for its `timestamp`. */
export interface ModelMessage {
  role: 'toolResult'
  toolCallId: string
  toolName: string
  content: ModelContent[]
  isError: boolean
}

/**
 * What a model is told of a call: its content, and whether it failed. Nothing else of an answer goes in: neither `details`
 * nor `structuredContent`, which are for people and programs, nor the receipt, nor what tools and MCP servers note on a
 * block beside its text or image (`_meta`, `annotations`).
 */
export function toModelMessage ({ content, isError, invocation: { toolCallId, toolId } }: Pick<InvokeResponse, 'content' | 'isError' | 'invocation'>): ModelMessage {
  return { role: 'toolResult', toolCallId, toolName: toolId, content: modelContent(content).map(bare), isError }
}

function bare (block: ModelContent): ModelContent {
  return block.type === 'text' ? { type: 'text', text: block.text } : { type: 'image', data: block.data, mimeType: block.mimeType }
}

/** Texts and images as they are; what a message has no place for is told of in words. */
export function modelContent (content: readonly ContentBlock[]): ModelContent[] {
  return content.map((block) => block.type === 'text' || block.type === 'image' ? block : { type: 'text', text: wordsFor(block) })
}

function wordsFor (block: Exclude<ContentBlock, ModelContent>): string {
  switch (block.type) {
    case 'audio': return `[audio: ${block.mimeType}]`
    case 'resource_link': return `[link to ${block.name}: ${described(block)}]`
    case 'resource': {
      const { text } = block.resource as { text?: unknown }
      return typeof text === 'string' ? text : `[resource: ${described(block.resource)}]`
    }
  }
}

function described ({ uri, mimeType }: { uri: string, mimeType?: unknown }): string {
  return typeof mimeType === 'string' ? `${uri}, ${mimeType}` : uri
}
