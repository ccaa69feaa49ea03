import { isDeepStrictEqual } from 'node:util'
import type { FileState, RunLine, Testimony } from './evidence.ts'
import type { Message } from './follower.ts'
import type { Ledger, LoadCall, Told } from './ledger.ts'
import { SECRET, toolbox } from './toolbox.ts'

/** Something that does not hold, with the invocation that shows it, where it is about one. */
export interface Fault {
  readonly what: string
  readonly invocationId?: string | undefined
  readonly call?: LoadCall | undefined
}

export interface Evidence extends Testimony, FileState {
  readonly ledger: Ledger
  /** By invocation, in the order in which they were written. */
  readonly runs: ReadonlyMap<string, readonly RunLine[]>
  readonly runLines: readonly RunLine[]
  readonly maxAttempts: number
}

export const sequenceOf = (id: string | undefined) => Number(id?.split('-')[1])

/** The log is whole: each place once, without gaps, told the same in every way. */
export function faultsOfLog ({ replay, pages }: Testimony): Fault[] {
  const faults: Fault[] = []
  for (const [index, { id }] of replay.entries()) {
    if (sequenceOf(id) === index + 1) continue
    faults.push({ what: `the log is not dense: place ${index + 1} has the id ${id}` })
    break
  }
  return [...faults, ...differences('pages', pages, replay)]
}

/** What a follower saw is what the log has: every event once, in order. */
export function differences (who: string, seen: readonly Message[], log: readonly Message[]): Fault[] {
  const at = Array.from({ length: Math.max(seen.length, log.length) }, (_, index) => index).find((index) => !isSameMessage(seen[index], log[index]))
  if (at === undefined) return []
  const around = (messages: readonly Message[]) => messages.slice(Math.max(0, at - 1), at + 2).map(({ id, data }) => `${id} ${data.slice(0, 200)}`).join('\n    ')
  const odd = seen[at] ?? log[at]!
  return [{
    what: `${who} saw ${seen.length} events of ${log.length}, and at ${at} another one than the log has:\n  seen\n    ${around(seen)}\n  log\n    ${around(log)}`,
    invocationId: (JSON.parse(odd.data) as { invocationId?: string }).invocationId
  }]
}

function isSameMessage (one: Message | undefined, other: Message | undefined): boolean {
  return one?.id === other?.id && one?.event === other?.event && one?.data === other?.data
}

/** Each call by its events: a start, updates in order, exactly one end, which its record agrees with. */
export function faultsOfEvents ({ replay, records, listed, runs }: Evidence): Fault[] {
  const faults: Fault[] = []
  const byCall = Map.groupBy(replay.map(({ id, data }) => ({ place: sequenceOf(id), ...JSON.parse(data) })), ({ invocationId }) => invocationId)
  const places = new Map<string, { start: number, end: number }>()
  for (const [invocationId, events] of byCall) {
    const say = (what: string) => faults.push({ what, invocationId })
    const [start, ...rest] = events
    const end = rest.at(-1)
    const updates = rest.slice(0, -1)
    if (start.type !== 'tool_execution_start') say('its first event is no start')
    if (end?.type !== 'tool_execution_end') say('its last event is no end')
    if (updates.some(({ type }) => type !== 'tool_execution_update')) say('between start and end there is something else than updates')
    places.set(invocationId, { start: start.place, end: end?.place })
    const record = records.get(invocationId)
    if (record === undefined) {
      say('it has events, and no record')
      continue
    }
    const { invocation, input, result } = record
    if (!isDeepStrictEqual(start.args, input)) say('its start event and its record have different inputs')
    const told = [end?.status, end?.errorCode, end?.result]
    if (!isDeepStrictEqual(told, [invocation.status, invocation.errorCode, result])) say('its end event and its record disagree')
    if (!areInOrder(updates, invocation.toolId, invocation.status === 'succeeded' ? { steps: input?.steps, attempt: runs.get(invocationId)?.at(-1)?.attempt } : undefined)) {
      say('its updates are not those that its tool made, in order')
    }
  }
  for (const id of records.keys()) if (records.get(id) !== undefined && !byCall.has(id)) faults.push({ what: 'it has a record, and no events', invocationId: id })
  if (listed.length !== byCall.size || new Set(listed).size !== listed.length) faults.push({ what: `${listed.length} records are listed, and ${byCall.size} calls have events` })
  for (const [invocationId, { start, end }] of places) {
    const parent = places.get(records.get(invocationId)?.invocation.parentInvocationId)
    if (parent !== undefined && !(parent.start < start && end < parent.end)) faults.push({ what: 'it is not within the call that made it', invocationId })
  }
  return faults
}

/** Of each run the first so many, in order; of one that succeeded, all. */
function areInOrder (updates: any[], toolId: string, success: { steps: number, attempt: number | undefined } | undefined): boolean {
  const told = updates.map(({ partialResult }) => partialResult?.details as { attempt: number, at: number })
  const isRising = told.every(({ attempt, at }, index) => {
    const before = told[index - 1]
    return before?.attempt === attempt ? at === before.at + 1 : at === 0 && attempt > (before?.attempt ?? 0)
  })
  if (!isRising || success === undefined || toolId === 'family' || toolId === 'secret') return isRising
  return told.filter(({ attempt }) => attempt === success.attempt).length === (toolId === 'quick' ? 1 : success.steps)
}

/** What callers were told is so. */
export function faultsOfPromises ({ ledger, records, runs }: Evidence): Fault[] {
  const faults: Fault[] = ledger.faults.map(({ call, what }) => ({ call, what }))
  for (const [invocationId, call] of ledger.known) {
    if (records.get(invocationId) === undefined) faults.push({ what: 'its caller was told of it, and it has no record', invocationId, call })
  }
  for (const told of ledger.told) {
    const { call, invocationId } = told
    const record = records.get(invocationId)
    if (record === undefined) continue
    const isTold = told.status === record.invocation.status && told.errorCode === record.invocation.errorCode &&
      (told.result === undefined || call.toolId === 'secret' || isDeepStrictEqual(told.result, record.result))
    if (!isTold) faults.push({ what: `its caller was told otherwise: ${told.status} ${told.errorCode ?? ''} ${JSON.stringify(told.result)}`, invocationId, call })
    if (told.httpStatus !== undefined && told.httpStatus >= 400 && runs.has(invocationId)) faults.push({ what: `it was answered ${told.httpStatus}, and its tool ran`, invocationId, call })
  }
  const byTry = Map.groupBy([...records].filter(([, record]) => record !== undefined && !isChild(record)), ([, record]) => record.invocation.toolCallId as string)
  for (const [tryId, [[invocationId], ...others]] of byTry as Map<string, [[string, any], ...[string, any][]]>) {
    const call = callOf(ledger, tryId)
    if (call === undefined) faults.push({ what: 'nobody asked for it', invocationId })
    if (ledger.refused.has(tryId)) faults.push({ what: 'it was refused, and is on record', invocationId, call })
    if (others.length > 0) faults.push({ what: `one request made ${others.length + 1} records`, invocationId, call })
  }
  return faults
}

/** How each call may end, and how often its tool may have run for that. */
export function faultsOfOutcomes ({ ledger, records, runs, rows, maxAttempts }: Evidence): Fault[] {
  const faults: Fault[] = []
  for (const [invocationId, record] of records) {
    if (record === undefined) continue
    const { invocation: { toolId, status, errorCode, toolCallId, parentInvocationId }, input, result } = record
    const call = callOf(ledger, toolCallId)
    const say = (what: string) => faults.push({ what, invocationId, call })
    const traits = toolbox[toolId]!
    const { attempts, executed } = rows.get(invocationId) ?? { attempts: 0, executed: false }
    const begun = (runs.get(invocationId) ?? []).filter(({ what }) => what === 'begin')
    const mayRunAgain = traits.replay === 'safe' && !isChild(record)
    if (begun.length > 1 && !mayRunAgain) say(`its tool may run once, and ran ${begun.length} times`)
    if (begun.length > attempts) say(`it ran ${begun.length} times, and was marked ${attempts} times`)
    if (!executed && begun.length > 0) say('it has not executed, by its record, and its tool ran')
    if (!areAttempts(begun, attempts)) say('its attempts do not rise by one with each start')
    switch (errorCode ?? status) {
      case 'succeeded':
        if (traits.fails === true) say('it cannot succeed')
        if (begun.length === 0) say('it succeeded, and its tool did not run')
        if (traits.sensitive !== true && (result.structuredContent?.n !== input.n || result.structuredContent.attempt !== begun.at(-1)?.attempt)) say('its result is not that of its last run')
        break
      case 'tool_error':
        if (traits.fails !== true) say('it cannot fail')
        if (begun.length === 0) say('its tool failed, and did not run')
        break
      case 'outcome_unknown':
        if (attempts === 0) say('its outcome is unknown, and it was never marked')
        if (mayRunAgain && attempts < maxAttempts) say('it may run again, and was given up')
        break
      case 'cancelled':
        // The call that made it may have been killed before it ended too, and been run again.
        if ((call ?? callOf(ledger, String(records.get(parentInvocationId)?.invocation.toolCallId)))?.mayBeCancelled !== true) say('nobody cancelled it')
        break
      case 'shutdown':
        if (traits.sensitive !== true && !isChild(record)) say('it could have been run')
        break
      default: say(`nothing ends as ${errorCode ?? status} here`)
    }
  }
  return faults
}

/** One more with each run; a start that marks a call may die before it runs. */
function areAttempts (begun: readonly RunLine[], marked: number): boolean {
  return begun.every(({ attempt, life }, index) => {
    const before = begun[index - 1]
    return attempt <= marked && (before === undefined ? attempt <= life : attempt > before.attempt && life > before.life && attempt - before.attempt <= life - before.life)
  })
}

/** One key is one call, however often and whenever it was sent. */
export function faultsOfKeys ({ ledger, records, runs, rows }: Evidence): Fault[] {
  const faults: Fault[] = []
  const told = Map.groupBy(ledger.told, ({ call }) => call)
  const ids = Map.groupBy([...records].filter(([, record]) => record !== undefined && !isChild(record)).map(([id, { invocation }]) => ({ id, call: callOf(ledger, invocation.toolCallId) })), ({ call }) => call)
  for (const call of ledger.calls.values()) {
    if (call.key === undefined) continue
    const executed = (ids.get(call) ?? []).filter(({ id }) => rows.get(id)?.executed === true)
    if (executed.length > 1) faults.push({ what: `one key was executed as ${executed.map(({ id }) => id).join(' and ')}`, invocationId: executed[0]!.id, call })
    const runsOfKey = (ids.get(call) ?? []).flatMap(({ id }) => runs.get(id) ?? []).filter(({ what }) => what === 'begin')
    if (toolbox[call.toolId]!.replay === 'never' && runsOfKey.length > 1) faults.push({ what: `one key had its tool run ${runsOfKey.length} times`, invocationId: runsOfKey[0]!.invocationId, call })
    const answers = (told.get(call) ?? []).filter(({ httpStatus }) => httpStatus === 200)
    const different = answers.find((answer) => !isSameAnswer(answer, answers[0]!))
    if (different !== undefined) faults.push({ what: `one key had two answers: ${JSON.stringify(answers[0]!.result)} and ${JSON.stringify(different.result)}`, invocationId: different.invocationId, call })
    if (answers.length > 1 && !answers.some(({ isReplay }) => isReplay)) faults.push({ what: 'of its answers none says that it is one again', invocationId: answers[0]!.invocationId, call })
  }
  return faults
}

function isSameAnswer (one: Told, other: Told): boolean {
  const isWithheld = one.call.toolId === 'secret'
  return one.invocationId === other.invocationId && one.status === other.status && (isWithheld || isDeepStrictEqual(one.result, other.result))
}

/** No more of a tool's calls ran at once than may, nor were more about to run: the others only waited, and can be run. */
export function faultsOfLanes ({ runLines, replay }: Evidence): Fault[] {
  const faults: Fault[] = []
  for (const lines of Map.groupBy(runLines, ({ toolId, life }) => `${toolId} ${life}`).values()) {
    const { atOnce = Infinity } = toolbox[lines[0]!.toolId]!
    let running = 0
    for (const { what, toolId, invocationId } of lines) {
      running += what === 'begin' ? 1 : -1
      if (running > atOnce) faults.push({ what: `of ${toolId}, ${running} ran at once`, invocationId })
    }
  }
  const unknown = replay.filter(({ data }) => data.includes('"errorCode":"outcome_unknown"')).map(({ id, data }) => ({ epoch: id!.split('-')[0], ...JSON.parse(data) }))
  for (const ends of Map.groupBy(unknown, ({ toolId, epoch }) => `${toolId} ${epoch}`).values()) {
    const { toolId, invocationId } = ends[0]
    if (ends.length > (toolbox[toolId]!.atOnce ?? Infinity)) faults.push({ what: `of ${toolId}, ${ends.length} were about to run at once`, invocationId })
  }
  return faults
}

/** The file is whole, agrees with what was told, and keeps what it was told in confidence to itself. */
export function faultsOfFile ({ integrity, rows, settled, records }: Evidence, bytes: Buffer): Fault[] {
  const faults: Fault[] = []
  const there = [...records.values()].filter((record) => record !== undefined).length
  if (integrity !== 'ok') faults.push({ what: `the file is damaged: ${integrity}` })
  if (rows.size !== there || settled !== there) faults.push({ what: `the file has ${rows.size} calls and ${settled} ends, and there are ${there} records` })
  if (bytes.includes(SECRET)) faults.push({ what: 'the file has something in it that was told in confidence' })
  return faults
}

function callOf (ledger: Ledger, tryId: string): LoadCall | undefined {
  return ledger.calls.get(tryId.split('.')[0]!)
}

function isChild ({ invocation }: any): boolean {
  return invocation.parentInvocationId !== undefined
}
