import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { seeded } from '../conformance/seeded.ts'
import { waitFor, type Scope } from '../e2e/harness.ts'
import { hear, readFileState, readRuns, replayOf } from './evidence.ts'
import { Follower } from './follower.ts'
import {
  differences, faultsOfEvents, faultsOfFile, faultsOfKeys, faultsOfLanes, faultsOfLog, faultsOfOutcomes, faultsOfPromises, type Evidence, type Fault
} from './invariants.ts'
import { Ledger } from './ledger.ts'
import { Lives, type Moment } from './lives.ts'
import { Load } from './load.ts'
import { freePort, Target } from './target.ts'
import { toolbox } from './toolbox.ts'

const MAX_RSS_MIB = 400
/** In turn; what the load leaves behind is there to be recovered in the next. */
const moments: readonly Moment[] = ['under load', 'recovering', 'answering', 'under load', 'starting']
const filtered = '/events?lastEventId=earliest&view=receipt&toolId=line&toolId=once'

export interface RoundsOptions {
  rounds: number
  seed: number
}

export interface Outcome {
  faults: readonly Fault[]
  evidence: Evidence
  folder: string
  summary: Record<string, unknown> & { seed: number, answered: number, recovered: { run: number, settled: number } }
}

/**
 * Kills the program `rounds` times while callers call and followers follow, starts it again each time, and looks in the
 * end at what is left: what callers were told, what followers saw, what tools did, and what the file says.
 *
 * The folder of the run is kept where something does not hold.
 */
export async function runRounds (t: Scope, { rounds, seed }: RoundsOptions): Promise<Outcome> {
  const beganAt = performance.now()
  const random = seeded(seed)
  const folder = await mkdtemp(join(tmpdir(), 'toolgate-crash-'))
  const file = join(folder, 'toolgate.db')
  const target = new Target(await freePort(random))
  const ledger = new Ledger(target)
  const load = new Load(target, ledger, seed)
  const followers = [new Follower(target, '/events?lastEventId=earliest'), new Follower(target, filtered)]
  const lives = new Lives(t, { folder, store: `sqlite:${file}`, target, random, answers: () => ledger.counts.answered })

  const following = Promise.all(followers.map((follower) => follower.run()))
  load.start()
  // Whatever goes wrong below, nothing stays behind.
  t.after(() => {
    target.killed()
    for (const follower of followers) follower.stop()
  })
  for (let round = 0; round < rounds; round++) await lives.live(moments[round % moments.length]!)
  lives.start()
  await lives.ready()
  await lives.answered(50)
  await load.stop()

  const testimony = await hear(target, ledger.known.keys())
  const expected = [testimony.replay, await replayOf(target, filtered, testimony.replay.filter(({ data }) => /"toolId":"(line|once)"/.test(data)).length)]
  await waitFor(() => followers.every(({ messages }, index) => messages.length >= expected[index]!.length), 'followers to have all', 10_000).catch(() => {})
  const rssMiB = await residentMiB(lives.program.child.pid!)
  const exit = await lives.end()
  for (const follower of followers) follower.stop()
  await following

  const runLines = readRuns(folder)
  const evidence: Evidence = {
    ...testimony, ...readFileState(file), ledger, runLines, runs: Map.groupBy(runLines, ({ invocationId }) => invocationId), maxAttempts: 1000
  }
  const faults = [
    ...faultsOfLog(evidence),
    ...followers.flatMap(({ path, messages, faults }, index) => [...differences(`who followed ${path}`, messages, expected[index]!), ...faults.map((what) => ({ what: `${path}: ${what}` }))]),
    ...faultsOfFollowed(evidence),
    ...faultsOfEvents(evidence),
    ...faultsOfPromises(evidence),
    ...faultsOfOutcomes(evidence),
    ...faultsOfKeys(evidence),
    ...faultsOfLanes(evidence),
    ...faultsOfFile(evidence, await readFile(file)),
    ...[...lives.warnings].map(([line]) => ({ what: `it logged: ${line}`, invocationId: JSON.parse(line).invocation as string | undefined })),
    ...lives.stderr === '' ? [] : [{ what: `it wrote: ${lives.stderr.slice(0, 2000)}` }],
    ...followers.filter(({ how }) => how !== 'ended').map(({ path, how }) => ({ what: `after SIGTERM, ${path} was ${how}` })),
    ...rssMiB < MAX_RSS_MIB ? [] : [{ what: `it takes ${rssMiB} MiB` }],
    ...exit.code === 0 ? [] : [{ what: `it ended with ${exit.code ?? exit.signal} after SIGTERM` }]
  ]
  if (faults.length === 0) await rm(folder, { recursive: true })

  const runs = [...evidence.runs.values()].map((lines) => lines.filter(({ what }) => what === 'begin').length)
  const outcomes = Map.groupBy(evidence.records.values(), (record) => record?.invocation.errorCode ?? record?.invocation.status ?? 'lost')
  return {
    faults,
    evidence,
    folder,
    summary: {
      seed,
      kills: rounds,
      killedBeforeTheFirstAnswer: lives.stillborn,
      recovered: lives.recovered,
      asked: ledger.calls.size,
      ...ledger.counts,
      records: evidence.rows.size,
      events: evidence.replay.length,
      runs: runs.reduce((sum, count) => sum + count, 0),
      waitedThroughKills: waitedThroughKills(evidence),
      runAgain: runs.filter((count) => count > 1).length,
      mostRuns: Math.max(...runs),
      outcomes: Object.fromEntries([...outcomes].map(([name, of]) => [name, of.length])),
      connectionsOfTheFollower: followers[0]!.connections,
      rssMiB,
      seconds: Math.round((performance.now() - beganAt) / 1000)
    }
  }
}

/** Who followed one call saw what the log has of it. */
function faultsOfFollowed ({ ledger, replay }: Evidence): Fault[] {
  const log = Map.groupBy(replay, ({ data }) => (JSON.parse(data) as { invocationId: string }).invocationId)
  return [...ledger.followed].flatMap(([invocationId, messages]) => differences(`who followed ${invocationId}`, messages, log.get(invocationId) ?? []))
}

/** Calls that may run once, and ran in a later life than that in which they were made. */
function waitedThroughKills ({ ledger, records, runs }: Evidence): number {
  return [...ledger.known].filter(([invocationId, { toolId, key, runId }]) => toolbox[toolId]?.replay === 'never' && key === undefined &&
    records.has(invocationId) && (runs.get(invocationId)?.[0]?.life ?? 0) > Number(runId.slice('life-'.length))).length
}

/** Memory in use, where the system says. */
async function residentMiB (pid: number): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8').catch(() => '')
  return Math.round(Number(/^VmRSS:\s+(\d+) kB/m.exec(status)?.[1] ?? 0) / 1024)
}
