import type { Static as StaticOf } from '@earendil-works/pi-schema'
import type { Static, TSchema } from '@sinclair/typebox'
import type { ToolExecutionEndEvent } from '../contract/event.ts'
import type { InvocationRecord, InvokeResponse } from '../contract/invocation.ts'
import type { JsonValue } from '../contract/json.ts'
import { OutputError, ToolError } from './errors.ts'
import { faultsOf } from './shapes.ts'

/** What a schema lets through: of TypeBox, or of pi-schema's builders; `unknown` for other JSON Schemas. */
export type OutputOf<Schema> = Schema extends TSchema ? Static<Schema> : StaticOf<Schema>

/** A call that succeeded. With a schema given as `output`, its `structuredContent` has been held to it here. */
export type Success<Schema = undefined> = Omit<InvokeResponse, 'isError' | 'structuredContent'> & { isError: false } & (
  Schema extends object ? { structuredContent: OutputOf<Schema> } : { structuredContent?: JsonValue }
)

/** A call that failed. Data that came with it keeps no `outputSchema`. */
export type Failure = Omit<InvokeResponse, 'isError'> & { isError: true }

/** What a call gives: a success, or also a failure where those are not thrown. */
export type Answer<Schema, Throws> = Success<Schema> | (Throws extends false ? Failure : never)

export interface AnswerOptions<Schema, Throws> {
  /** TypeBox or any JSON Schema: a success is held to it on this side, whatever the gateway said of the tool. */
  output?: Schema
  /** Whether a failed call is thrown as {@link ToolError}, as it is by default, or given back. */
  throwOnError?: Throws
}

/**
 * What a caller gets of an answer.
 *
 * @throws {ToolError} for a failure, unless it is to be given back
 * @throws {OutputError} for a success that breaks `output`
 */
export function conclude<Schema, Throws> (response: InvokeResponse, { output, throwOnError }: AnswerOptions<Schema, Throws>): Answer<Schema, Throws> {
  const { isError, structuredContent, redacted } = response
  if (isError) {
    if (throwOnError !== false) throw new ToolError(response)
  } else if (output !== undefined) {
    const faults = structuredContent === undefined
      ? [{ path: '', keyword: 'required', message: `structuredContent is ${redacted === true ? 'withheld, as the tool is sensitive' : 'missing'}` }]
      : faultsOf(output as object, structuredContent)
    if (faults.length > 0) throw new OutputError(response, faults)
  }
  return response as Answer<Schema, Throws>
}

/** The answer that a settled call's record holds; undefined while it runs. */
export function responseOfRecord ({ invocation, result }: InvocationRecord): InvokeResponse | undefined {
  return result === undefined ? undefined : { ...result, invocation }
}

/** The answer that a call's end event holds; undefined where its result was left out for its size. */
export function responseOfEnd (event: ToolExecutionEndEvent): InvokeResponse | undefined {
  const { type, toolName, result, isError, omitted, ...invocation } = event
  return result === undefined ? undefined : { ...result, invocation }
}
