import type { InvokeResponse, OutcomeCode } from '../contract/invocation.ts'
import type { Fault, Problem } from '../contract/problem.ts'
import type { ContentBlock } from '../contract/result.ts'

/** What the client throws, but for the reason of an aborted signal. Told apart by class, or by `code`. */
export abstract class ClientError extends Error {
  /** Stable. */
  abstract readonly code: string
}

/** A call failed. Whatever data it came with is in `response`, never in the place of a success. */
export class ToolError extends ClientError {
  override readonly name = 'ToolError'
  readonly code: OutcomeCode
  /** The whole answer: content, details, structuredContent where the failure has it, and the receipt. */
  readonly response: InvokeResponse

  constructor (response: InvokeResponse) {
    const { toolId, errorCode = 'tool_error' } = response.invocation
    super(textOf(response.content) || `Tool "${toolId}" failed (${errorCode}), and said nothing more.`)
    this.code = errorCode
    this.response = response
  }
}

/** The gateway refused a request, and nothing was run: an unknown tool, wrong credentials, too many calls. */
export class ProblemError extends ClientError {
  override readonly name = 'ProblemError'
  readonly code: string
  readonly problem: Problem
  /** HTTP status. */
  readonly status: number
  /** Time after which the gateway would be asked again, where it says so. */
  readonly retryAfterMs: number | undefined

  constructor (problem: Problem, retryAfterMs: number | undefined) {
    super(problem.detail)
    this.code = problem.code
    this.problem = problem
    this.status = problem.status
    this.retryAfterMs = retryAfterMs
  }
}

/** There was no answer, or not all of it. */
export class ConnectionError extends ClientError {
  override readonly name = 'ConnectionError'
  /** `unreachable`: nothing was sent. `interrupted`: a call that was asked for may have run, and may still. */
  readonly code: 'unreachable' | 'interrupted'
  /** The call that the answer was about, where that much of it arrived; its record tells the rest. */
  readonly invocationId: string | undefined

  constructor (code: 'unreachable' | 'interrupted', message: string, { cause, invocationId }: { cause?: unknown, invocationId?: string | undefined } = {}) {
    super(message, cause === undefined ? undefined : { cause })
    this.code = code
    this.invocationId = invocationId
  }
}

/** What was received is not what a gateway answers: something else is listening there, or between here and there. */
export class ProtocolError extends ClientError {
  override readonly name = 'ProtocolError'
  readonly code = 'not_the_contract'
  /** HTTP status of the answer. */
  readonly status: number
  readonly faults: readonly Fault[]

  constructor (message: string, status: number, { faults = [], cause }: { faults?: readonly Fault[], cause?: unknown } = {}) {
    super(message, cause === undefined ? undefined : { cause })
    this.status = status
    this.faults = faults
  }
}

/** A call succeeded, and its `structuredContent` breaks the schema that its caller gave as `output`. */
export class OutputError extends ClientError {
  override readonly name = 'OutputError'
  readonly code = 'unexpected_output'
  readonly faults: readonly Fault[]
  readonly response: InvokeResponse

  constructor (response: InvokeResponse, faults: readonly Fault[]) {
    const lines = faults.map(({ path, message }) => `- ${path === '' ? '' : `${path}: `}${message}`)
    super(`The structuredContent of tool "${response.invocation.toolId}" is not what was expected:\n${lines.join('\n')}`)
    this.faults = faults
    this.response = response
  }
}

/** The texts of content, one below the other. */
export function textOf (content: readonly ContentBlock[]): string {
  return content.flatMap((block) => block.type === 'text' ? [block.text] : []).join('\n')
}
