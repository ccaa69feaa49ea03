import { Type, type Static } from '@sinclair/typebox'
import { InvocationQuery, InvocationReceipt, nextCursor } from './invocation.ts'

/** Who called what, when, and how it ended. */
export const AuditEntry = Type.Object({
  principalId: Type.String({ description: 'Who called' }),
  invocation: InvocationReceipt
}, { $id: 'AuditEntry' })
export type AuditEntry = Static<typeof AuditEntry>

/** The answer of `GET /audit`: newest first. */
export const AuditList = Type.Object({
  entries: Type.Array(AuditEntry),
  nextCursor
}, { $id: 'AuditList' })
export type AuditList = Static<typeof AuditList>

/** The query of `GET /audit`: that of `GET /invocations`, and who called. */
export const AuditQuery = Type.Object({
  ...InvocationQuery.properties,
  principalId: Type.Optional(Type.Array(Type.String(), { maxItems: 100 }))
}, { $id: 'AuditQuery', additionalProperties: false })
export type AuditQuery = Static<typeof AuditQuery>
