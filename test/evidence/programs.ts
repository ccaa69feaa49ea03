import { ChildProcess } from 'node:child_process'
import { subscribe } from 'node:diagnostics_channel'
import type { Readable } from 'node:stream'
import type { Place, Witness } from './witness.ts'

/** A line that goes on for longer is looked at in pieces, with as much in both as the longest secret. */
const MAX_LINE = 2 ** 20
const OVERLAP = 4096

/** What `node:child_process` hands to the method that starts a process. */
interface SpawnOptions {
  envPairs?: string[]
}

type Spawn = (this: ChildProcess, options: SpawnOptions) => unknown

/** Gateways, and the command line, in processes of their own: what they write, and what `fetch` gets of them. */
export function watchPrograms (witness: Witness): void {
  const prototype = ChildProcess.prototype as unknown as { spawn: Spawn }
  const { spawn } = prototype
  prototype.spawn = function (options) {
    for (const pair of options.envPairs ?? []) if (pair.startsWith('TOOLGATE_API_KEY=')) witness.lookFor(pair.slice(pair.indexOf('=') + 1))
    const result = spawn.call(this, options)
    // The rest of standard output are results for who asked for them: `keys create` prints a key there, once.
    watch(this.stdout, eachLine((line) => { if (line.startsWith('{"level":')) witness.look('log line', line) }))
    watch(this.stderr, eachLine((line) => witness.look('error output', line)))
    return result
  }

  const answers = new WeakMap<object, LineReader>()
  subscribe('undici:request:headers', (message) => {
    const { request, response } = message as { request: { method: string, path: string }, response: { headers: Buffer[] } }
    const place = response.headers.some((text) => text.toString('latin1').startsWith('application/problem+json')) ? 'problem' : request.method === 'GET' ? placeOf(request.path) : undefined
    if (place !== undefined) answers.set(request, eachLine((line) => witness.look(place, line)))
  })
  subscribe('undici:request:bodyChunkReceived', (message) => {
    const { request, chunk } = message as { request: object, chunk: Buffer }
    answers.get(request)?.add(chunk)
  })
  subscribe('undici:request:trailers', (message) => answers.get((message as { request: object }).request)?.end())
}

function placeOf (path: string): Place | undefined {
  if (/^\/events\b/.test(path)) return 'event'
  if (/^\/invocations\b/.test(path)) return 'record'
  if (/^\/audit\b/.test(path)) return 'audit entry'
  return undefined
}

interface LineReader {
  add (chunk: Buffer | string): void
  end (): void
}

function eachLine (look: (line: string) => void): LineReader {
  let rest = ''
  const end = () => { if (rest !== '') look(rest) }
  return {
    end,
    add (chunk) {
      const lines = (rest + (typeof chunk === 'string' ? chunk : chunk.toString('latin1'))).split('\n')
      rest = lines.pop()!
      for (const line of lines) if (line !== '') look(line)
      if (rest.length < MAX_LINE) return
      end()
      rest = rest.slice(-OVERLAP)
    }
  }
}

/** Looks at what comes in without reading it: when that happens, and whether at all, stays with the test. */
function watch (stream: Readable | null | undefined, reader: LineReader): void {
  if (stream == null) return
  const { push } = stream
  stream.push = (chunk, encoding) => {
    if (chunk === null) reader.end()
    else reader.add(chunk)
    return push.call(stream, chunk, encoding)
  }
}
