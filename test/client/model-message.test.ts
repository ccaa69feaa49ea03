import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { createClient, toModelMessage, type InvokeResponse } from '../../src/client.ts'
import { startGateway, tool } from '../e2e/harness.ts'

const text = (words: string) => [{ type: 'text', text: words }]
const pixel = { type: 'image', data: 'iVBORw0KGgo=', mimeType: 'image/png' }
const secret = { count: 5 }
const tools = [
  tool('stats', () => ({ content: [{ ...text('5 records')[0], _meta: secret }, { ...pixel, annotations: { audience: ['user'] }, _meta: secret }], details: secret, structuredContent: secret, terminate: true })),
  tool('broken', () => ({ content: text('half of it'), details: secret, structuredContent: secret, isError: true })),
  tool('picture', () => ({ content: [{ type: 'audio', data: 'AAAA', mimeType: 'audio/wav' }, { type: 'resource_link', uri: 'https://example.org/', name: 'example', mimeType: 5 }] })),
  tool('silent', () => ({}))
]
const message = (toolName: string, content: object[], isError = false) => ({ role: 'toolResult', toolCallId: `call-${toolName}`, toolName, content, isError })
const expected = [
  message('stats', [...text('5 records'), pixel]),
  message('broken', text('half of it'), true),
  message('picture', [...text('[audio: audio/wav]'), ...text('[link to example: https://example.org/]')]),
  message('silent', [])
]
const calls = tools.map(({ id }: any) => ({ toolId: id, toolCallId: `call-${id}` }))

describe('what a model is told of a call', () => {
  const ways: Record<string, (client: ReturnType<typeof createClient>) => Promise<InvokeResponse[]>> = {
    'that was waited for': async (client) => await Promise.all(calls.map(({ toolId, toolCallId }) => client.invoke(toolId, {}, { toolCallId, throwOnError: false }))),
    'that ran on its own': async (client) => await Promise.all(calls.map(async ({ toolId, toolCallId }) => {
      const { invocationId } = await client.invokeAsync(toolId, {}, { toolCallId })
      return await client.wait(invocationId, { throwOnError: false })
    })),
    'of a batch': async (client) => (await client.batch(calls)).results as InvokeResponse[]
  }
  for (const [way, answers] of Object.entries(ways)) {
    it(`${way}: its content and whether it failed, and nothing else`, async (t) => {
      const { url } = await startGateway(t, { tools })
      const messages = (await answers(createClient({ url }))).map((answer) => toModelMessage(answer))
      assert.deepEqual(messages, expected)
      assert.doesNotMatch(JSON.stringify(messages), /count|structuredContent|details|terminate|invocation|_meta|annotations/)
    })
  }
})
