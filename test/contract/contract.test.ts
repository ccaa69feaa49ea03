import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { compile } from '@earendil-works/pi-schema'
import { Kind, OptionalKind, type TSchema } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import fc from 'fast-check'
import * as event from '../../src/contract/event.ts'
import * as health from '../../src/contract/health.ts'
import * as invocation from '../../src/contract/invocation.ts'
import * as json from '../../src/contract/json.ts'
import * as problem from '../../src/contract/problem.ts'
import * as result from '../../src/contract/result.ts'
import * as tool from '../../src/contract/tool.ts'

const schemas = (Object.entries({ ...event, ...health, ...invocation, ...json, ...problem, ...result, ...tool }) as [string, unknown][])
  .filter((entry): entry is [string, TSchema] => typeof entry[1] === 'object' && entry[1] !== null && Kind in entry[1])
const named = schemas.filter(([, schema]) => schema.$id !== undefined)

const receipt = { invocationId: 'i', toolId: 't', toolCallId: 'c', kind: 'k', status: 'succeeded', startedAtMs: 1, durationMs: 0.5, spanId: 's' }
const common = { toolCallId: 'c', toolName: 't', toolId: 't', invocationId: 'i', kind: 'k', startedAtMs: 1, spanId: 's' }

describe('the contract', () => {
  it('has schemas', () => assert.ok(named.length >= 15, `${named.length} named`))

  it('no two schemas have one name', () => {
    const ids = named.map(([, schema]) => schema.$id)
    assert.equal(new Set(ids).size, ids.length)
  })

  for (const [name, schema] of named) {
    it(`${name} is named as its type is`, () => assert.equal(schema.$id, name))
  }

  for (const [name, schema] of schemas) {
    it(`${name} says the same to TypeBox and to a plain JSON Schema validator`, () => {
      const { check } = compile(JSON.parse(JSON.stringify(schema)) as object)
      fc.assert(fc.property(fc.oneof(fc.jsonValue(), fc.constantFrom(receipt, {}, { ...common, type: 'tool_execution_start' }, 'running', 1.5)), (value) => {
        assert.equal(check(value), Value.Check(schema, value))
      }), { numRuns: 50 })
    })
  }

  describe('a request', () => {
    it('with an unknown field is refused', () => {
      assert.ok(Value.Check(invocation.InvokeRequest, {}))
      for (const extra of ['inputs', 'tool_call_id', '__proto__x', 'timeout']) assert.ok(!Value.Check(invocation.InvokeRequest, { [extra]: 1 }), extra)
      assert.ok(!Value.Check(event.EventQuery, { toolid: ['a'] }))
    })

    it('may carry any JSON value as input, null included', () => {
      for (const input of [null, 0, false, '', [], {}, { __proto__: null }]) assert.ok(Value.Check(invocation.InvokeRequest, { input }))
    })

    const bad: object[] = [{ toolCallId: '' }, { toolCallId: 'x'.repeat(1025) }, { toolCallId: 5 }, { runId: '' }, { runId: 'x'.repeat(257) }, { parentInvocationId: 'x'.repeat(257) }, { timeoutMs: 0 }, { timeoutMs: 1.5 }, { timeoutMs: 86_400_001 }, { timeoutMs: '5' }, { timeoutMs: null }]
    for (const request of bad) it(`${JSON.stringify(request).slice(0, 40)} is refused`, () => assert.ok(!Value.Check(invocation.InvokeRequest, request)))

    it('at its bounds is taken', () => {
      assert.ok(Value.Check(invocation.InvokeRequest, { toolCallId: 'x'.repeat(1024), runId: 'r'.repeat(256), parentInvocationId: 'p'.repeat(256), timeoutMs: 86_400_000 }))
    })
  })

  describe('an event', () => {
    it('is told by its type', () => {
      assert.ok(Value.Check(event.ToolExecutionEvent, { ...common, type: 'tool_execution_start', args: null }))
      assert.ok(!Value.Check(event.ToolExecutionEvent, { ...common, type: 'tool_execution_end' }), 'an end has a status')
      assert.ok(!Value.Check(event.ToolExecutionEvent, { ...common, type: 'tool_execution_stop' }))
    })

    it('of an end never runs', () => {
      const end = { ...common, type: 'tool_execution_end', isError: false, durationMs: 1 }
      assert.ok(Value.Check(event.ToolExecutionEvent, { ...end, status: 'succeeded' }))
      assert.ok(!Value.Check(event.ToolExecutionEvent, { ...end, status: 'running' }))
    })

    it('has every field of the registry system\'s event', () => {
      const fields = ['toolId', 'invocationId', 'kind', 'durationMs', 'status', 'errorCode', 'runId', 'spanId', 'parentSpanId', 'parentInvocationId', 'startedAtMs']
      const { properties } = event.ToolExecutionEndEvent
      for (const field of fields) assert.ok(field in properties, field)
      for (const field of ['toolId', 'invocationId', 'kind', 'durationMs', 'status', 'startedAtMs'] as const) assert.ok(!(OptionalKind in properties[field]), `${field} is always there`)
    })
  })

  it('a result may have any JSON value in its two open fields, at any depth', () => {
    fc.assert(fc.property(fc.jsonValue(), fc.jsonValue(), (details, structuredContent) => {
      assert.ok(Value.Check(result.ToolResult, { content: [], details, structuredContent, isError: false }))
    }))
    assert.ok(!Value.Check(result.ToolResult, { content: [], isError: false }), 'details are always there')
  })

  it('a response is a result and its receipt', () => {
    assert.ok(Value.Check(invocation.InvokeResponse, { content: [], details: null, isError: false, invocation: receipt }))
    assert.ok(!Value.Check(invocation.InvokeResponse, { content: [], details: null, isError: false }))
    assert.ok(!Value.Check(invocation.InvokeResponse, { content: [], details: null, isError: false, invocation: { ...receipt, errorCode: 'other' } }))
  })

  describe('a tool id', () => {
    const rule = new RegExp(tool.toolIdPattern)
    for (const id of ['a', 'A_b-c.9', '_', '0', 'constructor', '__proto__', 'x'.repeat(128)]) it(`${id.slice(0, 20)} is one`, () => assert.ok(rule.test(id)))
    for (const id of ['', '-a', '.a', 'a b', 'a/b', 'a%', 'ä', 'a\n', 'x'.repeat(129)]) it(`${JSON.stringify(id.slice(0, 20))} is none`, () => assert.ok(!rule.test(id)))
  })
})
