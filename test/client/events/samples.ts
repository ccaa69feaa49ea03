import type { ToolExecutionEvent } from '../../../src/contract/event.ts'

const epoch = '3f9c52aa10b7e1d4'

/** The id of the n-th event of a log. */
export function idOf (n: number): string {
  return `${epoch}-${n}`
}

/** An event of a gateway that tells its number apart, with text that takes one to four bytes a character. */
export function eventOf (n: number, more: object = {}): ToolExecutionEvent {
  return {
    type: 'tool_execution_start', toolCallId: `call ${n}`, toolName: 'echo', toolId: 'echo', invocationId: `call ${n}`, kind: 'test',
    startedAtMs: 1_796_033_566_380, spanId: '00f067aa0ba902b7', args: { n, text: 'aé€😀' }, ...more
  } as ToolExecutionEvent
}

/** The message of an event. */
export function frame (n: number, event: ToolExecutionEvent = eventOf(n)): string {
  return `id: ${idOf(n)}\nevent: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`
}

/** Those from `first` up to and with `last`. */
export function frames (first: number, last: number): string {
  return Array.from({ length: last - first + 1 }, (_, index) => frame(first + index)).join('')
}

export const place = (n: number): string => `id: ${idOf(n)}\n\n`

export const opening = ': connected\nretry: 2000\n\n'

/** The numbers of events, in their order. */
export function numbersOf (items: readonly { type: string }[]): unknown[] {
  return items.map((item) => 'args' in item ? (item.args as { n: number }).n : item.type)
}
