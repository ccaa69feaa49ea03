import type { InvocationReceipt, InvokeResponse, OutcomeCode } from '../contract/invocation.ts'
import { GatewayError } from '../errors.ts'
import { createIdSource, spanIdOf } from '../ids.ts'
import { messageOf } from './error-message.ts'
import { isPromiseLike } from './promise-like.ts'
import { RefusedValueError, type RegisteredTool, type ToolOutput } from './registered-tool.ts'
import { silentLog, type Principal, type ToolContext } from './tool.ts'

export interface PlainCall { toolId: string, input?: unknown, toolCallId?: string | undefined }

/** One call: which, since when, and under which other one. */
interface Attempt {
  tool: RegisteredTool
  invocationId: string
  toolCallId: string
  startedAtMs: number
  /** When `execute` began, on the monotonic clock. */
  executedAt: number | undefined
  isOver: boolean
  parent: Attempt | undefined
  depth: number
}

const inProcess: Principal = { id: 'in-process' }

/** Child calls inside one another: what the whole way allows where nothing else is set. */
const MAX_DEPTH = 8

/**
 * The plain in-process way of calling tools: parse, execute, parse. No hooks, no events, no record, no cancelling, and no
 * limit but that of depth.
 */
export class PlainCalls {
  readonly #tools: ReadonlyMap<string, RegisteredTool>
  readonly #ids = createIdSource()

  constructor (tools: ReadonlyMap<string, RegisteredTool>) {
    this.#tools = tools
  }

  /**
   * Synchronous where the tool's `execute` is.
   * @throws {GatewayError} `unknown_tool`, `invalid_input`, `invalid_output`; `tool_error` where a result says `isError`.
   *   What `execute` itself throws comes through as it is.
   */
  run ({ toolId, input, toolCallId }: PlainCall): { value: unknown, invocation: InvocationReceipt } | Promise<{ value: unknown, invocation: InvocationReceipt }> {
    const attempt = this.#attempt(toolId, toolCallId)
    const conclude = (raw: unknown) => {
      const output = outputOf(attempt.tool, raw)
      if (output.isError === true) throw new GatewayError('tool_error', `Tool "${toolId}" reported a failure.`, { cause: output })
      return { value: output.structuredContent, invocation: receipt(attempt, 'succeeded') }
    }
    const raw = this.#execute(attempt, input)
    return isPromiseLike(raw) ? Promise.resolve(raw).then(conclude) : conclude(raw)
  }

  /** See `ToolContext.invoke`. A tool that does not wait for the answer need not hear that there is none. */
  #invokeChild (parent: Attempt, toolId: string, input: unknown): Promise<InvokeResponse> {
    const answered = this.#runChild(parent, toolId, input)
    answered.catch(() => {})
    return answered
  }

  async #runChild (parent: Attempt, toolId: string, input: unknown): Promise<InvokeResponse> {
    if (parent.isOver) throw new GatewayError('cancelled', `The call of tool "${parent.tool.descriptor.id}" is over and can make no child calls.`)
    if (parent.depth >= MAX_DEPTH) throw new GatewayError('calls_too_deep', `Child calls may be ${MAX_DEPTH} deep.`)
    const attempt = this.#attempt(toolId, undefined, parent)
    try {
      const output = outputOf(attempt.tool, await this.#execute(attempt, input))
      return output.isError === true
        ? answer(output, true, receipt(attempt, 'failed', 'tool_error'))
        : answer(output, false, receipt(attempt, 'succeeded'))
    } catch (cause) {
      const { code, errors } = cause instanceof RefusedOutcome ? cause : { code: 'tool_error' as const, errors: undefined }
      const details = errors === undefined ? null : { errors }
      return answer({ content: [{ type: 'text', text: messageOf(cause) }], details }, true, receipt(attempt, 'failed', code))
    }
  }

  #attempt (toolId: string, toolCallId: string | undefined, parent?: Attempt): Attempt {
    const tool = this.#tools.get(toolId)
    if (tool === undefined) throw new GatewayError('unknown_tool', `There is no tool "${toolId}".`)
    const startedAtMs = Date.now()
    const invocationId = this.#ids.invocationId(startedAtMs)
    const depth = parent === undefined ? 0 : parent.depth + 1
    return { tool, invocationId, toolCallId: toolCallId ?? invocationId, startedAtMs, executedAt: undefined, isOver: false, parent, depth }
  }

  #execute (attempt: Attempt, input: unknown): unknown {
    const { tool, invocationId, toolCallId } = attempt
    const args = refusing('invalid_input', tool, () => tool.parseInput(input === undefined ? {} : input))
    const context: ToolContext = {
      invocationId,
      spanId: spanIdOf(invocationId),
      principal: inProcess,
      log: silentLog,
      attempt: 1,
      invoke: (toolId, childInput) => this.#invokeChild(attempt, toolId, childInput)
    }
    attempt.executedAt = performance.now()
    let raw: unknown
    try {
      raw = tool.execute(toolCallId, args, new AbortController().signal, () => {}, context)
    } finally {
      attempt.isOver = !isPromiseLike(raw)
    }
    return isPromiseLike(raw) ? Promise.resolve(raw).finally(() => { attempt.isOver = true }) : raw
  }
}

/** Input or output that the tool's rules refuse. */
class RefusedOutcome extends GatewayError {
  declare readonly code: 'invalid_input' | 'invalid_output'
}

function refusing<T> (code: RefusedOutcome['code'], tool: RegisteredTool, run: () => T): T {
  try {
    return run()
  } catch (cause) {
    if (!(cause instanceof RefusedValueError)) throw cause
    throw new RefusedOutcome(code, `Tool "${tool.descriptor.id}": ${cause.message}`, { cause: cause.cause ?? cause, errors: cause.faults })
  }
}

/** What the tool made of it; a success, held to what it declares. */
function outputOf (tool: RegisteredTool, raw: unknown): ToolOutput {
  return refusing('invalid_output', tool, () => {
    const output = tool.toOutput(raw)
    if (output.isError === true) return output
    const parsed = tool.parseOutput === undefined ? output : tool.parseOutput(output)
    const value = parsed.structuredContent
    if (tool.outputSchema !== undefined && tool.outputValidation === 'enforce' && !tool.outputSchema.validator.check(value)) {
      throw new RefusedValueError(value === undefined
        ? [{ path: '', keyword: 'required', message: 'structuredContent is missing' }]
        : tool.outputSchema.validator.errors(value))
    }
    return parsed
  })
}

function receipt (attempt: Attempt, status: 'succeeded' | 'failed', errorCode?: OutcomeCode): InvocationReceipt {
  const { tool, invocationId, toolCallId, startedAtMs, executedAt, parent } = attempt
  return {
    invocationId,
    toolId: tool.descriptor.id,
    toolCallId,
    kind: tool.descriptor.kind,
    status,
    ...(errorCode === undefined ? {} : { errorCode }),
    startedAtMs,
    durationMs: executedAt === undefined ? 0 : performance.now() - executedAt,
    spanId: spanIdOf(invocationId),
    ...(parent === undefined ? {} : { parentSpanId: spanIdOf(parent.invocationId), parentInvocationId: parent.invocationId })
  }
}

function answer ({ content, details, structuredContent, usage, terminate }: ToolOutput, isError: boolean, invocation: InvocationReceipt): InvokeResponse {
  return {
    content: content ?? [],
    details: details ?? null,
    ...(structuredContent === undefined ? {} : { structuredContent }),
    isError,
    ...(usage === undefined ? {} : { usage }),
    ...(terminate === undefined ? {} : { terminate }),
    invocation
  } as InvokeResponse
}
