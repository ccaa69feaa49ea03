/** Who asks, as the columns of the table have it. */
export const columns = ['none', 'unknown', 'expired', 'revoked', 'wrong scope', 'wrong tool', "another's call", 'right'] as const
export type Column = (typeof columns)[number]

/** What each column says of the credentials, for the table's readers. */
export const legend: Record<Column, string> = {
  none: 'no credentials at all',
  unknown: 'a key, token or ticket that was never given out',
  expired: 'one whose time is over',
  revoked: 'a key that was revoked; a token whose signing key was withdrawn',
  'wrong scope': 'every scope but the one that the route needs',
  'wrong tool': "the route's scope, for other tools than the one asked about",
  "another's call": "the route's scope, for one's own calls, where the call is another caller's",
  right: "the route's scope"
}

/**
 * How a request is answered: its status, and after a comma what is special about it. `without it` is an answer from which nobody
 * could tell that the tool, the call or its events are there.
 */
export type Cell = '200' | '200, without it' | '200, 404 inside' | '201' | '202' | '204' | '401' | '403' | '404' | '—'

export interface Row {
  /** As the table shows it. */
  route: string
  method: 'GET' | 'HEAD' | 'POST'
  /** `{tool}`, `{call}`, `{running}` and `{ticket}` stand for what the request is about. */
  path: string
  scope?: string
  headers?: Record<string, string>
  body?: unknown
  /** Whether the answer is a stream without an end. */
  isEndless?: boolean
  cells: Record<Column, Cell>
}

const refused = { none: '401', unknown: '401', expired: '401', revoked: '401' } as const
const toTools = { ...refused, 'wrong scope': '403', 'wrong tool': '404', "another's call": '—' } as const
const toCalls = { ...refused, 'wrong scope': '403', 'wrong tool': '404', "another's call": '404' } as const
const toLists = { ...refused, 'wrong scope': '403', 'wrong tool': '200, without it', "another's call": '200, without it', right: '200' } as const
const open = { none: '200', unknown: '200', expired: '200', revoked: '200', 'wrong scope': '200', 'wrong tool': '200', "another's call": '—', right: '200' } as const
const json = { accept: 'application/json' }

/** Every route, and every way of asking that is answered in a way of its own. docs/access.md shows it; tests walk it cell by cell. */
export const rows: readonly Row[] = [
  { route: 'GET /tools', method: 'GET', path: '/tools', scope: 'tools:read', cells: { ...toLists, "another's call": '—' } },
  { route: 'GET /tools/:id', method: 'GET', path: '/tools/{tool}', scope: 'tools:read', cells: { ...toTools, right: '200' } },
  { route: 'POST /tools/:id/invoke', method: 'POST', path: '/tools/{tool}/invoke', scope: 'tools:invoke', body: {}, cells: { ...toTools, right: '200' } },
  { route: 'POST /tools/:id/invoke, as a stream', method: 'POST', path: '/tools/{tool}/invoke', scope: 'tools:invoke', headers: { accept: 'text/event-stream' }, body: {}, cells: { ...toTools, right: '200' } },
  { route: 'POST /tools/:id/invoke, async', method: 'POST', path: '/tools/{tool}/invoke', scope: 'tools:invoke', headers: { prefer: 'respond-async' }, body: {}, cells: { ...toTools, right: '202' } },
  { route: 'POST /batch', method: 'POST', path: '/batch', scope: 'tools:invoke', body: { calls: [{ toolId: '{tool}' }] }, cells: { ...toTools, 'wrong tool': '200, 404 inside', right: '200' } },
  { route: 'GET /invocations', method: 'GET', path: '/invocations', scope: 'invocations:read', cells: toLists },
  { route: 'GET /invocations/:id', method: 'GET', path: '/invocations/{call}', scope: 'invocations:read', cells: { ...toCalls, right: '200' } },
  { route: 'POST /invocations/:id/cancel', method: 'POST', path: '/invocations/{running}/cancel', scope: 'invocations:cancel', cells: { ...toCalls, right: '202' } },
  { route: 'GET /invocations/:id/events', method: 'GET', path: '/invocations/{call}/events', scope: 'events:read', cells: { ...toCalls, right: '200' } },
  { route: 'GET /events', method: 'GET', path: '/events?lastEventId=earliest', scope: 'events:read', isEndless: true, cells: toLists },
  { route: 'GET /events, as JSON', method: 'GET', path: '/events?lastEventId=earliest', scope: 'events:read', headers: json, cells: toLists },
  { route: 'HEAD /events', method: 'HEAD', path: '/events', scope: 'events:read', cells: { ...toLists, 'wrong tool': '200', "another's call": '200' } },
  { route: 'POST /events/tickets', method: 'POST', path: '/events/tickets', scope: 'events:read', cells: { ...toLists, 'wrong tool': '201', "another's call": '201', right: '201' } },
  { route: 'GET /events?ticket=…', method: 'GET', path: '/events?lastEventId=earliest&ticket={ticket}', scope: 'events:read', isEndless: true, cells: { ...toLists, 'wrong scope': '—' } },
  { route: 'GET /audit', method: 'GET', path: '/audit', scope: 'admin', cells: { ...toLists, "another's call": '—' } },
  { route: 'GET /livez', method: 'GET', path: '/livez', cells: open },
  { route: 'GET /readyz', method: 'GET', path: '/readyz', cells: open },
  { route: 'any other path', method: 'GET', path: '/nowhere', cells: { ...refused, 'wrong scope': '404', 'wrong tool': '404', "another's call": '—', right: '404' } }
]

/** The table as docs/access.md has it. */
export function markdown (): string {
  const line = (cells: readonly string[]) => `| ${cells.join(' | ')} |`
  return [
    line(['Route', ...columns]),
    line(['---', ...columns.map(() => '---')]),
    ...rows.map(({ route, cells }) => line([`\`${route.split(',')[0]}\`${route.includes(',') ? `,${route.split(',').slice(1).join(',')}` : ''}`.replace('`any other path`', 'any other path'), ...columns.map((column) => cells[column])]))
  ].join('\n')
}
