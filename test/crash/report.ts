import type { Evidence, Fault } from './invariants.ts'
import { sequenceOf } from './invariants.ts'
import type { Outcome } from './rounds.ts'

const MOST = 5

/** What does not hold, the first few with all that is known of their calls. */
export function reportOf ({ faults, evidence, folder, summary }: Outcome): string {
  const kinds = [...Map.groupBy(faults, ({ what }) => what.replace(/[\da-f]{12,}/g, '…').replace(/\d+/g, 'N').slice(0, 80))].map(([what, of]) => `${of.length} × ${what}`)
  return [
    `${faults.length} faults with CRASH_SEED=${summary.seed}; the run's folder is ${folder}`,
    ...kinds,
    ...faults.slice(0, MOST).map((fault) => describeFault(fault, evidence)),
    JSON.stringify(summary)
  ].join('\n\n')
}

function describeFault ({ what, invocationId, call }: Fault, { ledger, records, replay, runLines, rows }: Evidence): string {
  const record = invocationId === undefined ? undefined : records.get(invocationId)
  const caller = call ?? ledger.calls.get(String(record?.invocation.toolCallId).split('.')[0]!)
  const about = invocationId === undefined ? [] : replay.filter(({ data }) => data.includes(invocationId))
  return [
    `FAULT ${invocationId ?? ''}: ${what}`,
    ...record === undefined ? [] : [`record: ${JSON.stringify(record)}`],
    ...invocationId === undefined ? [] : [`row: ${JSON.stringify(rows.get(invocationId))}`],
    ...runLines.filter((line) => line.invocationId === invocationId).map((line) => `run: ${JSON.stringify(line)}`),
    ...about.map(({ id, data }) => `event ${sequenceOf(id)}: ${data.slice(0, 600)}`),
    ...caller === undefined ? [] : [`caller: ${caller.name}, ${caller.way} ${caller.toolId} ${JSON.stringify(caller.input).slice(0, 200)} ${caller.key ?? ''}`, ...caller.story]
  ].join('\n  ')
}
