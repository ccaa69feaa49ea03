import { ClientError, ConnectionError, ProblemError, ProtocolError } from './errors.ts'

/** What a runtime tells of a connection that failed. */
interface Cause {
  code?: unknown
  syscall?: unknown
  errors?: unknown
  message?: unknown
}

/** Failures before there was a connection, as Node names them beside those of `connect` and a port that no page may ask. A browser does not tell. */
const connecting = new Set([
  'UND_ERR_CONNECT_TIMEOUT', 'CERT_HAS_EXPIRED', 'DEPTH_ZERO_SELF_SIGNED_CERT', 'ERR_TLS_CERT_ALTNAME_INVALID',
  'SELF_SIGNED_CERT_IN_CHAIN', 'UNABLE_TO_GET_ISSUER_CERT_LOCALLY', 'UNABLE_TO_VERIFY_LEAF_SIGNATURE'
])

/**
 * What it means that asking, or reading the answer, failed: `unreachable` where nothing can have been sent. Errors that say
 * so themselves are given back.
 */
export function lossOf (error: unknown, origin: string, invocationId: string | undefined): unknown {
  if (error instanceof ClientError) return error
  const cause = ((error as { cause?: unknown } | null | undefined)?.cause ?? error ?? {}) as Cause
  if (isNeverSent(cause)) return new ConnectionError('unreachable', `${origin} cannot be reached${reasonOf(cause)}.`, { cause: error })
  const message = cause.code === 'UND_ERR_HEADERS_TIMEOUT'
    ? `This runtime gave up waiting for an answer of ${origin}. Give a call that takes so long a \`timeoutMs\` or an \`onUpdate\`, and its answer comes as a stream.`
    : `The connection to ${origin} was lost${reasonOf(cause)}.`
  return new ConnectionError('interrupted', message, { cause: error, invocationId })
}

/** Whether what was asked for cannot be had, as the gateway says, or what stands before it; a lie is something else. */
export function isAbsence (error: unknown): error is ClientError {
  return error instanceof ConnectionError || error instanceof ProblemError || (error instanceof ProtocolError && error.status >= 400)
}

function isNeverSent ({ code, syscall, errors, message }: Cause): boolean {
  // One failure for each address that was tried.
  if (Array.isArray(errors) && errors.length > 0) return errors.every(isNeverSent)
  return syscall === 'connect' || syscall === 'getaddrinfo' || connecting.has(code as string) || message === 'bad port'
}

function reasonOf ({ code, message }: Cause): string {
  const reason = typeof code === 'string' ? code : message
  return typeof reason === 'string' && reason !== '' ? ` (${reason})` : ''
}
