import { request, type IncomingHttpHeaders } from 'node:http'
import type { EventList } from '../../src/contract/event.ts'
import { within, type Scope } from './harness.ts'

export interface PollRequest {
  path?: string
  headers?: Record<string, string>
  /** Destroys the connection after this many body bytes. */
  cutAfterBytes?: number
  /** Destroys the connection where no answer has begun after so long. */
  cutAfterMs?: number
}

export interface PollResult {
  /** Where the connection went away: before the headers, inside the body; `none` where the answer is whole. */
  cut: 'none' | 'waiting' | 'body'
  status: number | undefined
  headers: IncomingHttpHeaders
  /** Of a whole answer. */
  list: EventList
}

/** One poll over a connection of its own, which may be cut on the way. */
export function poll (t: Scope, url: string, { path = '/events', headers = {}, cutAfterBytes = Infinity, cutAfterMs = Infinity }: PollRequest = {}): Promise<PollResult> {
  return within(new Promise<PollResult>((resolve) => {
    const call = request(url + path, { agent: false, headers: { accept: 'application/json', ...headers } })
    const result: PollResult = { cut: 'waiting', status: undefined, headers: {}, list: { events: [], next: '' } }
    let body = Buffer.alloc(0)
    const patience = cutAfterMs === Infinity ? undefined : setTimeout(() => call.destroy(), cutAfterMs)
    t.after(() => call.destroy())
    call.on('error', () => {}) // a cut
    call.on('close', () => {
      clearTimeout(patience)
      if (result.cut === 'none') result.list = JSON.parse(body.toString())
      resolve(result)
    })
    call.on('response', (response) => {
      clearTimeout(patience)
      Object.assign(result, { cut: 'body', status: response.statusCode, headers: response.headers })
      response.on('data', (chunk: Buffer) => {
        body = Buffer.concat([body, chunk])
        if (body.length >= cutAfterBytes) call.destroy()
      })
      response.on('error', () => {}) // a cut
      response.on('end', () => { if (body.length < cutAfterBytes) result.cut = 'none' })
    })
    call.end()
  }), `the end of a poll of ${path}`, 20_000)
}
