import type { SubscriptionItem, ToolExecutionEvent } from '../client.ts'
import { isWithheld } from '../contract/result.ts'
import { contentText, progressText } from './content-text.ts'
import { duration } from './duration.ts'
import { plainLine } from './plain-text.ts'
import { cut, pad } from './text-width.ts'

const TOOL_COLUMNS = 20
/** The end of an id, which tells calls apart that came close together. */
const ID_LENGTH = 8

/**
 * An event as a line for a person: when its call arrived, the tool, the end of the call's id, and what happened.
 * @param now a call of another day is told with its date
 */
export function eventLine (item: SubscriptionItem, columns: number, now: Date): string {
  if (item.type === 'events_lost') return `-- events after ${plainLine(item.requestedId)} are gone; those from ${plainLine(item.earliestId)} on follow`
  const [type, text] = happened(item)
  const parts = [timeOf(item.startedAtMs, now), pad(plainLine(item.toolId), TOOL_COLUMNS), plainLine(item.invocationId.slice(-ID_LENGTH)), pad(type, 6), plainLine(text)]
  return cut(parts.join('  ').trimEnd(), columns)
}

function happened (event: ToolExecutionEvent): [type: string, text: string] {
  switch (event.type) {
    case 'tool_execution_start': return ['start', event.args === undefined ? '' : JSON.stringify(event.args)]
    case 'tool_execution_update': return ['update', event.partialResult === undefined ? '' : progressText(event.partialResult)]
    case 'tool_execution_end': {
      const { status, errorCode, durationMs, result } = event
      const outcome = `${status}${errorCode === undefined || errorCode === status ? '' : ` (${errorCode})`} after ${duration(durationMs)}`
      return ['end', result === undefined || isWithheld(result) ? outcome : `${outcome}: ${contentText(result)}`]
    }
  }
}

function timeOf (epochMs: number, now: Date): string {
  const at = new Date(epochMs)
  const two = (value: number) => String(value).padStart(2, '0')
  const time = [at.getHours(), at.getMinutes(), at.getSeconds()].map(two).join(':')
  return at.toDateString() === now.toDateString() ? time : `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${time}`
}
