import type { FastifyContextConfig, FastifyRequest, onRequestHookHandler, preHandlerHookHandler } from 'fastify'
import { noLongerValid, type Authenticate } from './authentication.ts'
import type { Caller } from './caller.ts'
import type { ScopeName } from './scopes.ts'
import type { Tickets } from './tickets.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** Who sends it. On open routes nobody looks. */
    caller: Caller
  }
  interface FastifyContextConfig {
    /** What its caller needs, for one tool or call at least. Each route says this, or that it is open. */
    scope?: ScopeName
    /** Served without credentials. */
    open?: boolean
    /** Whether a ticket in the query will do. */
    takesTicket?: boolean
  }
}

export interface GuardOptions {
  authenticate: Authenticate
  tickets: Tickets
  /** Looks at every request. Throws to refuse it. */
  checkAll: (request: FastifyRequest) => void
  /** Looks at those that are not for an open route, before their credentials. Throws to refuse them. */
  check: (request: FastifyRequest) => void
}

/** What every request passes before its route: it is told who sends it, and nobody goes on who may do nothing there. */
export function createGuard ({ authenticate, tickets, checkAll, check }: GuardOptions): onRequestHookHandler {
  const callerOf = (request: FastifyRequest, { takesTicket }: FastifyContextConfig): Caller | Promise<Caller> => {
    const { authorization } = request.headers
    const ticket = takesTicket === true && authorization === undefined ? ticketOf(request) : undefined
    return ticket === undefined ? authenticate(authorization) : tickets.redeem(ticket)
  }
  return (request, _reply, done) => {
    try {
      checkAll(request)
      // Read once: Fastify makes what it is in anew each time.
      const { config } = request.routeOptions
      if (config.open === true) return done()
      check(request)
      const caller = callerOf(request, config)
      if (caller instanceof Promise) caller.then((found) => admit(request, config, found)).then(() => done(), done)
      else {
        admit(request, config, caller)
        done()
      }
    } catch (error) {
      done(error as Error)
    }
  }
}

function admit (request: FastifyRequest, { scope }: FastifyContextConfig, caller: Caller): void {
  request.caller = caller
  if (scope !== undefined) caller.access.assert(scope)
}

/**
 * Looks again once the body is there: it may have come slowly, and nothing begins for credentials that are gone by then.
 * @throws {GatewayError} `unauthorized`
 */
export const checkAgain: preHandlerHookHandler = (request, _reply, done) => {
  const caller = request.caller as Caller | null
  done(caller === null || caller.isCurrent() ? undefined : noLongerValid())
}

function ticketOf ({ query }: FastifyRequest): string | undefined {
  const { ticket } = query as { ticket?: string | string[] }
  return [ticket].flat()[0]
}
