import { Type, type Static } from '@sinclair/typebox'

/** The answer of `GET /livez`. */
export const Liveness = Type.Object({ status: Type.Literal('ok') }, { $id: 'Liveness' })

/** The answer of `GET /readyz`: 200 where calls are taken, 503 where not. A reason may be told with either. */
export const Readiness = Type.Object({
  status: Type.Union([Type.Literal('ready'), Type.Literal('not_ready')]),
  reasons: Type.Array(Type.Object({ code: Type.String(), message: Type.String() })),
  /** The tools in force, told to callers with the scope `admin`: `etag` is that of `GET /tools`. */
  tools: Type.Optional(Type.Object({ count: Type.Integer(), etag: Type.String(), loadedAtMs: Type.Integer() }))
}, { $id: 'Readiness' })
export type Readiness = Static<typeof Readiness>
