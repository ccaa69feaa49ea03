export interface TraceParent {
  traceId: string
  parentSpanId: string
}

const MAX_LENGTH = 256

const shape = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(-.*)?$/

/**
 * The ids in a `traceparent` header (W3C Trace Context, section 3.2). A header that breaks the rules is as good as
 * none: version ff, all-zero ids, or more fields than version 00 has. So is one far longer than any version needs, which
 * the ids, being parts of it, would keep in memory.
 */
export function parseTraceparent (header: string | undefined): TraceParent | undefined {
  const match = header === undefined || header.length > MAX_LENGTH ? null : shape.exec(header.trim())
  if (match === null) return undefined
  const [, version, traceId, parentSpanId, more] = match
  if (version === 'ff' || (version === '00' && more !== undefined)) return undefined
  if (/^0+$/.test(traceId!) || /^0+$/.test(parentSpanId!)) return undefined
  return { traceId: traceId!, parentSpanId: parentSpanId! }
}
