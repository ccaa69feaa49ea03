import type { InvokeResponse } from '../client.ts'
import { contentText } from './content-text.ts'
import { duration } from './duration.ts'
import { exitCodes } from './exit-codes.ts'
import type { Output } from './output.ts'

/**
 * Prints what a call came to.
 * @param isTold whether to say, beside the result, how long it took and which call it was
 * @returns the exit code
 */
export async function printAnswer (answer: InvokeResponse, output: Output, isTold: boolean): Promise<number> {
  const { isError, invocation: { toolId, status, errorCode, durationMs, invocationId } } = answer
  const text = contentText(answer)
  const call = isTold ? ` after ${duration(durationMs)} (${invocationId})` : ''
  if (isError) output.note(`${toolId} ${status} (${errorCode ?? 'tool_error'})${call}${text === '' ? '' : `: ${text}`}`)
  else if (isTold) output.note(`${toolId} ${status}${call}`)
  if (!output.isForPeople) await output.json(answer)
  else if (!isError) await output.text(text)
  return isError ? exitCodes.failed : 0
}
