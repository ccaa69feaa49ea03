import type { OutcomeCode } from '../contract/invocation.ts'
import type { JsonValue } from '../contract/json.ts'
import type { ToolResult, Usage } from '../contract/result.ts'
import { modelContent, type ModelContent } from './model-message.ts'

/** A result in pi's shape, as its tools return it and its events tell it. */
export interface PiToolResult {
  content: ModelContent[]
  /** Undefined where the tool gave none. */
  details: JsonValue | undefined
  structuredContent?: JsonValue
  usage?: Usage
  /** There where the tool returned a failure, and only there. */
  isError?: true
  terminate?: boolean
}

/**
 * The text of a failure that is nothing but text: a tool threw it, or the gateway ended the call. pi makes the result of
 * such a one itself. Undefined for successes, and for failures that were returned, with something beside their text.
 */
export function thrownText ({ content, details, structuredContent, isError, usage, terminate }: ToolResult, errorCode: OutcomeCode | undefined): string | undefined {
  if (!isError || structuredContent !== undefined || usage !== undefined || terminate !== undefined) return undefined
  const [block] = content
  if (block?.type !== 'text' || content.length > 1 || Object.keys(block).length > 2) return undefined
  return details === null || isOfGateway(errorCode) ? block.text : undefined
}

/** The result that a tool would have returned to pi, whole or partial. */
export function piResult ({ content, details, structuredContent, isError, usage, terminate }: ToolResult, errorCode?: OutcomeCode): PiToolResult {
  return {
    content: modelContent(content),
    details: isError && isOfGateway(errorCode) ? {} : details ?? undefined,
    ...(structuredContent === undefined ? {} : { structuredContent }),
    ...(usage === undefined ? {} : { usage }),
    ...(isError ? { isError } : {}),
    ...(terminate === undefined ? {} : { terminate })
  }
}

/** The result that pi makes of what a tool throws. */
export function thrownResult (text: string): PiToolResult {
  return { content: [{ type: 'text', text }], details: {} }
}

/** Whether the gateway made the result, and no tool: what its `details` list stands in its text as well. */
function isOfGateway (errorCode: OutcomeCode | undefined): boolean {
  return errorCode !== undefined && errorCode !== 'tool_error'
}
