import { Type, type Static } from '@sinclair/typebox'
import { defineTool } from 'toolgate'
import { convert, findUnit, suggestUnits, symbolsByDimension } from './lib/units.ts'

const closed = { additionalProperties: false } as const

const unitExamples = 'A symbol or an English name, e.g. km, mile, °F, celsius, lb, GiB. Symbols are case-sensitive'

const Conversion = Type.Object({
  value: Type.Number({ description: 'The converted value: 15 significant digits, temperatures between scales to 9 decimals' }),
  unit: Type.String({ description: 'Symbol of the unit converted to' }),
  from: Type.Object({ value: Type.Number(), unit: Type.String({ description: 'Symbol of the unit converted from' }) }, closed),
  dimension: Type.String({ description: 'What both units measure, e.g. length' })
}, closed)

const UnknownUnit = Type.Object({
  code: Type.Literal('unknown_unit'),
  parameter: Type.Union([Type.Literal('from'), Type.Literal('to')], { description: 'The parameter that named it' }),
  unit: Type.String({ description: 'The unit as it was given' }),
  suggestions: Type.Array(Type.String(), { description: 'Symbols that may have been meant, closest first; may be empty' }),
  known: Type.Record(Type.String(), Type.Array(Type.String()), { description: 'Symbols of every known unit, by dimension' })
}, closed)

const Side = Type.Object({ unit: Type.String(), dimension: Type.String() }, closed)

const IncompatibleUnits = Type.Object({
  code: Type.Literal('incompatible_units'),
  from: Side,
  to: Side,
  convertibleTo: Type.Array(Type.String(), { description: 'Symbols that would have worked as "to"' })
}, closed)

const ConversionFailure = Type.Union([UnknownUnit, IncompatibleUnits])
type ConversionFailure = Static<typeof ConversionFailure>

/**
 * A tool whose failures are declared as well: `errorSchema` says what a program finds in `structuredContent` where
 * `isError` is true, and the text tells the model what to do about it.
 */
export default defineTool({
  id: 'convert_units',
  label: 'Convert units',
  description: `Converts a value between units of ${Object.keys(symbolsByDimension).join(', ')}. Gallons, quarts, pints and cups are US ones.`,
  kind: 'read',
  replay: 'safe',
  parameters: Type.Object({
    value: Type.Number({ minimum: -1e100, maximum: 1e100 }),
    from: Type.String({ minLength: 1, maxLength: 40, description: `Unit of the value. ${unitExamples}` }),
    to: Type.String({ minLength: 1, maxLength: 40, description: 'Unit wanted, named in the same way' })
  }, closed),
  outputSchema: Conversion,
  errorSchema: ConversionFailure,
  execute (_toolCallId, params) {
    const from = findUnit(params.from)
    if (from === undefined) return unknownUnit('from', params.from)
    const to = findUnit(params.to)
    if (to === undefined) return unknownUnit('to', params.to)

    if (from.dimension !== to.dimension) {
      const convertibleTo = symbolsByDimension[from.dimension]!.filter((symbol) => symbol !== from.symbol)
      return failure(
        `${from.symbol} measures ${from.dimension} and ${to.symbol} measures ${to.dimension}. ${from.symbol} converts to: ${convertibleTo.join(', ')}.`,
        {
          code: 'incompatible_units',
          from: { unit: from.symbol, dimension: from.dimension },
          to: { unit: to.symbol, dimension: to.dimension },
          convertibleTo
        }
      )
    }

    const value = convert(params.value, from, to)
    return {
      content: [{ type: 'text', text: `${params.value} ${from.symbol} = ${value} ${to.symbol}` }],
      structuredContent: { value, unit: to.symbol, from: { value: params.value, unit: from.symbol }, dimension: from.dimension }
    }
  }
})

function unknownUnit (parameter: 'from' | 'to', unit: string) {
  const suggestions = suggestUnits(unit)
  const hint = suggestions.length > 0
    ? `Did you mean ${suggestions.join(' or ')}?`
    : `Known units: ${Object.values(symbolsByDimension).flat().join(', ')}.`
  return failure(`"${parameter}" is no known unit: ${JSON.stringify(unit)}. ${hint}`, {
    code: 'unknown_unit', parameter, unit, suggestions, known: symbolsByDimension
  })
}

function failure (text: string, structuredContent: ConversionFailure) {
  return { isError: true as const, content: [{ type: 'text' as const, text }], structuredContent }
}
