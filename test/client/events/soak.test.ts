import assert from 'node:assert/strict'
import { fork } from 'node:child_process'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { describe, it, type TestContext } from 'node:test'
import { fileURLToPath } from 'node:url'
import { within } from '../../e2e/harness.ts'
import { eventOf, frame, idOf, opening } from './samples.ts'
import type { Sample } from './soak-loop.ts'

const seconds = Number(process.env.SOAK_SECONDS ?? 10)
const A_SECOND = 1000
/** So often it loses the stream. */
const EVENTS_A_CONNECTION = 4500
const MiB = 1024 * 1024

const result = { content: [{ type: 'text', text: 'aé€😀 '.repeat(40) }], details: { n: [1, 2, 3] }, isError: false }

function soakFrame (n: number): string {
  const ids = { invocationId: String(n), toolCallId: String(n) }
  const more = n % 2 === 0
    ? { type: 'tool_execution_end', args: undefined, result, isError: false, status: 'succeeded', durationMs: 1.5 }
    : {}
  return frame(n, eventOf(n, { ...ids, ...more }))
}

/** Streams numbered events from 1 on, a thousand a second by the clock; whoever lost them goes on where it was. */
async function startSource (t: TestContext): Promise<string> {
  let beganAtMs: number | undefined
  const server = createServer((request, response) => {
    beganAtMs ??= performance.now()
    let sent = Number(/-(\d+)$/.exec(request.url!)?.[1] ?? 0)
    const end = sent + EVENTS_A_CONNECTION
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    response.write(opening)
    const timer = setInterval(() => {
      const due = Math.min(end, Math.floor((performance.now() - beganAtMs!) * A_SECOND / 1000))
      let text = ''
      while (sent < due) text += soakFrame(++sent)
      if (text !== '') response.write(text)
      if (sent === end) cut(response)
    }, 5)
    response.once('close', () => clearInterval(timer))
  })
  t.after(() => {
    server.closeAllConnections()
    server.close()
  })
  await new Promise<void>((resolve) => { server.listen(0, '127.0.0.1', resolve) })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

/** In the middle of the next message. */
function cut (response: ServerResponse): void {
  response.write(`id: ${idOf(0)}\nevent: tool_execution_st`, () => response.destroy())
}

const mean = (samples: Sample[]) => samples.reduce((sum, { usedBytes }) => sum + usedBytes, 0) / samples.length

/** Bytes that each event leaves behind: least squares. */
function slope (samples: Sample[]): number {
  const events = samples.reduce((sum, sample) => sum + sample.events, 0) / samples.length
  const bytes = mean(samples)
  let products = 0
  let squares = 0
  for (const sample of samples) {
    products += (sample.events - events) * (sample.usedBytes - bytes)
    squares += (sample.events - events) ** 2
  }
  return products / squares
}

describe('a long loop over events', () => {
  it(`takes ${A_SECOND} events a second for ${seconds} seconds, each once, in constant memory`, async (t) => {
    const url = await startSource(t)
    const loop = fork(fileURLToPath(new URL('soak-loop.ts', import.meta.url)), [url, String(seconds * A_SECOND)], { execArgv: ['--expose-gc'], stdio: ['ignore', 'inherit', 'pipe', 'ipc'] })
    t.after(() => loop.kill('SIGKILL'))
    const samples: Sample[] = []
    let stderr = ''
    loop.on('message', (sample: Sample) => samples.push(sample))
    loop.stderr!.on('data', (text) => { stderr += text })
    const code = await within(new Promise((resolve) => loop.once('close', resolve)), 'the end of the loop', seconds * 5000 + 20_000)
    assert.deepEqual([code, stderr], [0, ''])
    assert.equal(samples.at(-1)?.events, seconds * A_SECOND)

    // Code is compiled and caches fill in the first of it.
    const steady = samples.slice(Math.ceil(samples.length / 4))
    const half = Math.floor(steady.length / 2)
    const growth = mean(steady.slice(half)) - mean(steady.slice(0, half))
    t.diagnostic(`${Math.round(mean(steady) / 1024)} KiB in use, ${slope(steady).toFixed(1)} bytes more with each event`)
    assert.ok(growth < MiB, `${Math.round(growth / 1024)} KiB were left behind: ${samples.map(({ usedBytes }) => Math.round(usedBytes / 1024))}`)
  })
})
