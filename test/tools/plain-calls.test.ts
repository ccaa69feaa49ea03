import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Value } from '@sinclair/typebox/value'
import { InvokeResponse } from '../../src/contract/invocation.ts'
import { ToolRegistry, type AnyTool } from '../../src/tools/registry.ts'
import type { ToolContext } from '../../src/tools/tool.ts'
import { turns } from '../conformance/until.ts'

type Run = (context: ToolContext, input: any) => unknown

const tool = (id: string, run: Run, more: object = {}) => ({
  id, description: id, kind: 'test', parameters: {}, ...more, execute: (_id: string, input: unknown, _signal: AbortSignal, _onUpdate: unknown, context: ToolContext) => run(context, input)
}) as unknown as AnyTool

const echo = tool('echo', (_context, input) => ({ content: [{ type: 'text', text: 'said' }], structuredContent: input }))

function registryOf (...tools: AnyTool[]): ToolRegistry<any> {
  const registry = new ToolRegistry<any>()
  for (const one of [echo, ...tools]) registry.register(one)
  return registry
}

/** What `context.invoke` gave a tool that was called the plain way. */
async function ask (run: Run, ...tools: AnyTool[]) {
  let answer: any
  let error: any
  const registry = registryOf(...tools, tool('parent', async (context, input) => {
    try {
      answer = await run(context, input)
    } catch (cause) {
      error = cause
    }
    return { structuredContent: 'parent' }
  }))
  const { value, invocation } = await registry.invoke({ toolId: 'parent', input: {} })
  assert.equal(value, 'parent')
  if (answer?.invocation !== undefined) assert.deepEqual([...Value.Errors(InvokeResponse, answer)], [])
  return { answer, error, invocation }
}

describe('a plain call', () => {
  it('of a tool that does not wait gives its value at once', () => {
    const invoked: any = registryOf().invoke({ toolId: 'echo', input: [1] })
    assert.deepEqual([invoked.value, invoked.invocation.status, 'parentInvocationId' in invoked.invocation], [[1], 'succeeded', false])
  })

  describe('whose tool uses context.invoke', () => {
    it('gets the answer as on the whole way: the result and its invocation, flat', async () => {
      const { answer, invocation } = await ask(({ invoke }) => invoke('echo', { a: 1 }))
      const { invocation: child, ...result } = answer
      assert.deepEqual(result, { content: [{ type: 'text', text: 'said' }], details: null, structuredContent: { a: 1 }, isError: false })
      assert.deepEqual([child.toolId, child.status, child.toolCallId, child.parentInvocationId, child.parentSpanId], ['echo', 'succeeded', child.invocationId, invocation.invocationId, invocation.spanId])
      assert.equal(child.spanId, child.invocationId.slice(-16))
    })

    it('gives a call without input an empty object', async () => {
      assert.deepEqual((await ask(({ invoke }) => invoke('echo'))).answer.structuredContent, {})
    })

    it('works for registry tools, both as parent and as child', async () => {
      const registryTool = { id: 'plain', kind: 'test', parseInput: (value: unknown) => value, parseOutput: (value: unknown) => value, execute: async (input: unknown, { invoke }: ToolContext) => (await invoke('echo', input)).structuredContent }
      const { answer } = await ask(({ invoke }) => invoke('plain', 'through two'), registryTool as AnyTool)
      assert.deepEqual([answer.structuredContent, answer.content], ['through two', [{ type: 'text', text: 'through two' }]])
    })

    const failures: [what: string, errorCode: string, child: AnyTool, text: RegExp][] = [
      ['that throws', 'tool_error', tool('child', () => { throw new Error('it broke') }), /it broke/],
      ['that rejects', 'tool_error', tool('child', async () => { throw new Error('it broke') }), /it broke/],
      ['that returns isError', 'tool_error', tool('child', () => ({ isError: true, content: [{ type: 'text', text: 'half done' }] })), /half done/],
      ['that refuses its input', 'invalid_input', tool('child', () => ({}), { parameters: { type: 'object', required: ['b'] } }), /child/],
      ['whose preparation throws', 'invalid_input', tool('child', () => ({}), { prepareArguments: () => { throw new Error('not like that') } }), /not like that/],
      ['whose output breaks its schema', 'invalid_output', tool('child', () => ({ structuredContent: 1 }), { outputSchema: { type: 'string' } }), /child/]
    ]
    for (const [what, errorCode, child, text] of failures) {
      it(`gets ${errorCode} as an answer from a child ${what}`, async () => {
        const { answer } = await ask(({ invoke }) => invoke('child', { a: 1 }), child)
        assert.deepEqual([answer.isError, answer.invocation.status, answer.invocation.errorCode], [true, 'failed', errorCode])
        assert.match(answer.content[0].text, text)
        assert.equal('errors' in (answer.details ?? {}), errorCode !== 'tool_error')
        if (errorCode === 'invalid_input') assert.equal(answer.invocation.durationMs, 0, 'it never ran')
      })
    }

    it('rejects for a tool that there is not', async () => {
      for (const id of ['nothing', 'constructor', '__proto__', '']) assert.equal((await ask(({ invoke }) => invoke(id))).error.code, 'unknown_tool')
    })

    it('after the end of the call that makes it is refused, whether that waited or not', async () => {
      for (const run of [() => ({}), async () => ({}), () => { throw new Error('no') }, async () => { throw new Error('no') }]) {
        let late: ToolContext['invoke'] | undefined
        const registry = registryOf(tool('parent', ({ invoke }) => { late = invoke; return run() }))
        try { await registry.invoke({ toolId: 'parent', input: {} }) } catch {}
        await assert.rejects(late!('echo'), { code: 'cancelled' })
      }
    })

    it('that is not awaited and rejects, bothers nobody', async (t) => {
      const rejected = (cause: unknown) => assert.fail(`unhandled rejection: ${String(cause)}`)
      process.on('unhandledRejection', rejected)
      t.after(() => process.off('unhandledRejection', rejected))
      await ask(async ({ invoke }) => { void invoke('nothing') })
      await turns()
    })

    it('may nest 8 deep, and no deeper; each child names the one above it', async () => {
      const lineage: [string, string | undefined][] = []
      const nest = tool('nest', async ({ invoke, invocationId }, { left }) => {
        if (left === 0) return {}
        const { invocation } = await invoke('nest', { left: left - 1 })
        lineage.push([invocation.parentInvocationId!, invocationId])
        return {}
      })
      const registry = registryOf(nest)
      await registry.invoke({ toolId: 'nest', input: { left: 8 } })
      assert.equal(lineage.length, 8)
      for (const [named, own] of lineage) assert.equal(named, own)
      let deepest: any
      const deeper = registryOf(tool('nest', async ({ invoke }, n) => {
        try {
          await invoke('nest', n + 1)
        } catch (cause) {
          deepest = [n, cause]
        }
        return {}
      }))
      await deeper.invoke({ toolId: 'nest', input: 0 })
      assert.deepEqual([deepest[0], deepest[1].code], [8, 'calls_too_deep'])
    })

    it('runs a sequential tool inside itself: there are no lanes here', async () => {
      const self = tool('self', async ({ invoke }, n) => n === 0 ? { structuredContent: 'end' } : await invoke('self', n - 1), { executionMode: 'sequential' })
      const { value } = await registryOf(self).invoke({ toolId: 'self', input: 3 })
      assert.equal(value, 'end')
    })
  })
})
