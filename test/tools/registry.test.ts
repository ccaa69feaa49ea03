import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Type } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { InvocationReceipt } from '../../src/contract/invocation.ts'
import { ToolDescriptor, ToolList } from '../../src/contract/tool.ts'
import { GatewayError } from '../../src/errors.ts'
import { ToolRegistry } from '../../src/tools/registry.ts'
import { defineTool } from '../../src/tools/tool.ts'
import { addNumbers, countLines, shout } from './shapes/samples.ts'

const parameters = Type.Object({})
const plain = { id: 'plain', description: 'd', kind: 'read', parameters, execute: () => ({}) }

/** What registering `tool` is refused with. */
function refusal (tool: unknown): GatewayError {
  const registry = new ToolRegistry()
  try {
    registry.register(tool as never)
  } catch (error) {
    assert.ok(error instanceof GatewayError, String(error))
    assert.equal(registry.size, 0)
    return error
  }
  return assert.fail('it was registered')
}

describe('tool registry', () => {
  describe('register', () => {
    it('takes all three shapes, as they are', () => {
      const registry = new ToolRegistry().register(addNumbers).register(countLines).register(shout)
      assert.equal(registry.size, 3)
      assert.deepEqual([...registry].map((tool) => [tool.descriptor.id, tool.descriptor.kind, tool.descriptor.inputMode]), [
        ['add_numbers', 'compute', 'strict'], ['count_lines', 'tool', 'coerce'], ['shout', 'read', 'strict']
      ])
      assert.deepEqual([...registry].map((tool) => tool.source), [addNumbers, countLines, shout])
    })

    it('takes frozen tools', () => {
      for (const tool of [addNumbers, countLines, shout]) assert.equal(new ToolRegistry().register(Object.freeze({ ...tool })).size, 1)
    })

    it('takes tools that are instances, whose methods stand on a prototype and use `this`', async () => {
      class Own {
        id = 'own'
        description = 'd'
        kind = 'read'
        parameters = Type.Object({ n: Type.Number() })
        #factor = 2
        prepareArguments (input: unknown) { return { n: (input as { n: number }).n * this.#factor } }
        execute (_id: string, { n }: { n: number }) { return { structuredContent: n * this.#factor } }
      }
      class Foreign {
        id = 'foreign'
        kind = 'read'
        #factor = 3
        parseInput (value: any) { return value.n * this.#factor }
        execute (n: number) { return n * this.#factor }
        parseOutput (value: unknown) { return value as number + this.#factor }
      }
      class Pi {
        name = 'pi'
        label = 'Pi'
        description = 'd'
        parameters = { type: 'object' }
        #factor = 4
        prepareArguments (input: any) { return { n: input.n * this.#factor } }
        async execute (_id: string, { n }: { n: number }) { return { content: [], details: null, structuredContent: n * this.#factor } }
      }
      const registry = new ToolRegistry().register(new Own()).register(new Foreign()).register(new Pi()).seal()
      assert.equal((await registry.invoke({ toolId: 'own', input: { n: 1 } })).value, 4)
      assert.equal((await registry.invoke({ toolId: 'foreign', input: { n: 1 } })).value, 12)
      assert.equal((await registry.invoke({ toolId: 'pi', input: { n: 1 } })).value, 16)
    })

    it('takes tools whose fields are getters of a class', () => {
      class Own {
        get id () { return 'own' }
        get description () { return 'd' }
        get kind () { return 'read' }
        get parameters () { return Type.Object({}) }
        execute () { return { structuredContent: 1 } }
      }
      class Pi {
        get name () { return 'pi' }
        get label () { return 'Pi' }
        get description () { return 'd' }
        get parameters () { return { type: 'object' } }
        async execute () { return { content: [], details: null } }
      }
      const registry = new ToolRegistry().register(new Pi()).register(new Own()).seal()
      assert.equal(registry.get('own')!.descriptor.id, 'own')
      assert.equal(registry.get('pi')!.descriptor.label, 'Pi')
    })

    it('refuses an id that the pattern does not allow, naming it', () => {
      for (const id of ['', '-a', '.a', 'a b', 'a/b', 'é', 'a\n', 'x'.repeat(129), '%00', '..', 'a:b']) {
        const error = refusal({ ...plain, id })
        assert.equal(error.code, 'invalid_tool')
        assert.ok(error.message.includes(JSON.stringify(id)), error.message)
        assert.equal(refusal({ ...countLines, name: id }).code, 'invalid_tool')
      }
    })

    it('refuses what has no id', () => {
      for (const tool of [undefined, null, 'tool', 7, [], {}, () => {}, { id: 7 }, { id: null, execute: () => {} }, { name: {} }]) assert.equal(refusal(tool).code, 'invalid_tool')
    })

    it('takes ids at the ends of the pattern', () => {
      for (const id of ['a', '_', '0', 'x'.repeat(128), 'A.b-c_9', 'a..b', '__proto__', 'constructor', 'toString', 'hasOwnProperty']) {
        assert.equal(new ToolRegistry().register({ ...plain, id }).seal().get(id)!.descriptor.id, id)
      }
    })

    const broken: [what: string, tool: object, reason: string][] = [
      ['no execute', { ...plain, execute: undefined }, 'execute must be a function'],
      ['an execute that is none', { ...plain, execute: 'run' }, 'execute must be a function'],
      ['no description', { ...plain, description: undefined }, 'description must be a string'],
      ['no kind', { ...plain, kind: undefined }, 'kind must be a string'],
      ['no parameters', { ...plain, parameters: undefined }, 'parameters: must be a JSON Schema object'],
      ['parameters that are none', { ...plain, parameters: { type: 'strin' } }, 'parameters: /type must hold a JSON type'],
      ['an outputSchema that is none', { ...plain, outputSchema: { $ref: '#/no' } }, 'outputSchema: Unresolved $ref'],
      ['an errorSchema that is none', { ...plain, errorSchema: { items: 5 } }, 'errorSchema: /items must hold'],
      ['an unknown executionMode', { ...plain, executionMode: 'serial' }, 'executionMode must be one of parallel, sequential'],
      ['an unknown replay', { ...plain, replay: 'always' }, 'replay must be one of safe, never'],
      ['an unknown inputMode', { ...plain, inputMode: 'loose' }, 'inputMode must be one of strict, coerce'],
      ['an unknown outputValidation', { ...plain, outputValidation: 'off' }, 'outputValidation must be one of enforce, warn'],
      ['a timeoutMs of 0', { ...plain, timeoutMs: 0 }, 'timeoutMs must be a whole number above 0'],
      ['a timeoutMs with a fraction', { ...plain, timeoutMs: 1.5 }, 'timeoutMs must be a whole number above 0'],
      ['a timeoutMs as text', { ...plain, timeoutMs: '100' }, 'timeoutMs must be a whole number above 0'],
      ['a timeoutMs over a day', { ...plain, timeoutMs: 86_400_001 }, 'timeoutMs is at most 86400000'],
      ['a maxConcurrent of 0', { ...plain, maxConcurrent: 0 }, 'maxConcurrent must be a whole number above 0'],
      ['a prepareArguments that is none', { ...plain, prepareArguments: {} }, 'prepareArguments must be a function'],
      ['a registry tool without parseInput', { ...shout, parseInput: undefined }, 'parseInput must be a function'],
      ['a registry tool without parseOutput', { ...shout, parseOutput: undefined }, 'parseOutput must be a function'],
      ['a registry tool without kind', { ...shout, kind: undefined }, 'kind must be a string'],
      ['an agent tool without description', { ...countLines, description: undefined }, 'description must be a string'],
      ['an agent tool with an unknown executionMode', { ...countLines, executionMode: 'both' }, 'executionMode must be one of parallel, sequential'],
      ['a getter that throws', { ...plain, get parameters () { throw new Error('lazy') } }, 'lazy']
    ]
    for (const [what, tool, reason] of broken) {
      it(`refuses a tool with ${what}, with its id and the reason`, () => {
        const error = refusal(tool)
        const { id, name } = tool as { id?: string, name?: string }
        assert.equal(error.code, 'invalid_tool')
        assert.ok(error.message.startsWith(`Tool "${id ?? name}": ${reason}`), error.message)
      })
    }

    it('refuses an id that is taken, by whatever shape, and keeps the first', () => {
      const registry = new ToolRegistry().register(plain)
      for (const tool of [plain, { ...countLines, name: 'plain' }, { ...shout, id: 'plain' }]) {
        assert.throws(() => registry.register(tool), { code: 'duplicate_tool', message: /"plain"/ })
      }
      assert.equal(registry.get('plain')!.source, plain)
    })

    it('a refusal leaves the registry as it was', () => {
      const registry = new ToolRegistry().register(plain)
      assert.throws(() => registry.register({ ...plain, id: 'other', kind: 5 } as never))
      assert.equal(registry.size, 1)
      registry.register({ ...plain, id: 'other' })
      assert.equal(registry.size, 2)
    })
  })

  describe('seal', () => {
    it('closes it to changes', () => {
      const registry = new ToolRegistry().register(plain)
      assert.equal(registry.sealed, false)
      assert.equal(registry.seal(), registry)
      assert.equal(registry.sealed, true)
      assert.throws(() => registry.register({ ...plain, id: 'late' }), { code: 'registry_sealed' })
      assert.equal(registry.size, 1)
    })

    it('twice is the same as once', () => {
      const registry = new ToolRegistry().register(plain).seal()
      const before = registry.describe()
      assert.deepEqual(registry.seal().describe(), before)
      assert.equal(registry.sealed, true)
    })

    it('describing does it, too: what is told must not change', () => {
      const registry = new ToolRegistry().register(plain)
      registry.describe()
      assert.equal(registry.sealed, true)
    })
  })

  describe('settings', () => {
    it('from outside win over the tool, for every shape', () => {
      const settings = { kind: 'danger', timeoutMs: 7, maxConcurrent: 3, sensitive: true, inputMode: 'coerce', outputValidation: 'warn' } as const
      const seen: string[] = []
      const registry = new ToolRegistry({ settingsFor: (id) => { seen.push(id); return settings } }).register(addNumbers).register(countLines).register(shout)
      assert.deepEqual(seen, ['add_numbers', 'count_lines', 'shout'])
      for (const tool of registry) {
        assert.deepEqual([tool.descriptor.kind, tool.descriptor.timeoutMs, tool.maxConcurrent, tool.sensitive, tool.outputValidation], ['danger', 7, 3, true, 'warn'])
      }
      assert.equal(registry.get('add_numbers')!.descriptor.inputMode, 'coerce')
    })

    it('that are absent leave the tool its own, and its own leave the defaults', () => {
      const registry = new ToolRegistry({ defaultTimeoutMs: 123, settingsFor: () => ({}) })
        .register({ ...plain, timeoutMs: 5, sensitive: true, replay: 'safe', executionMode: 'sequential', label: 'Plain!' })
        .register(countLines)
      const own = registry.get('plain')!
      assert.deepEqual([own.descriptor.timeoutMs, own.sensitive, own.descriptor.replay, own.descriptor.executionMode, own.descriptor.label], [5, true, 'safe', 'sequential', 'Plain!'])
      const foreign = registry.get('count_lines')!
      assert.deepEqual([foreign.descriptor.timeoutMs, foreign.sensitive, foreign.descriptor.replay, foreign.descriptor.executionMode, foreign.outputValidation], [123, false, 'never', 'parallel', 'enforce'])
    })

    it('the mask of all tools is added to what each says, and to those that another registry has registered', () => {
      const other = new ToolRegistry({ settingsFor: () => ({ mask: ['/input/of-settings'] }) }).register(shout).register({ ...plain, mask: ['/input/own'] })
      assert.deepEqual([...other].map(({ mask }) => mask?.pointers), [['/input/of-settings'], ['/input/of-settings']], 'settings win over the tool here, too')
      const registry: ToolRegistry<any> = new ToolRegistry({ mask: ['/input/all'] }).register({ ...plain, id: 'own', mask: ['/input/own'] }).register(countLines)
      for (const tool of other) registry.adopt(tool)
      assert.deepEqual([...registry].map(({ mask }) => mask?.pointers), [['/input/all', '/input/own'], ['/input/all'], ['/input/all', '/input/of-settings'], ['/input/all', '/input/of-settings']])
      assert.equal(new ToolRegistry().register(plain).get('plain')!.mask, undefined)
    })

    it("an agent tool has no say in what is only Toolgate's", () => {
      const registry = new ToolRegistry().register({ ...countLines, kind: 'write', sensitive: true, timeoutMs: 1 })
      const tool = registry.get('count_lines')!
      assert.deepEqual([tool.descriptor.kind, tool.sensitive, tool.descriptor.timeoutMs], ['tool', false, 60_000])
    })
  })

  describe('describe', () => {
    const registry = new ToolRegistry().register(addNumbers, 'add.ts').register(countLines).register({ ...shout, id: 'constructor' }).seal()

    it('lists every tool, in the order of registration', () => {
      const list = JSON.parse(registry.describe()!.text)
      assert.ok(Value.Check(ToolList, list))
      assert.deepEqual(list.tools.map((tool: ToolDescriptor) => [tool.id, tool.source]), [['add_numbers', 'add.ts'], ['count_lines', 'code'], ['constructor', 'code']])
    })

    it('one tool is what the list says of it', () => {
      const list = JSON.parse(registry.describe()!.text)
      for (const tool of list.tools) {
        const one = JSON.parse(registry.describe(tool.id)!.text)
        assert.ok(Value.Check(ToolDescriptor, one))
        assert.deepEqual(one, tool)
      }
      assert.deepEqual(JSON.parse(registry.describe('add_numbers')!.text), {
        id: 'add_numbers',
        label: 'Add numbers',
        description: 'Adds two numbers.',
        kind: 'compute',
        parameters: JSON.parse(JSON.stringify(addNumbers.parameters)),
        outputSchema: JSON.parse(JSON.stringify(addNumbers.outputSchema)),
        errorSchema: JSON.parse(JSON.stringify(addNumbers.errorSchema)),
        executionMode: 'parallel',
        replay: 'safe',
        inputMode: 'strict',
        timeoutMs: 60_000,
        source: 'add.ts'
      })
    })

    it('a tool without parameters takes anything', () => {
      assert.deepEqual(JSON.parse(registry.describe('constructor')!.text).parameters, {})
    })

    it('what there is not has no description', () => {
      for (const id of ['', 'nothing', 'toString', '__proto__', 'hasOwnProperty']) {
        assert.equal(registry.describe(id), undefined)
        assert.equal(registry.get(id), undefined)
      }
    })

    it('the ETag goes with the text, and with nothing else', () => {
      const same = new ToolRegistry().register(addNumbers, 'add.ts').register(countLines).register({ ...shout, id: 'constructor' }).seal()
      assert.equal(same.describe()!.etag, registry.describe()!.etag)
      const other = new ToolRegistry().register({ ...addNumbers, description: 'Adds.' }, 'add.ts').seal()
      assert.notEqual(other.describe('add_numbers')!.etag, registry.describe('add_numbers')!.etag)
      assert.match(registry.describe()!.etag, /^"[\w-]{22}"$/)
    })

    it('an empty registry lists nothing', () => {
      assert.equal(new ToolRegistry().seal().describe()!.text, '{"tools":[]}')
    })
  })

  describe('invoke', () => {
    it('refuses what is no result at all as output that is not valid', () => {
      const registry = new ToolRegistry().register({ id: 'list', kind: 'k', description: 'd', parameters: {}, execute: () => [1] as never }).seal()
      assert.throws(() => registry.invoke({ toolId: 'list' }), (error: GatewayError) =>
        error instanceof GatewayError && error.code === 'invalid_output' && /not an array/.test(error.message))
    })

    const registry = new ToolRegistry().register(addNumbers).register(countLines).register(shout).seal()
    const shouting = new ToolRegistry().register(shout).seal()

    it('is synchronous where execute is', () => {
      assert.equal(shouting.invoke({ toolId: 'shout', input: 'hi' }).value, 'HI!')
    })

    it('is a promise where execute gives one', async () => {
      const running = registry.invoke({ toolId: 'count_lines', input: { text: 'a\nb' } })
      assert.ok(running instanceof Promise)
      assert.deepEqual((await running).value, { lines: 2 })
      const own = registry.invoke({ toolId: 'add_numbers', input: { a: 1, b: 2 } })
      assert.deepEqual((await own).value, { sum: 3 })
    })

    it('gives a receipt', async () => {
      const { invocation } = shouting.invoke({ toolId: 'shout', input: 'hi', toolCallId: 'mine' })
      assert.ok(Value.Check(InvocationReceipt, invocation))
      assert.deepEqual([invocation.toolId, invocation.kind, invocation.toolCallId, invocation.status], ['shout', 'read', 'mine', 'succeeded'])
      assert.equal(invocation.spanId, invocation.invocationId.slice(-16))
      const other = shouting.invoke({ toolId: 'shout', input: 'hi' }).invocation
      assert.equal(other.toolCallId, other.invocationId)
      assert.notEqual(other.invocationId, invocation.invocationId)
    })

    it('takes no input for an empty object', () => {
      const inputs: unknown[] = []
      const spy = new ToolRegistry().register({ id: 'spy', kind: 'read', parseInput: (value: unknown) => { inputs.push(value) }, execute: () => 1, parseOutput: (value: unknown) => value }).seal()
      spy.invoke({ toolId: 'spy' })
      spy.invoke({ toolId: 'spy', input: null })
      assert.deepEqual(inputs, [{}, null])
    })

    it('refuses an unknown tool', () => {
      for (const toolId of ['nothing', 'constructor', '__proto__', '']) assert.throws(() => registry.invoke({ toolId, input: {} }), { code: 'unknown_tool' })
    })

    it('refuses bad input with every fault', () => {
      assert.throws(() => registry.invoke({ toolId: 'add_numbers', input: { a: 'x', c: 1 } }), (error: GatewayError) => {
        assert.equal(error.code, 'invalid_input')
        assert.deepEqual(error.errors!.map(({ path, keyword }) => [path, keyword]).sort(), [['/a', 'type'], ['/b', 'required'], ['/c', 'additionalProperties']])
        return true
      })
      assert.throws(() => registry.invoke({ toolId: 'shout', input: 7 }), (error: GatewayError) => {
        assert.deepEqual(error.errors, [{ path: '', keyword: 'parseInput', message: 'only text can be shouted' }])
        assert.ok(error.cause instanceof TypeError)
        return error.code === 'invalid_input'
      })
    })

    it('refuses bad output, of either sort of tool', async () => {
      const bad = new ToolRegistry()
        .register({ ...shout, id: 'mute', execute: () => 7 })
        .register({ ...addNumbers, id: 'wrong', execute: async () => ({ structuredContent: { sum: '3' } }) as never })
        .register({ ...addNumbers, id: 'none', execute: async () => ({}) as never })
        .register({ ...addNumbers, id: 'nothing', execute: async () => undefined as never })
        .seal()
      assert.throws(() => bad.invoke({ toolId: 'mute', input: 'hi' }), { code: 'invalid_output' })
      await assert.rejects(async () => bad.invoke({ toolId: 'wrong', input: { a: 1, b: 2 } }), (error: GatewayError) => error.code === 'invalid_output' && error.errors![0]!.path === '/sum')
      for (const toolId of ['none', 'nothing'] as const) {
        await assert.rejects(async () => bad.invoke({ toolId, input: { a: 1, b: 2 } }), { code: 'invalid_output', message: /structuredContent is missing/ })
      }
    })

    it('lets what execute throws through as it is', async () => {
      const thrown = new RangeError('mine')
      const failing = new ToolRegistry()
        .register({ ...shout, id: 'now', execute: () => { throw thrown } })
        .register({ ...shout, id: 'later', execute: async () => { throw thrown } })
        .seal()
      assert.throws(() => failing.invoke({ toolId: 'now', input: 'hi' }), (error) => error === thrown)
      await assert.rejects(async () => failing.invoke({ toolId: 'later', input: 'hi' }), (error) => error === thrown)
    })

    it('a result that says isError is a tool_error that carries it', async () => {
      await assert.rejects(async () => registry.invoke({ toolId: 'add_numbers', input: { a: 1, b: 1e9 } }), (error: any) => {
        assert.deepEqual(error.cause.structuredContent, { code: 'too_big' })
        return error.code === 'tool_error'
      })
    })

    it('coerces for a tool that asks for it, and for no other', async () => {
      const loose = new ToolRegistry().register({ ...addNumbers, id: 'loose', inputMode: 'coerce' }).register(addNumbers).register(countLines).seal()
      assert.deepEqual((await loose.invoke({ toolId: 'loose', input: { a: '1', b: true } })).value, { sum: 2 })
      assert.throws(() => loose.invoke({ toolId: 'add_numbers', input: { a: '1', b: true } }), { code: 'invalid_input' })
      assert.deepEqual((await loose.invoke({ toolId: 'count_lines', input: { text: 5 } })).value, { lines: 1 })
    })

    it('does not change its input, coercing or not', async () => {
      const loose = new ToolRegistry().register({ ...addNumbers, id: 'loose', inputMode: 'coerce' }).seal()
      const input = Object.freeze({ a: '1', b: 2 })
      await loose.invoke({ toolId: 'loose', input })
      assert.deepEqual(input, { a: '1', b: 2 })
    })

    it('gives strict input to execute as the very object', async () => {
      let given: unknown
      const spy = new ToolRegistry().register(defineTool({ ...plain, id: 'spy', execute: (_id, params) => { given = params; return {} } })).seal()
      const input = {}
      spy.invoke({ toolId: 'spy', input })
      assert.equal(given, input)
    })
  })
})
