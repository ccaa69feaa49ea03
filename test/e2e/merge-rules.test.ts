import assert from 'node:assert/strict'
import { describe, it, type TestContext } from 'node:test'
import { Type } from '@sinclair/typebox'
import type { AfterToolCallResult, Hooks } from '../../src/invocation/hooks.ts'
import type { AnyTool } from '../../src/tools/registry.ts'
import { invoke, startGateway, tool } from './harness.ts'
import { openStream } from './sse-client.ts'

const words = (text: string) => [{ type: 'text' as const, text }]
const usage = (input: number) => ({ input, output: 0, cacheRead: 0, cacheWrite: 0, totalTokens: input, cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 } })
const outputSchema = Type.Object({ n: Type.Integer() })

const made = { content: words('tool'), details: { by: 'tool', keep: true }, structuredContent: { n: 1 } }
const succeeds = (more: object = {}) => tool('subject', () => structuredClone(made), more)
const fails = (more: object = {}) => tool('subject', () => ({ ...structuredClone(made), isError: true }), more)
const throws = (more: object = {}) => tool('subject', () => { throw new Error('tool broke') }, more)

type Hook = AfterToolCallResult | null | undefined | (() => never)

/** The answer without its receipt; the end event has to say the same, twice over. */
async function run (t: TestContext, subject: AnyTool, hooks: Hook[]) {
  const seen: any[] = []
  const asHooks: Hooks[] = hooks.map((hook) => ({
    afterToolCall: async ({ result, isError }) => {
      seen.push(structuredClone({ ...result, isError }))
      return typeof hook === 'function' ? hook() : hook
    }
  }))
  const gateway = await startGateway(t, { tools: [subject], hooks: asHooks })
  const listener = await openStream(t, gateway.url)
  const { status, body } = await invoke(gateway, 'subject')
  const { invocation, ...result } = body
  const end = await listener.endOf(invocation.invocationId)
  assert.equal(status, 200, 'the tool ran')
  assert.deepEqual(end.result, result)
  assert.deepEqual([end.isError, end.status, end.errorCode], [result.isError, invocation.status, invocation.errorCode])
  return { result, errorCode: invocation.errorCode, seen }
}

const success = { ...made, isError: false }
const failure = { ...made, isError: true }

describe('after-hooks, one', () => {
  interface Row { subject?: AnyTool, hook: Hook, result: object, errorCode?: string }
  const rows: Record<string, Row> = {
    'that returns nothing changes nothing': { hook: undefined, result: success },
    'that returns null changes nothing': { hook: null, result: success },
    'that returns an empty object changes nothing': { hook: {}, result: success },
    'replaces details as a whole, and nothing else': { hook: { details: { by: 'hook' } }, result: { ...success, details: { by: 'hook' } } },
    'that returns content drops the structured result': {
      hook: { content: words('hook') },
      result: { content: words('hook'), details: made.details, isError: false }
    },
    'that returns empty content drops the structured result too': { hook: { content: [] }, result: { content: [], details: made.details, isError: false } },
    'that returns content and structuredContent replaces both': {
      hook: { content: words('hook'), structuredContent: { n: 2 } },
      result: { ...success, content: words('hook'), structuredContent: { n: 2 } }
    },
    'that returns structuredContent keeps the content': { hook: { structuredContent: [0] }, result: { ...success, structuredContent: [0] } },
    'replaces with 0, false and empty text as with anything': {
      hook: { structuredContent: 0, details: '', terminate: false },
      result: { ...success, structuredContent: 0, details: '', terminate: false }
    },
    'that returns usage and terminate adds them': { hook: { usage: usage(7), terminate: true }, result: { ...success, usage: usage(7), terminate: true } },
    'that returns nulls replaces nothing': {
      hook: { content: null, details: null, structuredContent: null, isError: null, usage: null, terminate: null },
      result: success
    },
    'that returns undefineds replaces nothing': {
      hook: { content: undefined, details: undefined, structuredContent: undefined } as unknown as AfterToolCallResult,
      result: success
    },
    'that says isError makes a success a tool_error, all else kept': { hook: { isError: true }, result: failure, errorCode: 'tool_error' },
    'that says isError needs no structuredContent for it': {
      subject: succeeds({ outputSchema }),
      hook: { isError: true, content: words('no') },
      result: { content: words('no'), details: made.details, isError: true },
      errorCode: 'tool_error'
    },
    'that says isError: false makes a failure a success': { subject: fails(), hook: { isError: false }, result: success },
    'that says isError: false makes a failure that keeps the outputSchema a success': { subject: fails({ outputSchema }), hook: { isError: false }, result: success },
    'that says isError: false makes a throw a success': {
      subject: throws(), hook: { isError: false }, result: { content: words('tool broke'), details: null, isError: false }
    },
    'that leaves a failure alone leaves it a failure': { subject: fails({ outputSchema }), hook: { details: 1 }, result: { ...failure, details: 1 }, errorCode: 'tool_error' },
    'that gives a throw its data keeps it a failure': {
      subject: throws({ outputSchema }),
      hook: { structuredContent: { why: 'disk' } },
      result: { content: words('tool broke'), details: null, structuredContent: { why: 'disk' }, isError: true },
      errorCode: 'tool_error'
    }
  }
  for (const [name, { subject = succeeds(), hook, result, errorCode }] of Object.entries(rows)) {
    it(name, async (t) => {
      const got = await run(t, subject, [hook])
      assert.deepEqual(got.result, result)
      assert.equal(got.errorCode, errorCode)
    })
  }

  const invalid: Record<string, { subject: AnyTool, hook: Hook }> = {
    'that turns a throw into a success owes the outputSchema its structuredContent': { subject: throws({ outputSchema }), hook: { isError: false } },
    'that drops the structured result of a success breaks its outputSchema': { subject: succeeds({ outputSchema }), hook: { content: words('hook') } },
    'that replaces the structured result is held to the outputSchema': { subject: succeeds({ outputSchema }), hook: { structuredContent: { n: 'x' } } },
    'that returns something that is no content is held to the contract': { subject: succeeds(), hook: { content: [{ type: 'smoke' } as never], structuredContent: 1 } }
  }
  for (const [name, { subject, hook }] of Object.entries(invalid)) {
    it(`${name}: invalid_output`, async (t) => {
      const { result, errorCode } = await run(t, subject, [hook])
      assert.equal(errorCode, 'invalid_output')
      assert.equal(result.isError, true)
      assert.ok(result.details.errors.length > 0)
      assert.equal('structuredContent' in result, false)
    })
  }

  it('that throws replaces the result: hook_error', async (t) => {
    const { result, errorCode } = await run(t, succeeds(), [() => { throw new Error('audit is down') }])
    assert.equal(errorCode, 'hook_error')
    assert.deepEqual(result, { content: words('audit is down'), details: null, isError: true })
  })

  it('that throws replaces a failure as well', async (t) => {
    const { result, errorCode } = await run(t, fails(), [() => { throw new Error('audit is down') }])
    assert.equal(errorCode, 'hook_error')
    assert.deepEqual(result, { content: words('audit is down'), details: null, isError: true })
  })
})

describe('after-hooks, two in a row', () => {
  it('the second sees what the first made of the result', async (t) => {
    const { seen } = await run(t, succeeds(), [{ content: words('first'), details: 1, isError: true }, undefined])
    assert.deepEqual(JSON.parse(JSON.stringify(seen[0])), success)
    assert.deepEqual(JSON.parse(JSON.stringify(seen[1])), { content: words('first'), details: 1, isError: true })
  })

  interface Row { subject?: AnyTool, hooks: [Hook, Hook], result: object, errorCode?: string }
  const rows: Record<string, Row> = {
    'nothing twice changes nothing': { hooks: [undefined, {}], result: success },
    'the last one to set a field wins': { hooks: [{ details: 1 }, { details: 2 }], result: { ...success, details: 2 } },
    'fields of both are merged': { hooks: [{ details: 1 }, { terminate: true }], result: { ...success, details: 1, terminate: true } },
    'content after structuredContent drops it': {
      hooks: [{ structuredContent: { n: 2 } }, { content: words('second') }],
      result: { content: words('second'), details: made.details, isError: false }
    },
    'structuredContent after content stays': {
      hooks: [{ content: words('first') }, { structuredContent: { n: 2 } }],
      result: { ...success, content: words('first'), structuredContent: { n: 2 } }
    },
    'nulls of the second undo nothing of the first': {
      hooks: [{ content: words('first'), structuredContent: 1, isError: true }, { content: null, structuredContent: null, isError: null }],
      result: { ...failure, content: words('first'), structuredContent: 1 },
      errorCode: 'tool_error'
    },
    'an error taken back is a success': { hooks: [{ isError: true }, { isError: false }], result: success },
    'a failure excused and found again is a failure': { subject: fails(), hooks: [{ isError: false }, { isError: true }], result: failure, errorCode: 'tool_error' },
    'only the end of the line is held to the outputSchema': {
      subject: succeeds({ outputSchema }), hooks: [{ structuredContent: 'x' }, { structuredContent: { n: 3 } }], result: { ...success, structuredContent: { n: 3 } }
    }
  }
  for (const [name, { subject = succeeds(), hooks, result, errorCode }] of Object.entries(rows)) {
    it(name, async (t) => {
      const got = await run(t, subject, hooks)
      assert.deepEqual(got.result, result)
      assert.equal(got.errorCode, errorCode)
      assert.equal(got.seen.length, 2)
    })
  }

  it('after a throw the next is not asked', async (t) => {
    const { seen, errorCode } = await run(t, succeeds(), [() => { throw new Error('first') }, { isError: false, details: 'late' }])
    assert.equal(errorCode, 'hook_error')
    assert.equal(seen.length, 1)
  })

  it('a throw of the second replaces what the first made', async (t) => {
    const { result, errorCode } = await run(t, succeeds(), [{ details: 'first' }, () => { throw new Error('second') }])
    assert.equal(errorCode, 'hook_error')
    assert.deepEqual(result, { content: words('second'), details: null, isError: true })
  })
})
