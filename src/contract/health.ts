import { Type, type Static } from '@sinclair/typebox'

/** The answer of `GET /livez`. */
export const Liveness = Type.Object({ status: Type.Literal('ok') }, { $id: 'Liveness' })

/** The answer of `GET /readyz`: 200 with no reasons, or 503 with them. */
export const Readiness = Type.Object({
  status: Type.Union([Type.Literal('ready'), Type.Literal('not_ready')]),
  reasons: Type.Array(Type.Object({ code: Type.String(), message: Type.String() }))
}, { $id: 'Readiness' })
export type Readiness = Static<typeof Readiness>
