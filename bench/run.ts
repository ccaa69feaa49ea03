import { setTimeout as delay } from 'node:timers/promises'
import type { ChildProcess } from 'node:child_process'
import { canPin, message, run, start, startServer, stopAll, type Server } from './processes.ts'
import { compare, print, type Row } from './statistics.ts'

/**
 * Measures what we claim, as ratios to a named reference in the same round; machines are noisy, ratios less so.
 *
 *   npm run bench                     everything
 *   npm run bench -- invoke fan-out   those parts (invoke, auth, fan-out, memory, lanes, reload, store)
 *   BENCH_ROUNDS=3 BENCH_SECONDS=2    shorter
 */
const rounds = Number(process.env.BENCH_ROUNDS ?? 5)
const seconds = Number(process.env.BENCH_SECONDS ?? 4)
const chosen = process.argv.slice(2)
const parts = { invoke, auth, 'fan-out': fanOut, memory, lanes, reload, store }

process.stdout.write(`Node ${process.version}, ${rounds} rounds, ${canPin ? 'server and load each on a core of its own' : 'not pinned: no taskset here'}\n\n`)
try {
  const rows: Row[] = []
  for (const [name, measure] of Object.entries(parts)) {
    if (chosen.length === 0 || chosen.includes(name)) rows.push(...await measure())
  }
  print(rows)
} finally {
  stopAll()
}

async function invoke (): Promise<Row[]> {
  const bare = await startServer('./servers/bare.ts')
  const plain = await startServer('./servers/gateway.ts')
  const durable = await startServer('./servers/gateway.ts', { BENCH_STORE: 'sqlite' })
  const followed = await startServer('./servers/gateway.ts')
  const logging = await startServer('./servers/gateway.ts', { BENCH_LOG: 'info' })
  const receivers = start('./load/receivers.ts', 'load', [String(followed.port), '/events', '10'])
  await message(receivers, 'open')

  const subjects = {
    'bare Fastify route': bare,
    'invoke, no subscriber': plain,
    'invoke, SQLite store': durable,
    'invoke, 10 subscribers': followed,
    'invoke, no subscriber, log line written': logging
  }
  const results = await invokes(subjects)
  stopAll()
  return compare(results, 'bare Fastify route', 'requests/s', { 'invoke, no subscriber': '≥ 0.60', 'invoke, SQLite store': '≥ 0.40' })
}

/** What it costs a call that its caller is asked who it is, and what it may do. */
async function auth (): Promise<Row[]> {
  const open = 'invoke, no credentials asked for'
  const results = await invokes({
    [open]: await startServer('./servers/gateway.ts'),
    'invoke, the one key': await startServer('./servers/gateway.ts', { BENCH_AUTH: 'key' }),
    'invoke, a key of the file': await startServer('./servers/gateway.ts', { BENCH_AUTH: 'keys' }),
    'invoke, a key of the file, narrowed': await startServer('./servers/gateway.ts', { BENCH_AUTH: 'narrowed' }),
    'invoke, a JWT': await startServer('./servers/gateway.ts', { BENCH_AUTH: 'jwt' })
  })
  stopAll()
  return compare(results, open, 'requests/s')
}

/** Calls a second that each of the servers answers, in each round. */
async function invokes (subjects: Record<string, Server>): Promise<Record<string, number>[]> {
  const measure = async ({ port, token = '' }: Server, forSeconds: number) =>
    (await run<{ perSecond: number }>('./load/requests.ts', [`http://127.0.0.1:${port}/tools/add/invoke`, String(forSeconds), token])).perSecond
  for (const server of Object.values(subjects)) await measure(server, 2)
  const results: Record<string, number>[] = []
  for (let round = 0; round < rounds; round++) {
    const result: Record<string, number> = {}
    for (const [name, server] of Object.entries(subjects)) result[name] = await measure(server, seconds)
    results.push(result)
  }
  return results
}

async function fanOut (): Promise<Row[]> {
  const rows: Row[] = []
  for (const subscribers of [100, 1000]) {
    const raw = await startServer('./servers/raw-sse.ts')
    const gateway = await startServer('./servers/gateway.ts')
    const toRaw = await open(raw.port, '/', subscribers)
    const toGateway = await open(gateway.port, '/events?type=tool_execution_update', subscribers)
    for (const burst of [1, 10]) {
      const events = Math.ceil(seconds * (burst === 1 ? 100_000 : 400_000) / subscribers / burst) * burst
      const results: Record<string, number>[] = []
      const names = [`response.write, ${subscribers} subscribers, bursts of ${burst}`, `/events, ${subscribers} subscribers, bursts of ${burst}`] as const
      for (let round = -1; round < rounds; round++) {
        const result = {
          [names[0]]: await deliver(raw.child, toRaw, events, burst, subscribers),
          [names[1]]: await deliver(gateway.child, toGateway, events, burst, subscribers)
        }
        if (round >= 0) results.push(result) // the first one warms up
      }
      rows.push(...compare(results, names[0], 'deliveries/s', { [names[1]]: burst === 1 ? '≥ 1.00' : '≥ 1.50' }))
    }
    stopAll()
  }
  return rows
}

async function open (port: number, path: string, count: number): Promise<ChildProcess> {
  const receivers = start('./load/receivers.ts', 'load', [String(port), path, String(count)])
  await message(receivers, 'open')
  return receivers
}

/** Deliveries a second at the receivers. They stop counting a little before the last byte, whose exact number framing decides. */
async function deliver (server: ChildProcess, receivers: ChildProcess, events: number, burst: number, subscribers: number): Promise<number> {
  const expecting = message(receivers, 'expecting')
  receivers.send({ type: 'expect', bytes: events * 580 })
  await expecting
  const done = message<{ ms: number }>(receivers, 'done')
  server.send({ type: 'emit', events, burst })
  const { ms } = await done
  await delay(100)
  return events * subscribers / (ms / 1000)
}

async function memory (): Promise<Row[]> {
  const subscribers = 2000
  const results: Record<string, number>[] = []
  for (let round = 0; round < Math.min(rounds, 3); round++) {
    results.push({
      'response.write, memory of an idle subscriber': await perSubscriber('./servers/raw-sse.ts', '/', subscribers),
      '/events, memory of an idle subscriber': await perSubscriber('./servers/gateway.ts', '/events', subscribers)
    })
  }
  return compare(results, 'response.write, memory of an idle subscriber', 'bytes', { '/events, memory of an idle subscriber': '≤ 1.50' })
}

async function perSubscriber (script: string, path: string, count: number): Promise<number> {
  const { child, port } = await startServer(script)
  // A few connections first, so that what the first one loads is not counted.
  const first = await open(port, path, 50)
  const before = await bytesOf(child)
  const receivers = await open(port, path, count)
  const after = await bytesOf(child)
  for (const process of [first, receivers, child]) process.kill('SIGKILL')
  return (after - before) / count
}

/** What lanes cost a call that need not wait, and what a long line costs everybody. */
async function lanes (): Promise<Row[]> {
  const waiting = 10_000
  const { child, port } = await startServer('./servers/lanes.ts')
  const measure = async (tool: string, forSeconds = seconds) =>
    (await run<{ perSecond: number }>('./load/requests.ts', [`http://127.0.0.1:${port}/tools/${tool}/invoke`, String(forSeconds)])).perSecond
  const fill = async () => {
    const filled = message<{ first: number, last: number }>(child, 'filled')
    child.send({ type: 'fill', count: waiting })
    return await filled
  }
  const empty = async () => {
    const emptied = message<{ left: number }>(child, 'emptied')
    child.send({ type: 'empty' })
    const { left } = await emptied
    if (left > 0) throw new Error(`${left} calls hold a slot or a place in line after the line was emptied`)
  }
  await measure('add', 2)
  await measure('add_in_lane', 2)
  await fill()
  await empty()

  const calls: Record<string, number>[] = []
  const arrivals: Record<string, number>[] = []
  const held: Record<string, number>[] = []
  const names = { bytes: 'memory with an empty line', after: `memory after ${waiting.toLocaleString('en')} calls have waited` }
  for (let round = 0; round < rounds; round++) {
    const bytes = await bytesOf(child)
    const result = { 'invoke, no limit': await measure('add'), 'invoke, limit not reached': await measure('add_in_lane') }
    const { first, last } = await fill()
    calls.push({ ...result, [`invoke, ${waiting.toLocaleString('en')} calls of another tool waiting`]: await measure('add') })
    arrivals.push({ 'the first 1,000 arrivals in a line': first, [`the last 1,000 of ${waiting.toLocaleString('en')}`]: last })
    await empty()
    held.push({ [names.bytes]: bytes, [names.after]: await bytesOf(child) })
  }
  stopAll()
  return [
    ...compare(calls, 'invoke, no limit', 'requests/s'),
    ...compare(arrivals, 'the first 1,000 arrivals in a line', 'ms'),
    ...compare(held, names.bytes, 'bytes')
  ]
}

async function bytesOf (server: ChildProcess): Promise<number> {
  const answer = message<{ bytes: number }>(server, 'memory')
  server.send({ type: 'memory' })
  return (await answer).bytes
}

/** What stays behind of a reload. Node keeps each version of a module, whoever imports it. */
async function reload (): Promise<Row[]> {
  const names = ['import() of a module again', 'reload, one of 20 modules edited', 'reload, nothing changed'] as const
  const kept: Record<string, number>[] = []
  const taken: Record<string, number>[] = []
  for (let round = 0; round < Math.min(rounds, 3); round++) {
    const measured = [await reloads('import'), await reloads('edited'), await reloads('unchanged')]
    kept.push(Object.fromEntries(names.map((name, index) => [`${name}: kept`, measured[index]!.bytes])))
    taken.push(Object.fromEntries(names.map((name, index) => [`${name}: time`, measured[index]!.ms * 1000])))
  }
  return [
    ...compare(kept, `${names[0]}: kept`, 'bytes', { [`${names[1]}: kept`]: '≤ 1.50', [`${names[2]}: kept`]: '≤ 0.10' }),
    ...compare(taken, `${names[0]}: time`, 'µs')
  ]
}

async function reloads (what: string): Promise<{ bytes: number, ms: number }> {
  return await message(start('./servers/reloads.ts', 'server', [what, '500']), 'measured')
}

/** The SQLite store: what it writes and reads, what it takes, and how long it keeps everything else waiting at most. */
async function store (): Promise<Row[]> {
  const resumed = 100_000
  const names = ['response.write, one client after another', 'resume over 100,000 events, memory store', 'resume over 100,000 events, SQLite store'] as const
  const raw = await startServer('./servers/raw-sse.ts')
  const env = { BENCH_EVENTS: String(resumed + 2) }
  const gateways = [await startServer('./servers/gateway.ts', env), await startServer('./servers/gateway.ts', { ...env, BENCH_STORE: 'sqlite' })]
  for (const { child } of gateways) {
    const emitted = message(child, 'emitted')
    child.send({ type: 'emit', events: resumed, burst: 100 })
    await emitted
  }
  const resume = async (port: number, path: string) =>
    resumed / ((await run<{ ms: number }>('./load/resume.ts', [`http://127.0.0.1:${port}${path}`, String(resumed)])).ms / 1000)
  const resumes: Record<string, number>[] = []
  for (let round = 0; round < rounds; round++) {
    resumes.push({
      [names[0]]: await resume(raw.port, `/replay?${resumed}`),
      [names[1]]: await resume(gateways[0]!.port, '/events?lastEventId=earliest'),
      [names[2]]: await resume(gateways[1]!.port, '/events?lastEventId=earliest')
    })
  }
  stopAll()
  return [
    ...compare(resumes, names[0], 'events/s', { [names[2]]: '≥ 50,000 events/s' }),
    ...await storeWork('written', 500_000, 'bare inserts of the same texts, 100 a transaction', 'updates recorded, 100 a turn', 'events/s', rounds),
    ...await storeWork('size', 50_000, 'input and result of a call', 'file, for each call', 'bytes', 1),
    ...await storeWork('sweep', 1_000_000, 'longest stall of an idle loop', 'while 1,000,000 events are removed', 'µs', 1, 1000),
    ...await storeWork('checkpoints', 500, 'longest stall of an idle loop', 'while 500 MiB are written', 'µs', Math.min(rounds, 3), 1000)
  ]
}

async function storeWork (what: string, amount: number, reference: string, measured: string, unit: string, times: number, scale = 1): Promise<Row[]> {
  const results: Record<string, number>[] = []
  for (let round = 0; round < times; round++) {
    const { type, store: value, ...rest } = await message<Record<string, number> & { type: string }>(start('./servers/store-work.ts', 'server', [what, String(amount)]), 'measured')
    results.push({ [reference]: Object.values(rest)[0]! * scale, [measured]: value! * scale })
  }
  return compare(results, reference, unit)
}
