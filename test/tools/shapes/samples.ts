import { Type } from '@sinclair/typebox'
import type { AgentTool } from '@earendil-works/pi-agent-core'
import { defineTool } from '../../../src/tools/tool.ts'

const closed = { additionalProperties: false } as const

/** Toolgate's own shape. */
export const addNumbers = defineTool({
  id: 'add_numbers',
  label: 'Add numbers',
  description: 'Adds two numbers.',
  kind: 'compute',
  parameters: Type.Object({ a: Type.Number(), b: Type.Number() }, closed),
  outputSchema: Type.Object({ sum: Type.Number() }, closed),
  errorSchema: Type.Object({ code: Type.String() }, closed),
  replay: 'safe',
  async execute (_toolCallId, { a, b }) {
    if (a + b > 1e6) return { isError: true, content: [{ type: 'text', text: 'Too big.' }], structuredContent: { code: 'too_big' } }
    return { content: [{ type: 'text', text: `${a + b}` }], details: { operands: [a, b] }, structuredContent: { sum: a + b } }
  }
})

const countLinesParameters = Type.Object({ text: Type.String() })

/** pi's shape. */
export const countLines: AgentTool<typeof countLinesParameters> = {
  name: 'count_lines',
  label: 'Count lines',
  description: 'Counts the lines of a text.',
  parameters: countLinesParameters,
  outputSchema: { type: 'object', properties: { lines: { type: 'integer' } }, required: ['lines'], additionalProperties: false },
  async execute (_toolCallId, params) {
    const lines = (params as { text: string }).text.split('\n').length
    return { content: [{ type: 'text', text: `${lines} lines` }], details: { counted: 'by hand' }, structuredContent: { lines } }
  }
}

/** The registry system's shape. */
export const shout = {
  id: 'shout' as const,
  kind: 'read',
  description: 'Says a text louder.',
  parseInput (value: unknown): string {
    if (typeof value !== 'string') throw new TypeError('only text can be shouted')
    return value
  },
  execute: (text: string) => `${text.toUpperCase()}!` as unknown,
  parseOutput (value: unknown): string {
    if (typeof value !== 'string') throw new TypeError('a shout is text')
    return value
  }
}
