import { Type, type Static, type TSchema } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { defineTool, GatewayError, type ToolContext } from 'toolgate'

const SUGGESTED = 20

const closed = { additionalProperties: false } as const
const counts = { count: Type.Integer({ minimum: 0 }), missing: Type.Integer({ minimum: 0 }) }

// What is read of the other tools' answers, and no more. Who serves them is settled at run time, so it is checked then.
const Profile = Type.Object({ columns: Type.Array(Type.Object({ name: Type.String(), type: Type.String(), ...counts })) })
const Figures = Type.Object({ min: Type.Number(), max: Type.Number(), mean: Type.Number(), quantiles: Type.Object({ p50: Type.Number() }) })
const Conversion = Type.Object({ value: Type.Number(), unit: Type.String() })

const CallFailure = Type.Object({
  code: Type.Union([Type.Literal('profile_failed'), Type.Literal('conversion_failed')]),
  tool: Type.String({ description: 'The tool that was called' }),
  reason: Type.String({ description: 'Its error code, e.g. tool_error; unknown_tool where it is not served' }),
  message: Type.String()
}, closed)

const ColumnFailure = Type.Object({
  code: Type.Union([Type.Literal('unknown_column'), Type.Literal('not_numeric')]),
  column: Type.String(),
  numeric: Type.Array(Type.String(), { maxItems: SUGGESTED, description: 'Columns that would have worked' })
}, closed)

/** A tool that is made of others: each call of them is announced and recorded on its own, as a child of this one. */
export default defineTool({
  id: 'describe_measurements',
  label: 'Describe measurements',
  description: 'Describes a column of a CSV text that holds measurements, in another unit: range, mean and median. Uses profile_csv and convert_units.',
  kind: 'read',
  replay: 'safe',
  parameters: Type.Object({
    csv: Type.String({ description: 'The CSV text itself, with a header' }),
    column: Type.String({ description: 'Name of the column' }),
    from: Type.String({ minLength: 1, maxLength: 40, description: 'Unit that it is in, e.g. °F, mile' }),
    to: Type.String({ minLength: 1, maxLength: 40, description: 'Unit wanted' })
  }, closed),
  outputSchema: Type.Object({
    column: Type.String(),
    unit: Type.String({ description: 'Symbol of the unit converted to' }),
    ...counts,
    min: Type.Number(),
    max: Type.Number(),
    mean: Type.Number(),
    median: Type.Number()
  }, closed),
  errorSchema: Type.Union([CallFailure, ColumnFailure]),
  async execute (_toolCallId, { csv, column: name, from, to }, signal, _onUpdate, { invoke }) {
    try {
      const { columns } = await ask(invoke, 'profile_failed', 'profile_csv', { csv }, Profile)
      const column = columns.find((column) => column.name === name)
      if (column === undefined || !Value.Check(Figures, column)) {
        const numeric = columns.filter((column) => Value.Check(Figures, column)).map(({ name }) => name).slice(0, SUGGESTED)
        const fault = column === undefined ? 'is not there' : `holds no numbers (${column.type})`
        return failure(`Column ${JSON.stringify(name)} ${fault}. Numeric columns: ${numeric.join(', ') || 'none'}.`, {
          code: column === undefined ? 'unknown_column' : 'not_numeric', column: name, numeric
        })
      }

      const convert = (value: number) => ask(invoke, 'conversion_failed', 'convert_units', { value, from, to }, Conversion)
      // The first that fails ends this call, which cancels those that still run.
      const [min, max, mean, median] = await Promise.all([
        convert(column.min), convert(column.max), convert(column.mean), convert(column.quantiles.p50)
      ])
      const { count, missing } = column
      return {
        content: [{
          type: 'text',
          text: `${JSON.stringify(name)} in ${min.unit}: ${count} values, ${missing} missing; ` +
            `${min.value} to ${max.value}; mean ${mean.value}, median ${median.value}`
        }],
        structuredContent: {
          column: name, unit: min.unit, count, missing, min: min.value, max: max.value, mean: mean.value, median: median.value
        }
      }
    } catch (error) {
      signal.throwIfAborted()
      if (error instanceof CallFailedError) return failure(error.message, error.failure)
      throw error
    }
  }
})

class CallFailedError extends Error {
  readonly failure: Static<typeof CallFailure>

  constructor (failure: Static<typeof CallFailure>) {
    super(`${failure.tool}: ${failure.message}`)
    this.failure = failure
  }
}

/** @throws {CallFailedError} where the tool fails, answers with something else, or cannot be called at all */
async function ask<Schema extends TSchema> (
  invoke: ToolContext['invoke'], code: Static<typeof CallFailure>['code'], tool: string, input: object, schema: Schema
): Promise<Static<Schema>> {
  const failed = (reason: string, message: string) => new CallFailedError({ code, tool, reason, message })
  const { isError, content, structuredContent, invocation } = await invoke(tool, input).catch((error: unknown) => {
    throw error instanceof GatewayError ? failed(error.code, error.message) : error
  })
  if (isError) throw failed(invocation.errorCode!, content.map((block) => block.type === 'text' ? block.text : '').join('\n'))
  if (!Value.Check(schema, structuredContent)) throw failed('unexpected_answer', 'The answer has another shape than expected.')
  return structuredContent
}

function failure (text: string, structuredContent: Static<typeof CallFailure> | Static<typeof ColumnFailure>) {
  return { isError: true as const, content: [{ type: 'text' as const, text }], structuredContent }
}
