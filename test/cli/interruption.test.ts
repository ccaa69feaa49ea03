import assert from 'node:assert/strict'
import { createServer, type AddressInfo, type Socket } from 'node:net'
import { describe, it } from 'node:test'
import { fileURLToPath } from 'node:url'
import { gate, send, startGateway, tool, waitFor, within, type Scope } from '../e2e/harness.ts'
import { Shell, withoutTerminals } from './command-line.ts'

const bin = fileURLToPath(new URL('../../bin/toolgate.js', import.meta.url))
const CTRL_C = '\u0003'

/** A gateway with a tool that goes on until its signal aborts. */
async function startEndless (t: Scope) {
  const begun = gate()
  const aborted = gate()
  const endless = tool('endless', (_id: string, _input: unknown, signal: AbortSignal) => new Promise((_resolve, reject) => {
    signal.addEventListener('abort', () => {
      aborted.open()
      reject(signal.reason)
    })
    begun.open()
  }))
  const { url } = await startGateway(t, { tools: [endless], shutdownGraceMs: 0 })
  const statuses = async () => (await send(`${url}/invocations`)).body.invocations.map((each: any) => each.status)
  return { begun, aborted, statuses, env: { TOOLGATE_URL: url } }
}

describe('Ctrl-C', { skip: withoutTerminals, concurrency: 3 }, () => {
  for (const options of ['', '--follow', '--idempotency-key once', '--idempotency-key twice --follow']) {
    it(`cancels the call at the gateway: toolgate invoke ${options}`, async (t) => {
      const { begun, aborted, statuses, env } = await startEndless(t)
      const running = new Shell(t, `trap : INT; toolgate invoke endless ${options}; echo "exit $?"`, { env, columns: 80 })
      await within(begun.promise, 'the start', 20_000)
      running.type(CTRL_C)
      await aborted.reached('the abort of the tool')
      await within(running.ended, 'the end', 20_000)
      assert.match(running.screen.join('\n'), /^(\^C)?Ended by SIGINT\.\nexit 130\n$/)
      await waitFor(async () => (await statuses())[0] === 'cancelled', 'the record')
    })
  }

  it('leaves a call alone that was not waited for', async (t) => {
    const { begun, statuses, env } = await startEndless(t)
    const running = new Shell(t, 'toolgate invoke endless --async; sleep 60', { env, columns: 80 })
    await within(begun.promise, 'the start', 20_000)
    await waitFor(() => running.stdout.includes('running'), 'the receipt', 20_000)
    running.type(CTRL_C)
    await within(running.ended, 'the end', 20_000)
    assert.deepEqual(await statuses(), ['running'])
  })

  it('ends the typing of an input', async (t) => {
    const { env } = await startEndless(t)
    const running = new Shell(t, 'trap : INT; toolgate invoke endless --input -; echo "exit $?"', { env, columns: 80 })
    await waitFor(() => running.stdout.includes('Ctrl-D'), 'the request', 20_000)
    running.type(CTRL_C)
    await within(running.ended, 'the end', 20_000)
    assert.match(running.stdout, /exit 130/)
  })

  it('ends the following of events with the place to go on from', async (t) => {
    const { env } = await startEndless(t)
    await send(`${env.TOOLGATE_URL}/tools/endless/invoke`, { method: 'POST', headers: { prefer: 'respond-async' } })
    const running = new Shell(t, 'trap : INT; toolgate events --since earliest; echo "exit $?"', { env, columns: 80 })
    await waitFor(() => running.screen.some((line) => /endless .* start/.test(line)), 'the event', 20_000)
    running.type(CTRL_C)
    await within(running.ended, 'the end', 20_000)
    assert.match(running.screen.join('\n'), /--since [0-9a-f]+-1 goes on from here\.\nEnded by SIGINT\.\nexit 130\n$/)
  })
})

describe('SIGTERM', { concurrency: 3 }, () => {
  it('cancels the call, also as the installed program', async (t) => {
    const { begun, aborted, env } = await startEndless(t)
    const running = new Shell(t, `exec '${process.execPath}' '${bin}' invoke endless`, { env })
    await within(begun.promise, 'the start', 20_000)
    running.kill('SIGTERM')
    await aborted.reached('the abort of the tool')
    assert.deepEqual(await within(running.ended, 'the end', 20_000), { code: 143, signal: null })
    assert.equal(running.stderr, 'Ended by SIGTERM.\n')
  })

  it('ends a command whose gateway does not answer', async (t) => {
    const connected = gate<Socket>()
    const silent = createServer((socket) => connected.open(socket.on('error', () => {})))
    await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve))
    t.after(() => silent.close())
    const { port } = silent.address() as AddressInfo
    const running = new Shell(t, `exec '${process.execPath}' '${bin}' tools`, { env: { TOOLGATE_URL: `http://127.0.0.1:${port}` } })
    const socket = await within(connected.promise, 'the connection', 20_000)
    t.after(() => socket.destroy())
    running.kill('SIGTERM')
    assert.deepEqual(await within(running.ended, 'the end', 20_000), { code: 143, signal: null })
  })
})

describe('a signal that comes before there is a command', { concurrency: 3 }, () => {
  // What is loaded first sends it once somebody listens: at once, or not before the arguments are looked at, in whose turn
  // the command takes over.
  const moments = {
    'while the program is loaded': "process.on('newListener', function send (name) { if (name === SIGNAL) { process.off('newListener', send); queueMicrotask(() => process.kill(process.pid, SIGNAL)) } })",
    'as the command takes over': "const argv = process.argv; Object.defineProperty(process, 'argv', { get () { if (process.listenerCount(SIGNAL) > 0) process.kill(process.pid, SIGNAL); return argv } })"
  }
  for (const [signal, code] of [['SIGTERM', 143], ['SIGHUP', 129]] as const) {
    for (const [moment, script] of Object.entries(moments)) {
      it(`ends it as ever: ${signal} ${moment}`, async (t) => {
        const { statuses, env } = await startEndless(t)
        const preload = `data:text/javascript,${encodeURIComponent(script.replaceAll('SIGNAL', `'${signal}'`)).replaceAll("'", '%27')}`
        const running = new Shell(t, `exec '${process.execPath}' --import '${preload}' '${bin}' invoke endless`, { env })
        assert.deepEqual(await within(running.ended, 'the end', 20_000), { code, signal: null })
        assert.equal(running.stdout, '')
        assert.ok((await statuses()).every((status: string) => status === 'cancelled'))
      })
    }
  }
})
