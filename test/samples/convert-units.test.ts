import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { ToolRegistry } from '../../src/tools/registry.ts'
import { compileSchema } from '../../src/tools/schema.ts'
import { context, convertUnits } from './load.ts'

const registry = new ToolRegistry().register(convertUnits).seal()
const failures = compileSchema(convertUnits.errorSchema, 'errorSchema').validator

async function converted (value: number, from: string, to: string): Promise<number> {
  return (await registry.invoke({ toolId: 'convert_units', input: { value, from, to } })).value.value
}

async function failed (from: string, to: string) {
  const result = await convertUnits.execute('call-1', { value: 1, from, to }, new AbortController().signal, () => {}, context)
  assert.equal(result.isError, true)
  assert.ok(failures.check(result.structuredContent), JSON.stringify(failures.errors(result.structuredContent)))
  const [block] = result.content!
  assert.equal(block?.type, 'text')
  return { text: (block as { text: string }).text, failure: result.structuredContent as any }
}

describe('convert_units', () => {
  const known: [value: number, from: string, to: string, expected: number][] = [
    [1, 'mi', 'ft', 5280],
    [0.1, 'm', 'cm', 10],
    [1, 'nautical miles', 'm', 1852],
    [10, 'st', 'Pounds', 140],
    [1, 'gal', 'l', 3.785411784],
    [36, 'km/h', 'm/s', 10],
    [1, 'GiB', 'MB', 1073.741824],
    [1_125_899_906_842_623, 'B', 'bit', 9_007_199_254_740_984],
    [90, 'minutes', 'h', 1.5],
    [32, 'F', 'celsius', 0],
    [100, '°C', '°F', 212],
    [310.15, 'K', '°C', 37],
    [-459.67, 'fahrenheit', 'kelvin', 0],
    [-40, 'C', 'F', -40],
    [5, 'km', 'kilometers', 5]
  ]
  for (const [value, from, to, expected] of known) {
    it(`${value} ${from} is ${expected} ${to}`, async () => assert.equal(await converted(value, from, to), expected))
  }

  it('says in the result what was converted to what', async () => {
    const { value } = await registry.invoke({ toolId: 'convert_units', input: { value: 2, from: 'Inches', to: 'centimetres' } })
    assert.deepEqual(value, { value: 5.08, unit: 'cm', from: { value: 2, unit: 'in' }, dimension: 'length' })
  })

  it('the largest input stays a number in every unit of its dimension', async () => {
    assert.ok(Number.isFinite(await converted(1e100, 'TiB', 'bit')))
    assert.throws(() => registry.invoke({ toolId: 'convert_units', input: { value: 1e101, from: 'm', to: 'm' } }), { code: 'invalid_input' })
  })

  it('units of two dimensions fail as declared, with those that would have worked', async () => {
    const { text, failure } = await failed('kilograms', 'ft')
    assert.deepEqual(failure, {
      code: 'incompatible_units',
      from: { unit: 'kg', dimension: 'mass' },
      to: { unit: 'ft', dimension: 'length' },
      convertibleTo: ['g', 'mg', 't', 'oz', 'lb', 'st']
    })
    assert.equal(text, 'kg measures mass and ft measures length. kg converts to: g, mg, t, oz, lb, st.')
    for (const unit of failure.convertibleTo) assert.ok(await converted(1, 'kg', unit) > 0)
  })

  it('an unknown unit fails as declared, with what may have been meant', async () => {
    const { text, failure } = await failed('KB', 'B')
    assert.equal(failure.code, 'unknown_unit')
    assert.equal(failure.parameter, 'from')
    assert.deepEqual(failure.suggestions, ['kB'])
    assert.match(text, /Did you mean kB\?/)
  })

  it('an unknown unit that resembles none is answered with all of them', async () => {
    const { text, failure } = await failed('m', 'parsec')
    assert.equal(failure.parameter, 'to')
    assert.deepEqual(failure.suggestions, [])
    assert.deepEqual(failure.known.temperature, ['°C', '°F', 'K'])
    assert.match(text, /Known units: m, km, .*TiB\.$/)
  })

  for (const unit of ['constructor', '__proto__', 'toString']) {
    it(`${unit} is an unknown unit like any other`, async () => assert.equal((await failed(unit, 'm')).failure.code, 'unknown_unit'))
  }

  it('in process, its failure is a tool_error that carries the result', () => {
    assert.throws(
      () => registry.invoke({ toolId: 'convert_units', input: { value: 1, from: 'm', to: 's' } }),
      (error: any) => error.code === 'tool_error' && error.cause.structuredContent.code === 'incompatible_units'
    )
  })
})
