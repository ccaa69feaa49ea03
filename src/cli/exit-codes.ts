import { ConnectionError, ProblemError, ProtocolError } from '../client.ts'

/** How the commands of consumers end, and every command that was used wrongly. */
export const exitCodes = {
  /** The tool failed, or was cancelled. */
  failed: 1,
  /** The caller has to change something: the arguments, the input, the key. */
  usage: 2,
  /** No answer, none of a gateway, or one that has no room now. Later the same may work. */
  unavailable: 3
} as const

/** Signals that end a command, with the exit code that a shell gives for them. */
export const endingSignals = { SIGHUP: 129, SIGINT: 130, SIGTERM: 143 } as const

/** Something about the command line, or what it names, that the caller has to change. */
export class UsageError extends Error {}

/** Why a command was ended from outside. */
export class Interruption extends Error {
  readonly exitCode: number

  constructor (signal: keyof typeof endingSignals) {
    super(`Ended by ${signal}.`)
    this.exitCode = endingSignals[signal]
  }
}

export interface Ending {
  exitCode: number
  /** For people; empty where there is nothing to say. */
  message: string
}

/** Advice on what a person can do about a refusal. */
const advice: Readonly<Record<string, string>> = {
  unauthorized: 'TOOLGATE_API_KEY sets the key or token.',
  unknown_tool: '`toolgate tools` lists those that there are.',
  body_too_large: 'TOOLGATE_MAX_BODY_BYTES of the gateway sets the limit.'
}

/** How a command ends that threw this; undefined for what nobody foresaw. */
export function endingOf (error: unknown): Ending | undefined {
  if (error instanceof Interruption) return { exitCode: error.exitCode, message: error.message }
  if (error instanceof UsageError) return { exitCode: exitCodes.usage, message: `error: ${error.message}` }
  if (error instanceof ProblemError) {
    const { status, code, message, problem } = error
    const faults = (problem.errors ?? []).map((fault) => `- ${fault.path === '' ? '' : `${fault.path}: `}${fault.message}`)
    const lines = [`The gateway refused (${code}): ${message}`, ...faults, ...Object.hasOwn(advice, code) ? [advice[code]] : []]
    return { exitCode: status >= 500 || status === 408 || status === 429 ? exitCodes.unavailable : exitCodes.usage, message: lines.join('\n') }
  }
  if (error instanceof ConnectionError) {
    const { code, invocationId, message } = error
    const rest = code === 'unreachable' ? '\n--url or TOOLGATE_URL says where the gateway is.' : invocationId === undefined ? '' : `\nThe call is ${invocationId}; it may go on. \`toolgate invocation ${invocationId}\` tells.`
    return { exitCode: exitCodes.unavailable, message: message + rest }
  }
  if (error instanceof ProtocolError) return { exitCode: exitCodes.unavailable, message: error.message }
  return undefined
}
