import { Type, type Static } from '@sinclair/typebox'
import { EpochMs } from './json.ts'

/** The answer of `POST /events/tickets`: good once, as the `ticket` of `GET /events`. */
export const Ticket = Type.Object({
  ticket: Type.String(),
  expiresAtMs: EpochMs
}, { $id: 'Ticket' })
export type Ticket = Static<typeof Ticket>
