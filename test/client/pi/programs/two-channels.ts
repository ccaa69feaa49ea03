import { Agent } from '@earendil-works/pi-agent-core'
import { createFauxCore, fauxAssistantMessage, fauxToolCall } from '@earendil-works/pi-ai/providers/faux'
import { asAgentTools, createClient, toPiEvents } from '../../../../src/client.ts'

// Run with the gateway's URL. Prints what reaches whom of one result of `stats`.
const client = createClient({ url: process.argv[2]! })
const print = (reader: string, value: unknown) => console.log(`${reader}:`, value)

// Anybody who follows the gateway.
const open = Promise.withResolvers<void>()
const following = (async () => {
  for await (const event of toPiEvents(client.events({ onOpen: open.resolve }))) {
    if (event.type !== 'tool_execution_end') continue
    return print('a subscriber to /events', event.result.structuredContent)
  }
})()
await open.promise

// An agent whose tools are the gateway's.
const faux = createFauxCore({})
faux.setResponses([fauxAssistantMessage(fauxToolCall('stats', {}), { stopReason: 'toolUse' }), fauxAssistantMessage('Five.')])
const agent = new Agent({
  streamFn: faux.streamSimple,
  initialState: { systemPrompt: 'You count.', model: faux.getModel(), tools: await asAgentTools(client, ['stats']) }
})
const heard = Promise.withResolvers<unknown>()
agent.subscribe((event) => {
  if (event.type === 'tool_execution_end') heard.resolve(event.result.structuredContent)
})
await agent.prompt('How many records are there?')
await following
print("the agent's own subscriber", await heard.promise)

for (const message of agent.state.messages) {
  if (message.role !== 'toolResult') continue
  print('structuredContent for the model', (message as { structuredContent?: unknown }).structuredContent)
  print('content for the model', JSON.stringify(message.content))
}
print('structuredContent anywhere in the transcript', JSON.stringify(agent.state.messages).includes('structuredContent'))
