import type { Static, TSchema } from '@sinclair/typebox'
import type { InvokeResponse } from '../contract/invocation.ts'
import type { ContentBlock, Usage } from '../contract/result.ts'
import type { ExecutionMode, InputMode, OutputValidation, ReplayPolicy } from '../contract/tool.ts'

/** Who is calling. */
export interface Principal {
  /** Stable name of the caller; `anonymous` where no credentials are asked for. */
  readonly id: string
  /** What it may do, as its credentials say. Absent where a call is run again after a crash: only its caller's name is on record. */
  readonly scopes?: readonly string[]
  /** What its token says of it, where it came with one. */
  readonly claims?: Readonly<Record<string, unknown>>
}

/** The part of a logger that tools and the gateway's own rooms use; pino's shape. */
export interface Log {
  debug (fields: object, message: string): void
  info (fields: object, message: string): void
  warn (fields: object, message: string): void
  error (fields: object, message: string): void
}

/** For those who want no lines. */
export const silentLog: Log = { debug () {}, info () {}, warn () {}, error () {} }

/** What a tool of Toolgate's own shape is told about its call, as fifth argument. */
export interface ToolContext {
  readonly invocationId: string
  readonly runId?: string | undefined
  readonly spanId: string
  readonly principal: Principal
  readonly log: Log
  /** 1 for a first run; more where recovery runs the call again. */
  readonly attempt: number
  /**
   * Runs another tool on behalf of this call, the whole way: recorded, announced and bounded like any call. It names this
   * one as its parent and shares its run, its trace and its principal. It is cancelled where this call ends before it.
   *
   * @returns the answer; a failure is one with `isError`, not an exception
   * @throws {GatewayError} where it gets no invocation: `unknown_tool`, `overloaded`, `calls_too_deep`,
   *   `store_unavailable`, `invalid_request` for input that is not JSON, `cancelled` once this call is over
   */
  readonly invoke: (toolId: string, input?: unknown) => Promise<InvokeResponse>
}

interface CommonResult {
  /** For the model. Absent is empty. */
  content?: readonly ContentBlock[]
  /** For people. Absent is null. */
  details?: unknown
  usage?: Usage
  /** Hint: stop after this batch. */
  terminate?: boolean
}

/** A success: it keeps the tool's `outputSchema` where there is one. */
export type ToolSuccess<Output> = CommonResult & { isError?: false } & (unknown extends Output
  ? { structuredContent?: ReadonlyDeep<Output> }
  : { structuredContent: ReadonlyDeep<Output> })

/** A failure that the tool reports without throwing. */
export type ToolFailure<Failure> = CommonResult & { isError: true, structuredContent?: ReadonlyDeep<Failure> }

/** Nothing writes to a result, so arrays and objects that cannot be written to are as good. */
type ReadonlyDeep<T> = unknown extends T ? T : T extends object ? { readonly [Key in keyof T]: ReadonlyDeep<T[Key]> } : T

/** Publishes progress: live, in order, ignored once `execute` has settled. */
export type UpdateCallback = (partialResult: {
  content?: ContentBlock[]
  details?: unknown
  structuredContent?: unknown
  usage?: Usage
  terminate?: boolean
  /** Whether it looks like a failure so far; false where absent. */
  isError?: boolean
}) => void

/** What `execute` gives. */
type ToolResultOf<Output, Failure> = ToolSuccess<Of<Output>> | ToolFailure<Of<Failure>>

type Of<Schema> = Schema extends TSchema ? Static<Schema> : unknown

/** A tool of Toolgate's own shape, as its author writes it. */
export interface Tool<
  Parameters extends object = object,
  Output extends object | undefined = object | undefined,
  Failure extends object | undefined = object | undefined
> {
  id: string
  /** For people; the id where absent. */
  label?: string
  description: string
  /** A word for what the tool does to the world: `read`, `write`, … Filters and rights go by it. */
  kind: string
  /** JSON Schema of the input. */
  parameters: Parameters
  /** JSON Schema of `structuredContent` in successes, which then must have one. */
  outputSchema?: Output
  /** JSON Schema of `structuredContent` in failures. */
  errorSchema?: Failure
  /** Rewrites the raw input before it is validated. Throwing refuses the input. */
  prepareArguments?: (input: unknown) => Of<Parameters>
  /**
   * Runs the tool. Throws to fail, or returns `isError: true`.
   *
   * @param toolCallId the caller's own id for the call
   * @param params the validated input
   * @param signal aborts on timeout, cancel, hang-up and shutdown; a call that ignores it is settled without waiting
   */
  execute: (
    toolCallId: string,
    params: Of<Parameters>,
    signal: AbortSignal,
    onUpdate: UpdateCallback,
    context: ToolContext
  ) => ToolResultOf<Output, Failure> | Promise<ToolResultOf<Output, Failure>>
  executionMode?: ExecutionMode
  /** What recovery may do with a call whose outcome is unknown. Default `never`. */
  replay?: ReplayPolicy
  /** From arrival, milliseconds. */
  timeoutMs?: number
  maxConcurrent?: number
  /** Keeps input and result out of events, records and logs. */
  sensitive?: boolean
  /** JSON Pointers into `/input` and `/result` whose values are masked in events, records and logs. */
  mask?: readonly string[]
  inputMode?: InputMode
  outputValidation?: OutputValidation
}

/**
 * Declares a tool, with the types of `params` and `structuredContent` inferred from its TypeBox schemas:
 * a `structuredContent` that breaks `outputSchema` fails to compile. Returns its argument.
 *
 * `Result` is what `execute` really gives. It is inferred with its literals, so that `{ code: 'gone' }` fits a schema
 * that says so without `as const`.
 */
export function defineTool<
  const Parameters extends TSchema,
  const Result extends ToolResultOf<Output, Failure>,
  const Output extends TSchema | undefined = undefined,
  const Failure extends TSchema | undefined = undefined
> (
  tool: Omit<Tool<Parameters, Output, Failure>, 'execute'> & {
    execute: (
      toolCallId: string, params: Of<Parameters>, signal: AbortSignal, onUpdate: UpdateCallback, context: ToolContext
    ) => Result | Promise<Result>
  }
): Tool<Parameters, Output, Failure> {
  return tool
}
