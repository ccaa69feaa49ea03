import type { AgentTool } from '@earendil-works/pi-agent-core'

const rows = ['ant', 'bee', 'cat', 'dog', 'eel']

/** A result for each of its readers: a line for the model, a detail for people, a number for programs. */
const stats: AgentTool = {
  name: 'stats',
  label: 'Statistics',
  description: 'Counts the records.',
  parameters: { type: 'object', properties: {}, additionalProperties: false },
  outputSchema: { type: 'object', properties: { count: { type: 'number' } }, required: ['count'], additionalProperties: false },
  async execute () {
    return { content: [{ type: 'text', text: `There are ${rows.length} records.` }], details: { rows: rows.length }, structuredContent: { count: rows.length } }
  }
}

export default stats
