import { Type, type Static } from '@sinclair/typebox'

/** One fault of a value: where it is (a JSON Pointer, "" for the value itself), the rule it breaks, and a message. */
export const Fault = Type.Object({
  path: Type.String(),
  keyword: Type.String(),
  message: Type.String()
}, { $id: 'Fault' })
export type Fault = Static<typeof Fault>

/** The answer wherever there is no invocation: RFC 9457, `application/problem+json`. */
export const Problem = Type.Object({
  type: Type.String({ description: 'A URI for the kind of problem' }),
  title: Type.String(),
  status: Type.Integer(),
  detail: Type.String(),
  code: Type.String({ description: 'Stable; docs/errors.md lists them' }),
  errors: Type.Optional(Type.Array(Fault))
}, { $id: 'Problem' })
export type Problem = Static<typeof Problem>
