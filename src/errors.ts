import type { Fault, Problem } from './contract/problem.ts'
import type { FinalStatus, OutcomeCode } from './contract/invocation.ts'

interface ProblemRow {
  status: number
  title: string
  /** Whether the same request may succeed later, unchanged. */
  retryable: boolean
  /** Seconds told in `Retry-After`. */
  retryAfter?: number
}

/** What the gateway refuses over HTTP without an invocation: code → status, title, whether to try again. */
export const problems = {
  invalid_request: { status: 400, title: 'The request does not have the expected shape', retryable: false },
  malformed_json: { status: 400, title: 'The body is not JSON', retryable: false },
  forbidden_key: { status: 400, title: 'The body holds a key that is never accepted', retryable: false },
  number_not_exact: { status: 400, title: 'The body holds a number that JSON cannot carry exactly', retryable: false },
  too_deep: { status: 400, title: 'The body is nested too deeply', retryable: false },
  malformed_http: { status: 400, title: 'The request is not valid HTTP', retryable: false },
  not_supported: { status: 400, title: 'The request asks for something that is not done here', retryable: false },
  unauthorized: { status: 401, title: 'Credentials are missing or wrong', retryable: false },
  forbidden: { status: 403, title: 'This is not allowed', retryable: false },
  not_found: { status: 404, title: 'There is no such route', retryable: false },
  unknown_tool: { status: 404, title: 'There is no such tool', retryable: false },
  unknown_invocation: { status: 404, title: 'There is no such invocation', retryable: false },
  method_not_allowed: { status: 405, title: 'The route does not take this method', retryable: false },
  not_acceptable: { status: 406, title: 'None of the accepted media types can be given', retryable: false },
  request_timeout: { status: 408, title: 'The request did not arrive in time', retryable: true },
  already_settled: { status: 409, title: 'The invocation has settled already', retryable: false },
  body_too_large: { status: 413, title: 'The body is over the size limit', retryable: false },
  url_too_long: { status: 414, title: 'The URL is over the length limit', retryable: false },
  unsupported_media_type: { status: 415, title: 'The body has a media type that is not accepted', retryable: false },
  too_many_subscribers: { status: 429, title: 'The gateway has as many subscribers as it takes', retryable: true, retryAfter: 5 },
  rate_limited: { status: 429, title: 'Too many requests', retryable: true, retryAfter: 1 },
  idempotency_key_reused: { status: 422, title: 'The idempotency key was used with another input', retryable: false },
  expectation_failed: { status: 417, title: 'The request expects what the gateway does not do', retryable: false },
  headers_too_large: { status: 431, title: 'The headers are over the size limit', retryable: false },
  internal_error: { status: 500, title: 'The gateway failed', retryable: true },
  overloaded: { status: 503, title: 'The gateway has more calls than it takes', retryable: true, retryAfter: 1 },
  shutting_down: { status: 503, title: 'The gateway is shutting down', retryable: true, retryAfter: 5 },
  store_unavailable: { status: 503, title: 'The record cannot be written', retryable: true, retryAfter: 2 },
  auth_unavailable: { status: 503, title: 'Credentials cannot be checked', retryable: true, retryAfter: 2 }
} as const satisfies Record<string, ProblemRow>

export type ProblemCode = keyof typeof problems

interface OutcomeRow {
  /** How the invocation ends. */
  status: FinalStatus
  title: string
  /** HTTP status where `execute` had begun; absent where the code cannot arise then. */
  executed?: 200
  /** HTTP status where `execute` never ran: always 400 or above. */
  notExecuted?: number
  /** Whether the same call may succeed later, unchanged. */
  retryable: boolean
}

/** How an invocation can end other than by succeeding. 400 and above always means: the tool did not run. */
export const outcomes = {
  tool_error: { status: 'failed', title: 'The tool reported a failure', executed: 200, retryable: false },
  invalid_output: { status: 'failed', title: 'The output breaks the declared schema, or is not JSON', executed: 200, retryable: false },
  result_too_large: { status: 'failed', title: 'The result is over the size limit', executed: 200, retryable: false },
  hook_error: { status: 'failed', title: 'A hook failed', executed: 200, notExecuted: 500, retryable: false },
  timeout: { status: 'failed', title: 'The call took longer than it was given', executed: 200, notExecuted: 504, retryable: true },
  cancelled: { status: 'cancelled', title: 'The call was cancelled', executed: 200, notExecuted: 409, retryable: false },
  shutdown: { status: 'cancelled', title: 'The gateway stopped before the call ended', executed: 200, notExecuted: 503, retryable: true },
  tool_crashed: { status: 'failed', title: 'The process that ran the tool died', executed: 200, retryable: false },
  outcome_unknown: { status: 'failed', title: 'The gateway crashed while the tool ran; its outcome is not known', executed: 200, retryable: false },
  invalid_input: { status: 'failed', title: "The input breaks the tool's parameters", notExecuted: 422, retryable: false },
  blocked: { status: 'failed', title: 'A hook blocked the call', notExecuted: 403, retryable: false }
} as const satisfies Record<OutcomeCode, OutcomeRow>

/** What the gateway tells tools and the program that embeds it; never sent to a caller. */
export const usageErrors = {
  invalid_tool: 'A tool was refused at registration',
  duplicate_tool: 'Two tools have the same id',
  calls_too_deep: 'Child calls are nested deeper than allowed',
  registry_sealed: 'A sealed registry takes no more tools',
  invalid_config: 'The configuration cannot be used',
  source_failed: 'A source of tools could not be loaded',
  store_closed: 'The store was used after it was closed',
  not_recorded: 'The gateway stopped before the end of a call could be recorded',
  store_refused: 'The place of the store cannot be used, or belongs to somebody else'
} as const

export type GatewayErrorCode = ProblemCode | OutcomeCode | keyof typeof usageErrors

export interface GatewayErrorOptions {
  cause?: unknown
  /** Every fault found, where the refusal is about a value. */
  errors?: readonly Fault[]
  /** Headers that the HTTP answer must carry. */
  headers?: Readonly<Record<string, string>>
  /** Of a caller who was not let in: why, for the people who run this. Its caller is not told. */
  refusedFor?: string | undefined
}

/**
 * What the gateway itself refuses. A tool's failure is a result, not one of these.
 * `code` is stable; `message` is for people and may reach a caller, so it never holds a secret or a path.
 */
export class GatewayError extends Error {
  override readonly name = 'GatewayError'
  readonly code: GatewayErrorCode
  readonly errors: readonly Fault[] | undefined
  readonly headers: Readonly<Record<string, string>> | undefined
  readonly refusedFor: string | undefined

  constructor (code: GatewayErrorCode, message: string, options: GatewayErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause })
    this.code = code
    this.errors = options.errors
    this.headers = options.headers
    this.refusedFor = options.refusedFor
  }
}

const isProblemCode = (code: GatewayErrorCode): code is ProblemCode => Object.hasOwn(problems, code)

/** The problem object of `error`, and the headers that go with it. Codes that callers never see become `internal_error`. */
export function toProblem (error: GatewayError): { problem: Problem, headers: Record<string, string> } {
  const code = isProblemCode(error.code) ? error.code : 'internal_error'
  const row: ProblemRow = problems[code]
  const headers: Record<string, string> = { ...error.headers }
  if (row.retryAfter !== undefined) headers['retry-after'] ??= String(row.retryAfter)
  return {
    headers,
    problem: {
      type: `urn:toolgate:problem:${code}`,
      title: row.title,
      status: row.status,
      detail: code === error.code ? error.message : 'The gateway failed to handle the request.',
      code,
      ...(error.errors === undefined ? {} : { errors: [...error.errors] })
    }
  }
}

/** The HTTP status of an invocation that ended with `code`. */
export function outcomeHttpStatus (code: OutcomeCode, executed: boolean): number {
  const row: OutcomeRow = outcomes[code]
  return (executed ? row.executed : row.notExecuted) ?? 200
}
