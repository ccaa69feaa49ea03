import type { Fault } from '../../contract/problem.ts'
import type { ExecutionMode, InputMode, OutputValidation, ReplayPolicy, ToolSettings } from '../../contract/tool.ts'
import { Mask } from '../../json/mask.ts'
import { messageOf } from '../error-message.ts'
import { isPromiseLike } from '../promise-like.ts'
import { RefusedValueError, type RegisteredTool, type ToolOutput } from '../registered-tool.ts'
import { compileSchema } from '../schema.ts'
import { mayTake } from './parameters.ts'
import type { ToolContext, UpdateCallback } from '../tool.ts'

export interface ShapeOptions {
  /** Settings that win over the tool's own. */
  readonly settings: ToolSettings
  readonly defaultTimeoutMs: number
  /** Where the tool comes from, for its descriptor. */
  readonly source: string
}

/** What the two shapes that declare JSON Schemas have in common. */
export interface SchemaTool {
  id: string
  label?: string | undefined
  description: string
  parameters: object
  outputSchema?: object | undefined
  errorSchema?: object | undefined
  prepareArguments?: ((input: unknown) => unknown) | undefined
  execute: (toolCallId: string, params: any, signal: AbortSignal, onUpdate: UpdateCallback, context: ToolContext) => unknown
  executionMode?: ExecutionMode | undefined
  replay?: ReplayPolicy | undefined
  kind?: string | undefined
  timeoutMs?: number | undefined
  maxConcurrent?: number | undefined
  sensitive?: boolean | undefined
  mask?: readonly string[] | undefined
  inputMode?: InputMode | undefined
  outputValidation?: OutputValidation | undefined
  source: object
}

/** @throws {GatewayError} `invalid_tool` where a schema is refused */
export function registerSchemaTool (tool: SchemaTool, options: ShapeOptions): RegisteredTool {
  const { settings } = options
  const parameters = compileSchema(tool.parameters, 'parameters')
  const outputSchema = tool.outputSchema === undefined ? undefined : compileSchema(tool.outputSchema, 'outputSchema')
  const errorSchema = tool.errorSchema === undefined ? undefined : compileSchema(tool.errorSchema, 'errorSchema')
  const inputMode = settings.inputMode ?? tool.inputMode ?? 'strict'
  const { validator } = parameters
  const execute = tool.execute.bind(tool.source)
  const prepareArguments = tool.prepareArguments?.bind(tool.source)

  function validate (input: unknown): unknown {
    if (inputMode === 'strict') {
      if (validator.check(input)) return input
      throw new RefusedValueError(validator.errors(input))
    }
    const parsed = validator.parse(input)
    if (parsed.ok) return parsed.value
    throw new RefusedValueError(parsed.errors)
  }

  return {
    descriptor: {
      id: tool.id,
      label: tool.label ?? tool.id,
      description: tool.description,
      kind: settings.kind ?? tool.kind ?? 'tool',
      parameters: parameters.schema,
      ...(outputSchema === undefined ? {} : { outputSchema: outputSchema.schema }),
      ...(errorSchema === undefined ? {} : { errorSchema: errorSchema.schema }),
      executionMode: settings.executionMode ?? tool.executionMode ?? 'parallel',
      replay: settings.replay ?? tool.replay ?? 'never',
      inputMode,
      timeoutMs: settings.timeoutMs ?? tool.timeoutMs ?? options.defaultTimeoutMs,
      source: options.source
    },
    ignoredKeywords: [parameters, outputSchema, errorSchema].flatMap((schema) => schema?.ignored ?? []),
    sensitive: settings.sensitive ?? tool.sensitive ?? false,
    mask: Mask.of(settings.mask ?? tool.mask ?? []),
    outputValidation: settings.outputValidation ?? tool.outputValidation ?? 'enforce',
    maxConcurrent: settings.maxConcurrent ?? tool.maxConcurrent,
    takesSignal: mayTake(tool.execute, 2),
    outputSchema,
    errorSchema,
    source: tool.source,
    parseInput: prepareArguments === undefined ? validate : (input) => validate(prepare(prepareArguments, input)),
    execute,
    toOutput: toResult
  }
}

function prepare (prepareArguments: (input: unknown) => unknown, input: unknown): unknown {
  try {
    return settledNow(prepareArguments(input), 'prepareArguments')
  } catch (cause) {
    throw new RefusedValueError([fault('prepareArguments', messageOf(cause))], cause)
  }
}

/**
 * `value`, which must be there already: what comes later would pass every check as an empty object.
 * @throws {TypeError} for a promise
 */
export function settledNow<T> (value: T, what: string): T {
  if (!isPromiseLike(value)) return value
  Promise.resolve(value).catch(() => {})
  throw new TypeError(`${what} must not be asynchronous`)
}

/** A fault of the value as a whole. */
export function fault (keyword: string, message: string): Fault {
  return { path: '', keyword, message }
}

function toResult (raw: unknown): ToolOutput {
  if (raw === undefined || raw === null) return {}
  if (typeof raw === 'object' && !Array.isArray(raw)) return raw as ToolOutput
  throw new RefusedValueError([fault('type', `a result is an object, not ${Array.isArray(raw) ? 'an array' : `a ${typeof raw}`}`)])
}
